/* Reads the fields of a JSON object that a request holds, and collects everything that is wrong with them: a
 * wrong type, a field that is not known. A field that is null is absent. Between fields_begin and fields_end
 * each known field is asked for once. Errors go into one struct error, which stays without a reason while all
 * is well.
 */
#ifndef CHAN_API_REST_FIELDS_H
#define CHAN_API_REST_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { FIELDS_KNOWN_MAX = 8 };

struct fields {
    const json_t *object; /* NULL: absent, no field is there */
    const char *path;     /* "" on top, "ivshmem." inside of that object */
    struct error *err;
    const char *known[FIELDS_KNOWN_MAX];
    size_t known_count;
};

void fields_begin(struct fields *fields, const json_t *object, const char *path, struct error *err);
/* Reports every field that was not asked for. */
void fields_end(struct fields *fields);

/* Each answers whether the field is there and of the right type; *ret is set only then. Strings live as long
 * as the JSON does. */
bool field_string(struct fields *fields, const char *name, const char **ret);
bool field_bool(struct fields *fields, const char *name, bool *ret);
bool field_integer(struct fields *fields, const char *name, int64_t *ret);
bool field_unsigned(struct fields *fields, const char *name, uint64_t *ret);
bool field_object(struct fields *fields, const char *name, const json_t **ret);
bool field_array(struct fields *fields, const char *name, const json_t **ret);

/* Reports something about a field by its name within this object. */
void field_fault(struct fields *fields, const char *name, const char *detail);

#endif
