#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct reason_info reasons[REASON_COUNT] = {
#define REASON(name, word, http, grpc, exit_code, title)                                                     \
    [REASON_##name] = {word, http, grpc, exit_code, title},
#include "base/reasons.def"
#undef REASON
};

const struct reason_info *reason_info(enum reason reason)
{
    if (reason <= REASON_NONE || reason >= REASON_COUNT)
        reason = REASON_INTERNAL;
    return &reasons[reason];
}

enum reason reason_by_word(const char *word)
{
    for (int i = REASON_NONE + 1; i < REASON_COUNT; i++)
        if (strcmp(reasons[i].word, word) == 0)
            return (enum reason)i;
    return REASON_NONE;
}

__attribute__((format(printf, 4, 0))) static void set_detail(struct error *err, enum reason reason,
                                                             int sys_errno, const char *format, va_list args)
{
    err->reason = reason;
    err->sys_errno = sys_errno;
    err->field_count = 0;
    (void)vsnprintf(err->detail, sizeof err->detail, format, args);
    if (sys_errno != 0) {
        char text[128];
        size_t used = strlen(err->detail);
        (void)snprintf(err->detail + used, sizeof err->detail - used, ": %s",
                       strerror_r(sys_errno, text, sizeof text));
    }
}

int(error_set)(struct error *err, enum reason reason, const char *format, ...)
{
    if (err != NULL) {
        va_list args;
        va_start(args, format);
        set_detail(err, reason, 0, format, args);
        va_end(args);
    }
    return -1;
}

int(error_set_errno)(struct error *err, enum reason reason, int sys_errno, const char *format, ...)
{
    if (err != NULL) {
        va_list args;
        va_start(args, format);
        set_detail(err, reason, sys_errno, format, args);
        va_end(args);
    }
    return -1;
}

int(error_wrap)(struct error *err, const char *format, ...)
{
    if (err != NULL) {
        char old[sizeof err->detail];
        memcpy(old, err->detail, sizeof old);
        va_list args;
        va_start(args, format);
        int used = vsnprintf(err->detail, sizeof err->detail, format, args);
        va_end(args);
        if (used >= 0 && (size_t)used < sizeof err->detail)
            (void)snprintf(err->detail + used, sizeof err->detail - (size_t)used, "%.*s",
                           (int)(sizeof err->detail - (size_t)used - 1), old);
    }
    return -1;
}

int(error_field)(struct error *err, enum reason reason, const char *field, const char *format, ...)
{
    if (err == NULL)
        return -1;
    char text[sizeof err->fields[0].detail];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (err->field_count == 0)
        (void)error_set(err, reason, "%s: %s", field, text);
    if (err->field_count < ERROR_FIELDS_MAX) {
        struct field_error *entry = &err->fields[err->field_count++];
        (void)snprintf(entry->field, sizeof entry->field, "%s", field);
        memcpy(entry->detail, text, sizeof entry->detail);
    }
    return -1;
}
