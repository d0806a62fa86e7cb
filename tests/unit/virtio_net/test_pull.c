/* Frames out of a transmit queue, in every layout that there is; and what is no frame. */
#include <string.h>
#include <unistd.h>

#include "tests/unit/virtio_net/frames.h"

static const struct virtio_net_hdr_v1 marked_header = {.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                                                       .hdr_len = 0x1234,
                                                       .gso_size = 0x5678,
                                                       .csum_start = 34,
                                                       .csum_offset = 16};

static const struct layout {
    unsigned count;
    uint32_t lengths[16];
} layouts[] = {
    {0, {0}},
    {1, {12}},
    {2, {6, 6}},
    {12, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
    {2, {10, 2}},
    {2, {11, 2}},
    {1, {13}},
    {1, {5}},
    {4, {1, 11, 100, 3}},
    {3, {12, 0, 7}},
    {3, {0, 0, 12}},
    {4, {0, 4, 0, 30}},
};
enum { LAYOUTS = sizeof layouts / sizeof layouts[0] };

static void check_given_back(struct driver *driver, unsigned count)
{
    struct used used[DRIVER_SIZE_MAX];
    ck_assert_uint_eq(driver_collect(driver, used), count);
    ck_assert_uint_eq(driver->room, driver->size);
}

/* _i: kind of ring, with and without tables. */
START_TEST(test_layouts)
{
    const bool indirect = _i >= KINDS;
    struct driver driver;
    driver_start(&driver, 64, MODERN | ring_kinds[_i % KINDS] | (indirect ? INDIRECT : 0));
    for (unsigned round = 0; round < 5 * LAYOUTS; round++) {
        const struct layout *layout = &layouts[round % LAYOUTS];
        const uint32_t length = 60 + 97 * (round / LAYOUTS);
        uint8_t frame[2000];
        make_frame(frame, length, round);
        add_frame(&driver, &marked_header, HEADER, frame, length, layout->lengths, layout->count, indirect);
        driver_publish(&driver);
        ck_assert_uint_eq(net_pull(driver.queue, &burst), 1);
        check_pulled(0, frame, length);
        struct virtio_net_hdr_v1 header = burst.frames[0].header;
        ck_assert_int_eq(memcmp(&header, &marked_header, HEADER), 0);
        net_release(driver.queue, 1);
        check_given_back(&driver, 1);
    }
    driver_stop(&driver);
}
END_TEST

START_TEST(test_legacy_header)
{
    struct driver driver;
    driver_start(&driver, 64, ring_kinds[_i] & ~PACKED);
    uint8_t frame[100];
    make_frame(frame, sizeof frame, 1);
    for (unsigned i = 0; i < LAYOUTS; i++)
        add_frame(&driver, &marked_header, LEGACY_HEADER, frame, sizeof frame, layouts[i].lengths,
                  i % 4 == 0 ? layouts[i].count : 0, false);
    driver_publish(&driver);
    ck_assert_uint_eq(net_pull(driver.queue, &burst), LAYOUTS);
    for (unsigned i = 0; i < LAYOUTS; i++) {
        check_pulled(i, frame, sizeof frame);
        ck_assert_int_eq(memcmp(&burst.frames[i].header, &marked_header, LEGACY_HEADER), 0);
    }
    driver_stop(&driver);
}
END_TEST

/* A pull takes nothing; a release gives back from the front. */
START_TEST(test_pull_and_release)
{
    struct driver driver;
    driver_start_at(&driver, 32, MODERN | ring_kinds[_i], (ring_kinds[_i] & PACKED) != 0 ? 20 : 65520);
    uint8_t frame[100];
    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < 20; i++)
            send_frame(&driver, 60 + i, i);
        const uint32_t base = virtqueue_base(driver.queue);
        ck_assert_uint_eq(net_pull(driver.queue, &burst), 20);
        ck_assert_uint_eq(net_pull(driver.queue, &burst), 20);
        ck_assert_uint_eq(virtqueue_base(driver.queue), base);
        net_release(driver.queue, 13);
        struct used used[DRIVER_SIZE_MAX];
        ck_assert_uint_eq(driver_collect(&driver, used), 13);
        ck_assert_uint_eq(net_pull(driver.queue, &burst), 7);
        for (unsigned i = 0; i < 7; i++) {
            make_frame(frame, 60 + 13 + i, 13 + i);
            check_pulled(i, frame, 60 + 13 + i);
        }
        net_release(driver.queue, 7);
        check_given_back(&driver, 7);
        ck_assert_uint_eq(net_pull(driver.queue, &burst), 0);
        driver.free_address = GUEST_C;
    }
    driver_stop(&driver);
}
END_TEST

/* More than a burst; and rings of every size round and round, with chains over their end. */
START_TEST(test_bursts)
{
    struct driver driver;
    driver_start(&driver, 256, MODERN | ring_kinds[_i]);
    for (unsigned i = 0; i < 150; i++)
        send_frame(&driver, 60 + i, i);
    unsigned seen = 0;
    const unsigned expected[] = {64, 64, 22, 0};
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_uint_eq(net_pull(driver.queue, &burst), expected[i]);
        for (unsigned k = 0; k < burst.count; k++, seen++)
            ck_assert_uint_eq(burst.frames[k].length, 60 + seen);
        net_release(driver.queue, burst.count);
    }
    check_given_back(&driver, 150);
    driver_stop(&driver);
}
END_TEST

START_TEST(test_odd_sizes)
{
    static const uint32_t sizes[] = {1, 2, 3, 5, 7, 13, 100};
    const uint32_t size = sizes[_i];
    struct driver driver;
    driver_start(&driver, size, MODERN | PACKED);
    uint8_t frame[400];
    for (unsigned round = 0; round < 60; round++) {
        driver.free_address = GUEST_C;
        const unsigned pieces = round % (size < 5 ? size : 5);
        const uint32_t layout[] = {4, 8, 20, 20};
        unsigned count = 0;
        while (driver.room >= pieces + 1 && count < 3) {
            make_frame(frame, 300, round + count);
            add_frame(&driver, &marked_header, HEADER, frame, 300, layout, pieces, false);
            count++;
        }
        driver_publish(&driver);
        ck_assert_uint_eq(net_pull(driver.queue, &burst), count);
        for (unsigned i = 0; i < count; i++) {
            make_frame(frame, 300, round + i);
            check_pulled(i, frame, 300);
        }
        net_release(driver.queue, count);
        check_given_back(&driver, count);
    }
    driver_stop(&driver);
}
END_TEST

/* In order, one used element stands for the whole burst. */
START_TEST(test_in_order_is_one_element)
{
    struct driver driver;
    driver_start(&driver, 32, MODERN | IN_ORDER);
    memset(driver_used(&driver)->ring, 0xee, 32 * sizeof(struct vring_used_elem));
    for (unsigned i = 0; i < 20; i++)
        send_frame(&driver, 60, i);
    ck_assert_uint_eq(net_pull(driver.queue, &burst), 20);
    net_release(driver.queue, 20);
    ck_assert_uint_eq(driver_used(&driver)->idx, 20);
    ck_assert_uint_eq(driver_used(&driver)->ring[0].id, 19);
    ck_assert_uint_eq(driver_used(&driver)->ring[0].len, 0);
    ck_assert_uint_eq(driver_used(&driver)->ring[1].id, 0xeeeeeeee);
    check_given_back(&driver, 20);
    driver_stop(&driver);
}
END_TEST

/* Direct descriptors before an indirect one are unusual, but allowed. */
START_TEST(test_direct_then_indirect)
{
    struct driver driver;
    driver_start(&driver, 8, MODERN | INDIRECT | (_i == 0 ? 0 : PACKED));
    uint8_t frame[300];
    make_frame(frame, sizeof frame, 3);
    memset(driver_at(&driver, GUEST_C), 0, HEADER);
    driver_write(&driver, GUEST_C + 0x1000, frame, 100);
    driver_write(&driver, GUEST_C + 0x2000, frame + 100, 200);
    const uint16_t more = _i == 0 ? VRING_DESC_F_NEXT : 0;
    driver_write_descriptor(&driver, GUEST_C + 0x3000, GUEST_C + 0x1000, 100, more, 1);
    driver_write_descriptor(&driver, GUEST_C + 0x3010, GUEST_C + 0x2000, 200, 0, 0);
    const uint16_t available = _i == 0 ? 0 : 1U << VRING_PACKED_DESC_F_AVAIL;
    driver_set_descriptor(&driver, 1, GUEST_C + 0x3000, 32, VRING_DESC_F_INDIRECT | available, 9);
    driver_set_descriptor(&driver, 0, GUEST_C, HEADER, VRING_DESC_F_NEXT | available, 1);
    if (_i == 0) {
        driver_push_head(&driver, 0);
        driver_publish(&driver);
    }
    ck_assert_uint_eq(net_pull(driver.queue, &burst), 1);
    check_pulled(0, frame, sizeof frame);
    driver_stop(&driver);
}
END_TEST

/* Buffers, tables and a table's entry that lie half in one region and half in the next one. */
START_TEST(test_across_regions)
{
    struct driver driver;
    driver_start(&driver, 64, MODERN | INDIRECT | ring_kinds[_i]);
    uint8_t bytes[HEADER + 9000] = {0};
    make_frame(bytes + HEADER, 9000, 5);
    for (uint32_t before = 0; before <= 100; before += before < 24 ? 1 : 25) {
        const uint64_t at = GUEST_BORDER - before;
        driver_write(&driver, at, bytes, sizeof bytes);
        const struct piece whole = {.address = at, .length = sizeof bytes};
        (void)driver_add(&driver, &whole, 1, false);
        driver_publish(&driver);
        ck_assert_uint_eq(net_pull(driver.queue, &burst), 1);
        check_pulled(0, bytes + HEADER, 9000);
        net_release(driver.queue, 1);

        const uint64_t buffer = driver_allocate(&driver, sizeof bytes);
        driver_write(&driver, buffer, bytes, sizeof bytes);
        const struct piece parts[] = {{.address = buffer, .length = 20},
                                      {.address = buffer + 20, .length = 1000},
                                      {.address = buffer + 1020, .length = sizeof bytes - 1020}};
        (void)driver_add_table(&driver, parts, 3, at);
        driver_publish(&driver);
        ck_assert_uint_eq(net_pull(driver.queue, &burst), 1);
        check_pulled(0, bytes + HEADER, 9000);
        net_release(driver.queue, 1);
        struct used used[DRIVER_SIZE_MAX];
        ck_assert_uint_eq(driver_collect(&driver, used), 2);
    }
    driver_stop(&driver);
}
END_TEST

/* Chains of a valid shape that hold no frame: given back, counted, and the ring goes on. */
START_TEST(test_malformed)
{
    const uint32_t too_long = HEADER + FRAME_LENGTH_MAX + 1;
    const uint32_t lengths[] = {0, 1, 11, 12, 13, HEADER + FRAME_LENGTH_MIN - 1, too_long, 1000000};
    enum { COUNT = sizeof lengths / sizeof lengths[0] };
    struct driver driver;
    driver_start(&driver, 64, MODERN | ring_kinds[_i]);
    for (unsigned i = 0; i < COUNT; i++) {
        const struct piece piece = {.address = GUEST_C, .length = lengths[i]};
        (void)driver_add(&driver, &piece, 1, false);
        const struct piece pieces[] = {{.address = GUEST_C, .length = lengths[i] / 2},
                                       {.address = GUEST_C, .length = lengths[i] - lengths[i] / 2}};
        (void)driver_add(&driver, pieces, 2, false);
    }
    driver_publish(&driver);
    send_frame(&driver, 60, 1);
    ck_assert_uint_eq(net_pull(driver.queue, &burst), 2 * COUNT + 1);
    for (unsigned i = 0; i < 2 * COUNT; i++) {
        ck_assert_msg(burst.frames[i].malformed, "a chain of %u bytes is a frame", lengths[i / 2]);
        ck_assert_uint_eq(burst.frames[i].length, 0);
        ck_assert_uint_eq(burst.frames[i].segment_count, 0);
    }
    ck_assert(!burst.frames[burst.count - 1].malformed);
    ck_assert_int_eq(virtqueue_fault(driver.queue), VIRTQUEUE_FINE);
    net_release(driver.queue, burst.count);
    check_given_back(&driver, 2 * COUNT + 1);
    driver_stop(&driver);
}
END_TEST

/* The shortest and the longest frame. */
START_TEST(test_limits)
{
    struct driver driver;
    driver_start(&driver, 64, MODERN | ring_kinds[_i]);
    send_frame(&driver, FRAME_LENGTH_MIN, 1);
    send_frame(&driver, FRAME_LENGTH_MAX, 2);
    ck_assert_uint_eq(net_pull(driver.queue, &burst), 2);
    ck_assert_uint_eq(burst.frames[0].length, FRAME_LENGTH_MIN);
    ck_assert_uint_eq(burst.frames[1].length, FRAME_LENGTH_MAX);
    ck_assert(!burst.frames[0].malformed && !burst.frames[1].malformed);
    driver_stop(&driver);
}
END_TEST

/* Chains of so many pieces that a burst cannot hold many of them: the others come with the next pull. */
START_TEST(test_many_pieces)
{
    enum { CHAINS = 5, PIECES = 1000 };
    struct driver driver;
    driver_start(&driver, 8, MODERN | INDIRECT | ring_kinds[_i]);
    static struct piece pieces[PIECES];
    uint8_t bytes[PIECES] = {0};
    make_frame(bytes + HEADER, PIECES - HEADER, 1);
    driver_write(&driver, GUEST_B, bytes, sizeof bytes);
    for (unsigned i = 0; i < PIECES; i++)
        pieces[i] = (struct piece){.address = GUEST_B + i, .length = 1};
    for (unsigned i = 0; i < CHAINS; i++)
        (void)driver_add(&driver, pieces, PIECES, true);
    driver_publish(&driver);
    unsigned seen = 0;
    while (net_pull(driver.queue, &burst) > 0) {
        ck_assert_uint_le(burst.segment_count, BURST_SEGMENTS);
        for (unsigned i = 0; i < burst.count; i++)
            check_pulled(i, bytes + HEADER, PIECES - HEADER);
        seen += burst.count;
        net_release(driver.queue, burst.count);
    }
    ck_assert_uint_eq(seen, CHAINS);
    check_given_back(&driver, CHAINS);
    driver_stop(&driver);
}
END_TEST

/* A release that comes after the queue was stopped, or started anew, does nothing. */
START_TEST(test_release_after_stop)
{
    struct driver driver;
    driver_start(&driver, 8, MODERN | ring_kinds[_i]);
    send_frame(&driver, 60, 1);
    ck_assert_uint_eq(net_pull(driver.queue, &burst), 1);
    const uint32_t base = virtqueue_base(driver.queue);
    virtqueue_stop(driver.queue);
    net_release(driver.queue, 1);
    ck_assert_uint_eq(net_pull(driver.queue, &burst), 0);
    ck_assert_uint_eq(virtqueue_base(driver.queue), base);
    struct error err = ERROR_INIT;
    ck_assert_int_eq(virtqueue_start(driver.queue, &driver.setup, driver.memory, &err), 0);
    net_release(driver.queue, 1);
    ck_assert_uint_eq(virtqueue_base(driver.queue), base);
    ck_assert_uint_eq(net_pull(driver.queue, &burst), 1);
    driver_stop(&driver);
}
END_TEST

TCase *pull_tests(void)
{
    TCase *pull = tcase_create("pull");
    tcase_add_loop_test(pull, test_layouts, 0, 2 * KINDS);
    tcase_add_loop_test(pull, test_legacy_header, 0, 2);
    tcase_add_loop_test(pull, test_pull_and_release, 0, KINDS);
    tcase_add_loop_test(pull, test_bursts, 0, KINDS);
    tcase_add_loop_test(pull, test_odd_sizes, 0, 7);
    tcase_add_test(pull, test_in_order_is_one_element);
    tcase_add_loop_test(pull, test_direct_then_indirect, 0, 2);
    tcase_add_loop_test(pull, test_across_regions, 0, KINDS);
    tcase_add_loop_test(pull, test_malformed, 0, KINDS);
    tcase_add_loop_test(pull, test_limits, 0, KINDS);
    tcase_add_loop_test(pull, test_many_pieces, 0, KINDS);
    tcase_add_loop_test(pull, test_release_after_stop, 0, KINDS);
    return pull;
}
