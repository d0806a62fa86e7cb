#include "cli/link_body.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/output.h"
#include "cli/request.h"
#include "cli/values.h"

enum { MTU_MINIMUM = 68, MTU_MAXIMUM = 65535 };

/* What an end may be told, and the member that says so. */
static const struct {
    const char *word, *key;
} settings[] = {
    {"sandbox", "sandboxID"}, {"role", "role"}, {"socket", "socketPath"}, {"mtu", "mtu"}, {"type", "type"},
};

static const char *key_of(const char *word, size_t length)
{
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        if (strlen(settings[i].word) == length && memcmp(settings[i].word, word, length) == 0)
            return settings[i].key;
    return NULL;
}

/* Copies up to the next single comma; *rest is what follows it, or NULL. NULL when out of memory. */
static char *next_part(const char *text, const char **rest)
{
    char *part = malloc(strlen(text) + 1);
    size_t length = 0;
    *rest = NULL;
    for (; part != NULL && *text != '\0'; text++) {
        if (*text == ',') {
            if (text[1] != ',') {
                *rest = text + 1;
                break;
            }
            text++;
        }
        part[length++] = *text;
    }
    if (part != NULL)
        part[length] = '\0';
    return part;
}

static int set_mtu(json_t *end, const char *name, const char *text, struct error *err)
{
    int64_t mtu = 0;
    if (parse_number(name, text, MTU_MINIMUM, MTU_MAXIMUM, &mtu, err) != 0)
        return -1;
    return request_set(end, "mtu", json_integer(mtu), err);
}

static int set_part(json_t *end, const char *part, struct error *err)
{
    size_t length = strcspn(part, "=");
    const char *key = key_of(part, length);
    if (part[length] != '=' || key == NULL)
        return error_set(err, REASON_INVALID_REQUEST,
                         "--end: '%s' is none of sandbox=ID, role=server|client, socket=PATH, mtu=NUMBER",
                         part);
    const char *value = part + length + 1;
    if (json_object_get(end, key) != NULL)
        return error_set(err, REASON_INVALID_REQUEST, "--end: %.*s stands there twice", (int)length, part);
    if (strcmp(key, "mtu") == 0)
        return set_mtu(end, "--end: mtu", value, err);
    if (value[0] == '\0')
        return error_set(err, REASON_INVALID_REQUEST, "--end: %.*s has no value", (int)length, part);
    return request_set(end, key, json_string(value), err);
}

int link_end_parse(const char *text, json_t *end, struct error *err)
{
    if (text[0] == '\0')
        return error_set(err, REASON_INVALID_REQUEST,
                         "--end: it is empty; write - for an end that belongs to no sandbox");
    if (strcmp(text, "-") == 0)
        return 0;
    if (strpbrk(text, "=,") == NULL)
        return request_set(end, "sandboxID", json_string(text), err);
    const char *rest = text;
    do {
        auto_free char *part = next_part(rest, &rest);
        if (part == NULL)
            return error_set(err, REASON_INTERNAL, "cannot hold an end: out of memory");
        if (set_part(end, part, err) != 0)
            return -1;
    } while (rest != NULL);
    return 0;
}

static int add_end(const struct arguments *arguments, const char *text, json_t *ends, struct error *err)
{
    auto_json json_t *end = json_object();
    const char *mtu = arguments_value(arguments, "mtu");
    if (link_end_parse(text, end, err) != 0)
        return -1;
    if (mtu != NULL && json_object_get(end, "mtu") == NULL && set_mtu(end, "--mtu", mtu, err) != 0)
        return -1;
    if (json_array_append(ends, end) != 0)
        return error_set(err, REASON_INTERNAL, "cannot hold the ends: out of memory");
    return 0;
}

char *link_body(const struct arguments *arguments, struct error *err)
{
    auto_json json_t *body = json_object();
    auto_json json_t *ends = json_array();
    for (size_t i = 0; i < arguments->option_count; i++) {
        const struct given_option *given = &arguments->options[i];
        if (strcmp(given->option->name, "end") == 0 && add_end(arguments, given->value, ends, err) != 0)
            return NULL;
    }
    if (json_array_size(ends) != 2) {
        (void)error_set(err, REASON_INVALID_REQUEST, "a link has two ends: give --end twice, not %zu times",
                        json_array_size(ends));
        return NULL;
    }
    if (request_set(body, "ends", json_incref(ends), err) != 0)
        return NULL;
    return request_dump(body, err);
}
