#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/control/bench.h"

void die(const char *format, ...)
{
    (void)fprintf(stderr, "chan-bench-control: ");
    va_list args;
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fprintf(stderr, "\n");
    daemon_end_all();
    exit(1);
}

void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (memory == NULL) {
        die("out of memory");
    }
    return memory;
}

void samples_add(struct samples *samples, int64_t value)
{
    if (samples->count == samples->capacity) {
        size_t capacity = samples->capacity == 0 ? 1024 : 2 * samples->capacity;
        int64_t *values = realloc(samples->values, capacity * sizeof *values);
        if (values == NULL) {
            die("out of memory");
        }
        samples->values = values;
        samples->capacity = capacity;
    }
    samples->values[samples->count++] = value;
}

void samples_append(struct samples *samples, const struct samples *more)
{
    for (size_t i = 0; i < more->count; i++) {
        samples_add(samples, more->values[i]);
    }
}

static int compare_integers(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left;
    int64_t b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

int64_t samples_quantile(struct samples *samples, double fraction)
{
    if (samples->count == 0) {
        return 0;
    }
    qsort(samples->values, samples->count, sizeof *samples->values, compare_integers);
    return samples->values[(size_t)(fraction * (double)(samples->count - 1))];
}

void samples_free(struct samples *samples)
{
    free(samples->values);
    *samples = (struct samples){.values = NULL};
}

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare_doubles);
    return count % 2 == 1 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}
