/* Checksum and segmentation offloads, done in software for a receiver that has not acked them. Pure functions
 * over a frame's segments: they know neither queues nor guests. What they read may change while they read it
 * (it is a guest's memory), so headers are read once, into a copy, checked, and used from the copy; a payload
 * that changes makes a wrong checksum, nothing else. Nothing here allocates, and payload is never copied.
 *
 * `segments` are everywhere the frame's own: burst->segments + frame->first, frame->segment_count of them.
 * They and what they point to must outlive the outputs that were made of them.
 */
#ifndef CHAN_DATAPLANE_OFFLOAD_OFFLOAD_H
#define CHAN_DATAPLANE_OFFLOAD_OFFLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "dataplane/frames/frame.h"

#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5 /* USO; headers before Linux 6.2 lack it */
#endif

enum offload_plan {
    OFFLOAD_PASS,     /* as it is, with the header from offload_passed_header */
    OFFLOAD_CHECKSUM, /* complete the checksum */
    OFFLOAD_SEGMENT,  /* cut it into segments with complete checksums */
    OFFLOAD_MALFORMED /* the header lies (range of the checksum, gso_size 0, unknown gso_type, ...) */
};

/* What is to be done with a frame for a receiver with these acked virtio-net features. By the virtio header
 * alone, so that it is cheap: one branch for a frame with an all-zero header.
 *
 * A frame with GSO passes whole where the receiver has acked GUEST_CSUM, the feature of its type (for USO
 * both, GUEST_USO4 and GUEST_USO6: the header does not tell which), and GUEST_ECN if ECN is set. One without
 * NEEDS_CSUM, which the specification does not allow, is segmented. hdr_len is a hint that nothing relies on,
 * but one that is longer than its frame is a lie. */
enum offload_plan offload_plan(const struct frame *frame, uint64_t receiver_features);

/* The header to write for a frame that is passed: NEEDS_CSUM and GSO fields kept, DATA_VALID kept only with
 * GUEST_CSUM, unknown flags cleared, fields without a meaning zero, num_buffers 1. */
void offload_passed_header(const struct frame *frame, uint64_t receiver_features,
                           struct virtio_net_hdr_v1 *header);

enum {
    OFFLOAD_HEADERS_MAX = 2048, /* Ethernet, tags, IP with options or extensions, TCP */
    OFFLOAD_OUTPUT_SEGMENTS = FRAME_SEGMENTS_MAX + 4,
    /* A frame that would become more is malformed. Linux accepts no MSS below 48, with which 64 KiB are 1366
     * segments; a gso_size of 1 would make its receiver's worker busy with 65,000 of them. */
    OFFLOAD_SEGMENTS_MAX = 2048
};

/* A frame made in software: its bytes are pieces of the source's memory and of this structure's own `bytes`;
 * its virtio header is all zeros but num_buffers 1. Not to be moved: it points into itself. */
struct offload_output {
    uint32_t length;
    unsigned segment_count;
    struct iovec segments[OFFLOAD_OUTPUT_SEGMENTS];
    uint8_t bytes[OFFLOAD_HEADERS_MAX];
};

/* The frame with its checksum at csum_start + csum_offset completed: by position, whatever the protocol (a
 * checksum of 0 is written as 0xffff where csum_offset is that of UDP). The plan was OFFLOAD_CHECKSUM.
 * False: malformed. */
bool offload_complete_checksum(const struct frame *frame, const struct iovec *segments,
                               struct offload_output *output);

/* A place in the source's memory. */
struct offload_cursor {
    const struct iovec *segments;
    unsigned count;  /* of them that are left, the current one included */
    size_t consumed; /* bytes of the current one */
};

/* Cuts a frame of TCP over IPv4 or IPv6 (with ECN), UDP (USO: datagrams of gso_size; UFO: IP fragments),
 * behind VLAN tags, IPv4 options and IPv6 extension headers, at its gso_size. Zeroed once by its owner, then
 * used for frame after frame, by one thread. */
struct segmenter {
    uint32_t count;               /* segments that there will be, 1 to OFFLOAD_SEGMENTS_MAX */
    uint32_t header_length;       /* what each of them begins with */
    uint32_t payload_per_segment; /* behind it; the last one may have less */

    /* The rest is the segmenter's own. */
    uint32_t index;          /* of the next segment */
    uint32_t payload_length; /* of all segments */
    uint32_t copied_length;  /* bytes of headers[]; behind header_length: the beginning of the payload */
    uint32_t network_start, transport_start;
    uint32_t tcp_sequence;
    uint32_t fragment_id;  /* of IPv6; goes on from frame to frame */
    uint64_t pseudo_sum;   /* of the pseudo header without the length */
    uint16_t ip_id;        /* of IPv4 */
    uint8_t transport;     /* IPPROTO_TCP or IPPROTO_UDP */
    bool ipv6, fragmented; /* fragmented: UFO */
    bool needs_checksum;
    struct offload_cursor payload;        /* that comes next */
    uint8_t headers[OFFLOAD_HEADERS_MAX]; /* read once */
};

/* Reads and checks the headers. False: malformed, nothing to deliver. The plan was OFFLOAD_SEGMENT. */
bool segmenter_start(struct segmenter *segmenter, const struct frame *frame, const struct iovec *segments);
/* The next segment; false after the last one. */
bool segmenter_next(struct segmenter *segmenter, struct offload_output *output);

/* The Internet checksum's ones' complement sum of 16-bit words as they lie in memory, not folded. `odd` is
 * whether the bytes start at an odd offset of what is summed. Takes bytes of any alignment, up to 4 GiB. */
uint64_t checksum_add(uint64_t sum, const void *bytes, size_t length, bool odd);
/* Folded, not inverted; to be stored as it is, without a change of the byte order. */
uint16_t checksum_fold(uint64_t sum);

#endif
