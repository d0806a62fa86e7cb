/* Frames that ask for offloads, into a receive queue: passed, checksummed, or segmented; and what happens
 * when there are not buffers enough for all segments. What the bytes of a segment must be is tested with
 * offload. */
#include <string.h>

#include "dataplane/offload/offload.h"
#include "tests/unit/virtio_net/frames.h"

enum { ETHERNET = 14, IP = 20, TCP = 20, HEADERS = ETHERNET + IP + TCP, CHECKSUM_AT = 16 };

#define WITH_CHECKSUM (MERGEABLE | BIT(VIRTIO_NET_F_GUEST_CSUM))
#define WITH_TSO      (WITH_CHECKSUM | BIT(VIRTIO_NET_F_GUEST_TSO4))

static struct receiver receiver;
static struct received received;
static uint8_t sent[FRAMES_LONGEST];

/* A TCP segment of IPv4 with `payload` bytes, whose checksum is the pseudo header's only. */
static void make_tcp(uint32_t payload, uint16_t gso_size)
{
    static const uint8_t headers[HEADERS] = {
        2,    0,    0,    0,    0, 2, 2,    0, 0,  0, 0, 1, 8,    0, /* Ethernet */
        0x45, 0,    0,    0,    0, 1, 0x40, 0, 64, 6, 0, 0, 10,   0,    0,    1,    10, 0, 0, 2, /* IPv4 */
        0x12, 0x34, 0x56, 0x78, 0, 0, 0,    1, 0,  0, 0, 1, 0x50, 0x10, 0xff, 0xff, 0,  0, 0, 0, /* TCP */
    };
    memcpy(sent, headers, sizeof headers);
    make_frame(sent + HEADERS, payload, 0);
    const uint32_t ip_length = IP + TCP + payload;
    sent[16] = (uint8_t)(ip_length >> 8);
    sent[17] = (uint8_t)ip_length;
    const uint8_t length[] = {(uint8_t)((TCP + payload) >> 8), (uint8_t)(TCP + payload)};
    uint64_t sum = checksum_add(6 << 8, sent + ETHERNET + 12, 8, false);
    sum = checksum_add(sum, length, sizeof length, false);
    const uint16_t pseudo = checksum_fold(sum);
    memcpy(sent + ETHERNET + IP + CHECKSUM_AT, &pseudo, sizeof pseudo);
    burst.count = burst.segment_count = 1;
    burst.frames[0] = (struct frame){
        .header = {.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                   .gso_type = gso_size > 0 ? VIRTIO_NET_HDR_GSO_TCPV4 : VIRTIO_NET_HDR_GSO_NONE,
                   .hdr_len = HEADERS,
                   .gso_size = gso_size,
                   .csum_start = ETHERNET + IP,
                   .csum_offset = CHECKSUM_AT},
        .length = HEADERS + payload,
        .segment_count = 1};
    burst.segments[0] = (struct iovec){.iov_base = sent, .iov_len = HEADERS + payload};
}

static unsigned push_it(void)
{
    reset_counters();
    return net_push(receiver.driver.queue, &burst, 0, &counters);
}

/* Receives segments and puts their payload together. Returns how many. */
static unsigned receive_segments(uint32_t payload)
{
    unsigned count = 0;
    uint32_t at = 0;
    while (receive(&receiver, &received)) {
        ck_assert_uint_eq(received.header.flags, 0);
        ck_assert_uint_eq(received.header.gso_type, 0);
        ck_assert_uint_gt(received.length, HEADERS);
        const uint32_t part = received.length - HEADERS;
        ck_assert_uint_le(at + part, payload);
        ck_assert_int_eq(memcmp(received.bytes + HEADERS, sent + HEADERS + at, part), 0);
        at += part;
        count++;
    }
    return count;
}

START_TEST(test_passed)
{
    const uint32_t buffer = _i < KINDS ? 70000 : 1536;
    receiver_start(&receiver, 128, WITH_TSO | ring_kinds[_i % KINDS]);
    post(&receiver, 2 * (65000 / buffer + 1), buffer);
    make_tcp(60000, 1448);
    ck_assert_uint_eq(push_it(), 1);
    ck_assert(receive(&receiver, &received));
    ck_assert_uint_eq(received.length, HEADERS + 60000);
    ck_assert_int_eq(memcmp(received.bytes, sent, received.length), 0);
    ck_assert_uint_eq(received.header.flags, VIRTIO_NET_HDR_F_NEEDS_CSUM);
    ck_assert_uint_eq(received.header.gso_type, VIRTIO_NET_HDR_GSO_TCPV4);
    ck_assert_uint_eq(received.header.gso_size, 1448);
    ck_assert_uint_eq(received.header.csum_start, ETHERNET + IP);
    ck_assert_uint_eq(received.header.csum_offset, CHECKSUM_AT);
    ck_assert_uint_eq(received.buffers, (60000 + HEADERS + HEADER + buffer - 1) / buffer);
    ck_assert_uint_eq(atomic_load(&counters.frames), 1);
    ck_assert_uint_eq(atomic_load(&counters.segmented), 0);
    receiver_stop(&receiver);
}
END_TEST

START_TEST(test_checksummed)
{
    receiver_start(&receiver, 64, MERGEABLE | ring_kinds[_i]);
    post(&receiver, 4, 1000);
    make_tcp(1001, 0);
    ck_assert_uint_eq(push_it(), 1);
    ck_assert(receive(&receiver, &received));
    ck_assert_uint_eq(received.length, HEADERS + 1001);
    ck_assert_uint_eq(received.header.flags, 0);
    ck_assert_int_ne(memcmp(received.bytes, sent, HEADERS), 0);
    ck_assert_int_eq(memcmp(received.bytes + HEADERS, sent + HEADERS, 1001), 0);
    ck_assert_uint_eq(atomic_load(&counters.frames), 1);
    ck_assert_uint_eq(atomic_load(&counters.bytes), HEADERS + 1001);
    ck_assert_uint_eq(atomic_load(&counters.checksummed), 1);

    /* Without room it is not counted. */
    make_tcp(9000, 0);
    ck_assert_uint_eq(push_it(), 0);
    ck_assert_uint_eq(atomic_load(&counters.checksummed), 0);
    receiver_stop(&receiver);
}
END_TEST

START_TEST(test_segmented)
{
    static const uint32_t buffers[] = {1526, 300};
    const uint32_t buffer = buffers[_i / KINDS];
    receiver_start(&receiver, 512, WITH_CHECKSUM | ring_kinds[_i % KINDS]);
    post(&receiver, 300, buffer);
    make_tcp(60001, 1448);
    ck_assert_uint_eq(push_it(), 1);
    ck_assert_uint_eq(receive_segments(60001), 42);
    ck_assert_uint_eq(atomic_load(&counters.frames), 1);
    ck_assert_uint_eq(atomic_load(&counters.bytes), HEADERS + 60001);
    ck_assert_uint_eq(atomic_load(&counters.segmented), 1);
    ck_assert_uint_eq(atomic_load(&counters.segments), 42);
    receiver_stop(&receiver);
}
END_TEST

/* Not enough buffers for all segments at the moment: none is delivered, and none twice. */
START_TEST(test_segments_wait)
{
    receiver_start(&receiver, 64, MERGEABLE | BIT(VIRTIO_RING_F_EVENT_IDX) | ring_kinds[_i]);
    make_tcp(20000, 1448);
    ck_assert_uint_eq(push_it(), 0);
    post(&receiver, 13, 2048);
    ck_assert_uint_eq(push_it(), 0);
    ck_assert(!receive(&receiver, &received));
    ck_assert(!virtqueue_enable_kicks(receiver.driver.queue));
    post(&receiver, 1, 2048);
    ck_assert(virtqueue_enable_kicks(receiver.driver.queue));
    ck_assert_uint_eq(push_it(), 1);
    ck_assert_uint_eq(receive_segments(20000), 14);
    receiver_stop(&receiver);
}
END_TEST

/* A ring that can never hold them all gets what fits; the frame counts as dropped. */
START_TEST(test_segments_that_never_fit)
{
    receiver_start(&receiver, 8, MERGEABLE | ring_kinds[_i]);
    post(&receiver, 8, 2048);
    make_tcp(20000, 1448);
    ck_assert_uint_eq(push_it(), 1);
    ck_assert_uint_eq(receive_segments(20000), 8);
    ck_assert_uint_eq(atomic_load(&counters.frames), 0);
    ck_assert_uint_eq(dropped(STATISTICS_DROP_RECEIVER_FULL), 1);
    ck_assert_uint_eq(atomic_load(&counters.segments), 8);
    receiver_stop(&receiver);
}
END_TEST

START_TEST(test_segments_too_large)
{
    receiver_start(&receiver, 64, MODERN | ring_kinds[_i]);
    post(&receiver, 40, 1000);
    make_tcp(20000, 1448);
    ck_assert_uint_eq(push_it(), 1);
    ck_assert(!receive(&receiver, &received));
    ck_assert_uint_eq(dropped(STATISTICS_DROP_TOO_LARGE), 1);
    ck_assert_uint_eq(atomic_load(&counters.segmented), 0);
    receiver_stop(&receiver);
}
END_TEST

/* Headers that lie are dropped; what comes behind them arrives. */
START_TEST(test_lies)
{
    receiver_start(&receiver, 64, (_i % 2 == 0 ? MERGEABLE : WITH_TSO) | ring_kinds[_i / 2]);
    post(&receiver, 40, 2048);
    static const struct virtio_net_hdr_v1 lies[] = {
        {.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM, .csum_start = 60000, .csum_offset = 16},
        {.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM, .csum_start = 6053, .csum_offset = 0},
        {.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM, .csum_start = 0xffff, .csum_offset = 0xffff},
        {.gso_type = 0x77, .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM, .gso_size = 1448, .csum_start = 34},
        {.gso_type = VIRTIO_NET_HDR_GSO_TCPV4,
         .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
         .hdr_len = HEADERS,
         .csum_start = 34,
         .csum_offset = 16},
    };
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        make_tcp(6000, 1448);
        burst.frames[0].header = lies[i];
        ck_assert_uint_eq(push_it(), 1);
        ck_assert_msg(dropped(STATISTICS_DROP_MALFORMED) == 1, "lie %zu was believed", i);
    }
    const uint32_t length = 60;
    make_burst(&length, 1);
    ck_assert_uint_eq(push_it(), 1);
    ck_assert(receive(&receiver, &received));
    check_received(&received, 60, 0);
    receiver_stop(&receiver);
}
END_TEST

/* A gso_size that would cost far more than its frame is worth. */
START_TEST(test_too_many_segments)
{
    receiver_start(&receiver, 1024, MERGEABLE | ring_kinds[_i]);
    post(&receiver, 1000, 100);
    make_tcp(60000, 1);
    ck_assert_uint_eq(push_it(), 1);
    ck_assert_uint_eq(dropped(STATISTICS_DROP_MALFORMED), 1);
    ck_assert(!receive(&receiver, &received));
    receiver_stop(&receiver);
}
END_TEST

TCase *offload_tests(void)
{
    TCase *offloads = tcase_create("offloads");
    tcase_add_loop_test(offloads, test_passed, 0, 2 * KINDS);
    tcase_add_loop_test(offloads, test_checksummed, 0, KINDS);
    tcase_add_loop_test(offloads, test_segmented, 0, 2 * KINDS);
    tcase_add_loop_test(offloads, test_segments_wait, 0, KINDS);
    tcase_add_loop_test(offloads, test_segments_that_never_fit, 0, KINDS);
    tcase_add_loop_test(offloads, test_segments_too_large, 0, KINDS);
    tcase_add_loop_test(offloads, test_lies, 0, 2 * KINDS);
    tcase_add_loop_test(offloads, test_too_many_segments, 0, KINDS);
    return offloads;
}
