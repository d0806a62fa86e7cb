/* What a queue holds, for the modules that access its ring inline: this one and virtio_net. */
#ifndef CHAN_DATAPLANE_VIRTQUEUE_QUEUE_H
#define CHAN_DATAPLANE_VIRTQUEUE_QUEUE_H

#include <linux/virtio_config.h>
#include <linux/virtio_ring.h>

#include "dataplane/virtqueue/virtqueue.h"

#define likely(condition)   __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)
#define always_inline       inline __attribute__((always_inline))

#define FEATURE(bit) (UINT64_C(1) << (bit))

enum { VIRTQUEUE_BURST = 64 }; /* chains that are looked at, or pulled, at a time */

/* A chain that was pulled and is to be given back. */
struct virtqueue_taken {
    uint16_t id;    /* split: the head; packed: the buffer id, which may be any number */
    uint16_t slots; /* of the ring; 1 in a split one */
};

/* What is available is used within the same call, or looked at only (pulled) until it is given back: nothing
 * is ever in flight. So one position is both where the next available chain is and where the next used one
 * goes. */
struct virtqueue {
    /* what every burst reads and writes */
    const struct guest_memory *memory; /* NULL: not started */
    uint64_t *descriptors;             /* two words each */
    union {
        struct vring_avail *available;          /* split */
        struct vring_packed_desc_event *driver; /* packed */
    };
    union {
        struct vring_used *used;
        struct vring_packed_desc_event *device;
    };
    const struct dirty_log *log;
    uint64_t features;
    uint32_t size;
    unsigned region;    /* that the last buffer was in: guest_translate's hint */
    uint16_t position;  /* split: free-running; packed: a slot */
    uint16_t seen;      /* split: the available index as it was read last */
    uint16_t published; /* split: the used index as it was written last */
    uint16_t held_slot; /* packed: the first slot used since the last publishing, which is written last */
    uint64_t held;      /* packed: what goes there */
    bool holding;       /* packed: there is something held */
    bool wrap;          /* packed: of position */
    bool packed, in_order;
    uint8_t fault;
    /* Frames wait for more buffers than those before this position. */
    bool waiting, waiting_wrap;
    uint16_t waiting_position;
    uint32_t buffer_length; /* of the receive buffer that was used last; a hint */
    uint32_t unsignalled;   /* slots used since an interrupt was considered last */
    unsigned pulled_count;
    struct virtqueue_taken pulled[VIRTQUEUE_BURST];

    /* what few bursts read */
    struct virtqueue_setup setup;
    uint64_t log_used_address;
    bool log_used;
    bool signalled; /* an interrupt was sent since the start */
    int call_fd;
};

/* A position in the ring. */
struct ring_at {
    uint16_t position;
    bool wrap;
};

/* A chain of one descriptor that lies in one piece of memory, as most do. */
struct ring_chain {
    uint8_t *host;
    uint64_t address; /* the guest's */
    uint32_t length;
    uint16_t id;
};

/* The two words of a descriptor; index is below the queue's size. */
static always_inline uint64_t *virtqueue_descriptor(const struct virtqueue *queue, uint32_t index)
{
    return queue->descriptors + 2 * (size_t)index;
}

/* The first fault stays. Always false. */
static inline bool virtqueue_set_fault(struct virtqueue *queue, enum virtqueue_fault fault)
{
    if (queue->fault == VIRTQUEUE_FINE)
        queue->fault = (uint8_t)fault;
    return false;
}

/* To read what will be needed soon, and to write it. */
static always_inline void prefetch(const void *address)
{
    __builtin_prefetch(address, 0, 3);
}

static always_inline void prefetch_write(const void *address)
{
#if defined(__x86_64__)
    /* The builtin is a mere prefetch for processors older than prefetchw, which ignore it. */
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)address));
#else
    __builtin_prefetch(address, 1, 3);
#endif
}

/* The header's line and the next one, in which a small frame ends. Beyond the buffer it does no harm. */
static always_inline void prefetch_buffer(const uint8_t *host, const bool writable)
{
    enum { LINE = 64 };
    if (writable) {
        prefetch_write(host);
        prefetch_write(host + LINE);
    } else {
        prefetch(host);
        prefetch(host + LINE);
    }
}

/* The region that the last buffer was in; a copy, for loops. */
static always_inline struct guest_region virtqueue_region(const struct virtqueue *queue)
{
    return queue->memory->regions[queue->region < queue->memory->count ? queue->region : 0];
}

/* The pointer to a buffer that lies in one piece; else NULL. *region is where the last one was. */
static always_inline uint8_t *virtqueue_translate(struct virtqueue *queue, struct guest_region *region,
                                                  uint64_t address, uint32_t length)
{
    uint8_t *host = guest_region_translate(region, address, length);
    if (unlikely(host == NULL)) {
        uint64_t contiguous = 0;
        host = guest_translate(queue->memory, &queue->region, address, length, &contiguous);
        if (host == NULL || contiguous < length)
            return NULL;
        *region = virtqueue_region(queue);
    }
    return host;
}

/* notify.c: marks `slots` entries of the used ring from `at` on in the dirty log. */
void virtqueue_log_used(const struct virtqueue *queue, uint16_t at, unsigned slots);

#endif
