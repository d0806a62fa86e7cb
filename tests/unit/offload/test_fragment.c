/* UFO: the fragments of a datagram, put together again, must be the packet that the builder makes. */
#include <string.h>

#include "tests/unit/offload/support.h"

enum { FRAGMENT = 44, UFO = VIRTIO_NET_HDR_GSO_UDP };

static struct packet packet, expected;
static struct scattered source;
static struct segmenter segmenter;
static struct offload_output output;
static uint8_t bytes[PACKET_MAX], datagram[PACKET_MAX];

static uint32_t number16(const uint8_t *place)
{
    return (uint32_t)place[0] << 8 | place[1];
}

static uint32_t number32(const uint8_t *place)
{
    return number16(place) << 16 | number16(place + 2);
}

/* Checks the headers of the fragment in `bytes` that begins at `offset`; returns where its payload begins.
 * `split` is where the original is cut: what is before it is in every fragment. */
static uint32_t check_ipv4(uint32_t offset, bool last)
{
    uint8_t *header = bytes + expected.network;
    const uint32_t length = (header[0] & 0xfu) * 4;
    ck_assert_uint_eq(number16(header + 2), output.length - expected.network);
    ck_assert_uint_eq(number16(header + 6), offset / 8 | (last ? 0 : 0x2000));
    ck_assert_uint_eq(slow_sum(header, length, 0), 0xffff);
    /* The rest is as it was: those fields apart. */
    memcpy(header + 2, expected.bytes + expected.network + 2, 2);
    memset(header + 6, 0, 2);
    memcpy(header + 10, expected.bytes + expected.network + 10, 2);
    ck_assert_mem_eq(header, expected.bytes + expected.network, length);
    return expected.network + length;
}

static uint32_t check_ipv6(uint32_t offset, bool last, uint32_t split, uint32_t next_field, uint32_t *id)
{
    const uint8_t *fragment = bytes + split;
    ck_assert_uint_eq(number16(bytes + expected.network + 4), output.length - expected.network - 40);
    ck_assert_uint_eq(bytes[next_field], FRAGMENT);
    ck_assert_uint_eq(fragment[0], expected.bytes[next_field]);
    ck_assert_uint_eq(fragment[1], 0);
    ck_assert_uint_eq(number16(fragment + 2), offset | !last);
    if (offset == 0)
        *id = number32(fragment + 4);
    ck_assert_uint_eq(number32(fragment + 4), *id);
    bytes[next_field] = expected.bytes[next_field];
    memcpy(bytes + expected.network + 4, expected.bytes + expected.network + 4, 2);
    ck_assert_mem_eq(bytes, expected.bytes, split);
    return split + 8;
}

/* All fragments of what the segmenter was started with. Returns their id, if it is IPv6. */
static uint32_t check_all_fragments(bool ipv6, uint32_t gso_size, uint32_t split, uint32_t next_field)
{
    const uint32_t size = gso_size / 8 * 8;
    const uint32_t total = expected.length - split;
    uint32_t id = 0;
    uint32_t offset = 0;
    ck_assert_uint_eq(segmenter.count, (total + size - 1) / size);
    while (offset < total) {
        ck_assert(segmenter_next(&segmenter, &output));
        flatten(&output, &source, bytes);
        const uint32_t length = total - offset < size ? total - offset : size;
        const bool last = offset + length == total;
        const uint32_t payload =
            ipv6 ? check_ipv6(offset, last, split, next_field, &id) : check_ipv4(offset, last);
        ck_assert_uint_eq(output.length, payload + length);
        ck_assert_uint_le(output.length, segmenter.header_length + segmenter.payload_per_segment);
        ck_assert_mem_eq(bytes, expected.bytes, expected.network);
        memcpy(datagram + offset, bytes + payload, length);
        offset += length;
    }
    ck_assert(!segmenter_next(&segmenter, &output));
    ck_assert_mem_eq(datagram, expected.bytes + split, total);
    return id;
}

/* `split` and `next_field` for IPv6: where the fragmentable part begins, behind the IPv6 header, and the
 * field that names it, from the beginning of the IPv6 header. */
static void check_fragments(const struct spec *spec, uint16_t gso_size, uint32_t split, uint32_t next_field)
{
    struct spec super = *spec;
    super.partial = true;
    build(&packet, &super);
    build(&expected, spec);
    split += spec->ipv6 ? expected.network + 40 : expected.transport;
    uint32_t before = 0;
    for (enum layout layout = LAYOUT_ONE; layout < LAYOUT_COUNT; layout++) {
        scatter(&source, packet.bytes, packet.length, layout);
        ask_for_segments(&source, &packet, UFO, gso_size);
        ck_assert(segmenter_start(&segmenter, &source.frame, source.segments));
        const uint32_t id = check_all_fragments(spec->ipv6, gso_size, split, expected.network + next_field);
        ck_assert_msg(!spec->ipv6 || layout == LAYOUT_ONE || id != before, "two datagrams with the id %#x",
                      id);
        before = id;
        gather_again(&source);
    }
}

static struct spec udp(uint32_t payload_length)
{
    return (struct spec){.protocol = UDP,
                         .ip_id = 0x1234,
                         .payload = payload_of(payload_length),
                         .payload_length = payload_length};
}

START_TEST(test_ipv4)
{
    static const uint32_t lengths[] = {1473, 2951, 2952, 2953, 9000, 65535 - 28};
    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct spec spec = udp(lengths[i]);
        check_fragments(&spec, 1480, 0, 0);
        check_fragments(&spec, 1479, 0, 0); /* a multiple of 8 is taken */
        spec.ip_options = 12;
        spec.vlan_tags = i % 3;
        if (lengths[i] < 65000)
            check_fragments(&spec, 1000, 0, 0);
    }
    const struct spec spec = udp(1000);
    check_fragments(&spec, 8, 0, 0);
    check_fragments(&spec, 15, 0, 0);
}
END_TEST

START_TEST(test_ipv6)
{
    static const uint32_t lengths[] = {1473, 2952, 9001, 65535 - 8};
    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct spec spec = udp(lengths[i]);
        spec.ipv6 = true;
        spec.vlan_tags = i % 3;
        check_fragments(&spec, 1448, 0, 6);
        check_fragments(&spec, 777, 0, 6);
    }
}
END_TEST

/* Hop-by-hop options and routing header are in every fragment, destination options behind them are not. */
START_TEST(test_extension_headers)
{
    static const struct {
        struct spec spec;
        uint32_t split, next_field;
    } chains[] = {
        {{.extensions = {{HOP_BY_HOP, 16}}}, 16, 40},
        {{.extensions = {{DESTINATION, 16}}}, 0, 6},
        {{.extensions = {{DESTINATION, 1400}}}, 0, 6},
        {{.extensions = {{HOP_BY_HOP, 8}, {DESTINATION, 8}}}, 8, 40},
        {{.extensions = {{HOP_BY_HOP, 8}, {DESTINATION, 16}, {ROUTING, 24}, {DESTINATION, 32}}}, 48, 64},
        {{.extensions = {{ROUTING, 40}}, .source_routed = true}, 40, 40},
    };
    for (unsigned i = 0; i < sizeof chains / sizeof *chains; i++) {
        struct spec spec = udp(5000);
        spec.ipv6 = true;
        spec.source_routed = chains[i].spec.source_routed;
        memcpy(spec.extensions, chains[i].spec.extensions, sizeof spec.extensions);
        check_fragments(&spec, 1280, chains[i].split, chains[i].next_field);
        check_fragments(&spec, 24, chains[i].split, chains[i].next_field);
    }
}
END_TEST

/* It is sent as it is, but with its checksum. */
START_TEST(test_a_datagram_that_fits)
{
    for (unsigned ipv6 = 0; ipv6 < 2; ipv6++) {
        struct spec spec = udp(1440);
        spec.ipv6 = ipv6 == 1;
        build(&expected, &spec);
        spec.partial = true;
        build(&packet, &spec);
        scatter(&source, packet.bytes, packet.length, LAYOUT_ODD);
        ask_for_segments(&source, &packet, UFO, 1448);
        ck_assert(segmenter_start(&segmenter, &source.frame, source.segments));
        ck_assert_uint_eq(segmenter.count, 1);
        ck_assert(segmenter_next(&segmenter, &output));
        flatten(&output, &source, bytes);
        check_same(bytes, output.length, &expected, "datagram", 0);
        ck_assert(!segmenter_next(&segmenter, &output));
        gather_again(&source);
    }
}
END_TEST

/* Without NEEDS_CSUM its checksum is its own affair: here there is none. DF has no meaning for UFO. */
START_TEST(test_a_finished_checksum_is_left_alone)
{
    struct spec spec = udp(4000);
    build(&expected, &spec);
    memset(expected.bytes + expected.transport + 6, 0, 2);
    packet = expected;
    packet.bytes[packet.network + 6] |= 0x40;
    scatter(&source, packet.bytes, packet.length, LAYOUT_HOLES);
    ask_for_segments(&source, &packet, UFO, 1480);
    source.frame.header.flags = 0;
    ck_assert(segmenter_start(&segmenter, &source.frame, source.segments));
    (void)check_all_fragments(false, 1480, expected.transport, 0);
    gather_again(&source);
}
END_TEST

TCase *fragment_tcase(void)
{
    TCase *tcase = tcase_create("fragment");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, test_ipv4);
    tcase_add_test(tcase, test_ipv6);
    tcase_add_test(tcase, test_extension_headers);
    tcase_add_test(tcase, test_a_datagram_that_fits);
    tcase_add_test(tcase, test_a_finished_checksum_is_left_alone);
    return tcase;
}
