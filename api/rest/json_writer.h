/* Writes JSON text into a growing buffer. Commas come by themselves; names of members are the caller's
 * constants. Strings are escaped, and bytes that are not UTF-8 become U+FFFD, so that the text is always
 * valid. Out of memory is remembered and reported once, by json_writer_finish.
 */
#ifndef CHAN_API_REST_JSON_WRITER_H
#define CHAN_API_REST_JSON_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct json_writer {
    char *text;
    size_t length, capacity;
    bool failed;
};

#define JSON_WRITER_INIT ((struct json_writer){.text = NULL})

/* The name is NULL inside an array and on top. */
void json_begin_object(struct json_writer *writer, const char *name);
void json_end_object(struct json_writer *writer);
void json_begin_array(struct json_writer *writer, const char *name);
void json_end_array(struct json_writer *writer);
void json_put_string(struct json_writer *writer, const char *name, const char *value); /* NULL becomes null */
void json_put_integer(struct json_writer *writer, const char *name, int64_t value);
void json_put_unsigned(struct json_writer *writer, const char *name, uint64_t value);
void json_put_bool(struct json_writer *writer, const char *name, bool value);
void json_put_null(struct json_writer *writer, const char *name);
void json_put_time(struct json_writer *writer, const char *name, int64_t real_ms); /* RFC 3339 */
void json_put_raw(struct json_writer *writer, const char *name,
                  const char *json); /* text that is JSON already */

/* Hands the text over (free it) and leaves the writer empty; or fails with REASON_RESOURCE_LIMIT. */
int json_writer_finish(struct json_writer *writer, char **ret, size_t *length, struct error *err);

/* Drops what was written. */
void json_writer_clear(struct json_writer *writer);
#define auto_json_writer __attribute__((cleanup(json_writer_clear)))

#endif
