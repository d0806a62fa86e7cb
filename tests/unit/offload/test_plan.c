/* What is decided by the virtio header and the receiver's features, and the header of what passes. */
#include <string.h>

#include "tests/unit/offload/support.h"

#define BIT(number) (UINT64_C(1) << (number))

enum { GUEST_USO4 = 54, GUEST_USO6 = 55, UFO = VIRTIO_NET_HDR_GSO_UDP, USO = VIRTIO_NET_HDR_GSO_UDP_L4 };

static const uint64_t guest_checksum = BIT(VIRTIO_NET_F_GUEST_CSUM);

static enum offload_plan plan_of(struct virtio_net_hdr_v1 header, uint64_t features)
{
    const struct frame frame = {.header = header, .length = 3000, .segment_count = 1};
    return offload_plan(&frame, features);
}

static struct virtio_net_hdr_v1 gso(uint8_t type)
{
    return (struct virtio_net_hdr_v1){.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                                      .gso_type = type,
                                      .hdr_len = 54,
                                      .gso_size = 1448,
                                      .csum_start = 34,
                                      .csum_offset = 16};
}

START_TEST(test_nothing_asked)
{
    ck_assert_int_eq(plan_of((struct virtio_net_hdr_v1){.flags = 0}, 0), OFFLOAD_PASS);
    ck_assert_int_eq(plan_of((struct virtio_net_hdr_v1){.flags = 0xfe}, 0), OFFLOAD_PASS);
    /* fields without a meaning are not looked at */
    const struct virtio_net_hdr_v1 stale = {.csum_start = 0xffff, .gso_size = 7, .hdr_len = 0xffff};
    ck_assert_int_eq(plan_of(stale, 0), OFFLOAD_PASS);
}
END_TEST

START_TEST(test_checksum)
{
    struct virtio_net_hdr_v1 header = {
        .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM, .csum_start = 34, .csum_offset = 16};
    ck_assert_int_eq(plan_of(header, guest_checksum), OFFLOAD_PASS);
    ck_assert_int_eq(plan_of(header, ~guest_checksum), OFFLOAD_CHECKSUM);
    static const struct {
        uint16_t start, offset;
        bool fine;
    } ranges[] = {{14, 0, true},           {13, 0, false},          {0, 16, false},      {2998, 0, true},
                  {2999, 0, false},        {3000, 0, false},        {14, 2984, true},    {14, 2985, false},
                  {0xffff, 0xffff, false}, {0x8000, 0x8000, false}, {34, 0xffff, false}, {0xffff, 2, false}};
    for (unsigned i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        header.csum_start = ranges[i].start;
        header.csum_offset = ranges[i].offset;
        ck_assert_int_eq(plan_of(header, 0), ranges[i].fine ? OFFLOAD_CHECKSUM : OFFLOAD_MALFORMED);
        ck_assert_int_eq(plan_of(header, guest_checksum), ranges[i].fine ? OFFLOAD_PASS : OFFLOAD_MALFORMED);
    }
}
END_TEST

START_TEST(test_segments_pass_with_every_feature_they_need)
{
    static const struct {
        uint8_t type;
        uint64_t needed[4];
    } types[] = {
        {VIRTIO_NET_HDR_GSO_TCPV4, {BIT(VIRTIO_NET_F_GUEST_TSO4)}},
        {VIRTIO_NET_HDR_GSO_TCPV6, {BIT(VIRTIO_NET_F_GUEST_TSO6)}},
        {VIRTIO_NET_HDR_GSO_TCPV4 | VIRTIO_NET_HDR_GSO_ECN,
         {BIT(VIRTIO_NET_F_GUEST_TSO4), BIT(VIRTIO_NET_F_GUEST_ECN)}},
        {VIRTIO_NET_HDR_GSO_TCPV6 | VIRTIO_NET_HDR_GSO_ECN,
         {BIT(VIRTIO_NET_F_GUEST_TSO6), BIT(VIRTIO_NET_F_GUEST_ECN)}},
        {UFO, {BIT(VIRTIO_NET_F_GUEST_UFO)}},
        {USO, {BIT(GUEST_USO4), BIT(GUEST_USO6)}},
    };
    for (unsigned i = 0; i < sizeof types / sizeof *types; i++) {
        const struct virtio_net_hdr_v1 header = gso(types[i].type);
        uint64_t all = guest_checksum;
        for (unsigned j = 0; types[i].needed[j] != 0; j++)
            all |= types[i].needed[j];
        ck_assert_int_eq(plan_of(header, all), OFFLOAD_PASS);
        ck_assert_int_eq(plan_of(header, UINT64_MAX), OFFLOAD_PASS);
        ck_assert_int_eq(plan_of(header, 0), OFFLOAD_SEGMENT);
        ck_assert_int_eq(plan_of(header, ~guest_checksum), OFFLOAD_SEGMENT);
        for (unsigned j = 0; types[i].needed[j] != 0; j++)
            ck_assert_int_eq(plan_of(header, ~types[i].needed[j]), OFFLOAD_SEGMENT);
        struct virtio_net_hdr_v1 without = header;
        without.flags = 0;
        ck_assert_int_eq(plan_of(without, UINT64_MAX), OFFLOAD_SEGMENT);
    }
}
END_TEST

START_TEST(test_lies)
{
    const uint8_t types[] = {2, 6, 7, 0x20, 0x41, 0x77, 0x80, 0x82, 0x83, 0x85, 0xff};
    for (unsigned i = 0; i < sizeof types; i++) {
        ck_assert_int_eq(plan_of(gso(types[i]), 0), OFFLOAD_MALFORMED);
        ck_assert_int_eq(plan_of(gso(types[i]), UINT64_MAX), OFFLOAD_MALFORMED);
    }
    for (unsigned i = 0; i < 4; i++) {
        struct virtio_net_hdr_v1 header = gso(VIRTIO_NET_HDR_GSO_TCPV4);
        header.gso_size = i == 0 ? 0 : header.gso_size;
        header.csum_start = i == 1 ? 2990 : header.csum_start;
        header.csum_offset = i == 2 ? 3000 : header.csum_offset;
        header.hdr_len = i == 3 ? 3001 : header.hdr_len;
        ck_assert_int_eq(plan_of(header, 0), OFFLOAD_MALFORMED);
        ck_assert_int_eq(plan_of(header, UINT64_MAX), OFFLOAD_MALFORMED);
    }
}
END_TEST

static void check_passed(struct virtio_net_hdr_v1 header, uint64_t features,
                         struct virtio_net_hdr_v1 expected)
{
    const struct frame frame = {.header = header, .length = 3000, .segment_count = 1};
    struct virtio_net_hdr_v1 passed;
    memset(&passed, 0xaa, sizeof passed);
    offload_passed_header(&frame, features, &passed);
    ck_assert_mem_eq(&passed, &expected, sizeof passed);
}

START_TEST(test_passed_header)
{
    struct virtio_net_hdr_v1 header = gso(VIRTIO_NET_HDR_GSO_TCPV4 | VIRTIO_NET_HDR_GSO_ECN);
    struct virtio_net_hdr_v1 expected = header;
    header.num_buffers = 77;
    header.flags |= 0xf0;
    expected.num_buffers = 1;
    check_passed(header, UINT64_MAX, expected);
    header.gso_type = 0;
    expected.gso_type = 0;
    expected.gso_size = expected.hdr_len = 0;
    check_passed(header, guest_checksum, expected);
    header.flags = (uint8_t)~VIRTIO_NET_HDR_F_NEEDS_CSUM;
    const struct virtio_net_hdr_v1 valid = {.flags = VIRTIO_NET_HDR_F_DATA_VALID, .num_buffers = 1},
                                   empty = {.num_buffers = 1};
    check_passed(header, guest_checksum, valid);
    check_passed(header, ~guest_checksum, empty);
}
END_TEST

TCase *plan_tcase(void)
{
    TCase *tcase = tcase_create("plan");
    tcase_add_test(tcase, test_nothing_asked);
    tcase_add_test(tcase, test_checksum);
    tcase_add_test(tcase, test_segments_pass_with_every_feature_they_need);
    tcase_add_test(tcase, test_lies);
    tcase_add_test(tcase, test_passed_header);
    return tcase;
}
