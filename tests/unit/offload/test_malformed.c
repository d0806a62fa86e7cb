/* Headers that lie. Nothing is read beyond the frame (every piece is an allocation of its own), and nothing
 * is made. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/offload/support.h"

static struct packet packet;
static struct scattered source;
static struct segmenter segmenter;
static struct offload_output output;

enum {
    TCPV4 = VIRTIO_NET_HDR_GSO_TCPV4,
    TCPV6 = VIRTIO_NET_HDR_GSO_TCPV6,
    UFO = VIRTIO_NET_HDR_GSO_UDP,
    USO = VIRTIO_NET_HDR_GSO_UDP_L4
};

static void build_super(const struct spec *given)
{
    struct spec spec = *given;
    spec.payload = payload_of(spec.payload_length);
    spec.partial = true;
    build(&packet, &spec);
}

/* Whether the packet is taken with that gso_type, in any layout. */
static bool is_taken(uint8_t gso_type, uint16_t gso_size, uint32_t length)
{
    unsigned taken = 0;
    for (enum layout layout = LAYOUT_ONE; layout < LAYOUT_COUNT; layout++) {
        scatter(&source, packet.bytes, length, layout);
        ask_for_segments(&source, &packet, gso_type, gso_size);
        if (segmenter_start(&segmenter, &source.frame, source.segments)) {
            taken++;
            uint32_t count = 0;
            while (segmenter_next(&segmenter, &output))
                count++;
            ck_assert_uint_eq(count, segmenter.count);
        }
        gather_again(&source);
    }
    ck_assert_msg(taken == 0 || taken == LAYOUT_COUNT, "taken in %u layouts", taken);
    return taken > 0;
}

static const struct spec tcp4 = {.protocol = TCP, .payload_length = 3000},
                         tcp6 = {.protocol = TCP, .payload_length = 3000, .ipv6 = true},
                         udp4 = {.protocol = UDP, .payload_length = 3000},
                         udp6 = {.protocol = UDP, .payload_length = 3000, .ipv6 = true};

START_TEST(test_type_and_packet_must_match)
{
    static const struct {
        const struct spec *spec;
        uint8_t types[2];
    } right[] = {{&tcp4, {TCPV4}}, {&tcp6, {TCPV6}}, {&udp4, {UFO, USO}}, {&udp6, {UFO, USO}}};
    static const uint8_t types[] = {TCPV4, TCPV6, UFO, USO, 2, 0x77};
    for (unsigned i = 0; i < sizeof right / sizeof *right; i++) {
        build_super(right[i].spec);
        for (unsigned j = 0; j < sizeof types; j++) {
            const bool expected = types[j] == right[i].types[0] || types[j] == right[i].types[1];
            ck_assert_msg(is_taken(types[j], 1448, packet.length) == expected, "packet %u as gso_type %#x", i,
                          types[j]);
        }
    }
}
END_TEST

/* One byte of the headers is wrong. */
static void check_byte(const struct spec *spec, uint8_t type, uint32_t offset, uint8_t value)
{
    build_super(spec);
    ck_assert(is_taken(type, 1448, packet.length));
    packet.bytes[offset] = value;
    ck_assert_msg(!is_taken(type, 1448, packet.length), "byte %u is %#x, and it was taken", offset, value);
}

START_TEST(test_lying_headers)
{
    check_byte(&tcp4, TCPV4, 12, 0x88);           /* no IP */
    check_byte(&tcp4, TCPV4, 14, 0x44);           /* IHL 16 */
    check_byte(&tcp4, TCPV4, 14, 0x40);           /* IHL 0 */
    check_byte(&tcp4, TCPV4, 14, 0x4f);           /* the checksum is elsewhere then */
    check_byte(&tcp4, TCPV4, 14, 0x65);           /* version */
    check_byte(&tcp4, TCPV4, 14 + 2, 0xff);       /* longer than the frame */
    check_byte(&tcp4, TCPV4, 14 + 6, 0x20);       /* a fragment */
    check_byte(&tcp4, TCPV4, 14 + 7, 1);          /* the same */
    check_byte(&tcp4, TCPV4, 14 + 9, UDP);        /* protocol */
    check_byte(&tcp4, TCPV4, 14 + 20 + 12, 0x40); /* data offset 16 */
    check_byte(&tcp4, TCPV4, 14 + 20 + 12, 0);
    check_byte(&tcp6, TCPV6, 14, 0x40);
    check_byte(&tcp6, TCPV6, 14 + 4, 0xff);
    check_byte(&tcp6, TCPV6, 14 + 6, 44); /* a fragment */
    check_byte(&tcp6, TCPV6, 14 + 6, 51); /* authenticated */
    check_byte(&udp4, USO, 14 + 9, TCP);
    check_byte(&udp6, UFO, 14 + 6, TCP);
}
END_TEST

START_TEST(test_checksum_elsewhere)
{
    build_super(&tcp4);
    for (int i = -2; i < 3; i++) {
        for (int j = -2; j < 3; j++) {
            scatter(&source, packet.bytes, packet.length, LAYOUT_ODD);
            ask_for_segments(&source, &packet, TCPV4, 1448);
            source.frame.header.csum_start = (uint16_t)(source.frame.header.csum_start + i);
            source.frame.header.csum_offset = (uint16_t)(source.frame.header.csum_offset + j);
            ck_assert_int_eq(segmenter_start(&segmenter, &source.frame, source.segments), i == 0 && j == 0);
            gather_again(&source);
        }
    }
}
END_TEST

/* A frame that ends within its headers, wherever, and whose IP length (0) does not tell. */
START_TEST(test_cut_frames)
{
    static const struct {
        struct spec spec;
        uint8_t type;
    } cases[] = {
        {{.protocol = TCP, .vlan_tags = 2, .ip_options = 20, .tcp_options = 20, .payload_length = 100},
         TCPV4},
        {{.protocol = TCP,
          .ipv6 = true,
          .extensions = {{HOP_BY_HOP, 16}, {ROUTING, 24}},
          .payload_length = 100},
         TCPV6},
        {{.protocol = UDP, .vlan_tags = 1, .payload_length = 100}, UFO},
        {{.protocol = UDP, .ipv6 = true, .extensions = {{DESTINATION, 16}}, .payload_length = 100}, USO},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        build_super(&cases[i].spec);
        memset(packet.bytes + packet.network + (cases[i].spec.ipv6 ? 4 : 2), 0, 2);
        for (uint32_t length = 1; length <= packet.payload; length++)
            ck_assert_msg(is_taken(cases[i].type, 32, length) == (length == packet.payload),
                          "case %u, %u of %u bytes", i, length, packet.payload);
    }
}
END_TEST

START_TEST(test_ip_length_within_the_headers)
{
    build_super(&tcp4);
    for (uint32_t length = 1; length < 42; length++) {
        packet.bytes[packet.network + 2] = 0;
        packet.bytes[packet.network + 3] = (uint8_t)length;
        ck_assert_msg(is_taken(TCPV4, 1448, packet.length) == (length >= 40), "total length %u", length);
    }
}
END_TEST

START_TEST(test_too_many_headers)
{
    struct spec spec = {.protocol = TCP,
                        .ipv6 = true,
                        .extensions = {{HOP_BY_HOP, 1024}, {DESTINATION, 872}},
                        .payload_length = 100};
    build_super(&spec);
    ck_assert(is_taken(TCPV6, 50, packet.length));
    spec.extensions[1].length = 2048;
    build_super(&spec);
    ck_assert(!is_taken(TCPV6, 50, packet.length));
    /* tags without an end */
    memset(packet.bytes, 0, packet.length);
    for (uint32_t i = 12; i + 4 <= packet.length; i += 4)
        packet.bytes[i] = 0x81;
    ck_assert(!is_taken(TCPV4, 50, packet.length));
}
END_TEST

/* A hop is left, but the header does not tell where the packet ends. */
START_TEST(test_unknown_routing_header)
{
    const struct spec spec = {.protocol = TCP,
                              .ipv6 = true,
                              .extensions = {{ROUTING, 24}},
                              .source_routed = true,
                              .payload_length = 100};
    build_super(&spec);
    ck_assert(is_taken(TCPV6, 50, packet.length));
    packet.bytes[packet.network + 42] = 253;
    ck_assert(!is_taken(TCPV6, 50, packet.length));
    const struct spec too_short = {
        .protocol = TCP, .ipv6 = true, .extensions = {{ROUTING, 16}}, .payload_length = 100};
    build_super(&too_short);
    ck_assert(is_taken(TCPV6, 50, packet.length));
    packet.bytes[packet.network + 43] = 1;
    ck_assert(!is_taken(TCPV6, 50, packet.length));
}
END_TEST

START_TEST(test_sizes_out_of_bounds)
{
    build_super(&udp4);
    for (uint16_t size = 1; size < 8; size++)
        ck_assert(!is_taken(UFO, size, packet.length));
    ck_assert(is_taken(UFO, 8, packet.length));
    struct spec spec = {.protocol = TCP, .payload_length = OFFLOAD_SEGMENTS_MAX};
    build_super(&spec);
    ck_assert(is_taken(TCPV4, 1, packet.length));
    spec.payload_length++;
    build_super(&spec);
    ck_assert(!is_taken(TCPV4, 1, packet.length));
    ck_assert(is_taken(TCPV4, 2, packet.length));
    /* segments, or a datagram, for which the IP length is too short; an IP length of 0 hides it */
    spec = (struct spec){.protocol = TCP, .payload_length = FRAME_LENGTH_MAX - 54};
    build_super(&spec);
    ck_assert(!is_taken(TCPV4, 65535 - 39, packet.length));
    ck_assert(is_taken(TCPV4, 65535 - 40, packet.length));
    spec = (struct spec){.protocol = UDP, .payload_length = 65535 - 27};
    build_super(&spec);
    ck_assert(!is_taken(UFO, 1480, packet.length));
    spec = (struct spec){.protocol = UDP, .payload_length = 65535 - 7, .ipv6 = true};
    build_super(&spec);
    ck_assert(!is_taken(UFO, 1480, packet.length));
    ck_assert(is_taken(USO, 1480, packet.length));
}
END_TEST

/* A frame that claims more than its pieces have. */
START_TEST(test_pieces_end_too_early)
{
    build_super(&tcp4);
    for (uint32_t length = 1; length < packet.length; length += 11) {
        scatter(&source, packet.bytes, length, (enum layout)(length % LAYOUT_COUNT));
        ask_for_segments(&source, &packet, TCPV4, 100);
        source.frame.length = packet.length;
        uint32_t payload = 0;
        if (segmenter_start(&segmenter, &source.frame, source.segments)) {
            while (segmenter_next(&segmenter, &output))
                payload += output.length - segmenter.header_length;
        }
        ck_assert_uint_eq(payload, length <= packet.payload ? 0 : (length - packet.payload) / 100 * 100);
        gather_again(&source);
    }
}
END_TEST

TCase *malformed_tcase(void)
{
    TCase *tcase = tcase_create("malformed");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, test_type_and_packet_must_match);
    tcase_add_test(tcase, test_lying_headers);
    tcase_add_test(tcase, test_checksum_elsewhere);
    tcase_add_test(tcase, test_cut_frames);
    tcase_add_test(tcase, test_ip_length_within_the_headers);
    tcase_add_test(tcase, test_too_many_headers);
    tcase_add_test(tcase, test_unknown_routing_header);
    tcase_add_test(tcase, test_sizes_out_of_bounds);
    tcase_add_test(tcase, test_pieces_end_too_early);
    return tcase;
}
