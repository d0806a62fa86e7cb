/* Both socket roles: who may connect, who is turned away, who comes back. */
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/unit/vhost_user/fixture.h"
#include "tests/unit/vhost_user/front_end.h"
#include "tests/unit/vhost_user/suites.h"

static int listen_at(const char *path)
{
    const struct sockaddr_un address = unix_address(path);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    return fd;
}

static int connect_to(const char *path)
{
    const struct sockaddr_un address = unix_address(path);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

START_TEST(test_stale_socket_is_replaced)
{
    (void)close(listen_at(fixture_path(0)));
    const struct end_specification specification = fixture_specification(0, END_SERVER);
    ck_assert_int_eq(fixture_new_end(0, &specification, -1, NULL), 0);
    struct stat status;
    ck_assert_int_eq(lstat(fixture_path(0), &status), 0);
    ck_assert_uint_eq(status.st_mode & 07777, 0600);
    struct front_end guest;
    front_end_connect(&guest, fixture_path(0));
    front_end_close(&guest);
    fixture_destroy_end(0);
    ck_assert_msg(access(fixture_path(0), F_OK) != 0, "the socket is still there");
}
END_TEST

START_TEST(test_nothing_else_is_replaced)
{
    const struct end_specification specification = fixture_specification(0, END_SERVER);
    struct error err = ERROR_INIT;
    /* a file */
    const int file = open(fixture_path(0), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    ck_assert_int_eq(write(file, "x", 1), 1);
    (void)close(file);
    ck_assert_int_eq(fixture_new_end(0, &specification, -1, &err), -1);
    ck_assert_int_eq(err.reason, REASON_SOCKET_FAILED);
    struct stat status;
    ck_assert_int_eq(stat(fixture_path(0), &status), 0);
    ck_assert_int_eq(status.st_size, 1);
    (void)unlink(fixture_path(0));
    /* a socket that somebody listens on */
    const int listener = listen_at(fixture_path(0));
    ck_assert_int_eq(fixture_new_end(0, &specification, -1, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.detail, "listens"));
    (void)close(connect_to(fixture_path(0)));
    (void)close(listener);
}
END_TEST

START_TEST(test_given_listener)
{
    const struct end_specification specification = fixture_specification(0, END_SERVER);
    ck_assert_int_eq(fixture_new_end(0, &specification, listen_at(fixture_path(0)), NULL), 0);
    struct front_end guest;
    front_end_connect(&guest, fixture_path(0));
    front_end_close(&guest);
    fixture_destroy_end(0);
    ck_assert_msg(access(fixture_path(0), F_OK) == 0, "a path that others bound was unlinked");
}
END_TEST

START_TEST(test_given_descriptor_that_is_no_listener)
{
    const struct end_specification specification = fixture_specification(0, END_SERVER);
    const int odd[] = {open("/dev/null", O_RDWR | O_CLOEXEC), socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
                       socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    const unsigned before = open_descriptors();
    for (unsigned i = 0; i < 3; i++) {
        struct error err = ERROR_INIT;
        ck_assert_int_eq(fixture_new_end(0, &specification, odd[i], &err), -1);
        ck_assert_int_eq(err.reason, REASON_SOCKET_FAILED);
    }
    ck_assert_uint_eq(open_descriptors(), before - 3);
}
END_TEST

START_TEST(test_second_client_waits_and_a_third_is_turned_away)
{
    const struct end_specification specification = fixture_specification(0, END_SERVER);
    ck_assert_int_eq(fixture_new_end(0, &specification, -1, NULL), 0);
    struct front_end first;
    front_end_connect(&first, fixture_path(0));
    const unsigned before = open_descriptors();
    for (unsigned i = 0; i < 20; i++) {
        const struct front_end second = {.fd = connect_to(fixture_path(0))};
        ck_assert_uint_eq(front_end_ask_number(&second, ID_GET_FEATURES), features_offered(0));
        const struct front_end third = {.fd = connect_to(fixture_path(0))};
        ck_assert_msg(front_end_is_closed(&third), "a third client is not turned away");
        (void)close(third.fd);
        ck_assert_uint_eq(front_end_ask_number(&first, ID_GET_FEATURES), features_offered(0));
        (void)close(second.fd);
    }
    /* The standby's place is looked at in the loop's own time. */
    const int64_t end = clock_monotonic_ns() + FIXTURE_WAIT_MS * INT64_C(1000000);
    while (open_descriptors() > before && clock_monotonic_ns() < end)
        (void)sched_yield();
    ck_assert_uint_eq(open_descriptors(), before);
    ck_assert_uint_eq(fixture_wait_for_state(0, END_CONNECTED).connections, 21);
    front_end_close(&first);
    (void)fixture_wait_for_state(0, END_WAITING);
    front_end_connect(&first, fixture_path(0));
    front_end_close(&first);
}
END_TEST

START_TEST(test_no_descriptors_are_left)
{
    const struct end_specification specification = fixture_specification(0, END_SERVER);
    ck_assert_int_eq(fixture_new_end(0, &specification, -1, NULL), 0);
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    for (unsigned i = 0; i < 3; i++) {
        const struct front_end client = {.fd = connect_to(fixture_path(0))};
        (void)front_end_ask_number(&client, ID_GET_FEATURES);
        const struct front_end unlucky = {.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
        (void)close(client.fd);
        (void)fixture_wait_for_state(0, END_WAITING);
        /* Everything is in use from here on. */
        const int lowest = dup(0);
        (void)close(lowest);
        const struct rlimit tight = {.rlim_cur = (rlim_t)lowest, .rlim_max = limit.rlim_max};
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &tight), 0);
        const struct sockaddr_un address = unix_address(fixture_path(0));
        const int connected = connect(unlucky.fd, (const struct sockaddr *)&address, sizeof address);
        const bool closed = front_end_is_closed(&unlucky);
        (void)fixture_status(0); /* it has its spare descriptor back */
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
        ck_assert_int_eq(connected, 0);
        ck_assert_msg(closed, "a client that cannot be served waits for ever");
        (void)close(unlucky.fd);
    }
    struct front_end guest;
    front_end_connect(&guest, fixture_path(0));
    front_end_close(&guest);
}
END_TEST

/* Takes the end's connection, as a front-end that listens. */
static void accept_from(int listener, struct front_end *front_end)
{
    const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    front_end_attach(front_end, fd);
    ck_assert_uint_eq(front_end_ask_number(front_end, ID_GET_FEATURES), features_offered(0));
}

START_TEST(test_client_role_tries_until_somebody_listens)
{
    const struct end_specification specification = fixture_specification(0, END_CLIENT);
    ck_assert_int_eq(fixture_new_end(0, &specification, -1, NULL), 0);
    const int64_t end = clock_monotonic_ns() + INT64_C(1000000) * FIXTURE_WAIT_MS;
    while (strstr(fixture_status(0).reason, "No such file") == NULL) {
        ck_assert_msg(clock_monotonic_ns() < end, "the reason does not tell: %s", fixture_status(0).reason);
        (void)usleep(1000);
    }
    ck_assert_int_eq(fixture_status(0).state, END_WAITING);
    const int listener = listen_at(fixture_path(0));
    for (unsigned i = 0; i < 3; i++) {
        struct front_end guest;
        accept_from(listener, &guest);
        ck_assert_int_eq(fixture_status(0).state, END_CONNECTED);
        front_end_close(&guest);
    }
    (void)close(listener);
    fixture_destroy_end(0);
    ck_assert_msg(access(fixture_path(0), F_OK) == 0, "a client unlinked its front-end's socket");
}
END_TEST

static struct front_end guests[2];

static void start_pair(void)
{
    fixture_start();
    for (unsigned side = 0; side < 2; side++)
        front_end_connect(&guests[side], fixture_path(side));
}

static void stop_pair(void)
{
    for (unsigned side = 0; side < 2; side++)
        front_end_close(&guests[side]);
    fixture_stop();
}

START_TEST(test_unread_answers_are_nobody_elses_trouble)
{
    front_end_start(&guests[0], PLAIN_FEATURES);
    front_end_start(&guests[1], PLAIN_FEATURES);
    ck_assert_int_eq(fcntl(guests[0].fd, F_SETFL, O_RDWR | O_NONBLOCK), 0);
    const struct wire_header header = {.id = ID_GET_FEATURES, .flags = VHOST_USER_VERSION};
    unsigned sent = 0;
    unsigned stalls = 0;
    while (stalls < 20 && sent < 1000000) { /* full, and it stays full */
        if (send(guests[0].fd, &header, sizeof header, MSG_NOSIGNAL) == sizeof header) {
            sent++;
            stalls = 0;
        } else {
            stalls++;
            (void)usleep(1000);
        }
    }
    ck_assert_uint_lt(sent, 1000000);
    ck_assert_uint_eq(front_end_ask_number(&guests[1], ID_GET_FEATURES), features_offered(0));
    uint8_t frame[2048] = {0};
    guest_send(&guests[1], frame, 100);
    ck_assert_int_eq(guest_receive(&guests[0], frame, sizeof frame, FIXTURE_WAIT_MS), 100);
    /* Once they are read all of them come. */
    ck_assert_int_eq(fcntl(guests[0].fd, F_SETFL, O_RDWR), 0);
    for (unsigned i = 0; i < sent; i++) {
        uint64_t answer = 0;
        ck_assert_int_eq(front_end_read(&guests[0], ID_GET_FEATURES, &answer, sizeof answer, FIXTURE_WAIT_MS),
                         8);
    }
}
END_TEST

START_TEST(test_coming_and_going_leaves_nothing_behind)
{
    front_end_close(&guests[0]);
    (void)fixture_wait_for_state(0, END_WAITING);
    const unsigned before = open_descriptors();
    for (unsigned i = 0; i < 50; i++) {
        struct front_end guest;
        front_end_connect(&guest, fixture_path(0));
        if (i % 3 != 0)
            front_end_start(&guest, PLAIN_FEATURES);
        if (i % 3 == 1)
            (void)send(guest.fd, "\1\0\0", 3, MSG_NOSIGNAL); /* leaves within a message */
        front_end_close(&guest);
    }
    (void)fixture_wait_for_state(0, END_WAITING);
    ck_assert_uint_eq(open_descriptors(), before);
    front_end_connect(&guests[0], fixture_path(0));
    front_end_start(&guests[0], PLAIN_FEATURES);
}
END_TEST

Suite *sockets_suite(void)
{
    Suite *suite = suite_create("sockets");
    TCase *single = tcase_create("one end");
    tcase_set_timeout(single, 30);
    tcase_add_checked_fixture(single, fixture_start_bare, fixture_stop);
    tcase_add_test(single, test_stale_socket_is_replaced);
    tcase_add_test(single, test_nothing_else_is_replaced);
    tcase_add_test(single, test_given_listener);
    tcase_add_test(single, test_given_descriptor_that_is_no_listener);
    tcase_add_test(single, test_second_client_waits_and_a_third_is_turned_away);
    tcase_add_test(single, test_no_descriptors_are_left);
    tcase_add_test(single, test_client_role_tries_until_somebody_listens);
    suite_add_tcase(suite, single);
    TCase *pair = tcase_create("both ends");
    tcase_set_timeout(pair, 60);
    tcase_add_checked_fixture(pair, start_pair, stop_pair);
    tcase_add_test(pair, test_unread_answers_are_nobody_elses_trouble);
    tcase_add_test(pair, test_coming_and_going_leaves_nothing_behind);
    suite_add_tcase(suite, pair);
    return suite;
}
