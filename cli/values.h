/* Values as people write and read them: sizes, durations, ages. */
#ifndef CHAN_CLI_VALUES_H
#define CHAN_CLI_VALUES_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { VALUE_TEXT_SIZE = 48 };

/* What a string given for `name` ("--size") means. Each returns 0, or -1 with a detail that names the option.
 */

/* A whole number from minimum to maximum. */
int parse_number(const char *name, const char *text, int64_t minimum, int64_t maximum, int64_t *ret,
                 struct error *err);

/* Bytes: "4096", "4K", "1M", "1MiB", "2G", "1T"; K is 1024. */
int parse_size(const char *name, const char *text, int64_t *ret, struct error *err);

/* Seconds: "90", "90s", "5m", "2h", "1d"; at least 1. */
int parse_duration(const char *name, const char *text, int64_t *ret, struct error *err);

/* RFC 3339 in UTC, as the API writes times; milliseconds since the epoch, or -1 when it is none. */
int64_t parse_timestamp(const char *text);

/* "1 MiB", "1.5 GiB", "100 B". */
void format_size(int64_t bytes, char out[VALUE_TEXT_SIZE]);

/* "5s", "3m", "2h", "4d": the largest unit of which there are at least two, seconds below two minutes. */
void format_duration(int64_t seconds, char out[VALUE_TEXT_SIZE]);

/* Something per second, in thousands, millions and so on: "0", "12.5", "1.2k", "9.4G". */
void format_rate(double rate, char out[VALUE_TEXT_SIZE]);

#endif
