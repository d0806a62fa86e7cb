/* Inside a channel. */
#ifndef CHAN_SRC_CHANNEL_H
#define CHAN_SRC_CHANNEL_H

#include "chan/channel.h"

#include "region.h"
#include "ring.h"
#include "session.h"

/* Counted by one thread, read by any: a relaxed load and store, no read-modify-write. */
typedef _Atomic uint64_t chan_counter;

static inline void chan_count(chan_counter *counter, uint64_t amount)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + amount,
                          memory_order_relaxed);
}

struct chan_direction_stats {
    chan_counter messages, bytes, waits, sleeps;
};

/* What the sending and the receiving thread write lies on lines of their own: sharing one doubles the
 * latency. */
struct chan_channel {
    struct chan_region *region;
    unsigned half;
    enum chan_mapping mapping;
    int spin_us;
    int64_t suspect_ns;
    uint64_t max_message;
    uint64_t seen_heartbeat; /* the peer's, and when it last changed */
    int64_t seen_ns;
    chan_counter sessions, connect_sleeps;

    struct chan_session session;

    struct {
        _Alignas(CHAN_LINE_BYTES) struct chan_producer ring;
        struct chan_direction_stats stats;
        unsigned char *bounce; /* device mappings: what chan_reserve() hands out */
        void *reserved;        /* the place in the ring */
        chan_counter batches;
    } tx;

    struct {
        _Alignas(CHAN_LINE_BYTES) struct chan_consumer ring;
        struct chan_direction_stats stats;
        unsigned char *bounce; /* device mappings: what chan_peek() hands out */
        bool bounced;          /* and whether the message is there already */
        unsigned idle_polls;
    } rx;
};

#endif
