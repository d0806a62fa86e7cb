/* Metrics: one table (metrics.def), counted with atomics from any thread, rendered as Prometheus text. */
#ifndef CHAN_DAEMON_METRICS_H
#define CHAN_DAEMON_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct metrics;

enum metric {
#define COUNTER(name, ...)         METRIC_##name,
#define GAUGE(name, ...)           METRIC_##name,
#define STATE_GAUGE(name, ...)     METRIC_##name,
#define LABELED_COUNTER(name, ...) METRIC_##name,
#define HISTOGRAM(name, ...)       METRIC_##name,
#define SAMPLES(name, ...)         METRIC_##name,
#include "daemon/metrics.def"
#undef SAMPLES
#undef COUNTER
#undef GAUGE
#undef STATE_GAUGE
#undef LABELED_COUNTER
#undef HISTOGRAM
    METRIC_COUNT
};

int metrics_new(const char *version, struct metrics **ret, struct error *err);
void metrics_free(struct metrics *metrics);

/* All of these take NULL metrics and any thread. */
void metrics_add(struct metrics *metrics, enum metric counter, uint64_t amount);
void metrics_set(struct metrics *metrics, enum metric gauge, uint64_t value);

/* Labels must be static strings from a bounded set (operation words, state words); at most 64 values of the
 * first label, 64 of the code. */
void metrics_count_request(struct metrics *metrics, const char *operation, int http_status,
                           int64_t duration_ns);
void metrics_observe(struct metrics *metrics, enum metric histogram, int64_t duration_ns);
void metrics_set_state(struct metrics *metrics, enum metric state_gauge, const char *state, uint64_t value);

/* A sample of a family whose labels are not known beforehand. */
struct metric_sample {
    char first[136];    /* value of the first label */
    const char *second; /* of the second one, a static string; NULL where there is none */
    uint64_t value;
};
/* Replaces the samples of such a family. Of more than METRIC_SAMPLES_MAX, or without memory, the rest is left
 * out. */
enum { METRIC_SAMPLES_MAX = 1024 };
void metrics_set_samples(struct metrics *metrics, enum metric family, const struct metric_sample *samples,
                         size_t count);

/* The whole exposition (text format 0.0.4), with chan_build_info and the process_* metrics. *ret is
 * malloc'ed. */
int metrics_render(struct metrics *metrics, char **ret, size_t *length, struct error *err);

#endif
