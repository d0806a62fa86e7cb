/* Answers, rendered. Everything goes to context->out, and only when it is complete. */
#ifndef CHAN_CLI_OUTPUT_H
#define CHAN_CLI_OUTPUT_H

#include <jansson.h>

#include "cli/command.h"
#include "cli/table.h"

static inline void cleanup_json(json_t **json)
{
    json_decref(*json);
}
#define auto_json __attribute__((cleanup(cleanup_json)))

static inline void cleanup_reply(struct chan_reply *reply)
{
    chan_reply_clear(reply);
}
#define auto_reply __attribute__((cleanup(cleanup_reply)))

/* One object as the daemon answered it: details for people, its JSON unchanged, or YAML. Returns an exit
 * code. */
int output_reply(struct context *context, const struct chan_reply *reply);

/* JSON or YAML of a value. body, if not NULL, is the JSON as it came. Returns an exit code. */
int output_json(struct context *context, const json_t *value, const char *body);

/* The forms of output that are a part of a region or of an end of a link: its path (the member path_key), or
 * arguments for a VMM. Returns an exit code. */
int output_part(struct context *context, const json_t *object, const char *path_key);

/* Prints a table; returns an exit code. */
int output_table(struct context *context, const struct table *table);

/* Members of an object, aligned, nested ones indented: sizes and times are readable, arrays of strings are
 * one line for a shell. now_ms is the real time from which ages count. */
void details_print(FILE *out, const json_t *object, int64_t now_ms);

/* Members of an object, or what stands for none. */
const char *json_text(const json_t *object, const char *key);                       /* "" */
int64_t json_number(const json_t *object, const char *key);                         /* 0 */
void json_age(const json_t *object, const char *key, int64_t now_ms, char out[48]); /* "-" */

#endif
