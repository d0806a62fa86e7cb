/* A virtqueue as the device sees it, split or packed (virtio 1.2, 2.7 and 2.8). Here descriptors are read,
 * once each, and checked; what leaves this module are pointers into mapped guest memory.
 *
 * A queue belongs to one worker: every function runs on its thread (within worker_run for the control
 * thread).
 */
#ifndef CHAN_DATAPLANE_VIRTQUEUE_VIRTQUEUE_H
#define CHAN_DATAPLANE_VIRTQUEUE_VIRTQUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "dataplane/memory/dirty_log.h"
#include "dataplane/memory/memory.h"

/* What a driver did that ends the queue until it is started anew.
 * FAULT(enum suffix, text) */
#define VIRTQUEUE_FAULTS(FAULT)                                                                              \
    FAULT(AVAILABLE_INDEX, "the available index moved by more than the queue's size")                        \
    FAULT(HEAD, "a descriptor index is beyond the queue")                                                    \
    FAULT(LOOP, "a descriptor chain is longer than the queue: it bites its tail")                            \
    FAULT(CHAIN_LENGTH, "a descriptor chain has too many pieces")                                            \
    FAULT(ADDRESS, "a descriptor points outside of the guest's memory")                                      \
    FAULT(INDIRECT, "an indirect table is nested, empty, of a bad length, or was not negotiated")            \
    FAULT(DIRECTION, "a descriptor may not be accessed in the direction that the queue needs")               \
    FAULT(MEMORY_LOST, "the guest's memory was truncated while it was in use")

enum virtqueue_fault {
    VIRTQUEUE_FINE,
#define FAULT(name, text) VIRTQUEUE_FAULT_##name,
    VIRTQUEUE_FAULTS(FAULT)
#undef FAULT
};
const char *virtqueue_fault_text(enum virtqueue_fault fault);

enum { VIRTQUEUE_SIZE_MAX = 32768 };

struct virtqueue_setup {
    uint32_t size;
    uint64_t features; /* acked: RING_PACKED, EVENT_IDX, INDIRECT_DESC, IN_ORDER, VERSION_1 matter here */
    uint64_t descriptors, driver, device; /* addresses in the front-end's own space */
    uint32_t base; /* as SET_VRING_BASE has it: split: available index; packed: both halves with wrap bits */
};

struct virtqueue;

/* An unstarted queue. */
int virtqueue_new(struct virtqueue **ret, struct error *err);
void virtqueue_free(struct virtqueue *queue); /* NULL is fine */

/* Is that a size that a queue can have? Split: a power of two to 32768; packed: 1 to 32768. */
bool virtqueue_size_valid(uint32_t size, bool packed);

/* Translates and checks the ring's addresses (whole ranges, alignment), takes the base (split: where
 * used->idx differs from it, used->idx is right; packed with upper half 0: the used position is the available
 * one), clears any fault. memory stays the caller's and must outlive its use here. */
int virtqueue_start(struct virtqueue *queue, const struct virtqueue_setup *setup,
                    const struct guest_memory *memory, struct error *err);
/* Another memory table, in mid-traffic. On failure the queue is stopped. */
int virtqueue_remap(struct virtqueue *queue, const struct guest_memory *memory, struct error *err);
/* Writes what is owed to the ring (used entries) and lets go of it. */
void virtqueue_stop(struct virtqueue *queue);
bool virtqueue_is_started(const struct virtqueue *queue);
/* The base to answer GET_VRING_BASE with and to start again at. Also after a stop; 0 for a queue never
 * started. */
uint32_t virtqueue_base(const struct virtqueue *queue);

/* -1: the driver polls. The queue writes to it, never reads, never closes it. */
void virtqueue_set_call(struct virtqueue *queue, int call_fd);
/* NULL: no logging. log_used: the used ring is logged too, as if it lay at that guest address. */
void virtqueue_set_log(struct virtqueue *queue, const struct dirty_log *log, bool log_used,
                       uint64_t used_guest_address);

enum virtqueue_fault virtqueue_fault(const struct virtqueue *queue);

/* Sends the interrupt that is owed for what was used since the last call, if the driver wants one. True if
 * one was sent. */
bool virtqueue_notify(struct virtqueue *queue);
/* Asks the driver to kick when it makes buffers available; true if there are some already. Those that the
 * last net_push found to be too few do not count: it waits for more. */
bool virtqueue_enable_kicks(struct virtqueue *queue);
void virtqueue_disable_kicks(struct virtqueue *queue);

#endif
