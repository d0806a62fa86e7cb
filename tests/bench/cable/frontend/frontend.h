/* A vhost-user front-end and the driver of one pair of queues in one: what a VMM and its guest are together,
 * as lean as they come, so that what is measured is the back-end. One thread. */
#ifndef CHAN_BENCH_FRONTEND_FRONTEND_H
#define CHAN_BENCH_FRONTEND_FRONTEND_H

#include "tests/bench/cable/frontend/connection.h"

/* How the buffers of a ring look. A chain is `stride` bytes of the guest's memory, in pieces one behind the
 * other: of the lengths that `cuts` names (up to the first 0), the last one takes the rest. */
struct buffers {
    uint32_t length; /* of a chain; frontend_describe can change it for one chain */
    uint32_t cuts[RING_PIECES_MAX];
};

struct frontend_settings {
    const char *path;
    uint64_t features;
    unsigned queue_size;
    struct buffers receive, transmit;
    bool indirect; /* transmit chains are indirect tables, and receive chains of several pieces */
    bool huge_pages;
};

struct frontend {
    struct guest guest;
    struct connection connection;
    struct ring receive, transmit;
    uint64_t features;
    size_t receive_at, transmit_at; /* the first chain's bytes, in the guest's memory */
    size_t receive_stride, transmit_stride;
};

/* Connects and starts both rings, with all receive buffers posted. Every transmit chain is described, and its
 * memory is zeroed: a plain header and a frame of zeros. */
int frontend_open(struct frontend *frontend, const struct frontend_settings *settings, struct error *err);
void frontend_close(struct frontend *frontend);

/* Describes a transmit chain again: `length` bytes cut by `cuts`. The device must not have it. */
void frontend_describe(struct frontend *frontend, uint16_t chain, uint32_t length, const uint32_t *cuts);

static inline uint8_t *frontend_received(const struct frontend *frontend, uint16_t chain)
{
    return frontend->guest.memory + frontend->receive_at + chain * frontend->receive_stride;
}

static inline uint8_t *frontend_sent(const struct frontend *frontend, uint16_t chain)
{
    return frontend->guest.memory + frontend->transmit_at + chain * frontend->transmit_stride;
}

#endif
