/* chanctl link stats: what each end has sent, and how fast. */
#ifndef CHAN_CLI_LINK_STATS_H
#define CHAN_CLI_LINK_STATS_H

#include <jansson.h>
#include <stdbool.h>

#include "cli/command.h"

enum { LINK_STATS_ENDS = 2 };

/* Counters of an end, of which rates are made. */
struct link_sample {
    int64_t frames, bytes, dropped;
};

/* What is remembered from one look to the next. */
struct link_stats {
    bool watching;
    bool has_before;
    int64_t before_ns; /* monotonic */
    struct link_sample before[LINK_STATS_ENDS];
};

/* Prints a link's counters in the context's form, with rates since the look before if there was one. now_ns:
 * when the link was read, on the monotonic clock. Returns an exit code. */
int link_stats_output(struct context *context, const json_t *link, int64_t now_ns, struct link_stats *stats);

#endif
