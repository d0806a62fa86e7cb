/* The statistics memory of chan-dataplane, which it hands out by descriptor and others map read-only: a
 * header, then one slot a link. Each counter has one writer and only rises; readers never disturb it. A slot
 * is of the link whose id it holds; when a link is deleted its id is cleared first, then the slot may be used
 * anew, so a reader compares the id before and after it has read the counters.
 */
#ifndef CHAN_API_PROTO_STATISTICS_H
#define CHAN_API_PROTO_STATISTICS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define STATISTICS_MAGIC UINT64_C(0x315441545341e4c3)

enum { STATISTICS_VERSION = 1, STATISTICS_ID_SIZE = 136 };

/* Why a frame was not delivered.
 * DROP(enum suffix, word, text) */
#define STATISTICS_DROPS(DROP)                                                                               \
    DROP(NO_RECEIVER, "no_receiver", "nobody is connected to the other end, or it is not running")           \
    DROP(RECEIVER_FULL, "receiver_full", "the receiver gave no buffers for too long")                        \
    DROP(TOO_LARGE, "too_large", "the frame does not fit into the receiver's buffers")                       \
    DROP(MALFORMED, "malformed", "the frame or its header is not valid")                                     \
    DROP(DISABLED, "disabled", "the sender's ring is disabled")

enum statistics_drop {
#define DROP(name, word, text) STATISTICS_DROP_##name,
    STATISTICS_DROPS(DROP)
#undef DROP
        STATISTICS_DROP_COUNT
};

/* One direction: what the end of this index sent towards the other one. One worker writes it. */
struct statistics_direction {
    _Atomic uint64_t frames; /* delivered, as the sender counts: a segmented frame is one */
    _Atomic uint64_t bytes;  /* of these, without virtio-net headers */
    _Atomic uint64_t dropped[STATISTICS_DROP_COUNT];
    _Atomic uint64_t checksummed; /* frames whose checksum was completed in software */
    _Atomic uint64_t segmented;   /* frames that were segmented in software */
    _Atomic uint64_t segments;    /* made of them */
    _Atomic uint64_t interrupts;  /* notifications sent to the receiving end */
    _Atomic uint64_t stalls;      /* times that the receiver was out of buffers */
    _Atomic uint64_t reserved[2];
} __attribute__((aligned(128)));

struct statistics_slot {
    char id[STATISTICS_ID_SIZE]; /* zero-terminated; empty: the slot is free */
    _Atomic uint64_t sleeps;     /* times that the link went from busy polling to notifications */
    _Atomic uint64_t wakeups;
    uint8_t reserved[104];
    struct statistics_direction directions[2];
} __attribute__((aligned(128)));

struct statistics_header {
    uint64_t magic;
    uint32_t version;
    uint32_t slot_size;
    uint32_t slot_count;
    uint32_t slots_offset;
    uint8_t reserved[4072];
};

_Static_assert(sizeof(struct statistics_direction) == 128, "one direction is two lines");
_Static_assert(sizeof(struct statistics_slot) == 512, "slots do not share lines");
_Static_assert(sizeof(struct statistics_header) == 4096, "slots start on a page");

/* For the one writer of a counter: no locked instruction is needed. */
static inline void statistics_add(_Atomic uint64_t *counter, uint64_t value)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + value,
                          memory_order_relaxed);
}

#endif
