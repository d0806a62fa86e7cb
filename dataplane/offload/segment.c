/* Cutting a frame into segments: their sizes, and the headers of each. */
#include <netinet/in.h>
#include <string.h>

#include "dataplane/offload/internal.h"

enum {
    IPV4_DONT_FRAGMENT = 0x4000, /* in the field with the fragment's offset */
    IPV4_MORE_FRAGMENTS = 0x2000,
    IPV6_MORE_FRAGMENTS = 1,
    TCP_FLAGS = 13, /* offset of the field */
    TCP_FIN = 0x01,
    TCP_PSH = 0x08,
    TCP_CWR = 0x80
};

/* What of the payload a segment has. */
struct part {
    uint32_t offset, length;
    bool first, last;
};

/* ---- sizes ---- */

/* The IP length that a packet with so much payload would have in its header. */
static uint32_t ip_length(const struct segmenter *segmenter, uint32_t payload)
{
    const uint32_t not_counted = segmenter->ipv6 ? IPV6_HEADER_LENGTH : 0;
    return segmenter->header_length + payload - segmenter->network_start - not_counted;
}

/* What fragments make when they are put together again. */
static uint32_t datagram_length(const struct segmenter *segmenter)
{
    const uint32_t put_in = segmenter->ipv6 ? IPV6_FRAGMENT_HEADER_LENGTH : 0;
    return ip_length(segmenter, segmenter->payload_length) - put_in;
}

static bool set_sizes(struct segmenter *segmenter, uint32_t gso_size)
{
    const uint32_t most = segmenter->fragmented ? gso_size - gso_size % FRAGMENT_UNIT : gso_size;
    if (most == 0)
        return false;
    if (segmenter->fragmented && datagram_length(segmenter) > IP_LENGTH_MAX)
        return false;
    const uint32_t payload = segmenter->payload_length;
    segmenter->payload_per_segment = payload < most ? payload : most;
    segmenter->count = payload > most ? (payload + most - 1) / most : 1;
    segmenter->index = 0;
    return segmenter->count <= OFFLOAD_SEGMENTS_MAX &&
           ip_length(segmenter, segmenter->payload_per_segment) <= IP_LENGTH_MAX;
}

bool segmenter_start(struct segmenter *segmenter, const struct frame *frame, const struct iovec *segments)
{
    return segmenter_read_headers(segmenter, frame, segments) && set_sizes(segmenter, frame->header.gso_size);
}

static struct part next_part(const struct segmenter *segmenter)
{
    const uint32_t offset = segmenter->index * segmenter->payload_per_segment;
    const bool last = segmenter->index + 1 == segmenter->count;
    return (struct part){.offset = offset,
                         .length = last ? segmenter->payload_length - offset : segmenter->payload_per_segment,
                         .first = segmenter->index == 0,
                         .last = last};
}

/* ---- headers: `bytes` are the output's own ---- */

static void write_ipv4(const struct segmenter *segmenter, const struct part *part, uint8_t *bytes)
{
    uint8_t *header = bytes + segmenter->network_start;
    const uint32_t length = (header[0] & 0xfu) * 4;
    put_be16(header + 2, ip_length(segmenter, part->length));
    if (segmenter->fragmented)
        put_be16(header + 6, part->offset / FRAGMENT_UNIT | (part->last ? 0 : IPV4_MORE_FRAGMENTS));
    else
        put_be16(header + 4, segmenter->ip_id + segmenter->index);
    memset(header + IPV4_CHECKSUM, 0, CHECKSUM_LENGTH);
    checksum_store(header + IPV4_CHECKSUM, checksum_add(0, header, length, false), false);
}

static void write_ipv6(const struct segmenter *segmenter, const struct part *part, uint8_t *bytes)
{
    put_be16(bytes + segmenter->network_start + 4, ip_length(segmenter, part->length));
    if (segmenter->fragmented) {
        uint8_t *header = bytes + segmenter->header_length - IPV6_FRAGMENT_HEADER_LENGTH;
        /* Offsets are multiples of FRAGMENT_UNIT, which leaves the lower bits for the flag. */
        put_be16(header + 2, part->offset | (part->last ? 0 : IPV6_MORE_FRAGMENTS));
    }
}

/* For the transport's header and the payload behind it, whose sum is given. The checksum's field counts as 0.
 */
static void write_checksum(const struct segmenter *segmenter, uint8_t *transport, uint32_t header_length,
                           uint32_t payload_length, uint64_t payload_sum)
{
    const bool udp = segmenter->transport == IPPROTO_UDP;
    uint8_t *checksum = transport + (udp ? UDP_CHECKSUM : TCP_CHECKSUM);
    memset(checksum, 0, CHECKSUM_LENGTH);
    const uint64_t length = htons((uint16_t)(header_length + payload_length));
    const uint64_t sum = segmenter->pseudo_sum + length + payload_sum;
    checksum_store(checksum, checksum_add(sum, transport, header_length, false), udp);
}

static void write_transport(const struct segmenter *segmenter, const struct part *part, uint8_t *bytes,
                            uint64_t payload_sum)
{
    uint8_t *header = bytes + segmenter->transport_start;
    const uint32_t length = segmenter->header_length - segmenter->transport_start;
    if (segmenter->transport == IPPROTO_TCP) {
        put_be32(header + 4, segmenter->tcp_sequence + part->offset);
        if (!part->first)
            header[TCP_FLAGS] &= (uint8_t)~TCP_CWR;
        if (!part->last)
            header[TCP_FLAGS] &= (uint8_t) ~(TCP_FIN | TCP_PSH);
    } else {
        put_be16(header + 4, UDP_HEADER_LENGTH + part->length);
    }
    write_checksum(segmenter, header, length, part->length, payload_sum);
}

/* ---- segments ---- */

/* The checksum of a datagram that will be fragmented, which covers all of it. */
static bool complete_datagram(struct segmenter *segmenter)
{
    const uint32_t payload_start = segmenter->transport_start + UDP_HEADER_LENGTH;
    const uint32_t length = segmenter->header_length + segmenter->payload_length - payload_start;
    struct offload_cursor cursor = segmenter->payload;
    struct running_sum sum = {.sum = 0};
    if (!cursor_pass(&cursor, length, NULL, &sum))
        return false;
    write_checksum(segmenter, segmenter->headers + segmenter->transport_start, UDP_HEADER_LENGTH, length,
                   sum.sum);
    return true;
}

/* How many bytes of the part were copied with the headers. */
static uint32_t copied_payload(const struct segmenter *segmenter, const struct part *part)
{
    const uint32_t copied = segmenter->copied_length - segmenter->header_length;
    if (part->offset >= copied)
        return 0;
    return copied - part->offset < part->length ? copied - part->offset : part->length;
}

bool segmenter_next(struct segmenter *segmenter, struct offload_output *output)
{
    if (segmenter->index == segmenter->count)
        return false;
    if (segmenter->index == 0 && segmenter->fragmented && segmenter->needs_checksum &&
        !complete_datagram(segmenter))
        return false;
    const struct part part = next_part(segmenter);
    const uint32_t own_payload = copied_payload(segmenter, &part);
    const uint32_t header_length = segmenter->header_length;
    struct running_sum sum = {.sum = 0};

    memcpy(output->bytes, segmenter->headers, header_length);
    if (own_payload > 0)
        memcpy(output->bytes + header_length, segmenter->headers + header_length + part.offset, own_payload);
    output_clear(output);
    if (!output_append_own(output, header_length + own_payload) ||
        !cursor_pass(&segmenter->payload, part.length - own_payload, output,
                     segmenter->fragmented ? NULL : &sum))
        return false;
    if (segmenter->ipv6)
        write_ipv6(segmenter, &part, output->bytes);
    else
        write_ipv4(segmenter, &part, output->bytes);
    if (!segmenter->fragmented)
        write_transport(segmenter, &part, output->bytes, sum.sum);
    segmenter->index++;
    return true;
}
