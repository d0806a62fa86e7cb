/* Rings under traffic: start, stop, enable, faults, memory, log. */
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/unit/vhost_user/fixture.h"
#include "tests/unit/vhost_user/front_end.h"
#include "tests/unit/vhost_user/suites.h"

static struct front_end guests[2];

static void setup(void)
{
    fixture_start();
    for (unsigned side = 0; side < 2; side++) {
        front_end_connect(&guests[side], fixture_path(side));
        front_end_start(&guests[side], PLAIN_FEATURES);
    }
}

static void teardown(void)
{
    for (unsigned side = 0; side < 2; side++)
        front_end_close(&guests[side]);
    fixture_stop();
}

static void make_frame(uint8_t *frame, size_t length, uint8_t seed)
{
    for (size_t i = 0; i < length; i++)
        frame[i] = (uint8_t)(seed + i * 7);
}

static void expect_frame(unsigned to, uint8_t seed)
{
    uint8_t expected[300];
    uint8_t frame[2048];
    make_frame(expected, sizeof expected, seed);
    ck_assert_int_eq(guest_receive(&guests[to], frame, sizeof frame, FIXTURE_WAIT_MS), sizeof expected);
    ck_assert_mem_eq(frame, expected, sizeof expected);
}

static void send_frame(unsigned from, uint8_t seed)
{
    uint8_t frame[300];
    make_frame(frame, sizeof frame, seed);
    guest_send(&guests[from], frame, sizeof frame);
}

static void exchange(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        for (unsigned side = 0; side < 2; side++) {
            send_frame(side, (uint8_t)i);
            expect_frame(1 - side, (uint8_t)i);
        }
    }
    ck_assert(guest_wait_sent(&guests[0]));
    ck_assert(guest_wait_sent(&guests[1]));
}

static uint64_t dropped(unsigned side, enum statistics_drop why)
{
    return atomic_load(&fixture_slot()->directions[side].dropped[why]);
}

static void wait_for_drops(unsigned side, enum statistics_drop why, uint64_t expected)
{
    const int64_t end = clock_monotonic_ns() + INT64_C(1000000) * FIXTURE_WAIT_MS;
    while (dropped(side, why) != expected) {
        ck_assert_msg(clock_monotonic_ns() < end, "%lu frames were dropped, %lu were expected",
                      (unsigned long)dropped(side, why), (unsigned long)expected);
        (void)usleep(500);
    }
}

static bool is_signalled(int fd)
{
    uint64_t count = 0;
    return read(fd, &count, sizeof count) == sizeof count;
}

START_TEST(test_frames_go_both_ways)
{
    exchange(200);
    for (unsigned side = 0; side < 2; side++) {
        const struct end_status status = fixture_status(side);
        ck_assert_int_eq(status.state, END_RUNNING);
        ck_assert_str_eq(status.reason, "");
        ck_assert_uint_eq(status.queue_pairs, 1);
        ck_assert_uint_eq(atomic_load(&fixture_slot()->directions[side].frames), 200);
    }
    ck_assert(is_signalled(guests[0].rings[0].call_fd));
}
END_TEST

START_TEST(test_stop_gives_the_base_and_only_a_kick_restarts)
{
    exchange(5);
    ck_assert_uint_eq(front_end_get_base(&guests[0], 1), 5);
    ck_assert_uint_eq(front_end_get_base(&guests[0], 1), 5);
    send_frame(0, 77);
    ck_assert_int_eq(front_end_tell_ring(&guests[0], ID_SET_VRING_ENABLE, 1, 1), ACKNOWLEDGED);
    uint8_t frame[2048];
    ck_assert_int_eq(guest_receive(&guests[1], frame, sizeof frame, 50), -1);
    front_end_describe_ring(&guests[0], 1, 5);
    ck_assert_int_eq(front_end_tell_fd(&guests[0], ID_SET_VRING_KICK, 1, guests[0].rings[1].kick_fd),
                     ACKNOWLEDGED);
    expect_frame(1, 77);
}
END_TEST

START_TEST(test_base_of_a_ring_that_never_was)
{
    ck_assert_uint_eq(front_end_get_base(&guests[0], 9), 0);
    exchange(1);
}
END_TEST

START_TEST(test_features_again_under_traffic)
{
    for (unsigned i = 0; i < 20; i++) {
        const uint64_t log = i % 2 == 0 ? FEATURE(FEATURE_LOG_ALL) : 0;
        send_frame(0, (uint8_t)i);
        ck_assert_int_eq(front_end_tell_number(&guests[0], ID_SET_FEATURES, PLAIN_FEATURES | log),
                         ACKNOWLEDGED);
        expect_frame(1, (uint8_t)i);
    }
    exchange(3);
}
END_TEST

START_TEST(test_without_protocol_features_all_is_enabled)
{
    ck_assert_int_eq(front_end_tell_ring(&guests[0], ID_SET_VRING_ENABLE, 0, 0), ACKNOWLEDGED);
    ck_assert_int_eq(fixture_status(0).state, END_CONNECTED);
    ck_assert_int_eq(
        front_end_tell_number(&guests[0], ID_SET_FEATURES, PLAIN_FEATURES & ~FEATURE(FEATURE_PROTOCOL)),
        ACKNOWLEDGED);
    exchange(3);
}
END_TEST

START_TEST(test_disabled_rings)
{
    exchange(1);
    ck_assert_int_eq(front_end_tell_ring(&guests[0], ID_SET_VRING_ENABLE, 1, 0), ACKNOWLEDGED);
    for (uint8_t i = 0; i < 6; i++)
        send_frame(0, i);
    ck_assert_msg(guest_wait_sent(&guests[0]), "a disabled ring's frames are not consumed");
    ck_assert_uint_eq(dropped(0, STATISTICS_DROP_DISABLED), 6);
    ck_assert_int_eq(front_end_tell_ring(&guests[0], ID_SET_VRING_ENABLE, 0, 0), ACKNOWLEDGED);
    for (uint8_t i = 0; i < 4; i++)
        send_frame(1, i);
    ck_assert(guest_wait_sent(&guests[1]));
    ck_assert_uint_eq(dropped(1, STATISTICS_DROP_NO_RECEIVER), 4);
    for (unsigned i = 0; i < 2; i++)
        ck_assert_int_eq(front_end_tell_ring(&guests[0], ID_SET_VRING_ENABLE, i, 1), ACKNOWLEDGED);
    exchange(3);
}
END_TEST

START_TEST(test_receiver_that_left)
{
    exchange(1);
    front_end_close(&guests[1]);
    const struct end_status status = fixture_wait_for_state(1, END_WAITING);
    ck_assert_msg(strstr(status.reason, "left") != NULL, "the reason does not tell: %s", status.reason);
    for (uint8_t i = 0; i < 10; i++)
        send_frame(0, i);
    ck_assert_msg(guest_wait_sent(&guests[0]), "frames for nobody are not consumed");
    wait_for_drops(0, STATISTICS_DROP_NO_RECEIVER, 10);
    front_end_connect(&guests[1], fixture_path(1));
    front_end_start(&guests[1], PLAIN_FEATURES);
    exchange(3);
}
END_TEST

START_TEST(test_rarp_comes_out_at_the_peer)
{
    const uint64_t mac = UINT64_C(0xaa3412005452); /* 52:54:00:12:34:aa */
    const uint8_t bytes[6] = {0x52, 0x54, 0x00, 0x12, 0x34, 0xaa};
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(front_end_tell_number(&guests[0], ID_SEND_RARP, mac), ACKNOWLEDGED);
        uint8_t frame[2048];
        ck_assert_int_eq(guest_receive(&guests[1], frame, sizeof frame, FIXTURE_WAIT_MS), 60);
        ck_assert_mem_eq(frame, "\xff\xff\xff\xff\xff\xff", 6);
        ck_assert_mem_eq(frame + 6, bytes, 6);
        ck_assert_mem_eq(frame + 12, "\x80\x35\0\1\x08\0\6\4\0\3", 10);
        ck_assert_mem_eq(frame + 22, bytes, 6);
    }
    exchange(3);
    /* A guest whose send ring has not started can be announced as well. */
    (void)front_end_get_base(&guests[0], 1);
    ck_assert_int_eq(front_end_tell_number(&guests[0], ID_SEND_RARP, mac), ACKNOWLEDGED);
    uint8_t frame[2048];
    ck_assert_int_eq(guest_receive(&guests[1], frame, sizeof frame, FIXTURE_WAIT_MS), 60);
}
END_TEST

START_TEST(test_fault_costs_one_ring_until_it_is_started_again)
{
    exchange(2);
    guest_send_descriptor(&guests[0], UINT64_C(0xdead00000000), 100, 0);
    const struct end_status status = fixture_wait_for_state(0, END_FAULTED);
    ck_assert_msg(strstr(status.reason, "queue 1: ") == status.reason &&
                      strstr(status.reason, "outside") != NULL,
                  "the reason does not tell: %s", status.reason);
    ck_assert_uint_eq(status.faults, 1);
    ck_assert_msg(is_signalled(guests[0].rings[1].error_fd), "the error descriptor was not signalled");
    ck_assert_int_eq(fixture_status(1).state, END_RUNNING);
    /* The other ring goes on. */
    send_frame(1, 5);
    expect_frame(0, 5);
    /* As the driver does it: stop, forget the bad buffer, start. */
    ck_assert_uint_eq(front_end_get_base(&guests[0], 1), 2);
    guests[0].rings[1].added = 2;
    memcpy(guests[0].memory + guests[0].rings[1].available + 2, &guests[0].rings[1].added, 2);
    front_end_describe_ring(&guests[0], 1, 2);
    ck_assert_int_eq(front_end_tell_fd(&guests[0], ID_SET_VRING_KICK, 1, guests[0].rings[1].kick_fd),
                     ACKNOWLEDGED);
    ck_assert_int_eq(fixture_status(0).state, END_RUNNING);
    exchange(3);
}
END_TEST

START_TEST(test_ring_outside_of_memory_is_refused)
{
    (void)front_end_get_base(&guests[0], 1);
    const struct wire_ring_addresses addresses = {.index = 1,
                                                  .descriptors = GUEST_USER + GUEST_MEMORY - 16,
                                                  .used = GUEST_USER + 0x2000,
                                                  .available = GUEST_USER + 0x1000};
    ck_assert_int_eq(front_end_tell(&guests[0], ID_SET_VRING_ADDR, &addresses, sizeof addresses, NULL, 0),
                     ACKNOWLEDGED);
    ck_assert_int_eq(front_end_tell_fd(&guests[0], ID_SET_VRING_KICK, 1, guests[0].rings[1].kick_fd),
                     REFUSED);
    ck_assert_int_eq(fixture_status(1).state, END_RUNNING);
}
END_TEST

START_TEST(test_memory_that_vanishes_costs_the_connection)
{
    exchange(1);
    ck_assert_int_eq(ftruncate(guests[0].memory_fd, 0), 0);
    send_frame(1, 1); /* what the worker writes for guest 0 now hits the hole */
    ck_assert(front_end_is_closed(&guests[0]));
    const struct end_status status = fixture_wait_for_state(0, END_FAULTED);
    ck_assert_msg(strstr(status.reason, "truncated") != NULL, "the reason does not tell: %s", status.reason);
    ck_assert_int_eq(fixture_status(1).state, END_RUNNING);
    /* Its own mapping is as empty. */
    struct front_end again;
    front_end_connect(&again, fixture_path(0));
    front_end_close(&guests[0]);
    guests[0] = again;
    front_end_start(&guests[0], PLAIN_FEATURES);
    exchange(3);
}
END_TEST

START_TEST(test_memory_table_under_traffic)
{
    for (uint8_t i = 0; i < 20; i++) {
        send_frame(0, i);
        front_end_share_memory(&guests[0]);
        front_end_share_memory(&guests[1]);
        expect_frame(1, i);
    }
    exchange(3);
}
END_TEST

START_TEST(test_memory_that_no_longer_holds_the_rings)
{
    const struct {
        uint32_t count, padding;
        struct wire_region region;
    } elsewhere = {.count = 1, .region = {.guest_address = 0, .size = 4096, .user_address = 0}};
    ck_assert_int_eq(
        front_end_tell(&guests[0], ID_SET_MEM_TABLE, &elsewhere, sizeof elsewhere, &guests[0].memory_fd, 1),
        REFUSED);
    ck_assert_int_eq(fixture_status(0).state, END_CONNECTED);
    front_end_share_memory(&guests[0]);
    for (unsigned i = 0; i < GUEST_RINGS; i++)
        ck_assert_int_eq(front_end_tell_fd(&guests[0], ID_SET_VRING_KICK, i, guests[0].rings[i].kick_fd),
                         ACKNOWLEDGED);
    exchange(3);
}
END_TEST

START_TEST(test_written_pages_are_logged)
{
    const int fd = memfd_create("log", MFD_CLOEXEC);
    ck_assert_int_eq(ftruncate(fd, 4096), 0);
    const uint8_t *bits = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(bits, MAP_FAILED);
    const struct wire_log log = {.size = 4096};
    struct wire_log answer;
    front_end_send(&guests[0], ID_SET_LOG_BASE, VHOST_USER_VERSION, &log, sizeof log, &fd, 1);
    ck_assert_int_eq(front_end_read(&guests[0], ID_SET_LOG_BASE, &answer, sizeof answer, FIXTURE_WAIT_MS),
                     sizeof answer);
    exchange(1); /* LOG_ALL is not acked yet */
    for (unsigned i = 0; i < 4096; i++)
        ck_assert_uint_eq(bits[i], 0);
    ck_assert_int_eq(
        front_end_tell_number(&guests[0], ID_SET_FEATURES, PLAIN_FEATURES | FEATURE(FEATURE_LOG_ALL)),
        ACKNOWLEDGED);
    const struct guest_ring *ring = &guests[0].rings[0];
    const uint64_t used_address = GUEST_ADDRESS + ring->used;
    const struct wire_ring_addresses addresses = {.index = 0,
                                                  .flags = VHOST_USER_RING_LOGGED,
                                                  .descriptors = GUEST_USER + ring->descriptors,
                                                  .used = GUEST_USER + ring->used,
                                                  .available = GUEST_USER + ring->available,
                                                  .log_address = used_address};
    ck_assert_int_eq(front_end_tell(&guests[0], ID_SET_VRING_ADDR, &addresses, sizeof addresses, NULL, 0),
                     ACKNOWLEDGED);
    exchange(1);
    const uint64_t buffer_page = (GUEST_ADDRESS + 0x20000) / 4096;
    ck_assert_msg((bits[buffer_page / 8] >> buffer_page % 8 & 1) != 0, "the buffer's page is not marked");
    const uint64_t used_page = used_address / 4096;
    ck_assert_msg((bits[used_page / 8] >> used_page % 8 & 1) != 0, "the used ring's page is not marked");
    (void)munmap((void *)(uintptr_t)bits, 4096);
    (void)close(fd);
}
END_TEST

START_TEST(test_rings_that_are_polled)
{
    for (unsigned i = 0; i < GUEST_RINGS; i++) {
        ck_assert_int_eq(front_end_tell_fd(&guests[0], ID_SET_VRING_CALL, i, -1), ACKNOWLEDGED);
        ck_assert_int_eq(front_end_tell_fd(&guests[0], ID_SET_VRING_KICK, i, -1), ACKNOWLEDGED);
    }
    for (uint8_t i = 0; i < 10; i++) {
        (void)usleep(2000); /* let it sleep now and then: it has to come back without a kick */
        send_frame(0, i);
        expect_frame(1, i);
    }
}
END_TEST

START_TEST(test_reset_of_the_device)
{
    exchange(2);
    ck_assert_int_eq(front_end_tell(&guests[0], ID_RESET_DEVICE, NULL, 0, NULL, 0), ACKNOWLEDGED);
    ck_assert_int_eq(fixture_status(0).state, END_CONNECTED);
    ck_assert_uint_eq(fixture_status(0).queue_pairs, 0);
    for (unsigned i = 0; i < GUEST_RINGS; i++) {
        front_end_describe_ring(&guests[0], i, 2);
        ck_assert_int_eq(front_end_tell_fd(&guests[0], ID_SET_VRING_KICK, i, guests[0].rings[i].kick_fd),
                         ACKNOWLEDGED);
        ck_assert_int_eq(front_end_tell_ring(&guests[0], ID_SET_VRING_ENABLE, i, 1), ACKNOWLEDGED);
    }
    exchange(3);
}
END_TEST

START_TEST(test_resumed_ring_interrupts_once)
{
    exchange(3);
    (void)is_signalled(guests[0].rings[1].call_fd);
    (void)front_end_get_base(&guests[0], 1);
    front_end_describe_ring(&guests[0], 1, 3);
    ck_assert_int_eq(front_end_tell_fd(&guests[0], ID_SET_VRING_KICK, 1, guests[0].rings[1].kick_fd),
                     ACKNOWLEDGED);
    ck_assert_int_eq(front_end_tell_fd(&guests[0], ID_SET_VRING_CALL, 1, guests[0].rings[1].call_fd),
                     ACKNOWLEDGED);
    ck_assert_msg(is_signalled(guests[0].rings[1].call_fd), "an interrupt that was lost stays lost");
}
END_TEST

/* A front-end that lets writes to its call descriptor block. */
START_TEST(test_call_descriptor_that_blocks)
{
    exchange(1);
    const int fd = guests[0].rings[1].call_fd;
    ck_assert_int_eq(fcntl(fd, F_SETFL, O_RDWR), 0); /* behind our back: O_NONBLOCK is gone */
    (void)is_signalled(fd);
    ck_assert_int_eq(eventfd_write(fd, UINT64_MAX - 1), 0);
    send_frame(0, 1);
    expect_frame(1, 1);
    /* The peer is served, be it after a moment. */
    ck_assert_int_eq(front_end_tell_ring(&guests[1], ID_SET_VRING_ENABLE, 0, 1), ACKNOWLEDGED);
    const struct end_status status = fixture_wait_for_state(0, END_FAULTED);
    ck_assert_msg(strstr(status.reason, "blocks") != NULL, "the reason does not tell: %s", status.reason);
    send_frame(1, 2);
    expect_frame(0, 2);
}
END_TEST

Suite *rings_suite(void)
{
    Suite *suite = suite_create("rings");
    TCase *test = tcase_create("rings");
    tcase_set_timeout(test, 30);
    tcase_add_checked_fixture(test, setup, teardown);
    tcase_add_test(test, test_frames_go_both_ways);
    tcase_add_test(test, test_stop_gives_the_base_and_only_a_kick_restarts);
    tcase_add_test(test, test_base_of_a_ring_that_never_was);
    tcase_add_test(test, test_features_again_under_traffic);
    tcase_add_test(test, test_without_protocol_features_all_is_enabled);
    tcase_add_test(test, test_disabled_rings);
    tcase_add_test(test, test_receiver_that_left);
    tcase_add_test(test, test_rarp_comes_out_at_the_peer);
    tcase_add_test(test, test_fault_costs_one_ring_until_it_is_started_again);
    tcase_add_test(test, test_ring_outside_of_memory_is_refused);
    tcase_add_test(test, test_memory_that_vanishes_costs_the_connection);
    tcase_add_test(test, test_memory_table_under_traffic);
    tcase_add_test(test, test_memory_that_no_longer_holds_the_rings);
    tcase_add_test(test, test_written_pages_are_logged);
    tcase_add_test(test, test_rings_that_are_polled);
    tcase_add_test(test, test_reset_of_the_device);
    tcase_add_test(test, test_resumed_ring_interrupts_once);
    tcase_add_test(test, test_call_descriptor_that_blocks);
    suite_add_tcase(suite, test);
    return suite;
}
