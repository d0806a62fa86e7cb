/* What the files of offload/ share. */
#ifndef CHAN_DATAPLANE_OFFLOAD_INTERNAL_H
#define CHAN_DATAPLANE_OFFLOAD_INTERNAL_H

#include "dataplane/offload/offload.h"

enum {
    CHECKSUM_LENGTH = 2,
    IPV4_CHECKSUM = 10, /* offsets of fields */
    TCP_CHECKSUM = 16,
    UDP_CHECKSUM = 6,
    UDP_HEADER_LENGTH = 8,
    IPV6_HEADER_LENGTH = 40,
    IPV6_FRAGMENT_HEADER_LENGTH = 8,
    FRAGMENT_UNIT = 8, /* bytes that a fragment offset counts */
    IP_LENGTH_MAX = 65535
};

static inline uint16_t get_be16(const uint8_t *place)
{
    return (uint16_t)(place[0] << 8 | place[1]);
}

static inline uint32_t get_be32(const uint8_t *place)
{
    return (uint32_t)get_be16(place) << 16 | get_be16(place + 2);
}

static inline void put_be16(uint8_t *place, uint32_t value)
{
    place[0] = (uint8_t)(value >> 8);
    place[1] = (uint8_t)value;
}

static inline void put_be32(uint8_t *place, uint32_t value)
{
    put_be16(place, value >> 16);
    put_be16(place + 2, value);
}

/* A sum that goes on over pieces of any length. */
struct running_sum {
    uint64_t sum;
    bool odd; /* whether what comes next starts at an odd offset */
};

static inline void running_sum_add(struct running_sum *sum, const void *bytes, size_t length)
{
    sum->sum = checksum_add(sum->sum, bytes, length, sum->odd);
    sum->odd ^= (length & 1) != 0;
}

/* The checksum for that sum; 0xffff instead of 0, which means the same, except that UDP reads 0 as none. */
void checksum_store(uint8_t *place, uint64_t sum, bool udp);

/* Whether the frame's checksum, which it says it needs, lies behind the Ethernet header and before the end.
 */
bool offload_checksum_lies_inside(const struct frame *frame);

/* ---- pieces.c: going through the source's memory ---- */

struct offload_cursor cursor_at_start(const struct frame *frame, const struct iovec *segments);
/* Copies the next bytes. False: the source ends before. */
bool cursor_read(struct offload_cursor *cursor, uint8_t *to, uint32_t length);
/* Goes over the next bytes, appends them to the output by reference, and adds them to the sum; output and sum
 * may be NULL. False: the source ends before, or the output has too many pieces. */
bool cursor_pass(struct offload_cursor *cursor, uint32_t length, struct offload_output *output,
                 struct running_sum *sum);

void output_clear(struct offload_output *output);
/* Appends the first `length` of the output's own bytes. */
bool output_append_own(struct offload_output *output, uint32_t length);

/* ---- segment_headers.c ---- */

/* Reads the frame's headers into the segmenter and fills in all that they tell: everything but count, index
 * and payload_per_segment. */
bool segmenter_read_headers(struct segmenter *segmenter, const struct frame *frame,
                            const struct iovec *segments);

#endif
