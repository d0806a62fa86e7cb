/* Frames into a receive queue, as they are. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dataplane/memory/dirty_log.h"
#include "tests/unit/virtio_net/frames.h"

static struct receiver receiver;
static struct received received;

static unsigned push_all(void)
{
    return net_push(receiver.driver.queue, &burst, 0, &counters);
}

static void push_one(uint32_t length)
{
    make_burst(&length, 1);
    ck_assert_uint_eq(push_all(), 1);
}

static void expect_frame(uint32_t length, unsigned seed)
{
    ck_assert_msg(receive(&receiver, &received), "a frame of %u bytes did not arrive", length);
    check_received(&received, length, seed);
}

static void expect_nothing(void)
{
    ck_assert(!receive(&receiver, &received));
}

/* ---- one buffer a frame ---- */

START_TEST(test_simple)
{
    static const uint64_t features[] = {MODERN, MERGEABLE};
    receiver_start(&receiver, 256, features[_i / KINDS] | ring_kinds[_i % KINDS]);
    uint32_t lengths[BURST_FRAMES];
    for (unsigned round = 0; round < 20; round++) {
        uint64_t bytes = 0;
        for (unsigned i = 0; i < BURST_FRAMES; i++)
            bytes += lengths[i] = FRAME_LENGTH_MIN + (round * BURST_FRAMES + i) % 1500;
        post(&receiver, BURST_FRAMES, 2048);
        make_burst(lengths, BURST_FRAMES);
        reset_counters();
        ck_assert_uint_eq(push_all(), BURST_FRAMES);
        ck_assert_uint_eq(atomic_load(&counters.frames), BURST_FRAMES);
        ck_assert_uint_eq(atomic_load(&counters.bytes), bytes);
        for (unsigned i = 0; i < BURST_FRAMES; i++) {
            expect_frame(lengths[i], i);
            ck_assert_uint_eq(received.header.num_buffers, 1);
            ck_assert_uint_eq(received.header.flags, 0);
            ck_assert_uint_eq(received.header.gso_type, 0);
        }
        expect_nothing();
        receiver.driver.free_address = GUEST_C;
    }
    receiver_stop(&receiver);
}
END_TEST

START_TEST(test_legacy_header)
{
    receiver_start(&receiver, 16, ring_kinds[_i] & ~PACKED);
    const uint32_t in_one[] = {2048}, in_two[] = {LEGACY_HEADER, 1514};
    post_chain(&receiver, in_one, 1, false);
    post_chain(&receiver, in_two, 2, false);
    const uint32_t lengths[] = {100, 1514};
    make_burst(lengths, 2);
    ck_assert_uint_eq(push_all(), 2);
    expect_frame(100, 0);
    expect_frame(1514, 1);
    receiver_stop(&receiver);
}
END_TEST

START_TEST(test_from_the_middle)
{
    receiver_start(&receiver, 16, MODERN | ring_kinds[_i]);
    post(&receiver, 4, 2048);
    const uint32_t lengths[] = {60, 61, 62, 63};
    make_burst(lengths, 4);
    ck_assert_uint_eq(net_push(receiver.driver.queue, &burst, 2, &counters), 2);
    expect_frame(62, 2);
    expect_frame(63, 3);
    expect_nothing();
    receiver_stop(&receiver);
}
END_TEST

/* A frame in many pieces, into a buffer of many pieces, with tables and without. */
START_TEST(test_pieces)
{
    const bool indirect = _i >= KINDS;
    receiver_start(&receiver, 256, MERGEABLE | INDIRECT | ring_kinds[_i % KINDS]);
    static const uint32_t shapes[][6] = {
        {12, 3000, 1, 1, 1, 1}, {1, 11, 2000, 7, 900, 600},    {6, 6, 1, 1, 1, 3000},
        {5, 0, 10, 0, 3000, 1}, {40, 900, 900, 900, 900, 900},
    };
    static uint8_t bytes[3000];
    make_frame(bytes, sizeof bytes, 0);
    for (unsigned shape = 0; shape < 5; shape++) {
        post_chain(&receiver, shapes[shape], 6, indirect);
        const uint32_t cuts[] = {0, 1, 1, 17, 100, 2000, 3000};
        burst.count = 1;
        burst.frames[0] = (struct frame){.length = sizeof bytes, .segment_count = 6};
        for (unsigned i = 0; i < 6; i++)
            burst.segments[i] = (struct iovec){.iov_base = bytes + cuts[i], .iov_len = cuts[i + 1] - cuts[i]};
        ck_assert_uint_eq(push_all(), 1);
        expect_frame(sizeof bytes, 0);
        ck_assert_uint_eq(received.buffers, 1);
    }
    receiver_stop(&receiver);
}
END_TEST

/* ---- mergeable buffers ---- */

START_TEST(test_mergeable)
{
    receiver_start(&receiver, 512, MERGEABLE | ring_kinds[_i]);
    const uint32_t lengths[] = {60, 187, 188, 189, 387, 388, 389, 1514, 9000, 65550};
    for (unsigned i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        const unsigned buffers = (lengths[i] + HEADER + 199) / 200;
        post(&receiver, buffers + 2 - receiver.posted_count, 200);
        push_one(lengths[i]);
        expect_frame(lengths[i], 0);
        ck_assert_uint_eq(received.buffers, buffers);
        ck_assert_uint_eq(received.first_used, buffers > 1 ? 200 : lengths[i] + HEADER);
        expect_nothing();
    }
    receiver_stop(&receiver);
}
END_TEST

/* Buffers of many lengths and shapes, frames of many lengths, in one burst. */
START_TEST(test_mixture)
{
    receiver_start(&receiver, 1024, MERGEABLE | INDIRECT | ring_kinds[_i]);
    static const uint32_t shapes[][3] = {
        {777, 0, 0}, {1531, 0, 0}, {100, 33, 200}, {333, 0, 0}, {12, 1, 600}};
    for (unsigned i = 0; i < 300; i++)
        post_chain(&receiver, shapes[i % 5], shapes[i % 5][1] > 0 ? 3 : 1, i % 2 == 1);
    uint32_t lengths[BURST_FRAMES];
    for (unsigned i = 0; i < BURST_FRAMES; i++)
        lengths[i] = 60 + i * i % 1500;
    lengths[40] = 30000;
    make_burst(lengths, BURST_FRAMES);
    ck_assert_uint_eq(push_all(), BURST_FRAMES);
    for (unsigned i = 0; i < BURST_FRAMES; i++)
        expect_frame(lengths[i], i);
    expect_nothing();
    receiver_stop(&receiver);
}
END_TEST

/* ---- what does not fit ---- */

/* A frame larger than its buffer is dropped whole, and the next one gets the buffer. */
START_TEST(test_too_large)
{
    receiver_start(&receiver, 16, MODERN | ring_kinds[_i]);
    post(&receiver, 2, 140);
    const uint32_t lengths[] = {129, 128, 9000, 60};
    make_burst(lengths, 4);
    reset_counters();
    ck_assert_uint_eq(push_all(), 4);
    ck_assert_uint_eq(dropped(STATISTICS_DROP_TOO_LARGE), 2);
    ck_assert_uint_eq(atomic_load(&counters.frames), 2);
    expect_frame(128, 1);
    expect_frame(60, 3);
    expect_nothing();
    receiver_stop(&receiver);
}
END_TEST

/* Buffers that do not hold the header hold nothing; the driver gets nothing wrong to see. */
START_TEST(test_tiny)
{
    receiver_start(&receiver, 64, MERGEABLE | ring_kinds[_i]);
    post(&receiver, 30, 11);
    const uint32_t lengths[] = {60, 14, 300};
    make_burst(lengths, 3);
    reset_counters();
    ck_assert_uint_eq(push_all(), 3);
    ck_assert_uint_eq(dropped(STATISTICS_DROP_TOO_LARGE), 3);
    expect_nothing();
    receiver_stop(&receiver);

    receiver_start(&receiver, 64, MERGEABLE | ring_kinds[_i]);
    post(&receiver, 30, 12);
    push_one(60);
    expect_frame(60, 0);
    ck_assert_uint_eq(received.buffers, 6);
    receiver_stop(&receiver);
}
END_TEST

/* Too few at the moment: the frame waits, and nothing of it is to be seen. */
START_TEST(test_waits_for_buffers)
{
    receiver_start(&receiver, 64, MERGEABLE | BIT(VIRTIO_RING_F_EVENT_IDX) | ring_kinds[_i]);
    const uint32_t lengths[] = {100, 4000, 60};
    make_burst(lengths, 3);
    reset_counters();
    ck_assert_uint_eq(push_all(), 0);
    post(&receiver, 4, 500);
    ck_assert_uint_eq(push_all(), 1);
    expect_frame(100, 0);
    ck_assert_uint_eq(net_push(receiver.driver.queue, &burst, 1, &counters), 0);
    expect_nothing();
    ck_assert_msg(!virtqueue_enable_kicks(receiver.driver.queue), "three buffers do not help");
    post(&receiver, 10, 500);
    ck_assert(virtqueue_enable_kicks(receiver.driver.queue));
    ck_assert_uint_eq(net_push(receiver.driver.queue, &burst, 1, &counters), 2);
    expect_frame(4000, 1);
    ck_assert_uint_eq(received.buffers, 9);
    expect_frame(60, 2);
    ck_assert_uint_eq(atomic_load(&counters.frames), 3);
    for (unsigned i = 0; i < STATISTICS_DROP_COUNT; i++)
        ck_assert_uint_eq(dropped((enum statistics_drop)i), 0);
    receiver_stop(&receiver);
}
END_TEST

/* Too few for ever: all that a full ring has. */
START_TEST(test_never_fits)
{
    const bool packed = (ring_kinds[_i] & PACKED) != 0;
    receiver_start(&receiver, packed ? 7 : 8, MERGEABLE | ring_kinds[_i]);
    post(&receiver, receiver.driver.size, 500);
    const uint32_t lengths[] = {5000, 60};
    make_burst(lengths, 2);
    reset_counters();
    ck_assert_uint_eq(push_all(), 2);
    ck_assert_uint_eq(dropped(STATISTICS_DROP_TOO_LARGE), 1);
    expect_frame(60, 1);
    expect_nothing();
    receiver_stop(&receiver);
}
END_TEST

/* More pieces than are put together for one frame. */
START_TEST(test_too_many_buffers)
{
    receiver_start(&receiver, 2048, MERGEABLE | ring_kinds[_i]);
    post(&receiver, 1500, 20);
    const uint32_t lengths[] = {25000, 1000 * 20 - HEADER};
    make_burst(lengths, 2);
    reset_counters();
    ck_assert_uint_eq(push_all(), 2);
    ck_assert_uint_eq(dropped(STATISTICS_DROP_TOO_LARGE), 1);
    expect_frame(lengths[1], 1);
    ck_assert_uint_eq(received.buffers, 1000);
    receiver_stop(&receiver);
}
END_TEST

START_TEST(test_malformed)
{
    receiver_start(&receiver, 16, MODERN | ring_kinds[_i]);
    post(&receiver, 4, 2048);
    const uint32_t lengths[] = {60, 60, 60, 60};
    make_burst(lengths, 4);
    burst.frames[1] = (struct frame){.malformed = true};
    burst.frames[2] = (struct frame){.malformed = true};
    reset_counters();
    ck_assert_uint_eq(push_all(), 4);
    ck_assert_uint_eq(dropped(STATISTICS_DROP_MALFORMED), 2);
    ck_assert_uint_eq(atomic_load(&counters.frames), 2);
    expect_frame(60, 0);
    expect_frame(60, 3);
    expect_nothing();
    receiver_stop(&receiver);
}
END_TEST

START_TEST(test_stopped)
{
    receiver_start(&receiver, 16, MODERN | ring_kinds[_i]);
    post(&receiver, 4, 2048);
    virtqueue_stop(receiver.driver.queue);
    const uint32_t length = 60;
    make_burst(&length, 1);
    ck_assert_uint_eq(push_all(), 0);
    expect_nothing();
    receiver_stop(&receiver);
}
END_TEST

/* From one ring to the other: every length, both kinds of layout. */
START_TEST(test_ring_to_ring)
{
    static const uint32_t cuts[][3] = {{2000, 0, 0}, {HEADER, 0, 0}, {5, 9, 30}};
    struct driver sender;
    driver_start(&sender, 64, MODERN | ring_kinds[_i]);
    receiver_start(&receiver, 64, MERGEABLE | ring_kinds[KINDS - 1 - _i]);
    static uint8_t frame[3000];
    const struct virtio_net_hdr_v1 header = {.flags = 0};
    for (uint32_t length = FRAME_LENGTH_MIN; length < 2300; length += length < 300 ? 1 : 37) {
        const unsigned layout = length % 3;
        make_frame(frame, length, length);
        add_frame(&sender, &header, HEADER, frame, length, cuts[layout], layout == 2 ? 3 : layout, false);
        driver_publish(&sender);
        post(&receiver, 3 - receiver.posted_count, 1000);
        ck_assert_uint_eq(net_pull(sender.queue, &burst), 1);
        ck_assert_uint_eq(push_all(), 1);
        net_release(sender.queue, 1);
        expect_frame(length, length);
        struct used used[DRIVER_SIZE_MAX];
        ck_assert_uint_eq(driver_collect(&sender, used), 1);
        sender.free_address = GUEST_C;
        if (receiver.posted_count == 0)
            receiver.driver.free_address = GUEST_C;
    }
    driver_stop(&sender);
    receiver_stop(&receiver);
}
END_TEST

/* ---- the dirty log ---- */

static bool is_marked(const struct dirty_log *log, uint64_t address)
{
    const uint64_t page = address / DIRTY_LOG_PAGE;
    return (log->bits[page / 8] >> (page % 8) & 1) != 0;
}

START_TEST(test_log)
{
    enum { LOG_SIZE = 0x20000 };
    receiver_start(&receiver, 64, MERGEABLE | ring_kinds[_i]);
    const int fd = memfd_create("log", MFD_CLOEXEC);
    ck_assert_int_eq(ftruncate(fd, LOG_SIZE), 0);
    struct dirty_log *log = NULL;
    struct error err = ERROR_INIT;
    ck_assert_msg(dirty_log_new(fd, LOG_SIZE, 0, &log, &err) == 0, "%s", err.detail);
    (void)close(fd);
    virtqueue_set_log(receiver.driver.queue, log, false, 0);
    post(&receiver, 1, 12000); /* on three pages, of which the frame reaches one */
    post(&receiver, 12, 3000);
    const uint32_t lengths[] = {60, 20000};
    make_burst(lengths, 2);
    ck_assert_uint_eq(push_all(), 2);
    ck_assert(is_marked(log, GUEST_C));
    ck_assert(!is_marked(log, GUEST_C + DIRTY_LOG_PAGE));
    for (uint32_t i = 0; i < 20000; i += 100) {
        const unsigned buffer = 1 + (i + HEADER) / 3000;
        const uint64_t address = receiver.posted[buffer].pieces[0].address + (i + HEADER) % 3000;
        ck_assert_msg(is_marked(log, address), "byte %u of the frame is on a page that is not marked", i);
    }
    ck_assert(!is_marked(log, receiver.posted[12].pieces[0].address + 2999));
    virtqueue_set_log(receiver.driver.queue, NULL, false, 0);
    dirty_log_free(log);
    receiver_stop(&receiver);
}
END_TEST

TCase *push_tests(void)
{
    TCase *push = tcase_create("push");
    tcase_set_timeout(push, 60);
    tcase_add_loop_test(push, test_simple, 0, 2 * KINDS);
    tcase_add_loop_test(push, test_legacy_header, 0, 2);
    tcase_add_loop_test(push, test_from_the_middle, 0, KINDS);
    tcase_add_loop_test(push, test_pieces, 0, 2 * KINDS);
    tcase_add_loop_test(push, test_mergeable, 0, KINDS);
    tcase_add_loop_test(push, test_mixture, 0, KINDS);
    tcase_add_loop_test(push, test_too_large, 0, KINDS);
    tcase_add_loop_test(push, test_tiny, 0, KINDS);
    tcase_add_loop_test(push, test_waits_for_buffers, 0, KINDS);
    tcase_add_loop_test(push, test_never_fits, 0, KINDS);
    tcase_add_loop_test(push, test_too_many_buffers, 0, KINDS);
    tcase_add_loop_test(push, test_malformed, 0, KINDS);
    tcase_add_loop_test(push, test_stopped, 0, KINDS);
    tcase_add_loop_test(push, test_ring_to_ring, 0, KINDS);
    tcase_add_loop_test(push, test_log, 0, KINDS);
    return push;
}
