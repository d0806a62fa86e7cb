/* TCP and USO: each segment must be, byte by byte, the packet that the builder makes of its part. */
#include <string.h>

#include "tests/unit/offload/support.h"

static struct packet packet, expected;
static struct scattered source;
static struct segmenter segmenter;
static struct offload_output output;
static uint8_t bytes[PACKET_MAX];

static uint8_t gso_type_of(const struct spec *spec)
{
    if (spec->protocol == UDP)
        return VIRTIO_NET_HDR_GSO_UDP_L4;
    const uint8_t type = spec->ipv6 ? VIRTIO_NET_HDR_GSO_TCPV6 : VIRTIO_NET_HDR_GSO_TCPV4;
    return (spec->tcp_flags & CWR) != 0 ? type | VIRTIO_NET_HDR_GSO_ECN : type;
}

/* Segment `index` of what the spec makes. */
static void build_segment(const struct spec *spec, uint32_t gso_size, uint32_t index, uint32_t count)
{
    struct spec part = *spec;
    const uint32_t offset = index * gso_size;
    const bool last = index + 1 == count;
    part.payload += offset;
    part.payload_length = last ? spec->payload_length - offset : gso_size;
    part.sequence += offset;
    part.ip_id = (uint16_t)(part.ip_id + index);
    if (!last)
        part.tcp_flags &= (uint8_t) ~(FIN | PSH);
    if (index > 0)
        part.tcp_flags &= (uint8_t)~CWR;
    part.partial = false;
    build(&expected, &part);
}

static void check_all_segments(const struct spec *spec, uint16_t gso_size)
{
    const uint32_t whole = (spec->payload_length + gso_size - 1) / gso_size;
    const uint32_t count = whole > 0 ? whole : 1;
    ck_assert_uint_eq(segmenter.count, count);
    ck_assert_uint_eq(segmenter.header_length, packet.payload);
    for (uint32_t i = 0; i < count; i++) {
        ck_assert_msg(segmenter_next(&segmenter, &output), "segment %u of %u is missing", i, count);
        flatten(&output, &source, bytes);
        build_segment(spec, gso_size, i, count);
        check_same(bytes, output.length, &expected, "segment", i);
        ck_assert_uint_le(output.length, segmenter.header_length + segmenter.payload_per_segment);
    }
    ck_assert(!segmenter_next(&segmenter, &output));
    ck_assert(!segmenter_next(&segmenter, &output));
}

static void check_layout(const struct spec *spec, uint16_t gso_size, enum layout layout)
{
    struct spec super = *spec;
    super.partial = true;
    build(&packet, &super);
    scatter(&source, packet.bytes, packet.length, layout);
    ask_for_segments(&source, &packet, gso_type_of(spec), gso_size);
    ck_assert_int_eq(offload_plan(&source.frame, 0), OFFLOAD_SEGMENT);
    ck_assert(segmenter_start(&segmenter, &source.frame, source.segments));
    check_all_segments(spec, gso_size);
    gather_again(&source);
}

static void check_segments(const struct spec *spec, uint16_t gso_size)
{
    for (enum layout layout = LAYOUT_ONE; layout < LAYOUT_COUNT; layout++)
        check_layout(spec, gso_size, layout);
}

static struct spec tcp(uint32_t payload_length)
{
    return (struct spec){.protocol = TCP,
                         .tcp_flags = ACK | PSH,
                         .sequence = 0xfffff000, /* wraps around */
                         .ip_id = 0xfffe,        /* the same */
                         .payload = payload_of(payload_length),
                         .payload_length = payload_length};
}

static struct spec udp(uint32_t payload_length)
{
    struct spec spec = tcp(payload_length);
    spec.protocol = UDP;
    return spec;
}

START_TEST(test_lengths_around_a_segment)
{
    static const uint32_t lengths[] = {0, 1, 1000, 1447, 1448, 1449, 2895, 2896, 2897, 14480, 20001};
    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (unsigned ipv6 = 0; ipv6 < 2; ipv6++) {
            struct spec spec = tcp(lengths[i]);
            spec.ipv6 = ipv6 == 1;
            check_segments(&spec, 1448);
            spec.protocol = UDP;
            check_segments(&spec, 1448);
        }
    }
}
END_TEST

START_TEST(test_flags)
{
    static const uint8_t flags[] = {0, ACK, ACK | PSH, ACK | FIN, ACK | PSH | FIN, ACK | CWR, 0xff};
    for (unsigned i = 0; i < sizeof flags; i++) {
        for (unsigned segments = 1; segments < 4; segments++) {
            struct spec spec = tcp(segments * 500);
            spec.tcp_flags = flags[i];
            spec.ipv6 = i % 2 == 1;
            check_segments(&spec, 500);
        }
    }
}
END_TEST

/* DF set or clear makes no difference: ids always differ. */
START_TEST(test_dont_fragment_is_kept)
{
    struct spec spec = tcp(5000);
    spec.dont_fragment = true;
    check_segments(&spec, 1448);
    spec = udp(5000);
    spec.dont_fragment = true;
    check_segments(&spec, 1448);
}
END_TEST

START_TEST(test_tags_and_options)
{
    for (unsigned tags = 0; tags < 4; tags++) {
        for (unsigned options = 0; options <= 40; options += 20) {
            struct spec spec = tcp(4001);
            spec.vlan_tags = tags;
            spec.ip_options = options;
            spec.tcp_options = 40 - options;
            check_segments(&spec, 1000);
            spec.ipv6 = true;
            check_segments(&spec, 1000);
            spec.protocol = UDP;
            check_segments(&spec, 1000);
            spec.ipv6 = false;
            check_segments(&spec, 1000);
        }
    }
}
END_TEST

START_TEST(test_extension_headers)
{
    static const struct spec chains[] = {
        {.extensions = {{HOP_BY_HOP, 8}}},
        {.extensions = {{DESTINATION, 8}}},
        {.extensions = {{ROUTING, 24}}},
        {.extensions = {{HOP_BY_HOP, 16}, {DESTINATION, 8}, {ROUTING, 40}, {DESTINATION, 24}}},
        {.extensions = {{DESTINATION, 512}, {HOP_BY_HOP, 1024}}},
        /* the pseudo header has the address that the routing header names */
        {.extensions = {{ROUTING, 24}}, .source_routed = true},
        {.extensions = {{HOP_BY_HOP, 8}, {ROUTING, 264}, {DESTINATION, 8}}, .source_routed = true},
    };
    for (unsigned i = 0; i < sizeof chains / sizeof *chains; i++) {
        struct spec spec = tcp(3333);
        spec.ipv6 = true;
        spec.source_routed = chains[i].source_routed;
        memcpy(spec.extensions, chains[i].extensions, sizeof spec.extensions);
        check_segments(&spec, 999);
        spec.protocol = UDP;
        check_segments(&spec, 999);
    }
}
END_TEST

/* Every gso_size, with a payload for a few segments of it. */
START_TEST(test_every_gso_size)
{
    for (uint32_t size = 1; size < 2000; size += size < 130 ? 1 : 37) {
        struct spec spec = size % 2 == 0 ? tcp(3 * size + size / 2) : udp(3 * size + size / 2);
        spec.ipv6 = size % 3 == 0;
        check_segments(&spec, (uint16_t)size);
    }
}
END_TEST

START_TEST(test_the_largest)
{
    struct spec spec = tcp(65535 - 40);
    check_segments(&spec, 1448);
    check_segments(&spec, 32);
    check_segments(&spec, 65535 - 40);
    check_segments(&spec, 65535);
    spec = udp(65535 - 28);
    check_segments(&spec, 65535);
    check_segments(&spec, 9000);
    spec = tcp(65535 - 20);
    spec.ipv6 = true;
    check_segments(&spec, 65535);
    check_segments(&spec, 1428);
    /* longer than the IP length can say, which is 0 then */
    spec = tcp(FRAME_LENGTH_MAX - 54);
    check_segments(&spec, 1448);
    spec = tcp(FRAME_LENGTH_MAX - 74);
    spec.ipv6 = true;
    check_segments(&spec, 1428);
}
END_TEST

START_TEST(test_as_many_segments_as_allowed)
{
    struct spec spec = tcp(OFFLOAD_SEGMENTS_MAX);
    check_layout(&spec, 1, LAYOUT_ONE);
    check_layout(&spec, 1, LAYOUT_BYTES);
    spec = udp(OFFLOAD_SEGMENTS_MAX * 31);
    check_layout(&spec, 31, LAYOUT_ODD);
}
END_TEST

/* The checksum in a frame without NEEDS_CSUM is complete; it has to be made anew all the same. */
START_TEST(test_without_needs_checksum)
{
    const struct spec spec = tcp(5000);
    build(&packet, &spec);
    scatter(&source, packet.bytes, packet.length, LAYOUT_ODD);
    ask_for_segments(&source, &packet, VIRTIO_NET_HDR_GSO_TCPV4, 1448);
    source.frame.header.flags = 0;
    source.frame.header.csum_start = source.frame.header.csum_offset = 0;
    ck_assert(segmenter_start(&segmenter, &source.frame, source.segments));
    check_all_segments(&spec, 1448);
    gather_again(&source);
}
END_TEST

/* What is behind the IP packet is no payload. */
START_TEST(test_padding_is_left_out)
{
    for (unsigned ipv6 = 0; ipv6 < 2; ipv6++) {
        struct spec spec = tcp(2000);
        spec.ipv6 = ipv6 == 1;
        struct spec super = spec;
        super.partial = true;
        build(&packet, &super);
        scatter(&source, packet.bytes, packet.length + 9, LAYOUT_HOLES);
        ask_for_segments(&source, &packet, gso_type_of(&spec), 700);
        ck_assert(segmenter_start(&segmenter, &source.frame, source.segments));
        check_all_segments(&spec, 700);
        gather_again(&source);
    }
}
END_TEST

/* A hint that nothing relies on. */
START_TEST(test_any_hdr_len)
{
    static const uint16_t lengths[] = {0, 3, 53, 55, 2000};
    const struct spec spec = tcp(2000);
    struct spec super = spec;
    super.partial = true;
    build(&packet, &super);
    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        scatter(&source, packet.bytes, packet.length, LAYOUT_TWO_ENDS);
        ask_for_segments(&source, &packet, VIRTIO_NET_HDR_GSO_TCPV4, 700);
        source.frame.header.hdr_len = lengths[i];
        ck_assert_int_eq(offload_plan(&source.frame, 0), OFFLOAD_SEGMENT);
        ck_assert(segmenter_start(&segmenter, &source.frame, source.segments));
        check_all_segments(&spec, 700);
        gather_again(&source);
    }
}
END_TEST

/* The headers are read once: what the sender does to them afterwards changes nothing. */
START_TEST(test_headers_are_not_read_again)
{
    struct spec spec = tcp(3000);
    struct spec super = spec;
    super.partial = true;
    build(&packet, &super);
    scatter(&source, packet.bytes, packet.length, LAYOUT_ONE);
    ask_for_segments(&source, &packet, VIRTIO_NET_HDR_GSO_TCPV4, 1000);
    ck_assert(segmenter_start(&segmenter, &source.frame, source.segments));
    memset(source.segments[0].iov_base, 0xff, packet.payload);
    check_all_segments(&spec, 1000);
    gather_again(&source);
}
END_TEST

/* USO has a checksum of 0 written as 0xffff: with these payloads, one datagram's is that. */
START_TEST(test_udp_checksum_of_zero)
{
    uint8_t payload[12] = {0};
    struct spec spec = udp(4);
    spec.payload = payload;
    build(&expected, &spec);
    memcpy(payload + 4, expected.bytes + expected.transport + 6, 2);
    spec.payload_length = sizeof payload;
    check_segments(&spec, 4);
    build_segment(&spec, 4, 1, 3);
    ck_assert_uint_eq(expected.bytes[expected.transport + 6], 0xff);
    ck_assert_uint_eq(expected.bytes[expected.transport + 7], 0xff);
}
END_TEST

TCase *segment_tcase(void)
{
    TCase *tcase = tcase_create("segment");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, test_lengths_around_a_segment);
    tcase_add_test(tcase, test_flags);
    tcase_add_test(tcase, test_dont_fragment_is_kept);
    tcase_add_test(tcase, test_tags_and_options);
    tcase_add_test(tcase, test_extension_headers);
    tcase_add_test(tcase, test_every_gso_size);
    tcase_add_test(tcase, test_the_largest);
    tcase_add_test(tcase, test_as_many_segments_as_allowed);
    tcase_add_test(tcase, test_without_needs_checksum);
    tcase_add_test(tcase, test_padding_is_left_out);
    tcase_add_test(tcase, test_any_hdr_len);
    tcase_add_test(tcase, test_headers_are_not_read_again);
    tcase_add_test(tcase, test_udp_checksum_of_zero);
    return tcase;
}
