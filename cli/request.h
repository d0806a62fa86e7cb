/* Requests made from options. */
#ifndef CHAN_CLI_REQUEST_H
#define CHAN_CLI_REQUEST_H

#include <jansson.h>

#include "cli/command.h"

#define OPTION_IF_MATCH                                                                                      \
    {                                                                                                        \
        "if-match", 0, VALUE_TEXT, "REVISION", "only if the object still has this revision", NULL            \
    }
#define OPTION_IDEMPOTENCY_KEY                                                                               \
    {                                                                                                        \
        "idempotency-key", 0, VALUE_TEXT, "KEY", "repeats with the same key are one request", NULL           \
    }

/* The positional; "" when there is none. */
const char *request_id_argument(const struct context *context);

/* --if-match and --idempotency-key, as far as given. -1: the detail says which value is wrong. */
int request_options(const struct context *context, struct chan_call_options *ret, struct error *err);

/* --owner-pid or --lease as the member "owner" of body; nothing when neither is given. */
int request_owner(const struct context *context, json_t *body, struct error *err);

/* A whole number of the option `name` as the member `key`; nothing when the option is not given. */
int request_number(const struct context *context, const char *name, int64_t maximum, json_t *body,
                   const char *key, struct error *err);

/* Text of the option `name` as the member `key`; nothing when the option is not given. */
int request_text(const struct context *context, const char *name, json_t *body, const char *key,
                 struct error *err);

/* Sets a member and takes the value over; -1 when it is NULL: out of memory, or not UTF-8. */
int request_set(json_t *object, const char *key, json_t *value, struct error *err);

/* The body's text, for free(); NULL: out of memory. */
char *request_dump(const json_t *body, struct error *err);

/* Deletes every object that is named, and goes on after a failure. Returns the first failure's exit code. */
typedef int (*delete_fn)(struct chan_client *client, const char *id, const struct chan_call_options *options,
                         struct chan_reply *reply);
int request_delete_all(struct context *context, const char *kind, delete_fn delete_one);

/* An error of this side's making: of the command line. Returns the exit code. */
int request_usage(const struct context *context, const struct error *err);

#endif
