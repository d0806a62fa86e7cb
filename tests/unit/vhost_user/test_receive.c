/* Framing in both directions, without an end. */
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dataplane/vhost_user/receive.h"
#include "dataplane/vhost_user/reply.h"
#include "tests/unit/vhost_user/fixture.h"
#include "tests/unit/vhost_user/front_end.h"
#include "tests/unit/vhost_user/suites.h"

static int sockets[2]; /* ours, the front-end's */
static struct receiver receiver;
static struct front_end peer;

static void setup(void)
{
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    peer = (struct front_end){.fd = sockets[1]};
    memset(&receiver, 0, sizeof receiver);
}

static void teardown(void)
{
    receiver_done(&receiver);
    (void)close(sockets[0]);
    (void)close(sockets[1]);
}

static enum receive_result read_now(struct error *err)
{
    return receiver_read(&receiver, sockets[0], err);
}

START_TEST(test_byte_by_byte)
{
    const struct {
        struct wire_header header;
        uint64_t number;
    } sent = {{.id = 2, .flags = VHOST_USER_VERSION, .size = 8}, UINT64_C(0x1122334455667788)};
    const uint8_t *bytes = (const uint8_t *)&sent;
    /* The compiler pads between header and number. */
    uint8_t wire[20];
    memcpy(wire, bytes, 12);
    memcpy(wire + 12, &sent.number, 8);
    for (size_t i = 0; i < sizeof wire; i++) {
        ck_assert_int_eq(read_now(NULL), RECEIVE_MORE);
        ck_assert_int_eq(write(sockets[1], wire + i, 1), 1);
    }
    ck_assert_int_eq(read_now(NULL), RECEIVE_MESSAGE);
    ck_assert_uint_eq(receiver.message.header.id, 2);
    ck_assert_uint_eq(receiver.message.payload.number, sent.number);
}
END_TEST

START_TEST(test_one_message_at_a_time)
{
    for (uint64_t i = 0; i < 3; i++)
        front_end_send(&peer, 2, VHOST_USER_VERSION, &i, sizeof i, NULL, 0);
    for (uint64_t i = 0; i < 3; i++) {
        ck_assert_int_eq(read_now(NULL), RECEIVE_MESSAGE);
        ck_assert_uint_eq(receiver.message.payload.number, i);
        receiver_done(&receiver);
    }
    ck_assert_int_eq(read_now(NULL), RECEIVE_MORE);
}
END_TEST

START_TEST(test_descriptors_belong_to_their_message)
{
    const uint64_t number = 0;
    int fds[VHOST_USER_DESCRIPTORS_MAX];
    for (unsigned i = 0; i < VHOST_USER_DESCRIPTORS_MAX; i++)
        fds[i] = sockets[1];
    const unsigned before = open_descriptors();
    front_end_send(&peer, 12, VHOST_USER_VERSION, &number, sizeof number, fds, 1);
    front_end_send(&peer, 1, VHOST_USER_VERSION, NULL, 0, NULL, 0);
    front_end_send(&peer, 12, VHOST_USER_VERSION, &number, sizeof number, fds, VHOST_USER_DESCRIPTORS_MAX);
    const unsigned expected[] = {1, 0, VHOST_USER_DESCRIPTORS_MAX};
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(read_now(NULL), RECEIVE_MESSAGE);
        ck_assert_uint_eq(receiver.message.descriptor_count, expected[i]);
        for (unsigned k = 0; k < expected[i]; k++)
            ck_assert_msg((fcntl(receiver.message.descriptors[k], F_GETFD) & FD_CLOEXEC) != 0,
                          "a received descriptor is not close-on-exec");
        receiver_done(&receiver);
    }
    ck_assert_uint_eq(open_descriptors(), before);
}
END_TEST

START_TEST(test_descriptors_with_the_payload_are_refused)
{
    const struct wire_header header = {.id = 12, .flags = VHOST_USER_VERSION, .size = 24};
    const unsigned before = open_descriptors();
    ck_assert_int_eq(write(sockets[1], &header, sizeof header), sizeof header);
    ck_assert_int_eq(read_now(NULL), RECEIVE_MORE);
    const uint8_t rest[12] = {0};
    front_end_send(&peer, 0, 0, rest, sizeof rest, &sockets[1], 1); /* a header's length of payload first */
    struct error err = ERROR_INIT;
    ck_assert_int_eq(read_now(&err), RECEIVE_ERROR);
    ck_assert_ptr_nonnull(strstr(err.detail, "descriptors"));
    ck_assert_uint_eq(open_descriptors(), before);
}
END_TEST

START_TEST(test_lost_descriptors_are_noticed)
{
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const int fds[4] = {sockets[1], sockets[1], sockets[1], sockets[1]};
    front_end_send(&peer, 5, VHOST_USER_VERSION, NULL, 0, fds, 4);
    const unsigned before = open_descriptors();
    const int highest = dup(0);
    (void)close(highest);
    const struct rlimit tight = {.rlim_cur = (rlim_t)highest + 2, .rlim_max = limit.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &tight), 0);
    struct error err = ERROR_INIT;
    const enum receive_result result = read_now(&err);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_int_eq(result, RECEIVE_ERROR);
    ck_assert_ptr_nonnull(strstr(err.detail, "were lost"));
    receiver_done(&receiver);
    ck_assert_uint_eq(open_descriptors(), before);
}
END_TEST

static const struct wire_header bad_headers[] = {
    {.id = 5, .flags = VHOST_USER_VERSION, .size = 4097},
    {.id = 5, .flags = VHOST_USER_VERSION, .size = UINT32_MAX},
    {.id = 1, .flags = 0},
    {.id = 1, .flags = 2},
    {.id = 1, .flags = VHOST_USER_VERSION | VHOST_USER_REPLY},
};

START_TEST(test_bad_headers)
{
    ck_assert_int_eq(write(sockets[1], &bad_headers[_i], sizeof bad_headers[_i]), sizeof bad_headers[_i]);
    struct error err = ERROR_INIT;
    ck_assert_int_eq(read_now(&err), RECEIVE_ERROR);
    ck_assert_str_ne(err.detail, "");
}
END_TEST

START_TEST(test_end_within_a_message)
{
    ck_assert_int_eq(write(sockets[1], "\1\0", 2), 2);
    ck_assert_int_eq(read_now(NULL), RECEIVE_MORE);
    (void)shutdown(sockets[1], SHUT_WR);
    ck_assert_int_eq(read_now(NULL), RECEIVE_CLOSED);
}
END_TEST

START_TEST(test_answers_wait_for_a_reader)
{
    struct output output = {.length = 0};
    const uint64_t number = 77;
    unsigned count = 0;
    while (!output_pending(&output)) {
        ck_assert_int_eq(output_reply(&output, sockets[0], 1, &number, sizeof number, NULL), 0);
        ck_assert_uint_lt(++count, 1000000);
    }
    /* There is room for no more than the one that is under way. */
    ck_assert_int_eq(output_reply(&output, sockets[0], 1, &number, sizeof number, NULL), -1);
    for (unsigned i = 0; i < count; i++) {
        uint64_t answer = 0;
        ck_assert_int_eq(front_end_read(&peer, 1, &answer, sizeof answer, FIXTURE_WAIT_MS), sizeof answer);
        ck_assert_uint_eq(answer, number);
        ck_assert_int_eq(output_continue(&output, sockets[0], NULL), 0);
    }
    ck_assert(!output_pending(&output));
}
END_TEST

Suite *receive_suite(void)
{
    Suite *suite = suite_create("receive");
    TCase *test = tcase_create("receive");
    tcase_add_checked_fixture(test, setup, teardown);
    tcase_add_test(test, test_byte_by_byte);
    tcase_add_test(test, test_one_message_at_a_time);
    tcase_add_test(test, test_descriptors_belong_to_their_message);
    tcase_add_test(test, test_descriptors_with_the_payload_are_refused);
    tcase_add_test(test, test_lost_descriptors_are_noticed);
    tcase_add_loop_test(test, test_bad_headers, 0, sizeof bad_headers / sizeof bad_headers[0]);
    tcase_add_test(test, test_end_within_a_message);
    tcase_add_test(test, test_answers_wait_for_a_reader);
    suite_add_tcase(suite, test);
    return suite;
}
