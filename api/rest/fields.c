#include "api/rest/fields.h"

#include <stdio.h>
#include <string.h>

enum { FIELD_PATH_SIZE = 96 }; /* as much as struct field_error holds */

static void report(struct fields *fields, enum reason reason, const char *name, const char *detail)
{
    char path[FIELD_PATH_SIZE];
    (void)snprintf(path, sizeof path, "%s%s", fields->path, name);
    (void)error_field(fields->err, reason, path, "%s", detail);
}

void field_fault(struct fields *fields, const char *name, const char *detail)
{
    report(fields, REASON_INVALID_FIELD, name, detail);
}

void fields_begin(struct fields *fields, const json_t *object, const char *path, struct error *err)
{
    *fields = (struct fields){.object = object, .path = path, .err = err};
}

/* The value, or NULL when it is absent. */
static const json_t *look_up(struct fields *fields, const char *name)
{
    if (fields->known_count < FIELDS_KNOWN_MAX)
        fields->known[fields->known_count++] = name;
    const json_t *value = json_object_get(fields->object, name);
    return json_is_null(value) ? NULL : value;
}

static bool is_known(const struct fields *fields, const char *name)
{
    for (size_t i = 0; i < fields->known_count; i++)
        if (strcmp(fields->known[i], name) == 0)
            return true;
    return false;
}

void fields_end(struct fields *fields)
{
    /* jansson iterates by non-const pointers but changes nothing. */
    json_t *object = (json_t *)(uintptr_t)fields->object;
    for (void *at = json_object_iter(object); at != NULL; at = json_object_iter_next(object, at)) {
        const char *name = json_object_iter_key(at);
        if (!is_known(fields, name))
            report(fields, REASON_UNKNOWN_FIELD, name, "is not known");
    }
}

bool field_string(struct fields *fields, const char *name, const char **ret)
{
    const json_t *value = look_up(fields, name);
    if (value == NULL)
        return false;
    if (!json_is_string(value)) {
        field_fault(fields, name, "must be a string");
        return false;
    }
    *ret = json_string_value(value);
    return true;
}

bool field_bool(struct fields *fields, const char *name, bool *ret)
{
    const json_t *value = look_up(fields, name);
    if (value == NULL)
        return false;
    if (!json_is_boolean(value)) {
        field_fault(fields, name, "must be true or false");
        return false;
    }
    *ret = json_is_true(value);
    return true;
}

bool field_integer(struct fields *fields, const char *name, int64_t *ret)
{
    const json_t *value = look_up(fields, name);
    if (value == NULL)
        return false;
    if (!json_is_integer(value)) {
        field_fault(fields, name, "must be an integer");
        return false;
    }
    *ret = json_integer_value(value);
    return true;
}

bool field_unsigned(struct fields *fields, const char *name, uint64_t *ret)
{
    const json_t *value = look_up(fields, name);
    if (value == NULL)
        return false;
    if (!json_is_integer(value) || json_integer_value(value) < 0) {
        field_fault(fields, name, "must be an integer that is not negative");
        return false;
    }
    *ret = (uint64_t)json_integer_value(value);
    return true;
}

bool field_object(struct fields *fields, const char *name, const json_t **ret)
{
    const json_t *value = look_up(fields, name);
    if (value == NULL)
        return false;
    if (!json_is_object(value)) {
        field_fault(fields, name, "must be an object");
        return false;
    }
    *ret = value;
    return true;
}

bool field_array(struct fields *fields, const char *name, const json_t **ret)
{
    const json_t *value = look_up(fields, name);
    if (value == NULL)
        return false;
    if (!json_is_array(value)) {
        field_fault(fields, name, "must be an array");
        return false;
    }
    *ret = value;
    return true;
}
