/* Access to a ring of either kind. `packed` is a constant where speed matters, so that each kind gets code of
 * its own. */
#ifndef CHAN_DATAPLANE_VIRTQUEUE_RING_H
#define CHAN_DATAPLANE_VIRTQUEUE_RING_H

#include <sys/uio.h>

#include "dataplane/virtqueue/packed.h"
#include "dataplane/virtqueue/queue.h"
#include "dataplane/virtqueue/split.h"

static always_inline struct ring_at ring_position(const struct virtqueue *queue)
{
    return (struct ring_at){.position = queue->position, .wrap = queue->wrap};
}

static always_inline void ring_set_position(struct virtqueue *queue, struct ring_at at)
{
    queue->position = at.position;
    queue->wrap = at.wrap;
}

static always_inline void ring_advance(const struct virtqueue *queue, const bool packed, struct ring_at *at,
                                       unsigned slots)
{
    if (packed)
        packed_advance(queue, at, slots);
    else
        at->position = (uint16_t)(at->position + slots);
}

static always_inline unsigned ring_look(struct virtqueue *queue, const bool packed, struct ring_at from,
                                        unsigned count, const bool writable, struct ring_chain *chains,
                                        bool *end)
{
    return packed ? packed_look(queue, from, count, writable, chains, end)
                  : split_look(queue, from.position, count, writable, chains, end);
}

/* Uses the chain at *at, and goes on to the next one. */
static always_inline void ring_use(struct virtqueue *queue, const bool packed, struct ring_at *at,
                                   uint16_t id, unsigned slots, uint32_t length)
{
    if (packed)
        packed_use(queue, *at, id, length);
    else
        split_use(queue, at->position, id, length);
    ring_advance(queue, packed, at, slots);
}

/* Shows the driver all that was used up to the queue's position. */
static always_inline void ring_publish(struct virtqueue *queue, const bool packed)
{
    if (packed)
        packed_publish(queue);
    else
        split_publish(queue);
}

/* There are buffers before `at`, but too few: kicks are wanted for what comes from there on. */
static inline void ring_wait_from(struct virtqueue *queue, struct ring_at at)
{
    queue->waiting = true;
    queue->waiting_position = at.position;
    queue->waiting_wrap = at.wrap;
}

/* Any chain: of several descriptors, with an indirect table, across regions. */
struct ring_walk {
    struct iovec *pieces;
    uint64_t *addresses; /* of the pieces, the guest's; NULL: not wanted */
    unsigned limit;      /* of pieces, and of descriptors that are looked at */

    unsigned piece_count;
    unsigned looked_at;
    uint64_t length;
    unsigned descriptors; /* of the ring */
    uint16_t id, slots;
};

/* Walks the chain at `at`; the first three members of *walk are set. False: there is none, or it violates the
 * rules, then the queue has a fault. */
bool ring_walk(struct virtqueue *queue, struct ring_at at, bool writable, struct ring_walk *walk);

/* How many chains there may be from `from` on, counted up to `wanted`: an upper bound. */
unsigned ring_count(struct virtqueue *queue, struct ring_at from, unsigned wanted);

#endif
