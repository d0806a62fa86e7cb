#include "tests/unit/offload/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- payload and checksums ---- */

const uint8_t *payload_of(uint32_t length)
{
    static uint8_t bytes[PACKET_MAX];
    ck_assert_uint_le(length, sizeof bytes);
    if (bytes[1] == 0) {
        uint32_t state = 12345;
        for (size_t i = 0; i < sizeof bytes; i++) {
            state = state * 1664525u + 1013904223u;
            bytes[i] = (uint8_t)(state >> 24 | (i == 1));
        }
    }
    return bytes;
}

uint16_t slow_sum(const uint8_t *bytes, size_t length, uint32_t sum)
{
    for (size_t i = 0; i < length; i++) {
        sum += i % 2 == 0 ? (uint32_t)bytes[i] << 8 : bytes[i];
        if (sum > UINT16_MAX)
            sum -= UINT16_MAX;
    }
    return (uint16_t)sum;
}

/* ---- the builder ---- */

static void put(struct packet *packet, const void *bytes, size_t length)
{
    ck_assert_uint_le(packet->length + length, sizeof packet->bytes);
    memcpy(packet->bytes + packet->length, bytes, length);
    packet->length += (uint32_t)length;
}

static void put8(struct packet *packet, uint32_t value)
{
    const uint8_t byte = (uint8_t)value;
    put(packet, &byte, 1);
}

static void put16(struct packet *packet, uint32_t value)
{
    put8(packet, value >> 8);
    put8(packet, value);
}

static void put32(struct packet *packet, uint32_t value)
{
    put16(packet, value >> 16);
    put16(packet, value);
}

static void set16(uint8_t *place, uint32_t value)
{
    place[0] = (uint8_t)(value >> 8);
    place[1] = (uint8_t)value;
}

static uint32_t transport_header_length(const struct spec *spec)
{
    return spec->protocol == TCP ? 20 + spec->tcp_options : 8;
}

static void put_ethernet(struct packet *packet, const struct spec *spec)
{
    static const uint8_t addresses[] = {2, 0x54, 0, 0, 0, 2, 2, 0x54, 0, 0, 0, 1};
    put(packet, addresses, sizeof addresses);
    for (unsigned i = 0; i < spec->vlan_tags; i++) {
        put16(packet, i == 0 && spec->vlan_tags > 1 ? 0x88a8 : 0x8100);
        put16(packet, 100 + i);
    }
    put16(packet, spec->ipv6 ? 0x86dd : 0x0800);
    packet->network = packet->length;
}

/* Returns the sum of the pseudo header's addresses. */
static uint16_t put_ipv4(struct packet *packet, const struct spec *spec)
{
    const uint32_t header = 20 + spec->ip_options;
    const uint32_t total = header + transport_header_length(spec) + spec->payload_length;
    put8(packet, 0x40 | header / 4);
    put8(packet, 0x2);
    put16(packet, total <= UINT16_MAX ? total : 0);
    put16(packet, spec->ip_id);
    put16(packet, spec->dont_fragment ? 0x4000 : 0);
    put8(packet, 63);
    put8(packet, spec->protocol);
    put16(packet, 0);
    put32(packet, 0x0a000001);
    put32(packet, 0xc0a8fffe);
    for (unsigned i = 0; i < spec->ip_options; i++)
        put8(packet, 1);
    uint8_t *start = packet->bytes + packet->network;
    set16(start + 10, (uint16_t)~slow_sum(start, header, 0));
    return slow_sum(start + 12, 8, 0);
}

static void put_extension(struct packet *packet, const struct spec *spec, unsigned index, uint8_t next,
                          const uint8_t *final)
{
    const uint32_t length = spec->extensions[index].length;
    put8(packet, next);
    put8(packet, length / 8 - 1);
    if (spec->extensions[index].kind == ROUTING) {
        put8(packet, 4);
        put8(packet, spec->source_routed);
        put32(packet, 0);
        if (length >= 24)
            put(packet, final, 16);
        for (uint32_t i = length >= 24 ? 24 : 8; i < length; i++)
            put8(packet, i);
    } else {
        for (uint32_t i = 2; i < length; i++)
            put8(packet, 0);
    }
}

static uint16_t put_ipv6(struct packet *packet, const struct spec *spec)
{
    static const uint8_t from[16] = {0xfd, [15] = 1}, to[16] = {0xfd, 7, [14] = 0xff, 2},
                         final[16] = {0xfd, 9, [13] = 0x77, 1, 3};
    uint32_t extensions = 0;
    unsigned count = 0;
    for (; count < EXTENSIONS_MAX && spec->extensions[count].length > 0; count++)
        extensions += spec->extensions[count].length;
    const uint32_t length = extensions + transport_header_length(spec) + spec->payload_length;
    put32(packet, 0x60212345);
    put16(packet, length <= UINT16_MAX ? length : 0);
    put8(packet, count > 0 ? spec->extensions[0].kind : spec->protocol);
    put8(packet, 63);
    put(packet, from, sizeof from);
    put(packet, to, sizeof to);
    for (unsigned i = 0; i < count; i++)
        put_extension(packet, spec, i, i + 1 < count ? spec->extensions[i + 1].kind : spec->protocol, final);
    return slow_sum(from, 16, slow_sum(spec->source_routed ? final : to, 16, 0));
}

static void put_transport(struct packet *packet, const struct spec *spec)
{
    if (spec->protocol == TCP) {
        put32(packet, 40000u << 16 | 5201);
        put32(packet, spec->sequence);
        put32(packet, 0x11223344);
        put8(packet, (20 + spec->tcp_options) / 4 << 4);
        put8(packet, spec->tcp_flags);
        put16(packet, 8192);
        packet->checksum_offset = 16;
        put32(packet, 0);
        for (unsigned i = 0; i < spec->tcp_options; i++)
            put8(packet, 1);
    } else if (spec->protocol == UDP) {
        put32(packet, 53u << 16 | 4789);
        put16(packet, 8 + spec->payload_length);
        packet->checksum_offset = 6;
        put16(packet, 0);
    } else {
        put32(packet, 128u << 24);
        packet->checksum_offset = 2;
        put32(packet, 0x10001);
    }
    packet->payload = packet->length;
    put(packet, spec->payload, spec->payload_length);
}

void build(struct packet *packet, const struct spec *spec)
{
    packet->length = 0;
    put_ethernet(packet, spec);
    uint32_t sum = spec->ipv6 ? put_ipv6(packet, spec) : put_ipv4(packet, spec);
    packet->transport = packet->length;
    put_transport(packet, spec);
    const uint32_t length = packet->length - packet->transport;
    const uint8_t rest[] = {0, spec->protocol, 0, 0, (uint8_t)(length >> 8), (uint8_t)length};
    sum = slow_sum(rest, sizeof rest, sum);
    uint8_t *start = packet->bytes + packet->transport;
    if (!spec->partial)
        sum = (uint16_t)~slow_sum(start, length, sum);
    if (!spec->partial && spec->protocol == UDP && sum == 0)
        sum = UINT16_MAX;
    set16(start + packet->checksum_offset, sum);
}

/* ---- memory ---- */

static size_t piece_length(enum layout layout, unsigned index, size_t left)
{
    size_t length = left;
    switch (layout) {
    case LAYOUT_BYTES:
        length = index < FRAME_SEGMENTS_MAX - 1 ? 1 : left;
        break;
    case LAYOUT_ODD:
        length = index < FRAME_SEGMENTS_MAX - 1 ? index % 97 + 1 : left;
        break;
    case LAYOUT_HOLES:
        length = index % 3 == 0 ? 0 : 333;
        break;
    case LAYOUT_TWO_ENDS:
        length = index == 0 ? 13 : left - 1;
        length = index == 2 ? 1 : length;
        break;
    default:
        break;
    }
    return length < left ? length : left;
}

void scatter(struct scattered *scattered, const uint8_t *bytes, uint32_t length, enum layout layout)
{
    memset(scattered, 0, sizeof *scattered);
    unsigned count = 0;
    for (size_t done = 0; done < length; count++) {
        ck_assert_uint_lt(count, FRAME_SEGMENTS_MAX);
        const size_t part = piece_length(layout, count, length - done);
        uint8_t *piece = malloc(part > 0 ? part : 1);
        ck_assert_ptr_nonnull(piece);
        memcpy(piece, bytes + done, part);
        scattered->segments[count] = (struct iovec){.iov_base = piece, .iov_len = part};
        done += part;
    }
    scattered->frame.length = length;
    scattered->frame.segment_count = (uint16_t)count;
}

void gather_again(struct scattered *scattered)
{
    for (unsigned i = 0; i < scattered->frame.segment_count; i++)
        free(scattered->segments[i].iov_base);
    scattered->frame.segment_count = 0;
}

void ask_for_checksum(struct scattered *scattered, const struct packet *packet)
{
    scattered->frame.header = (struct virtio_net_hdr_v1){.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                                                         .csum_start = (uint16_t)packet->transport,
                                                         .csum_offset = packet->checksum_offset};
}

void ask_for_segments(struct scattered *scattered, const struct packet *packet, uint8_t gso_type,
                      uint16_t gso_size)
{
    ask_for_checksum(scattered, packet);
    scattered->frame.header.gso_type = gso_type;
    scattered->frame.header.gso_size = gso_size;
    scattered->frame.header.hdr_len = (uint16_t)packet->payload;
}

/* ---- judging ---- */

static bool lies_within(const struct iovec *piece, const uint8_t *base, size_t length)
{
    const uint8_t *start = piece->iov_base;
    return start >= base && start + piece->iov_len <= base + length;
}

/* Pieces come in order, so none that was passed is looked at again. */
static bool is_of_source(const struct iovec *piece, struct scattered *source)
{
    for (; source->judged < source->frame.segment_count; source->judged++) {
        const struct iovec *segment = &source->segments[source->judged];
        if (lies_within(piece, segment->iov_base, segment->iov_len))
            return true;
    }
    return false;
}

void flatten(const struct offload_output *output, struct scattered *source, uint8_t *bytes)
{
    uint32_t length = 0;
    unsigned own = 0;
    for (unsigned i = 0; i < output->segment_count; i++) {
        const struct iovec *piece = &output->segments[i];
        ck_assert_uint_le(length + piece->iov_len, PACKET_MAX);
        if (lies_within(piece, output->bytes, sizeof output->bytes))
            own++;
        else
            ck_assert_msg(is_of_source(piece, source), "piece %u is neither the output's nor the source's",
                          i);
        memcpy(bytes + length, piece->iov_base, piece->iov_len);
        length += (uint32_t)piece->iov_len;
    }
    ck_assert_uint_eq(length, output->length);
    ck_assert_uint_eq(own, 1);
}

void check_same(const uint8_t *bytes, uint32_t length, const struct packet *expected, const char *what,
                unsigned index)
{
    const uint32_t common = length < expected->length ? length : expected->length;
    for (uint32_t i = 0; i < common; i++) {
        if (bytes[i] != expected->bytes[i])
            ck_abort_msg(
                "%s %u: byte %u is %#x, expected %#x (network header at %u, transport at %u, payload at %u)",
                what, index, i, bytes[i], expected->bytes[i], expected->network, expected->transport,
                expected->payload);
    }
    ck_assert_msg(length == expected->length, "%s %u: %u bytes, expected %u", what, index, length,
                  expected->length);
}
