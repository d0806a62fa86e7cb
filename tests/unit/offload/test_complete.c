/* Completing a checksum. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/offload/support.h"

static struct packet packet, expected;
static struct scattered source;
static struct offload_output output;
static uint8_t bytes[PACKET_MAX];

static void check_completed(const struct spec *spec)
{
    struct spec partial = *spec;
    partial.partial = true;
    build(&packet, &partial);
    build(&expected, spec);
    for (enum layout layout = LAYOUT_ONE; layout < LAYOUT_COUNT; layout++) {
        scatter(&source, packet.bytes, packet.length, layout);
        ask_for_checksum(&source, &packet);
        ck_assert(offload_complete_checksum(&source.frame, source.segments, &output));
        flatten(&output, &source, bytes);
        check_same(bytes, output.length, &expected, "layout", layout);
        gather_again(&source);
    }
}

START_TEST(test_protocols)
{
    static const uint32_t lengths[] = {0, 1, 2, 3, 77, 100, 1459, 9000, 65535 - 60};
    static const uint8_t protocols[] = {TCP, UDP, ICMPV6};
    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (unsigned j = 0; j < sizeof protocols; j++) {
            for (unsigned ipv6 = 0; ipv6 < 2; ipv6++) {
                struct spec spec = {.ipv6 = ipv6 == 1,
                                    .protocol = protocols[j],
                                    .vlan_tags = i % 3,
                                    .payload = payload_of(lengths[i]),
                                    .payload_length = lengths[i]};
                check_completed(&spec);
                spec.payload++;
                check_completed(&spec);
            }
        }
    }
}
END_TEST

/* Payloads are tried until one has the sum for which the checksum would be 0. */
static void check_zero(uint8_t protocol, uint16_t stored)
{
    uint8_t payload[4] = {0};
    struct spec spec = {.protocol = protocol, .payload = payload, .payload_length = sizeof payload};
    build(&packet, &spec);
    /* What is missing to a checksum of 0 is the checksum itself. */
    memcpy(payload, packet.bytes + packet.transport + packet.checksum_offset, 2);
    check_completed(&spec);
    ck_assert_uint_eq(expected.bytes[expected.transport + expected.checksum_offset], stored >> 8);
    ck_assert_uint_eq(expected.bytes[expected.transport + expected.checksum_offset + 1], stored & 0xff);
}

START_TEST(test_zero_means_none_to_udp_only)
{
    check_zero(UDP, 0xffff);
    check_zero(TCP, 0);
}
END_TEST

/* TCP in a frame in UDP: what is summed is by position. */
START_TEST(test_inner_checksum)
{
    static struct packet inner, outer;
    struct spec spec = {.protocol = TCP, .payload = payload_of(201), .payload_length = 201, .partial = true};
    build(&inner, &spec);
    const struct spec tunnel = {.protocol = UDP, .payload = inner.bytes, .payload_length = inner.length};
    build(&outer, &tunnel);
    scatter(&source, outer.bytes, outer.length, LAYOUT_ODD);
    ask_for_checksum(&source, &inner);
    source.frame.header.csum_start = (uint16_t)(outer.payload + inner.transport);
    ck_assert(offload_complete_checksum(&source.frame, source.segments, &output));
    flatten(&output, &source, bytes);
    spec.partial = false;
    build(&inner, &spec);
    memcpy(outer.bytes + outer.payload, inner.bytes, inner.length);
    check_same(bytes, output.length, &outer, "tunnelled frame", 0);
    gather_again(&source);
}
END_TEST

START_TEST(test_every_place_inside_and_none_outside)
{
    enum { LENGTH = 40 };
    for (uint32_t start = 0; start < LENGTH + 2; start++) {
        for (uint32_t offset = 0; offset < LENGTH + 2; offset++) {
            scatter(&source, payload_of(LENGTH), LENGTH, (enum layout)(start % LAYOUT_COUNT));
            source.frame.header.csum_start = (uint16_t)start;
            source.frame.header.csum_offset = (uint16_t)offset;
            const bool fine = start >= 14 && start + offset + 2 <= LENGTH;
            ck_assert_int_eq(offload_complete_checksum(&source.frame, source.segments, &output), fine);
            if (fine) {
                flatten(&output, &source, bytes);
                ck_assert_uint_eq(output.length, LENGTH);
                ck_assert_mem_eq(bytes, payload_of(LENGTH), start + offset);
                const uint32_t behind = start + offset + 2;
                ck_assert_mem_eq(bytes + behind, payload_of(LENGTH) + behind, LENGTH - behind);
            }
            gather_again(&source);
        }
    }
}
END_TEST

/* A frame that claims more than its pieces have. */
START_TEST(test_pieces_end_too_early)
{
    scatter(&source, payload_of(100), 100, LAYOUT_HOLES);
    source.frame.header.csum_start = 34;
    for (uint32_t offset = 16; offset < 200; offset += 16) {
        source.frame.header.csum_offset = (uint16_t)offset;
        source.frame.length = 300;
        ck_assert(!offload_complete_checksum(&source.frame, source.segments, &output));
    }
    gather_again(&source);
}
END_TEST

TCase *complete_tcase(void)
{
    TCase *tcase = tcase_create("complete");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, test_protocols);
    tcase_add_test(tcase, test_zero_means_none_to_udp_only);
    tcase_add_test(tcase, test_inner_checksum);
    tcase_add_test(tcase, test_every_place_inside_and_none_outside);
    tcase_add_test(tcase, test_pieces_end_too_early);
    return tcase;
}
