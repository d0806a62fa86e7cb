/* Frames from one front-end to another, as fast as the back-end takes them. */
#ifndef CHAN_BENCH_GENERATOR_TRAFFIC_H
#define CHAN_BENCH_GENERATOR_TRAFFIC_H

#include "tests/bench/cable/generator/options.h"

struct result {
    uint64_t frames, bytes; /* that arrived; without virtio headers */
    uint64_t lost;          /* only known with --check */
    uint64_t kicks;         /* of both ends */
    double seconds;
};

/* Between two front-ends that are started. With --check, bytes that differ are an error. */
int traffic_run(const struct options *options, struct frontend ends[2], struct result *result,
                struct error *err);

/* The buffers of A's transmit ring copied into those of B's receive ring, by memcpy on this CPU. */
int traffic_memcpy(const struct options *options, struct result *result, struct error *err);

#endif
