/* Annotations of templates: bounded, and kept in one canonical form so that the same content compares equal.
 */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/operations/internal.h"

enum { ANNOTATIONS_MAX = 64, ANNOTATION_KEY_MAX = 256, ANNOTATION_VALUE_MAX = 4096 };

static void json_decref_cleanup(json_t **json)
{
    json_decref(*json);
}
#define auto_json __attribute__((cleanup(json_decref_cleanup)))

bool annotations_opt_in(const struct string_pair *annotations, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *value = annotations[i].value;
        if (strcmp(annotations[i].key, "cube.master.enable_ivshmem") == 0 &&
            (strcmp(value, "true") == 0 || strcmp(value, "1") == 0))
            return true;
    }
    return false;
}

/* What is wrong with the annotation, or NULL. */
static const char *pair_fault(const json_t *object, const struct string_pair *pair)
{
    if (pair->key[0] == '\0')
        return "a key is empty";
    if (strlen(pair->key) > ANNOTATION_KEY_MAX)
        return "a key is longer than 256 bytes";
    if (strlen(pair->value) > ANNOTATION_VALUE_MAX)
        return "the value is longer than 4096 bytes";
    if (json_object_get(object, pair->key) != NULL)
        return "it is given twice";
    return NULL;
}

int annotations_encode(const struct string_pair *annotations, size_t count, char **ret, struct error *fields)
{
    *ret = NULL;
    if (count > ANNOTATIONS_MAX)
        return error_field(fields, REASON_INVALID_FIELD, "annotations",
                           "at most %d are allowed, these are %zu", ANNOTATIONS_MAX, count);
    auto_json json_t *object = json_object();
    if (object == NULL)
        return error_set_errno(fields, REASON_RESOURCE_LIMIT, ENOMEM, "cannot hold the annotations");
    bool good = true;
    for (size_t i = 0; i < count; i++) {
        const struct string_pair *pair = &annotations[i];
        const char *fault = pair_fault(object, pair);
        /* The only other way to fail is text that is not UTF-8, or no memory, which malloc on Linux does not
         * tell. */
        if (fault == NULL && json_object_set_new(object, pair->key, json_string(pair->value)) != 0)
            fault = "it is not UTF-8";
        if (fault != NULL) {
            char field[sizeof fields->fields[0].field];
            (void)snprintf(field, sizeof field, "annotations.%s", pair->key);
            (void)error_field(fields, REASON_INVALID_FIELD, field, "%s", fault);
            good = false;
        }
    }
    if (!good)
        return -1;
    *ret = json_dumps(object, JSON_COMPACT | JSON_SORT_KEYS);
    if (*ret == NULL)
        return error_set_errno(fields, REASON_RESOURCE_LIMIT, ENOMEM, "cannot hold the annotations");
    return 0;
}
