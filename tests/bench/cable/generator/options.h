/* The command line of chan-bench-generator. */
#ifndef CHAN_BENCH_GENERATOR_OPTIONS_H
#define CHAN_BENCH_GENERATOR_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/bench/cable/frontend/frontend.h"

enum { CPU_ANY = 65535 };

struct options {
    const char *paths[2];
    uint32_t size;           /* of a frame, without its virtio header */
    uint32_t receive_buffer; /* with the header */
    uint32_t frames;         /* on their way at most */
    uint32_t pieces, burst, queue_size, cpu, seconds;
    bool both, packed, mergeable, in_order, event_idx, indirect, tcp, huge_pages, check, memcpy;
};

/* Exits with a message when they are wrong. */
void options_read(int argc, char **argv, struct options *options);

/* What these options mean for the front-end at paths[end]. */
void options_settings(const struct options *options, unsigned end, struct frontend_settings *settings);

#endif
