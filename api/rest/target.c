#include "api/rest/target.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

/* In place; -1 for a bad sequence or a zero byte. */
static int percent_decode(char *text, bool plus_is_space)
{
    char *out = text;
    for (const char *at = text; *at != '\0'; at++) {
        if (*at != '%') {
            *out++ = (char)(*at == '+' && plus_is_space ? ' ' : *at);
            continue;
        }
        int high = hex_value(at[1]);
        int low = high < 0 ? -1 : hex_value(at[2]);
        if (low < 0 || high + low == 0)
            return -1;
        *out++ = (char)(high * 16 + low);
        at += 2;
    }
    *out = '\0';
    return 0;
}

int target_parse(const char *raw, struct target *ret)
{
    *ret = (struct target){.path = NULL};
    size_t length = strlen(raw);
    char *memory = malloc(2 * (length + 1)); /* the path as it is, and a copy to decode in place */
    if (memory == NULL)
        return -1;
    memcpy(memory, raw, length + 1);
    char *copy = memory + length + 1;
    memcpy(copy, raw, length + 1);
    ret->path = memory;
    ret->path[strcspn(ret->path, "?")] = '\0';
    char *question = strchr(copy, '?');
    if (question != NULL) {
        *question = '\0';
        ret->query = question + 1;
    }
    if (copy[0] != '/')
        return 0;
    char *rest = copy + 1;
    while (rest != NULL) {
        char *text = strsep(&rest, "/");
        if (ret->segment_count == TARGET_SEGMENTS_MAX) {
            ret->segment_count = 0;
            return 0;
        }
        struct segment *segment = &ret->segments[ret->segment_count++];
        segment->text = text;
        segment->malformed = percent_decode(text, false) != 0;
    }
    return 0;
}

void target_clear(struct target *target)
{
    free(target->path);
    *target = (struct target){.path = NULL};
}

static bool is_allowed(const char *name, const char *const *allowed)
{
    for (; allowed != NULL && *allowed != NULL; allowed++)
        if (strcmp(*allowed, name) == 0)
            return true;
    return false;
}

static int add_parameter(struct target *target, char *text, const char *const *allowed, struct error *err)
{
    char *value = text;
    char *name = strsep(&value, "=");
    if (percent_decode(name, true) != 0 || (value != NULL && percent_decode(value, true) != 0))
        return error_set(err, REASON_INVALID_PARAMETER, "the query has a bad percent sequence");
    if (!is_allowed(name, allowed))
        return error_set(err, REASON_UNKNOWN_PARAMETER, "the query parameter \"%s\" is not known here", name);
    if (target_parameter(target, name) != NULL)
        return error_set(err, REASON_INVALID_PARAMETER, "the query parameter \"%s\" stands there twice",
                         name);
    /* Each allowed name once: there is room as long as fewer names exist. */
    if (target->parameter_count == TARGET_PARAMETERS_MAX)
        return error_set(err, REASON_INVALID_PARAMETER, "the query has too many parameters");
    target->parameters[target->parameter_count++] =
        (struct parameter){.name = name, .value = value == NULL ? "" : value};
    return 0;
}

int target_query(struct target *target, const char *const *allowed, struct error *err)
{
    char *rest = target->query;
    target->query = NULL;
    while (rest != NULL) {
        char *text = strsep(&rest, "&");
        if (*text != '\0' && add_parameter(target, text, allowed, err) != 0)
            return -1;
    }
    return 0;
}

const char *target_parameter(const struct target *target, const char *name)
{
    for (size_t i = 0; i < target->parameter_count; i++)
        if (strcmp(target->parameters[i].name, name) == 0)
            return target->parameters[i].value;
    return NULL;
}

int target_number(const struct target *target, const char *name, long long minimum, long long *ret,
                  struct error *err)
{
    const char *text = target_parameter(target, name);
    if (text == NULL)
        return 0;
    errno = 0;
    long long value = strtoll(text, NULL, 10);
    if (*text == '\0' || strspn(text, "0123456789") != strlen(text) || errno != 0 || value < minimum)
        return error_set(err, REASON_INVALID_PARAMETER,
                         "%s is \"%s\", it must be a whole number from %lld up", name, text, minimum);
    *ret = value;
    return 0;
}
