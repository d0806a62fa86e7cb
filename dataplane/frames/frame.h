/* What moves through a link: a burst of frames that lie in the sender's memory. */
#ifndef CHAN_DATAPLANE_FRAMES_FRAME_H
#define CHAN_DATAPLANE_FRAMES_FRAME_H

#include <linux/virtio_net.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

enum {
    BURST_FRAMES = 64,
    FRAME_SEGMENTS_MAX = 1024, /* pieces of one frame; a longer chain is a fault of its ring */
    BURST_SEGMENTS = FRAME_SEGMENTS_MAX + 1024,
    FRAME_LENGTH_MAX = 65536 + 64, /* 64 KiB of IP packet behind an Ethernet header with tags */
    FRAME_LENGTH_MIN = 14          /* an Ethernet header */
};

_Static_assert(sizeof(struct virtio_net_hdr_v1) == 12, "the header on the wire");
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "virtio 1.0 structures are little-endian; they are used in place here"
#endif

/* One frame. Its bytes are segments[first .. first + segment_count) of the burst, in the sender's memory:
 * they may change at any time while they are read. The header was read once and is this copy. */
struct frame {
    struct virtio_net_hdr_v1 header; /* as the sender wrote it; num_buffers means nothing */
    uint32_t length;                 /* bytes, without the header */
    uint32_t first;
    uint16_t segment_count;
    bool malformed; /* nothing to deliver: to be counted and given back; length and segment_count are 0 */
};

struct burst {
    unsigned count;
    unsigned segment_count;
    struct frame frames[BURST_FRAMES];
    struct iovec segments[BURST_SEGMENTS];
};

#endif
