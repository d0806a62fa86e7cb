/* The driver's side of a virtqueue, split or packed, as lean as it can be: a chain is described once, and
 * from then on handed over again and again under the same number.
 *
 * Chains are numbered from 0 to ring.chains - 1. One thread. Nothing here doubts the device. */
#ifndef CHAN_BENCH_FRONTEND_RING_H
#define CHAN_BENCH_FRONTEND_RING_H

#include <linux/virtio_ring.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "tests/bench/cable/frontend/guest.h"

enum { RING_SIZE_MAX = 32768, RING_PIECES_MAX = 64 };

struct ring_piece {
    uint64_t address; /* the guest's */
    uint32_t length;
};

struct ring_shape {
    unsigned size;
    unsigned pieces; /* of one chain, at most */
    bool packed, indirect, in_order, event_idx;
    bool device_writes;
};

struct ring {
    struct ring_shape shape;
    uint16_t chains;
    uint16_t available, used; /* split: positions that run freely; packed: slots */
    uint16_t kicked;          /* split: `available` at the last kick */
    uint16_t since_kick;      /* packed: slots filled since */
    bool available_wrap, used_wrap;
    unsigned outstanding; /* chains that the device has */

    struct vring_desc *descriptors; /* split */
    struct vring_avail *driver;
    struct vring_used *device;
    struct vring_packed_desc *slots; /* packed */
    struct vring_packed_desc_event *driver_event, *device_event;
    size_t descriptors_at, driver_at, device_at, tables_at; /* offsets in the guest's memory */

    struct vring_packed_desc *described; /* packed: of chain i, from i * pieces on */
    uint16_t *described_count;           /* by chain */
    uint16_t *order;                     /* IN_ORDER: the chains that the device has, a ring of `size` */
    uint16_t order_head, order_tail;
    uint16_t batch_end; /* packed, IN_ORDER: the last chain of a batch that was begun */
    bool in_batch;
    uint16_t first_flags, first_slot; /* packed: published last */
    bool first_pending;

    int kick_fd, call_fd;
    uint64_t kicks;
};

int ring_open(struct ring *ring, struct guest *guest, const struct ring_shape *shape, struct error *err);
void ring_close(struct ring *ring);

/* Says what chain `chain` consists of, while the device does not have it. */
void ring_describe(struct ring *ring, struct guest *guest, unsigned chain, const struct ring_piece *pieces,
                   unsigned count);

/* Writes to the kick descriptor if the device wants to be told about what was published. */
void ring_kick(struct ring *ring);

enum { RING_LENGTH_UNKNOWN = -1 };

/* ---- the hot path ---- */

static inline void ring_remember(struct ring *ring, uint16_t chain)
{
    ring->outstanding++;
    if (ring->shape.in_order)
        ring->order[ring->order_tail++ & (ring->shape.size - 1)] = chain;
}

static inline uint16_t ring_packed_flags(bool wrap)
{
    return (uint16_t)(wrap ? 1U << VRING_PACKED_DESC_F_AVAIL : 1U << VRING_PACKED_DESC_F_USED);
}

static inline void ring_give_packed(struct ring *ring, uint16_t chain)
{
    const struct vring_packed_desc *from = &ring->described[(size_t)chain * ring->shape.pieces];
    for (uint16_t i = 0; i < ring->described_count[chain]; i++) {
        struct vring_packed_desc *to = &ring->slots[ring->available];
        const uint16_t flags = (uint16_t)(from[i].flags | ring_packed_flags(ring->available_wrap));
        to->addr = from[i].addr;
        to->len = from[i].len;
        to->id = chain;
        if (!ring->first_pending) {
            ring->first_pending = true;
            ring->first_slot = ring->available;
            ring->first_flags = flags;
        } else {
            to->flags = flags;
        }
        if (++ring->available == ring->shape.size) {
            ring->available = 0;
            ring->available_wrap = !ring->available_wrap;
        }
        ring->since_kick++;
    }
}

/* Hands a described chain over; the device sees it after ring_publish. */
static inline void ring_give(struct ring *ring, uint16_t chain)
{
    ring_remember(ring, chain);
    if (ring->shape.packed) {
        ring_give_packed(ring, chain);
        return;
    }
    const unsigned step = ring->shape.indirect ? 1 : ring->shape.pieces;
    ring->driver->ring[ring->available++ & (ring->shape.size - 1)] = (uint16_t)(chain * step);
}

static inline void ring_publish(struct ring *ring)
{
    if (!ring->shape.packed) {
        __atomic_store_n(&ring->driver->idx, ring->available, __ATOMIC_RELEASE);
    } else if (ring->first_pending) {
        __atomic_store_n(&ring->slots[ring->first_slot].flags, ring->first_flags, __ATOMIC_RELEASE);
        ring->first_pending = false;
    }
}

static inline bool ring_take_split(struct ring *ring, uint16_t *chain, int64_t *length)
{
    if (ring->used == __atomic_load_n(&ring->device->idx, __ATOMIC_ACQUIRE))
        return false;
    const struct vring_used_elem *element = &ring->device->ring[ring->used++ & (ring->shape.size - 1)];
    const unsigned step = ring->shape.indirect ? 1 : ring->shape.pieces;
    const uint16_t named = (uint16_t)(element->id / step);
    *chain = ring->shape.in_order ? ring->order[ring->order_head++ & (ring->shape.size - 1)] : named;
    *length = *chain == named ? (int64_t)element->len : RING_LENGTH_UNKNOWN;
    return true;
}

static inline bool ring_is_used(const struct ring *ring)
{
    const uint16_t flags = __atomic_load_n(&ring->slots[ring->used].flags, __ATOMIC_ACQUIRE);
    const bool available = (flags & 1U << VRING_PACKED_DESC_F_AVAIL) != 0;
    const bool used = (flags & 1U << VRING_PACKED_DESC_F_USED) != 0;
    return available == ring->used_wrap && used == ring->used_wrap;
}

static inline bool ring_take_packed(struct ring *ring, uint16_t *chain, int64_t *length)
{
    if (!ring->in_batch) {
        if (!ring_is_used(ring))
            return false;
        ring->batch_end = ring->slots[ring->used].id;
    }
    *chain =
        ring->shape.in_order ? ring->order[ring->order_head++ & (ring->shape.size - 1)] : ring->batch_end;
    *length = ring->in_batch || *chain != ring->batch_end ? RING_LENGTH_UNKNOWN
                                                          : (int64_t)ring->slots[ring->used].len;
    ring->in_batch = *chain != ring->batch_end;
    unsigned next = ring->used + (unsigned)ring->described_count[*chain];
    if (next >= ring->shape.size) {
        next -= ring->shape.size;
        ring->used_wrap = !ring->used_wrap;
    }
    ring->used = (uint16_t)next;
    return true;
}

/* The next chain that the device has given back. With IN_ORDER the length may be RING_LENGTH_UNKNOWN: a
 * device may give back several at once. */
static inline bool ring_take(struct ring *ring, uint16_t *chain, int64_t *length)
{
    const bool taken =
        ring->shape.packed ? ring_take_packed(ring, chain, length) : ring_take_split(ring, chain, length);
    ring->outstanding -= taken;
    return taken;
}

#endif
