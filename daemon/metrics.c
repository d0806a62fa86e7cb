#include "daemon/metrics.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "daemon/metrics_process.h"

enum metric_kind {
    KIND_COUNTER,
    KIND_GAUGE,
    KIND_STATE_GAUGE,
    KIND_LABELED_COUNTER,
    KIND_HISTOGRAM,
    KIND_SAMPLES
};

struct metric_info {
    enum metric_kind kind;
    const char *name;
    const char *labels; /* "", "state" or "operation,code" */
    const char *help;
    const char *type; /* KIND_SAMPLES only */
};

static const struct metric_info infos[METRIC_COUNT] = {
#define COUNTER(id, name, help)            [METRIC_##id] = {KIND_COUNTER, name, "", help, NULL},
#define GAUGE(id, name, help)              [METRIC_##id] = {KIND_GAUGE, name, "", help, NULL},
#define STATE_GAUGE(id, name, label, help) [METRIC_##id] = {KIND_STATE_GAUGE, name, label, help, NULL},
#define LABELED_COUNTER(id, name, labels, help)                                                              \
    [METRIC_##id] = {KIND_LABELED_COUNTER, name, labels, help, NULL},
#define HISTOGRAM(id, name, label, help)      [METRIC_##id] = {KIND_HISTOGRAM, name, label, help, NULL},
#define SAMPLES(id, name, type, labels, help) [METRIC_##id] = {KIND_SAMPLES, name, labels, help, type},
#include "daemon/metrics.def"
#undef SAMPLES
#undef COUNTER
#undef GAUGE
#undef STATE_GAUGE
#undef LABELED_COUNTER
#undef HISTOGRAM
};

/* Upper bounds of the histograms' buckets; the bound +Inf follows them. */
static const struct {
    uint64_t ns;
    const char *le;
} bounds[] = {
    {100000, "0.0001"},  {250000, "0.00025"}, {500000, "0.0005"},  {1000000, "0.001"},
    {2500000, "0.0025"}, {5000000, "0.005"},  {10000000, "0.01"},  {25000000, "0.025"},
    {50000000, "0.05"},  {100000000, "0.1"},  {250000000, "0.25"}, {500000000, "0.5"},
    {1000000000, "1"},   {2500000000, "2.5"}, {5000000000, "5"},   {10000000000, "10"},
};
enum { BOUNDS = sizeof bounds / sizeof bounds[0] };

/* A label takes at most that many values; what does not fit is counted under "other" (or code 0). */
enum { LABELS_MAX = 64 };

typedef _Atomic(const char *) label_slot;
typedef atomic_uint_fast64_t counter64;

struct state_gauge {
    label_slot states[LABELS_MAX];
    counter64 values[LABELS_MAX];
};

struct labeled_counter {
    label_slot operations[LABELS_MAX];
    atomic_int codes[LABELS_MAX];
    counter64 counts[LABELS_MAX][LABELS_MAX];
};

struct histogram {
    label_slot labels[LABELS_MAX]; /* without a label only the first row of the arrays is used */
    counter64 sums_ns[LABELS_MAX];
    counter64 buckets[LABELS_MAX][BOUNDS + 1]; /* not cumulative; the last one is beyond all bounds */
};

struct samples {
    pthread_mutex_t lock; /* of what follows */
    size_t count;
    struct metric_sample *samples;
};

/* Which of these a metric has follows from its kind. */
union family {
    void *any;
    struct state_gauge *states;
    struct labeled_counter *counter;
    struct histogram *histogram;
    struct samples *samples;
};

struct metrics {
    char *version;
    int64_t start_time_ms;
    counter64 values[METRIC_COUNT]; /* counters and gauges */
    union family families[METRIC_COUNT];
};

static size_t family_size(enum metric_kind kind)
{
    switch (kind) {
    case KIND_STATE_GAUGE:
        return sizeof(struct state_gauge);
    case KIND_LABELED_COUNTER:
        return sizeof(struct labeled_counter);
    case KIND_HISTOGRAM:
        return sizeof(struct histogram);
    case KIND_SAMPLES:
        return sizeof(struct samples);
    case KIND_COUNTER:
    case KIND_GAUGE:
        break;
    }
    return 0;
}

int metrics_new(const char *version, struct metrics **ret, struct error *err)
{
    struct metrics *metrics = calloc(1, sizeof *metrics);
    if (metrics == NULL || (metrics->version = strdup(version)) == NULL)
        goto no_memory;
    for (int i = 0; i < METRIC_COUNT; i++) {
        size_t size = family_size(infos[i].kind);
        if (size != 0 && (metrics->families[i].any = calloc(1, size)) == NULL)
            goto no_memory;
        if (infos[i].kind == KIND_SAMPLES)
            (void)pthread_mutex_init(&metrics->families[i].samples->lock, NULL);
    }
    metrics->start_time_ms = process_start_time_ms();
    *ret = metrics;
    return 0;

no_memory:
    metrics_free(metrics);
    return error_set_errno(err, REASON_RESOURCE_LIMIT, ENOMEM, "cannot make the metrics");
}

void metrics_free(struct metrics *metrics)
{
    if (metrics == NULL)
        return;
    for (int i = 0; i < METRIC_COUNT; i++) {
        if (infos[i].kind == KIND_SAMPLES && metrics->families[i].samples != NULL) {
            free(metrics->families[i].samples->samples);
            (void)pthread_mutex_destroy(&metrics->families[i].samples->lock);
        }
        free(metrics->families[i].any);
    }
    free(metrics->version);
    free(metrics);
}

/* Finds or takes the slot of a label's value, without a lock: slots are only ever added, in order. */
static size_t label_index(label_slot slots[LABELS_MAX], const char *label)
{
    static const char other[] = "other";
    for (size_t i = 0; i < LABELS_MAX; i++) {
        const char *seen = NULL;
        const char *wanted = i == LABELS_MAX - 1 ? other : label;
        if (atomic_compare_exchange_strong(&slots[i], &seen, wanted) || strcmp(seen, label) == 0)
            return i;
    }
    return LABELS_MAX - 1;
}

static size_t code_index(atomic_int codes[LABELS_MAX], int code)
{
    for (size_t i = 0; i < LABELS_MAX - 1; i++) {
        int seen = 0;
        if (atomic_compare_exchange_strong(&codes[i], &seen, code) || seen == code)
            return i;
    }
    return LABELS_MAX - 1;
}

void metrics_add(struct metrics *metrics, enum metric counter, uint64_t amount)
{
    if (metrics != NULL && infos[counter].kind == KIND_COUNTER)
        atomic_fetch_add_explicit(&metrics->values[counter], amount, memory_order_relaxed);
}

void metrics_set(struct metrics *metrics, enum metric gauge, uint64_t value)
{
    if (metrics != NULL && infos[gauge].kind == KIND_GAUGE)
        atomic_store_explicit(&metrics->values[gauge], value, memory_order_relaxed);
}

static void observe(struct histogram *histogram, size_t row, int64_t duration_ns)
{
    uint64_t ns = duration_ns > 0 ? (uint64_t)duration_ns : 0;
    size_t bucket = 0;
    while (bucket < BOUNDS && ns > bounds[bucket].ns)
        bucket++;
    atomic_fetch_add_explicit(&histogram->sums_ns[row], ns, memory_order_relaxed);
    atomic_fetch_add_explicit(&histogram->buckets[row][bucket], 1, memory_order_relaxed);
}

void metrics_count_request(struct metrics *metrics, const char *operation, int http_status,
                           int64_t duration_ns)
{
    if (metrics == NULL)
        return;
    struct labeled_counter *counter = metrics->families[METRIC_API_REQUESTS].counter;
    size_t row = label_index(counter->operations, operation);
    size_t column = code_index(counter->codes, http_status);
    atomic_fetch_add_explicit(&counter->counts[row][column], 1, memory_order_relaxed);
    struct histogram *histogram = metrics->families[METRIC_API_SECONDS].histogram;
    observe(histogram, label_index(histogram->labels, operation), duration_ns);
}

void metrics_observe(struct metrics *metrics, enum metric histogram, int64_t duration_ns)
{
    if (metrics != NULL && infos[histogram].kind == KIND_HISTOGRAM && infos[histogram].labels[0] == '\0')
        observe(metrics->families[histogram].histogram, 0, duration_ns);
}

void metrics_set_state(struct metrics *metrics, enum metric state_gauge, const char *state, uint64_t value)
{
    if (metrics == NULL || infos[state_gauge].kind != KIND_STATE_GAUGE)
        return;
    struct state_gauge *gauge = metrics->families[state_gauge].states;
    size_t row = label_index(gauge->states, state);
    atomic_store_explicit(&gauge->values[row], value, memory_order_relaxed);
}

void metrics_set_samples(struct metrics *metrics, enum metric family, const struct metric_sample *samples,
                         size_t count)
{
    if (metrics == NULL || infos[family].kind != KIND_SAMPLES)
        return;
    if (count > METRIC_SAMPLES_MAX)
        count = METRIC_SAMPLES_MAX;
    struct metric_sample *copies = count > 0 ? malloc(count * sizeof *copies) : NULL;
    if (copies != NULL)
        memcpy(copies, samples, count * sizeof *copies);
    struct samples *there = metrics->families[family].samples;
    (void)pthread_mutex_lock(&there->lock);
    free(there->samples);
    there->samples = copies;
    there->count = copies != NULL ? count : 0;
    (void)pthread_mutex_unlock(&there->lock);
}

static uint64_t load(const counter64 *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
}

/* Help texts escape backslash and newline; label values the double quote as well. */
static void put_escaped(FILE *out, const char *text, bool quotes)
{
    for (; *text != '\0'; text++) {
        if (*text == '\n')
            (void)fputs("\\n", out);
        else if (*text == '\\' || (quotes && *text == '"'))
            (void)fprintf(out, "\\%c", *text);
        else
            (void)fputc(*text, out);
    }
}

static void put_label(FILE *out, const char *name, size_t name_length, const char *value)
{
    (void)fprintf(out, "%.*s=\"", (int)name_length, name);
    put_escaped(out, value, true);
    (void)fputc('"', out);
}

static void put_header(FILE *out, const char *name, const char *type, const char *help)
{
    (void)fprintf(out, "# HELP %s ", name);
    put_escaped(out, help, false);
    (void)fprintf(out, "\n# TYPE %s %s\n", name, type);
}

/* Seconds as an exact decimal, whatever the locale. */
static void put_seconds(FILE *out, uint64_t ns)
{
    (void)fprintf(out, "%" PRIu64 ".%09" PRIu64, ns / 1000000000, ns % 1000000000);
}

static void put_states(FILE *out, const struct metric_info *info, const struct state_gauge *gauge)
{
    for (size_t i = 0; i < LABELS_MAX; i++) {
        const char *state = atomic_load(&gauge->states[i]);
        if (state == NULL)
            break;
        (void)fprintf(out, "%s{", info->name);
        put_label(out, info->labels, strlen(info->labels), state);
        (void)fprintf(out, "} %" PRIu64 "\n", load(&gauge->values[i]));
    }
}

static void put_labeled_counter(FILE *out, const struct metric_info *info,
                                const struct labeled_counter *counter)
{
    size_t first_length = strcspn(info->labels, ",");
    for (size_t i = 0; i < LABELS_MAX; i++) {
        const char *operation = atomic_load(&counter->operations[i]);
        if (operation == NULL)
            break;
        for (size_t j = 0; j < LABELS_MAX; j++) {
            uint64_t count = load(&counter->counts[i][j]);
            if (count == 0)
                continue;
            (void)fprintf(out, "%s{", info->name);
            put_label(out, info->labels, first_length, operation);
            (void)fprintf(out, ",%s=\"%d\"} %" PRIu64 "\n", info->labels + first_length + 1,
                          atomic_load(&counter->codes[j]), count);
        }
    }
}

static void put_histogram_row(FILE *out, const struct metric_info *info, const struct histogram *histogram,
                              size_t row, const char *label)
{
    size_t label_length = strlen(info->labels);
    uint64_t total = 0;
    for (size_t i = 0; i <= BOUNDS; i++) {
        total += load(&histogram->buckets[row][i]);
        (void)fprintf(out, "%s_bucket{", info->name);
        if (label != NULL) {
            put_label(out, info->labels, label_length, label);
            (void)fputc(',', out);
        }
        (void)fprintf(out, "le=\"%s\"} %" PRIu64 "\n", i < BOUNDS ? bounds[i].le : "+Inf", total);
    }
    static const char *const suffixes[] = {"_sum", "_count"};
    for (size_t i = 0; i < 2; i++) {
        (void)fprintf(out, "%s%s", info->name, suffixes[i]);
        if (label != NULL) {
            (void)fputc('{', out);
            put_label(out, info->labels, label_length, label);
            (void)fputc('}', out);
        }
        (void)fputc(' ', out);
        if (i == 0)
            put_seconds(out, load(&histogram->sums_ns[row]));
        else
            (void)fprintf(out, "%" PRIu64, total);
        (void)fputc('\n', out);
    }
}

static void put_histogram(FILE *out, const struct metric_info *info, const struct histogram *histogram)
{
    if (info->labels[0] == '\0') {
        put_histogram_row(out, info, histogram, 0, NULL);
        return;
    }
    for (size_t i = 0; i < LABELS_MAX; i++) {
        const char *label = atomic_load(&histogram->labels[i]);
        if (label == NULL)
            break;
        put_histogram_row(out, info, histogram, i, label);
    }
}

static void put_samples(FILE *out, const struct metric_info *info, struct samples *there)
{
    const size_t first_length = strcspn(info->labels, ",");
    const char *second = info->labels[first_length] == ',' ? info->labels + first_length + 1 : "";
    (void)pthread_mutex_lock(&there->lock);
    for (size_t i = 0; i < there->count; i++) {
        const struct metric_sample *sample = &there->samples[i];
        (void)fprintf(out, "%s{", info->name);
        put_label(out, info->labels, first_length, sample->first);
        if (sample->second != NULL) {
            (void)fputc(',', out);
            put_label(out, second, strlen(second), sample->second);
        }
        (void)fprintf(out, "} %" PRIu64 "\n", sample->value);
    }
    (void)pthread_mutex_unlock(&there->lock);
}

static void put_metric(FILE *out, const struct metrics *metrics, int metric)
{
    static const char *const types[] = {[KIND_COUNTER] = "counter",
                                        [KIND_GAUGE] = "gauge",
                                        [KIND_STATE_GAUGE] = "gauge",
                                        [KIND_LABELED_COUNTER] = "counter",
                                        [KIND_HISTOGRAM] = "histogram"};
    const struct metric_info *info = &infos[metric];
    const union family *family = &metrics->families[metric];
    put_header(out, info->name, info->kind == KIND_SAMPLES ? info->type : types[info->kind], info->help);
    switch (info->kind) {
    case KIND_COUNTER:
    case KIND_GAUGE:
        (void)fprintf(out, "%s %" PRIu64 "\n", info->name, load(&metrics->values[metric]));
        break;
    case KIND_STATE_GAUGE:
        put_states(out, info, family->states);
        break;
    case KIND_LABELED_COUNTER:
        put_labeled_counter(out, info, family->counter);
        break;
    case KIND_HISTOGRAM:
        put_histogram(out, info, family->histogram);
        break;
    case KIND_SAMPLES:
        put_samples(out, info, family->samples);
        break;
    }
}

/* The names are those of Prometheus' own client libraries. What cannot be read is left out. */
static void put_process(FILE *out, const struct metrics *metrics)
{
    if (metrics->start_time_ms > 0) {
        put_header(out, "process_start_time_seconds", "gauge", "Start time since the Unix epoch in seconds.");
        (void)fprintf(out, "process_start_time_seconds %" PRId64 ".%03" PRId64 "\n",
                      metrics->start_time_ms / 1000, metrics->start_time_ms % 1000);
    }
    struct process_usage usage;
    if (process_usage_read(&usage) == 0) {
        put_header(out, "process_cpu_seconds_total", "counter", "User and system CPU time spent in seconds.");
        (void)fputs("process_cpu_seconds_total ", out);
        put_seconds(out, usage.cpu_ns);
        (void)fputc('\n', out);
        put_header(out, "process_resident_memory_bytes", "gauge", "Resident memory size in bytes.");
        (void)fprintf(out, "process_resident_memory_bytes %" PRIu64 "\n", usage.resident_bytes);
        put_header(out, "process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes.");
        (void)fprintf(out, "process_virtual_memory_bytes %" PRIu64 "\n", usage.virtual_bytes);
    }
    uint64_t open_fds = 0;
    uint64_t max_fds = 0;
    if (process_fds_read(&open_fds, &max_fds) == 0) {
        put_header(out, "process_open_fds", "gauge", "Open file descriptors.");
        (void)fprintf(out, "process_open_fds %" PRIu64 "\n", open_fds);
        put_header(out, "process_max_fds", "gauge", "Largest number of open file descriptors.");
        (void)fprintf(out, "process_max_fds %" PRIu64 "\n", max_fds);
    }
}

int metrics_render(struct metrics *metrics, char **ret, size_t *length, struct error *err)
{
    auto_free char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL)
        return error_set_errno(err, REASON_RESOURCE_LIMIT, errno, "cannot render the metrics");
    put_header(out, "chan_build_info", "gauge", "The version that runs; always 1.");
    (void)fputs("chan_build_info{", out);
    put_label(out, "version", strlen("version"), metrics->version);
    (void)fputs("} 1\n", out);
    for (int i = 0; i < METRIC_COUNT; i++)
        put_metric(out, metrics, i);
    put_process(out, metrics);
    bool failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed)
        return error_set_errno(err, REASON_RESOURCE_LIMIT, ENOMEM, "cannot render the metrics");
    *ret = take_pointer(text);
    *length = size;
    return 0;
}
