/* Access to a packed ring. Each word of the guest's memory is read once; what comes of it is checked before
 * it is used. */
#ifndef CHAN_DATAPLANE_VIRTQUEUE_PACKED_H
#define CHAN_DATAPLANE_VIRTQUEUE_PACKED_H

#include "dataplane/virtqueue/queue.h"

enum { PACKED_AVAILABLE = 1 << VRING_PACKED_DESC_F_AVAIL, PACKED_USED = 1 << VRING_PACKED_DESC_F_USED };

/* A descriptor's second word. */
static always_inline uint32_t packed_length(uint64_t word)
{
    return (uint32_t)word;
}

static always_inline uint16_t packed_id(uint64_t word)
{
    return (uint16_t)(word >> 32);
}

static always_inline uint16_t packed_flags(uint64_t word)
{
    return (uint16_t)(word >> 48);
}

/* The second word of a slot, before anything else of its chain. */
static always_inline uint64_t packed_word(const struct virtqueue *queue, uint16_t slot)
{
    return __atomic_load_n(&virtqueue_descriptor(queue, slot)[1], __ATOMIC_ACQUIRE);
}

static always_inline bool packed_is_available(uint64_t word, bool wrap)
{
    const uint16_t expected = wrap ? PACKED_AVAILABLE : PACKED_USED;
    return (packed_flags(word) & (PACKED_AVAILABLE | PACKED_USED)) == expected;
}

/* slots: at most the queue's size. */
static always_inline void packed_advance(const struct virtqueue *queue, struct ring_at *at, unsigned slots)
{
    const unsigned position = at->position + slots;
    const bool over = position >= queue->size;
    at->position = (uint16_t)(over ? position - queue->size : position);
    at->wrap ^= over;
}

/* As split_look. */
static always_inline unsigned packed_look(struct virtqueue *queue, struct ring_at from, unsigned count,
                                          const bool writable, struct ring_chain *chains, bool *end)
{
    struct guest_region region = virtqueue_region(queue);
    const uint16_t wanted_flags = writable ? VRING_DESC_F_WRITE : 0;
    unsigned found = 0;
    *end = false;
    for (; found < count; found++) {
        struct ring_chain *chain = &chains[found];
        const uint64_t word = packed_word(queue, from.position);
        if (!packed_is_available(word, from.wrap)) {
            *end = true;
            break;
        }
        const uint16_t flags =
            packed_flags(word) & (VRING_DESC_F_NEXT | VRING_DESC_F_INDIRECT | VRING_DESC_F_WRITE);
        if (flags != wanted_flags)
            break;
        const uint64_t address =
            __atomic_load_n(&virtqueue_descriptor(queue, from.position)[0], __ATOMIC_RELAXED);
        const uint32_t length = packed_length(word);
        uint8_t *host = virtqueue_translate(queue, &region, address, length);
        if (unlikely(host == NULL))
            break;
        *chain =
            (struct ring_chain){.host = host, .address = address, .length = length, .id = packed_id(word)};
        prefetch_buffer(host, writable);
        packed_advance(queue, &from, 1);
    }
    return found;
}

/* Writes the used descriptor of `at`. The first one since the last publishing is held back: the driver looks
 * at them in their order, so it sees none before packed_publish. */
static always_inline void packed_use(struct virtqueue *queue, struct ring_at at, uint16_t id, uint32_t length)
{
    const unsigned flags =
        (at.wrap ? PACKED_AVAILABLE | PACKED_USED : 0U) | (length > 0 ? VRING_DESC_F_WRITE : 0U);
    const uint64_t word = length | (uint64_t)id << 32 | (uint64_t)flags << 48;
    if (likely(queue->holding)) {
        __atomic_store_n(&virtqueue_descriptor(queue, at.position)[1], word, __ATOMIC_RELAXED);
    } else {
        queue->holding = true;
        queue->held_slot = at.position;
        queue->held = word;
    }
}

static always_inline void packed_publish(struct virtqueue *queue)
{
    if (!queue->holding)
        return;
    __atomic_store_n(&virtqueue_descriptor(queue, queue->held_slot)[1], queue->held, __ATOMIC_RELEASE);
    queue->holding = false;
    const unsigned slots = queue->position > queue->held_slot
                               ? 0U + queue->position - queue->held_slot
                               : queue->position + queue->size - queue->held_slot;
    queue->unsignalled += slots;
    if (unlikely(queue->log != NULL))
        virtqueue_log_used(queue, queue->held_slot, slots);
}

#endif
