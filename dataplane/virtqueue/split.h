/* Access to a split ring. Each word of the guest's memory is read once; what comes of it is checked before it
 * is used. */
#ifndef CHAN_DATAPLANE_VIRTQUEUE_SPLIT_H
#define CHAN_DATAPLANE_VIRTQUEUE_SPLIT_H

#include "dataplane/virtqueue/queue.h"

/* A descriptor's second word. */
static always_inline uint32_t split_length(uint64_t word)
{
    return (uint32_t)word;
}

static always_inline uint16_t split_flags(uint64_t word)
{
    return (uint16_t)(word >> 32);
}

static always_inline uint16_t split_next(uint64_t word)
{
    return (uint16_t)(word >> 48);
}

/* How many chains are available from `from` on. The index is read only when those known before are fewer
 * than wanted. */
static always_inline unsigned split_ready(struct virtqueue *queue, uint16_t from, unsigned wanted)
{
    const unsigned known = (uint16_t)(queue->seen - from);
    if (known >= wanted)
        return known;
    const uint16_t index = __atomic_load_n(&queue->available->idx, __ATOMIC_ACQUIRE);
    if (unlikely((uint16_t)(index - queue->position) > queue->size)) {
        (void)virtqueue_set_fault(queue, VIRTQUEUE_FAULT_AVAILABLE_INDEX);
        return 0;
    }
    /* It never goes back, whatever the driver writes: what was seen may have been looked at. */
    if ((uint16_t)(index - from) < known) {
        (void)virtqueue_set_fault(queue, VIRTQUEUE_FAULT_AVAILABLE_INDEX);
        return 0;
    }
    queue->seen = index;
    return (uint16_t)(index - from);
}

static always_inline uint16_t split_head(const struct virtqueue *queue, uint16_t at)
{
    return __atomic_load_n(&queue->available->ring[at & (queue->size - 1)], __ATOMIC_RELAXED);
}

/* The chains from `from` on, at most count (of VIRTQUEUE_BURST), as far as each is one descriptor in one
 * piece, not empty, of the direction. *end: there was nothing more, else one of another shape comes next. */
static always_inline unsigned split_look(struct virtqueue *queue, uint16_t from, unsigned count,
                                         const bool writable, struct ring_chain *chains, bool *end)
{
    struct guest_region region = virtqueue_region(queue);
    const uint32_t size = queue->size;
    const uint16_t wanted_flags = writable ? VRING_DESC_F_WRITE : 0;
    uint16_t heads[VIRTQUEUE_BURST];
    const unsigned ready = split_ready(queue, from, count);
    *end = ready < count;
    if (ready < count)
        count = ready;
    for (unsigned i = 0; i < count; i++) {
        heads[i] = split_head(queue, (uint16_t)(from + i));
        prefetch(virtqueue_descriptor(queue, heads[i] & (size - 1)));
    }
    unsigned found = 0;
    for (; found < count; found++) {
        struct ring_chain *chain = &chains[found];
        const uint16_t head = heads[found];
        if (unlikely(head >= size))
            break;
        const uint64_t *descriptor = virtqueue_descriptor(queue, head);
        const uint64_t address = __atomic_load_n(&descriptor[0], __ATOMIC_RELAXED);
        const uint64_t word = __atomic_load_n(&descriptor[1], __ATOMIC_RELAXED);
        const uint16_t flags =
            split_flags(word) & (VRING_DESC_F_NEXT | VRING_DESC_F_INDIRECT | VRING_DESC_F_WRITE);
        if (flags != wanted_flags)
            break;
        const uint32_t length = split_length(word);
        uint8_t *host = virtqueue_translate(queue, &region, address, length);
        if (unlikely(host == NULL))
            break;
        *chain = (struct ring_chain){.host = host, .address = address, .length = length, .id = head};
        prefetch_buffer(host, writable);
    }
    if (unlikely(found < count))
        *end = false;
    return found;
}

/* Writes the used element of `at`. The driver sees it after split_publish. */
static always_inline void split_use(struct virtqueue *queue, uint16_t at, uint16_t id, uint32_t length)
{
    const uint64_t element = id | (uint64_t)length << 32;
    __builtin_memcpy(&queue->used->ring[at & (queue->size - 1)], &element, sizeof element);
}

static always_inline void split_publish(struct virtqueue *queue)
{
    const uint16_t from = queue->published;
    const unsigned slots = (uint16_t)(queue->position - from);
    if (slots == 0)
        return;
    __atomic_store_n(&queue->used->idx, queue->position, __ATOMIC_RELEASE);
    queue->published = queue->position;
    queue->unsignalled += slots;
    if (unlikely(queue->log != NULL))
        virtqueue_log_used(queue, from, slots);
}

#endif
