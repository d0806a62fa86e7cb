/* The target of a request: path and query, split first and percent-decoded once afterwards, so that an
 * encoded slash or ampersand is data and never structure. */
#ifndef CHAN_API_REST_TARGET_H
#define CHAN_API_REST_TARGET_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum { TARGET_SEGMENTS_MAX = 8, TARGET_PARAMETERS_MAX = 16 };

struct segment {
    const char *text; /* decoded */
    bool malformed;   /* a bad percent sequence, or one that stands for a zero byte; text is not to be used */
};

struct parameter {
    const char *name, *value; /* decoded; a parameter without "=" has the value "" */
};

struct target {
    char *path; /* as it came, without the query; owns the memory of all the rest */
    struct segment segments[TARGET_SEGMENTS_MAX];
    size_t segment_count; /* more than TARGET_SEGMENTS_MAX, or 0: no path of ours */
    char *query;          /* decoded by target_query; NULL when there is none */
    struct parameter parameters[TARGET_PARAMETERS_MAX];
    size_t parameter_count;
};

/* Splits the path. Returns -1 when out of memory. */
int target_parse(const char *raw, struct target *ret);
void target_clear(struct target *target);

/* Splits the query, once. Every parameter must be one of `allowed` (ends with NULL; NULL for none) and stand
 * there once. */
int target_query(struct target *target, const char *const *allowed, struct error *err);

/* The value, or NULL. */
const char *target_parameter(const struct target *target, const char *name);

/* A decimal number without sign; absent: *ret keeps its value. REASON_INVALID_PARAMETER when it is not one of
 * minimum to INT64_MAX. */
int target_number(const struct target *target, const char *name, long long minimum, long long *ret,
                  struct error *err);

#endif
