/* Checksum and segmentation offloads, done in software for a receiver that has not acked them. Pure functions
 * over a frame's segments: they know neither queues nor guests. What they read may change while they read it
 * (it is a guest's memory), so headers are read once, into a copy, checked, and used from the copy; a payload
 * that changes makes a wrong checksum, nothing else.
 */
#ifndef CHAN_DATAPLANE_OFFLOAD_OFFLOAD_H
#define CHAN_DATAPLANE_OFFLOAD_OFFLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "dataplane/frames/frame.h"

enum offload_plan {
    OFFLOAD_PASS,     /* as it is, with the header from offload_passed_header */
    OFFLOAD_CHECKSUM, /* complete the checksum */
    OFFLOAD_SEGMENT,  /* cut it into segments with complete checksums */
    OFFLOAD_MALFORMED /* the header lies (range of the checksum, gso_size 0, unknown gso_type, ...) */
};

/* What is to be done with a frame for a receiver with these acked virtio-net features. By the virtio header
 * alone, so that it is cheap: one branch for a frame with an all-zero header. */
enum offload_plan offload_plan(const struct frame *frame, uint64_t receiver_features);

/* The header to write for a frame that is passed: NEEDS_CSUM and GSO fields kept, DATA_VALID kept only with
 * GUEST_CSUM, unknown flags cleared, num_buffers 1. */
void offload_passed_header(const struct frame *frame, uint64_t receiver_features,
                           struct virtio_net_hdr_v1 *header);

enum {
    OFFLOAD_HEADERS_MAX = 256, /* Ethernet, tags, IP with options or extensions, TCP */
    OFFLOAD_OUTPUT_SEGMENTS = FRAME_SEGMENTS_MAX + 4
};

/* A frame made in software: its bytes are pieces of the source's memory and of this structure's own `bytes`;
 * its virtio header is all zeros but num_buffers 1. */
struct offload_output {
    uint32_t length;
    unsigned segment_count;
    struct iovec segments[OFFLOAD_OUTPUT_SEGMENTS];
    uint8_t bytes[OFFLOAD_HEADERS_MAX];
};

/* The frame with its checksum at csum_start + csum_offset completed: by position, whatever the protocol (a
 * UDP checksum of 0 is written as 0xffff when the protocol there is UDP). The plan was OFFLOAD_CHECKSUM.
 * False: malformed. */
bool offload_complete_checksum(const struct frame *frame, const struct iovec *segments,
                               struct offload_output *output);

/* Cuts a frame of TCP over IPv4 or IPv6 (with ECN), UDP (USO: datagrams of gso_size; UFO: IP fragments),
 * behind VLAN tags, IPv4 options and IPv6 extension headers, at its gso_size. */
struct segmenter {
    const struct frame *frame;
    const struct iovec *segments;
    uint8_t headers[OFFLOAD_HEADERS_MAX]; /* read once */
    uint32_t header_length;
    uint32_t offset; /* of the payload that comes next */
    uint32_t index;
    uint32_t count; /* segments that there will be */
    unsigned source_index;
    size_t source_offset;
    uint32_t network_start, transport_start;
    uint32_t payload_per_segment;
    uint32_t tcp_sequence;
    uint16_t ip_id;
    uint8_t kind;
};

/* Reads and checks the headers. False: malformed, nothing to deliver. The plan was OFFLOAD_SEGMENT. */
bool segmenter_start(struct segmenter *segmenter, const struct frame *frame, const struct iovec *segments);
/* The next segment; false after the last one. */
bool segmenter_next(struct segmenter *segmenter, struct offload_output *output);

/* The Internet checksum's ones' complement sum, not folded; `odd` is whether the bytes start at an odd
 * offset. */
uint64_t checksum_add(uint64_t sum, const void *bytes, size_t length, bool odd);
uint16_t checksum_fold(uint64_t sum); /* folded, not inverted */

#endif
