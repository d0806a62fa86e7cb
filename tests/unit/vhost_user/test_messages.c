/* Messages one by one: what is answered, what is refused. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/vhost_user/fixture.h"
#include "tests/unit/vhost_user/front_end.h"
#include "tests/unit/vhost_user/suites.h"

static struct front_end guest;

static void setup(void)
{
    fixture_start();
    front_end_connect(&guest, fixture_path(0));
}

static void teardown(void)
{
    front_end_close(&guest);
    fixture_stop();
}

/* The connection serves on. */
static void expect_alive(void)
{
    ck_assert_uint_eq(front_end_ask_number(&guest, ID_GET_FEATURES), features_offered(0));
}

START_TEST(test_features_that_were_not_offered)
{
    ck_assert_int_eq(front_end_tell_number(&guest, ID_SET_FEATURES, PLAIN_FEATURES | FEATURE(62)), REFUSED);
    ck_assert_int_eq(front_end_tell_number(&guest, ID_SET_PROTOCOL_FEATURES, FEATURE(40)), REFUSED);
    ck_assert_int_eq(front_end_tell_number(&guest, ID_SET_FEATURES, PLAIN_FEATURES), ACKNOWLEDGED);
    const struct end_status status = fixture_status(0);
    ck_assert_uint_eq(status.features, PLAIN_FEATURES);
    ck_assert_int_eq(status.state, END_CONNECTED);
}
END_TEST

START_TEST(test_offloads_are_off_from_the_next_connection_on)
{
    const uint64_t off = FEATURE(VIRTIO_NET_F_GUEST_TSO4);
    fixture_set_offloads(0, off);
    ck_assert_uint_eq(front_end_ask_number(&guest, ID_GET_FEATURES), features_offered(0));
    front_end_close(&guest);
    front_end_connect(&guest, fixture_path(0));
    ck_assert_uint_eq(front_end_ask_number(&guest, ID_GET_FEATURES), features_offered(off));
}
END_TEST

START_TEST(test_unknown_messages)
{
    const uint32_t ids[] = {0, 23, 28, 35, 41, 46, 63, 1000, UINT32_MAX};
    for (unsigned i = 0; i < sizeof ids / sizeof ids[0]; i++)
        ck_assert_int_eq(front_end_tell_number(&guest, ids[i], 0), REFUSED);
    expect_alive();
    const struct end_status status = fixture_status(0);
    ck_assert_msg(strstr(status.reason, "unknown") != NULL, "the reason does not tell: %s", status.reason);
    /* Without need_reply there is one way to refuse. */
    front_end_send(&guest, 1000, VHOST_USER_VERSION, NULL, 0, NULL, 0);
    ck_assert(front_end_is_closed(&guest));
    const struct end_status after = fixture_wait_for_state(0, END_FAULTED);
    ck_assert_uint_eq(after.faults, 1);
    ck_assert_msg(strstr(after.reason, "1000") != NULL, "the reason does not tell: %s", after.reason);
}
END_TEST

START_TEST(test_a_new_connection_clears_a_fault)
{
    front_end_send(&guest, 1000, VHOST_USER_VERSION, NULL, 0, NULL, 0);
    (void)fixture_wait_for_state(0, END_FAULTED);
    front_end_close(&guest);
    front_end_connect(&guest, fixture_path(0));
    const struct end_status status = fixture_status(0);
    ck_assert_int_eq(status.state, END_CONNECTED);
    ck_assert_uint_eq(status.faults, 1);
    ck_assert_uint_eq(status.peer_pid, (uint32_t)getpid());
}
END_TEST

START_TEST(test_ring_indexes)
{
    const uint32_t indexes[] = {16, 17, 256, 65536, 0x80000000, UINT32_MAX};
    const uint32_t ids[] = {ID_SET_VRING_NUM, ID_SET_VRING_BASE, ID_SET_VRING_ENABLE};
    for (unsigned i = 0; i < sizeof indexes / sizeof indexes[0]; i++) {
        for (unsigned k = 0; k < sizeof ids / sizeof ids[0]; k++)
            ck_assert_int_eq(front_end_tell_ring(&guest, ids[k], indexes[i], 1), REFUSED);
        const struct wire_ring_addresses addresses = {.index = indexes[i]};
        ck_assert_int_eq(front_end_tell(&guest, ID_SET_VRING_ADDR, &addresses, sizeof addresses, NULL, 0),
                         REFUSED);
    }
    ck_assert_int_eq(front_end_tell_ring(&guest, ID_SET_VRING_ENABLE, 15, 1), ACKNOWLEDGED);
    ck_assert_int_eq(front_end_tell_ring(&guest, ID_SET_VRING_ENABLE, 15, 2), REFUSED);
    const struct wire_ring_state state = {.index = 16};
    front_end_send(&guest, ID_GET_VRING_BASE, VHOST_USER_VERSION, &state, sizeof state, NULL, 0);
    ck_assert(front_end_is_closed(&guest));
}
END_TEST

START_TEST(test_indexes_of_descriptors)
{
    const int fd = guest.rings[0].kick_fd;
    const uint64_t bad[] = {16, 0xff, 1 << 9, UINT64_C(1) << 32, UINT64_C(1) << 63};
    const uint32_t ids[] = {ID_SET_VRING_KICK, ID_SET_VRING_CALL, ID_SET_VRING_ERR};
    for (unsigned k = 0; k < sizeof ids / sizeof ids[0]; k++) {
        for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            ck_assert_int_eq(front_end_tell_fd(&guest, ids[k], bad[i], fd), REFUSED);
            ck_assert_int_eq(front_end_tell_fd(&guest, ids[k], bad[i], -1), REFUSED);
        }
        ck_assert_int_eq(front_end_tell_fd(&guest, ids[k], 0, fd), ACKNOWLEDGED);
        ck_assert_int_eq(front_end_tell_fd(&guest, ids[k], 0, -1), ACKNOWLEDGED);
        /* Said to come and missing; said not to come and there. */
        ck_assert_int_eq(front_end_tell_number(&guest, ids[k], 0), REFUSED);
        ck_assert_int_eq(front_end_tell_fd(&guest, ids[k], VHOST_USER_NO_DESCRIPTOR, fd), REFUSED);
    }
}
END_TEST

START_TEST(test_only_eventfds_are_written_to)
{
    int pipe_fds[2];
    ck_assert_int_eq(pipe2(pipe_fds, O_CLOEXEC), 0);
    const int odd[] = {open("/dev/null", O_RDWR | O_CLOEXEC), guest.memory_fd, pipe_fds[1], guest.fd};
    for (unsigned i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        ck_assert_int_eq(front_end_tell_fd(&guest, ID_SET_VRING_KICK, 1, odd[i]), REFUSED);
        ck_assert_int_eq(front_end_tell_fd(&guest, ID_SET_VRING_CALL, 1, odd[i]), REFUSED);
        ck_assert_int_eq(front_end_tell_fd(&guest, ID_SET_VRING_ERR, 1, odd[i]), REFUSED);
    }
    (void)close(odd[0]);
    (void)close(pipe_fds[0]);
    (void)close(pipe_fds[1]);
}
END_TEST

START_TEST(test_sizes_and_counts)
{
    const uint8_t zeros[300] = {0};
    const int two[2] = {guest.memory_fd, guest.memory_fd};
    /* The payload is shorter, or longer, than the message has it. */
    ck_assert_int_eq(front_end_tell(&guest, ID_SET_FEATURES, zeros, 4, NULL, 0), REFUSED);
    ck_assert_int_eq(front_end_tell(&guest, ID_SET_VRING_ADDR, zeros, 39, NULL, 0), REFUSED);
    ck_assert_int_eq(front_end_tell(&guest, ID_SET_VRING_NUM, zeros, 200, NULL, 0), REFUSED);
    /* Descriptors that do not belong, and such that are missing. */
    ck_assert_int_eq(front_end_tell(&guest, ID_SET_OWNER, NULL, 0, two, 1), REFUSED);
    ck_assert_int_eq(front_end_tell(&guest, ID_SET_VRING_CALL, zeros, 8, two, 2), REFUSED);
    ck_assert_int_eq(front_end_tell(&guest, ID_SET_BACKEND_REQ_FD, NULL, 0, NULL, 0), REFUSED);
    ck_assert_int_eq(front_end_tell(&guest, ID_ADD_MEM_REG, zeros, 40, NULL, 0), REFUSED);
    expect_alive();
}
END_TEST

static int tell_table(uint32_t count, size_t size, unsigned fds)
{
    static struct wire_memory_table table;
    int descriptors[WIRE_REGIONS_MAX];
    table.count = count;
    for (unsigned i = 0; i < WIRE_REGIONS_MAX; i++) {
        table.regions[i] = (struct wire_region){.guest_address = GUEST_ADDRESS * (i + 1),
                                                .size = 4096,
                                                .user_address = GUEST_USER * (i + 1) / 64};
        descriptors[i] = guest.memory_fd;
    }
    return front_end_tell(&guest, ID_SET_MEM_TABLE, &table, size, descriptors, fds);
}

START_TEST(test_memory_tables)
{
    ck_assert_int_eq(tell_table(0, 8, 0), REFUSED);
    ck_assert_int_eq(tell_table(1, 8, 1), REFUSED);
    ck_assert_int_eq(tell_table(2, 8 + 64, 1), REFUSED);
    ck_assert_int_eq(tell_table(1, 8 + 32, 2), REFUSED);
    ck_assert_int_eq(tell_table(UINT32_MAX, 8 + 64, 2), REFUSED);
    ck_assert_int_eq(tell_table(0x08000001, 8 + 32, 1), REFUSED);
    ck_assert_int_eq(tell_table(8, 8 + 8 * 32, 8), ACKNOWLEDGED);
}
END_TEST

START_TEST(test_memory_by_regions)
{
    ck_assert_uint_eq(front_end_ask_number(&guest, ID_GET_MAX_MEM_SLOTS), 509);
    struct wire_memory_region region = {
        .region = {.guest_address = GUEST_ADDRESS, .size = 8192, .user_address = GUEST_USER}};
    const int *fd = &guest.memory_fd;
    ck_assert_int_eq(front_end_tell(&guest, ID_REM_MEM_REG, &region, sizeof region, NULL, 0), REFUSED);
    ck_assert_int_eq(front_end_tell(&guest, ID_ADD_MEM_REG, &region, sizeof region, fd, 1), ACKNOWLEDGED);
    const unsigned before = open_descriptors();
    /* once more, as QEMU 7 does for each queue pair; then it is removed as often */
    ck_assert_int_eq(front_end_tell(&guest, ID_ADD_MEM_REG, &region, sizeof region, fd, 1), ACKNOWLEDGED);
    ck_assert_int_eq(front_end_tell(&guest, ID_REM_MEM_REG, &region, sizeof region, fd, 1), ACKNOWLEDGED);
    ck_assert_int_eq(front_end_tell(&guest, ID_REM_MEM_REG, &region, sizeof region, fd, 1), ACKNOWLEDGED);
    ck_assert_int_eq(front_end_tell(&guest, ID_REM_MEM_REG, &region, sizeof region, NULL, 0), REFUSED);
    ck_assert_uint_eq(open_descriptors(), before);
    for (unsigned i = 0; i < 509; i++) {
        region.region.guest_address = GUEST_ADDRESS + i * UINT64_C(0x10000);
        region.region.user_address = GUEST_USER + i * UINT64_C(0x20000);
        ck_assert_int_eq(front_end_tell(&guest, ID_ADD_MEM_REG, &region, sizeof region, fd, 1), ACKNOWLEDGED);
    }
    region.region.guest_address = region.region.user_address = UINT64_C(1) << 40;
    ck_assert_int_eq(front_end_tell(&guest, ID_ADD_MEM_REG, &region, sizeof region, fd, 1), REFUSED);
}
END_TEST

START_TEST(test_status)
{
    ck_assert_int_eq(front_end_tell_number(&guest, ID_SET_STATUS, 11), ACKNOWLEDGED);
    ck_assert_uint_eq(front_end_ask_number(&guest, ID_GET_STATUS), 11);
    ck_assert_int_eq(front_end_tell_number(&guest, ID_SET_STATUS, 256), REFUSED);
    ck_assert_int_eq(front_end_tell_number(&guest, ID_SET_STATUS, 0), ACKNOWLEDGED);
    ck_assert_uint_eq(front_end_ask_number(&guest, ID_GET_STATUS), 0);
}
END_TEST

START_TEST(test_mtu)
{
    const struct {
        uint64_t mtu;
        int expected;
    } cases[] = {{1500, ACKNOWLEDGED}, {65535, ACKNOWLEDGED}, {68, ACKNOWLEDGED},          {67, REFUSED},
                 {0, REFUSED},         {65536, REFUSED},      {UINT64_C(1) << 40, REFUSED}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ck_assert_int_eq(front_end_tell_number(&guest, ID_NET_SET_MTU, cases[i].mtu), cases[i].expected);
}
END_TEST

START_TEST(test_messages_with_an_answer_have_one)
{
    const struct wire_inflight inflight = {.queues = 2, .queue_size = 256};
    uint8_t answer[64] = {0};
    ck_assert_uint_eq(front_end_ask_number(&guest, ID_GET_QUEUE_NUM), 16);
    front_end_send(&guest, ID_IOTLB_MSG, VHOST_USER_VERSION, answer, 32, NULL, 0);
    ck_assert_int_eq(front_end_read(&guest, ID_IOTLB_MSG, answer, sizeof answer, FIXTURE_WAIT_MS), 8);
    ck_assert_int_ne(answer[0], 0);
    front_end_send(&guest, ID_GET_CONFIG, VHOST_USER_VERSION, answer, 12, NULL, 0);
    ck_assert_int_eq(front_end_read(&guest, ID_GET_CONFIG, answer, sizeof answer, FIXTURE_WAIT_MS), 0);
    front_end_send(&guest, ID_GET_INFLIGHT_FD, VHOST_USER_VERSION, &inflight, sizeof inflight, NULL, 0);
    ck_assert_int_eq(front_end_read(&guest, ID_GET_INFLIGHT_FD, answer, sizeof answer, FIXTURE_WAIT_MS), 24);
    const struct wire_inflight absurd[] = {
        {.queues = UINT16_MAX, .queue_size = 8}, {.queues = 2, .queue_size = UINT16_MAX}, {.queues = 0}};
    for (unsigned i = 0; i < 3; i++)
        ck_assert_int_eq(
            front_end_tell(&guest, ID_SET_INFLIGHT_FD, &absurd[i], sizeof absurd[i], &guest.memory_fd, 1),
            REFUSED);
    expect_alive();
}
END_TEST

START_TEST(test_log_base_is_answered_once)
{
    const struct wire_log log = {.size = 4096, .offset = 4096};
    struct wire_log answer = {.size = 0};
    for (unsigned i = 0; i < 2; i++) {
        const uint32_t flags = VHOST_USER_VERSION | (i == 1 ? VHOST_USER_NEED_REPLY : 0);
        front_end_send(&guest, ID_SET_LOG_BASE, flags, &log, sizeof log, &guest.memory_fd, 1);
        ck_assert_int_eq(front_end_read(&guest, ID_SET_LOG_BASE, &answer, sizeof answer, FIXTURE_WAIT_MS),
                         sizeof answer);
        ck_assert_uint_eq(answer.size, log.size);
        ck_assert_uint_eq(answer.offset, log.offset);
        expect_alive(); /* a second answer would come first */
    }
    const struct wire_log beyond = {.size = UINT64_MAX - 4095, .offset = 8192};
    front_end_send(&guest, ID_SET_LOG_BASE, VHOST_USER_VERSION, &beyond, sizeof beyond, &guest.memory_fd, 1);
    ck_assert(front_end_is_closed(&guest));
}
END_TEST

static uint64_t transfer_state(uint32_t direction, uint32_t phase, int fd)
{
    const struct wire_device_state state = {.direction = direction, .phase = phase};
    uint64_t answer = 0;
    front_end_send(&guest, ID_SET_DEVICE_STATE_FD, VHOST_USER_VERSION, &state, sizeof state, &fd, 1);
    ck_assert_int_eq(front_end_read(&guest, ID_SET_DEVICE_STATE_FD, &answer, sizeof answer, FIXTURE_WAIT_MS),
                     8);
    (void)close(fd);
    ck_assert_msg((answer & VHOST_USER_NO_DESCRIPTOR) != 0, "no descriptor comes with the answer");
    return answer & 0xff;
}

START_TEST(test_device_state)
{
    int ends[2];
    char byte = 0;
    /* saving: empty, and its end is seen at once */
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    ck_assert_uint_eq(transfer_state(0, 0, ends[1]), 0);
    ck_assert_int_eq(read(ends[0], &byte, 1), 0);
    (void)close(ends[0]);
    ck_assert_uint_eq(front_end_ask_number(&guest, ID_CHECK_DEVICE_STATE), 0);
    /* loading an empty one */
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    ck_assert_uint_eq(transfer_state(1, 0, ends[0]), 0);
    (void)close(ends[1]);
    ck_assert_uint_eq(front_end_ask_number(&guest, ID_CHECK_DEVICE_STATE), 0);
    /* loading one that is not ours */
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    ck_assert_int_eq(write(ends[1], "x", 1), 1);
    ck_assert_uint_eq(transfer_state(1, 0, ends[0]), 0);
    (void)close(ends[1]);
    ck_assert_uint_ne(front_end_ask_number(&guest, ID_CHECK_DEVICE_STATE), 0);
    /* no such direction, no such phase */
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    ck_assert_uint_ne(transfer_state(2, 0, dup(ends[1])), 0);
    ck_assert_uint_ne(transfer_state(0, 1, ends[1]), 0);
    (void)close(ends[0]);
}
END_TEST

START_TEST(test_state_of_a_running_device_is_refused)
{
    int ends[2];
    front_end_start(&guest, PLAIN_FEATURES);
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    ck_assert_uint_ne(transfer_state(0, 0, ends[1]), 0);
    (void)close(ends[0]);
}
END_TEST

Suite *messages_suite(void)
{
    Suite *suite = suite_create("messages");
    TCase *test = tcase_create("messages");
    tcase_set_timeout(test, 30);
    tcase_add_checked_fixture(test, setup, teardown);
    tcase_add_test(test, test_features_that_were_not_offered);
    tcase_add_test(test, test_offloads_are_off_from_the_next_connection_on);
    tcase_add_test(test, test_unknown_messages);
    tcase_add_test(test, test_a_new_connection_clears_a_fault);
    tcase_add_test(test, test_ring_indexes);
    tcase_add_test(test, test_indexes_of_descriptors);
    tcase_add_test(test, test_only_eventfds_are_written_to);
    tcase_add_test(test, test_sizes_and_counts);
    tcase_add_test(test, test_memory_tables);
    tcase_add_test(test, test_memory_by_regions);
    tcase_add_test(test, test_status);
    tcase_add_test(test, test_mtu);
    tcase_add_test(test, test_messages_with_an_answer_have_one);
    tcase_add_test(test, test_log_base_is_answered_once);
    tcase_add_test(test, test_device_state);
    tcase_add_test(test, test_state_of_a_running_device_is_refused);
    suite_add_tcase(suite, test);
    return suite;
}
