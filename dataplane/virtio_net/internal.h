/* What the files of virtio_net/ share. */
#ifndef CHAN_DATAPLANE_VIRTIO_NET_INTERNAL_H
#define CHAN_DATAPLANE_VIRTIO_NET_INTERNAL_H

#include "dataplane/virtio_net/virtio_net.h"
#include "dataplane/virtqueue/ring.h"

enum { LEGACY_HEADER_LENGTH = 10 }; /* without num_buffers */

static always_inline uint32_t header_length(uint64_t features)
{
    const uint64_t with_num_buffers = FEATURE(VIRTIO_F_VERSION_1) | FEATURE(VIRTIO_NET_F_MRG_RXBUF);
    return (features & with_num_buffers) != 0 ? (uint32_t)sizeof(struct virtio_net_hdr_v1)
                                              : (uint32_t)LEGACY_HEADER_LENGTH;
}

/* What one call of net_push delivered, to be added to the counters at its end. */
struct tally {
    uint64_t frames, bytes;
    uint64_t dropped[STATISTICS_DROP_COUNT];
    uint64_t checksummed, segmented, segments;
};

enum delivery {
    DELIVERED, /* or dropped: it is dealt with */
    NO_ROOM,   /* there are not enough buffers at the moment; queue->waiting is set */
    FAULTED    /* the queue is */
};

/* deliver.c: a frame of any kind, into buffers of any kind. They are used, but not published. */
enum delivery deliver(struct virtqueue *queue, const struct frame *frame, const struct iovec *segments,
                      struct tally *tally);

#endif
