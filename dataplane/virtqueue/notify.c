/* Notifications in both directions, and what they need to know about the ring. */
#include <unistd.h>

#include "dataplane/virtqueue/ring.h"

/* What was stored before is seen by others before what is loaded after it is read. */
static void full_barrier(void)
{
#if defined(__x86_64__)
    /* Cheaper than mfence; and ThreadSanitizer does not know the fence of C11. */
    __asm__ volatile("lock; orl $0, -4(%%rsp)" ::: "memory", "cc");
#else
    __sync_synchronize();
#endif
}

/* ---- interrupts ---- */

/* Is event one of the last `count` positions before `now`? */
static bool has_passed(uint16_t event, uint16_t now, uint32_t count)
{
    return (uint16_t)(now - event - 1) < count;
}

static bool split_wants_interrupt(const struct virtqueue *queue)
{
    if ((queue->features & FEATURE(VIRTIO_RING_F_EVENT_IDX)) == 0)
        return (__atomic_load_n(&queue->available->flags, __ATOMIC_RELAXED) & VRING_AVAIL_F_NO_INTERRUPT) ==
               0;
    const uint16_t event = __atomic_load_n(&queue->available->ring[queue->size], __ATOMIC_RELAXED);
    return has_passed(event, queue->published, queue->unsignalled);
}

static bool packed_wants_interrupt(const struct virtqueue *queue)
{
    /* Both halves at once: they belong together. */
    const uint32_t event = __atomic_load_n((const uint32_t *)(const void *)queue->driver, __ATOMIC_RELAXED);
    const uint16_t flags = (uint16_t)(event >> 16);
    if (flags == VRING_PACKED_EVENT_FLAG_DISABLE)
        return false;
    if (flags != VRING_PACKED_EVENT_FLAG_DESC || (queue->features & FEATURE(VIRTIO_RING_F_EVENT_IDX)) == 0)
        return true;
    const bool wrap = (event >> VRING_PACKED_EVENT_F_WRAP_CTR & 1) != 0;
    uint32_t slot = event & ((1U << VRING_PACKED_EVENT_F_WRAP_CTR) - 1);
    if (wrap != queue->wrap)
        slot -= queue->size; /* of the round before */
    return has_passed((uint16_t)slot, queue->position, queue->unsignalled);
}

bool virtqueue_notify(struct virtqueue *queue)
{
    if (queue->unsignalled == 0 || !virtqueue_is_started(queue))
        return false;
    bool wanted = false;
    if (queue->call_fd >= 0) {
        full_barrier(); /* the used entries, before the driver's wish is read */
        wanted = queue->packed ? packed_wants_interrupt(queue) : split_wants_interrupt(queue);
        if (!queue->signalled && (queue->features & FEATURE(VIRTIO_RING_F_EVENT_IDX)) != 0)
            wanted = true; /* the driver's event may be of an earlier start */
    }
    queue->unsignalled = 0;
    if (!wanted)
        return false;
    queue->signalled = true;
    const uint64_t one = 1;
    return write(queue->call_fd, &one, sizeof one) == (ssize_t)sizeof one;
}

/* ---- kicks ---- */

/* From where on new chains are news. */
static struct ring_at awaited(const struct virtqueue *queue)
{
    if (queue->waiting)
        return (struct ring_at){.position = queue->waiting_position, .wrap = queue->waiting_wrap};
    return ring_position(queue);
}

static void log_device_area(const struct virtqueue *queue, uint64_t offset, uint64_t length)
{
    if (queue->log != NULL && queue->log_used && !queue->packed)
        dirty_log_mark(queue->log, queue->log_used_address + offset, length);
}

static uint64_t available_event_offset(const struct virtqueue *queue)
{
    return sizeof(struct vring_used) + queue->size * sizeof(struct vring_used_elem);
}

static void split_set_kicks(const struct virtqueue *queue, bool wanted)
{
    const bool by_event = (queue->features & FEATURE(VIRTIO_RING_F_EVENT_IDX)) != 0;
    if (!by_event) {
        const uint16_t flags = wanted ? 0 : VRING_USED_F_NO_NOTIFY;
        __atomic_store_n(&queue->used->flags, flags, __ATOMIC_RELAXED);
        log_device_area(queue, 0, sizeof flags);
    } else if (wanted) {
        /* An event that lies behind asks for nothing, so there is nothing to be done to turn it off. */
        uint8_t *event = (uint8_t *)queue->used + available_event_offset(queue);
        __atomic_store_n((uint16_t *)(void *)event, awaited(queue).position, __ATOMIC_RELAXED);
        log_device_area(queue, available_event_offset(queue), sizeof(uint16_t));
    }
}

static void packed_set_kicks(const struct virtqueue *queue, bool wanted)
{
    uint16_t flags = VRING_PACKED_EVENT_FLAG_DISABLE;
    if (wanted && (queue->features & FEATURE(VIRTIO_RING_F_EVENT_IDX)) != 0) {
        const struct ring_at at = awaited(queue);
        const uint16_t event = (uint16_t)(at.position | (at.wrap ? 1U << VRING_PACKED_EVENT_F_WRAP_CTR : 0U));
        __atomic_store_n(&queue->device->off_wrap, event, __ATOMIC_RELAXED);
        flags = VRING_PACKED_EVENT_FLAG_DESC;
    } else if (wanted) {
        flags = VRING_PACKED_EVENT_FLAG_ENABLE;
    }
    __atomic_store_n(&queue->device->flags, flags, __ATOMIC_RELEASE);
}

bool virtqueue_enable_kicks(struct virtqueue *queue)
{
    if (!virtqueue_is_started(queue) || queue->fault != VIRTQUEUE_FINE)
        return false;
    if (queue->packed)
        packed_set_kicks(queue, true);
    else
        split_set_kicks(queue, true);
    full_barrier(); /* the wish, before what is available is read */
    const struct ring_at at = awaited(queue);
    if (queue->packed)
        return packed_is_available(packed_word(queue, at.position), at.wrap);
    return split_ready(queue, at.position, 1) > 0;
}

void virtqueue_disable_kicks(struct virtqueue *queue)
{
    if (!virtqueue_is_started(queue))
        return;
    if (queue->packed)
        packed_set_kicks(queue, false);
    else
        split_set_kicks(queue, false);
}

/* ---- the dirty log ---- */

void virtqueue_log_used(const struct virtqueue *queue, uint16_t at, unsigned slots)
{
    if (!queue->log_used)
        return;
    const uint64_t element =
        queue->packed ? sizeof(struct vring_packed_desc) : sizeof(struct vring_used_elem);
    const uint64_t base = queue->log_used_address + (queue->packed ? 0 : sizeof(struct vring_used));
    const unsigned first = queue->packed ? at : at & (queue->size - 1);
    const unsigned until_end = queue->size - first;
    const unsigned count = slots < until_end ? slots : until_end;
    dirty_log_mark(queue->log, base + first * element, count * element);
    dirty_log_mark(queue->log, base, (slots - count) * element);
    if (!queue->packed)
        dirty_log_mark(queue->log, queue->log_used_address, sizeof(struct vring_used));
}
