/* The life of a queue: its ring is found in the guest's memory, used, and let go of. */
#include "dataplane/virtqueue/virtqueue.h"

#include <stdlib.h>

#include "dataplane/virtqueue/ring.h"

enum { PACKED_WRAP = 1 << VRING_PACKED_EVENT_F_WRAP_CTR, PACKED_SLOT = PACKED_WRAP - 1 };

const char *virtqueue_fault_text(enum virtqueue_fault fault)
{
    switch (fault) {
#define FAULT(name, text)                                                                                    \
    case VIRTQUEUE_FAULT_##name:                                                                             \
        return text;
        VIRTQUEUE_FAULTS(FAULT)
#undef FAULT
    case VIRTQUEUE_FINE:
        break;
    }
    return "nothing is wrong";
}

int virtqueue_new(struct virtqueue **ret, struct error *err)
{
    struct virtqueue *queue = calloc(1, sizeof *queue);
    if (queue == NULL)
        return error_set(err, REASON_RESOURCE_LIMIT, "making a virtqueue: out of memory");
    queue->call_fd = -1;
    *ret = queue;
    return 0;
}

void virtqueue_free(struct virtqueue *queue)
{
    free(queue);
}

bool virtqueue_size_valid(uint32_t size, bool packed)
{
    return size >= 1 && size <= VIRTQUEUE_SIZE_MAX && (packed || (size & (size - 1)) == 0);
}

/* ---- where the ring lies ---- */

struct parts {
    uint8_t *descriptors, *driver, *device;
};

/* Alignment is asked of the pointer: that is what is accessed. */
static int find_part(const struct guest_memory *memory, const char *name, uint64_t address, uint64_t length,
                     uint64_t alignment, uint8_t **ret, struct error *err)
{
    uint8_t *part = guest_memory_at_user(memory, address, length);
    if (part == NULL)
        return error_set(err, REASON_INVALID_REQUEST,
                         "the ring's %s (%llu bytes at %#llx) is not within the guest's memory", name,
                         (unsigned long long)length, (unsigned long long)address);
    if ((uintptr_t)part % alignment != 0)
        return error_set(err, REASON_INVALID_REQUEST, "the ring's %s at %#llx is not aligned to %llu bytes",
                         name, (unsigned long long)address, (unsigned long long)alignment);
    *ret = part;
    return 0;
}

static int find_parts(const struct virtqueue_setup *setup, const struct guest_memory *memory,
                      struct parts *parts, struct error *err)
{
    const bool packed = (setup->features & FEATURE(VIRTIO_F_RING_PACKED)) != 0;
    const uint64_t event = (setup->features & FEATURE(VIRTIO_RING_F_EVENT_IDX)) != 0 ? sizeof(uint16_t) : 0;
    const uint64_t size = setup->size;
    const uint64_t driver = packed ? sizeof(struct vring_packed_desc_event)
                                   : sizeof(struct vring_avail) + size * sizeof(uint16_t) + event;
    const uint64_t device = packed
                                ? sizeof(struct vring_packed_desc_event)
                                : sizeof(struct vring_used) + size * sizeof(struct vring_used_elem) + event;
    if (find_part(memory, "descriptors", setup->descriptors, size * sizeof(struct vring_desc),
                  VRING_DESC_ALIGN_SIZE, &parts->descriptors, err) != 0 ||
        find_part(memory, packed ? "driver area" : "available ring", setup->driver, driver,
                  packed ? sizeof(uint32_t) : VRING_AVAIL_ALIGN_SIZE, &parts->driver, err) != 0 ||
        find_part(memory, packed ? "device area" : "used ring", setup->device, device, VRING_USED_ALIGN_SIZE,
                  &parts->device, err) != 0)
        return -1;
    return 0;
}

static void use_parts(struct virtqueue *queue, const struct parts *parts, const struct guest_memory *memory)
{
    queue->descriptors = (uint64_t *)(void *)parts->descriptors;
    if (queue->packed) {
        queue->driver = (struct vring_packed_desc_event *)(void *)parts->driver;
        queue->device = (struct vring_packed_desc_event *)(void *)parts->device;
    } else {
        queue->available = (struct vring_avail *)(void *)parts->driver;
        queue->used = (struct vring_used *)(void *)parts->device;
    }
    queue->memory = memory;
    queue->region = 0;
    queue->pulled_count = 0;
}

/* ---- start and stop ---- */

/* Chains that another back-end had taken and not given back are available again: those begin at the used
 * position. */
static int take_packed_base(struct virtqueue *queue, const struct virtqueue_setup *setup, struct error *err)
{
    const uint32_t available = setup->base & UINT16_MAX, used = setup->base >> 16;
    const uint32_t position = used != 0 ? used : available;
    if ((available & PACKED_SLOT) >= setup->size || (position & PACKED_SLOT) >= setup->size)
        return error_set(err, REASON_INVALID_REQUEST, "the ring's base %#x is beyond its %u descriptors",
                         setup->base, setup->size);
    queue->position = position & PACKED_SLOT;
    queue->wrap = (position & PACKED_WRAP) != 0;
    return 0;
}

static void take_split_base(struct virtqueue *queue)
{
    /* What the driver sees as used is right, whatever the front-end says: a base that differs is one that
     * was not kept up, and trusting it would lose buffers. */
    queue->position = __atomic_load_n(&queue->used->idx, __ATOMIC_RELAXED);
    queue->seen = queue->published = queue->position;
}

int virtqueue_start(struct virtqueue *queue, const struct virtqueue_setup *setup,
                    const struct guest_memory *memory, struct error *err)
{
    const bool packed = (setup->features & FEATURE(VIRTIO_F_RING_PACKED)) != 0;
    if (!virtqueue_size_valid(setup->size, packed))
        return error_set(err, REASON_INVALID_REQUEST, "a %s ring cannot have %u descriptors",
                         packed ? "packed" : "split", setup->size);
    struct parts parts;
    if (find_parts(setup, memory, &parts, err) != 0 || (packed && take_packed_base(queue, setup, err) != 0))
        return -1;
    queue->packed = packed;
    queue->in_order = (setup->features & FEATURE(VIRTIO_F_IN_ORDER)) != 0;
    queue->features = setup->features;
    queue->size = setup->size;
    queue->setup = *setup;
    use_parts(queue, &parts, memory);
    if (!packed)
        take_split_base(queue);
    queue->holding = queue->waiting = queue->signalled = false;
    queue->unsignalled = 0;
    queue->buffer_length = UINT32_MAX;
    queue->fault = VIRTQUEUE_FINE;
    return 0;
}

int virtqueue_remap(struct virtqueue *queue, const struct guest_memory *memory, struct error *err)
{
    if (!virtqueue_is_started(queue))
        return 0;
    struct parts parts;
    if (find_parts(&queue->setup, memory, &parts, err) != 0) {
        virtqueue_stop(queue);
        return -1;
    }
    use_parts(queue, &parts, memory);
    return 0;
}

void virtqueue_stop(struct virtqueue *queue)
{
    if (!virtqueue_is_started(queue))
        return;
    ring_publish(queue, queue->packed);
    queue->memory = NULL;
    queue->descriptors = NULL;
    queue->available = NULL;
    queue->used = NULL;
    queue->pulled_count = 0;
}

bool virtqueue_is_started(const struct virtqueue *queue)
{
    return queue->memory != NULL;
}

uint32_t virtqueue_base(const struct virtqueue *queue)
{
    if (!queue->packed)
        return queue->position;
    const uint32_t half = queue->position | (queue->wrap ? (uint32_t)PACKED_WRAP : 0);
    return half | half << 16;
}

void virtqueue_set_call(struct virtqueue *queue, int call_fd)
{
    queue->call_fd = call_fd;
}

void virtqueue_set_log(struct virtqueue *queue, const struct dirty_log *log, bool log_used,
                       uint64_t used_guest_address)
{
    queue->log = log;
    queue->log_used = log_used;
    queue->log_used_address = used_guest_address;
}

enum virtqueue_fault virtqueue_fault(const struct virtqueue *queue)
{
    return (enum virtqueue_fault)queue->fault;
}
