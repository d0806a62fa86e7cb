#include "cli/values.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct unit {
    const char *suffix;
    int64_t factor;
};

/* Reads digits; *rest is what follows them. Signs and spaces, which strtoll would take, are refused. */
static int read_digits(const char *text, int64_t *ret, const char **rest)
{
    if (!isdigit((unsigned char)text[0]))
        return -1;
    char *end = NULL;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno != 0)
        return -1;
    *ret = number;
    *rest = end;
    return 0;
}

static int read_with_unit(const char *text, const struct unit *units, size_t unit_count, int64_t *ret)
{
    int64_t number = 0;
    const char *rest = NULL;
    if (read_digits(text, &number, &rest) != 0)
        return -1;
    for (size_t i = 0; i < unit_count; i++)
        if (strcmp(rest, units[i].suffix) == 0)
            return __builtin_mul_overflow(number, units[i].factor, ret) ? -1 : 0;
    return -1;
}

int parse_number(const char *name, const char *text, int64_t minimum, int64_t maximum, int64_t *ret,
                 struct error *err)
{
    int64_t number = 0;
    const char *rest = "";
    if (read_digits(text, &number, &rest) != 0 || *rest != '\0' || number < minimum || number > maximum)
        return error_set(err, REASON_INVALID_REQUEST,
                         "%s: '%s' is not a whole number from %" PRId64 " to %" PRId64, name, text, minimum,
                         maximum);
    *ret = number;
    return 0;
}

int parse_size(const char *name, const char *text, int64_t *ret, struct error *err)
{
    static const struct unit units[] = {
        {"", 1},
        {"B", 1},
        {"K", 1 << 10},
        {"KiB", 1 << 10},
        {"M", 1 << 20},
        {"MiB", 1 << 20},
        {"G", 1 << 30},
        {"GiB", 1 << 30},
        {"T", INT64_C(1) << 40},
        {"TiB", INT64_C(1) << 40},
    };
    if (read_with_unit(text, units, sizeof units / sizeof units[0], ret) != 0)
        return error_set(err, REASON_INVALID_REQUEST,
                         "%s: '%s' is not a size; write bytes, or 4K, 1M, 2G (K is 1024)", name, text);
    return 0;
}

int parse_duration(const char *name, const char *text, int64_t *ret, struct error *err)
{
    static const struct unit units[] = {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};
    int64_t seconds = 0;
    if (read_with_unit(text, units, sizeof units / sizeof units[0], &seconds) != 0 || seconds < 1)
        return error_set(err, REASON_INVALID_REQUEST,
                         "%s: '%s' is not a duration; write whole seconds, or 90s, 5m, 2h, 1d", name, text);
    *ret = seconds;
    return 0;
}

int64_t parse_timestamp(const char *text)
{
    struct tm parts = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &parts);
    if (rest == NULL)
        return -1;
    int64_t fraction = 0;
    if (*rest == '.') {
        const char *digits = rest + 1;
        int64_t scale = 100;
        for (rest = digits; isdigit((unsigned char)*rest); rest++, scale /= 10)
            fraction += (*rest - '0') * scale;
        if (rest == digits)
            return -1;
    }
    time_t seconds = timegm(&parts);
    if (strcmp(rest, "Z") != 0 || seconds < 0)
        return -1;
    return (int64_t)seconds * 1000 + fraction;
}

void format_size(int64_t bytes, char out[VALUE_TEXT_SIZE])
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    int64_t whole = bytes, tenths = 0;
    while (whole >= 1024 && unit + 1 < sizeof names / sizeof names[0]) {
        tenths = whole % 1024 * 10 / 1024; /* cut, never rounded up: 1023.99 MiB is not 1024.0 MiB */
        whole /= 1024;
        unit++;
    }
    if (tenths == 0)
        (void)snprintf(out, VALUE_TEXT_SIZE, "%" PRId64 " %s", whole, names[unit]);
    else
        (void)snprintf(out, VALUE_TEXT_SIZE, "%" PRId64 ".%" PRId64 " %s", whole, tenths, names[unit]);
}

void format_duration(int64_t seconds, char out[VALUE_TEXT_SIZE])
{
    static const struct unit units[] = {{"d", 86400}, {"h", 3600}, {"m", 60}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (seconds >= 2 * units[i].factor) {
            (void)snprintf(out, VALUE_TEXT_SIZE, "%" PRId64 "%s", seconds / units[i].factor, units[i].suffix);
            return;
        }
    (void)snprintf(out, VALUE_TEXT_SIZE, "%" PRId64 "s", seconds < 0 ? 0 : seconds);
}

void format_rate(double rate, char out[VALUE_TEXT_SIZE])
{
    static const char *const suffixes[] = {"", "k", "M", "G", "T", "P"};
    size_t unit = 0;
    /* 999.95 would be written as 1000.0. */
    while (rate >= 999.95 && unit + 1 < sizeof suffixes / sizeof suffixes[0]) {
        rate /= 1000;
        unit++;
    }
    (void)snprintf(out, VALUE_TEXT_SIZE, "%.1f", rate);
    size_t length = strlen(out);
    if (length > 2 && strcmp(out + length - 2, ".0") == 0)
        length -= 2;
    (void)snprintf(out + length, VALUE_TEXT_SIZE - length, "%s", suffixes[unit]);
}
