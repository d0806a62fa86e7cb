/* Handshake, restart, close, replacement, signs of life. */
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/sdk/support.h"

static void send_text(struct chan_channel *channel, const char *text)
{
    ck_assert_int_eq(chan_send(channel, text, strlen(text), 0), 0);
}

static void expect_text(struct chan_channel *channel, const char *text)
{
    char buffer[64];
    size_t length = 0;
    int r = chan_recv(channel, buffer, sizeof buffer, &length, 0);
    ck_assert_msg(r == 0, "expected '%s', got %d", text, r);
    ck_assert_uint_eq(length, strlen(text));
    ck_assert_mem_eq(buffer, text, length);
}

static void expect_exchange(struct chan_channel *a, struct chan_channel *b)
{
    send_text(a, "ping");
    expect_text(b, "ping");
    send_text(b, "pong");
    expect_text(a, "pong");
    ck_assert_int_eq(try_recv(a), -EAGAIN);
    ck_assert_int_eq(try_recv(b), -EAGAIN);
}

START_TEST(test_either_side_first)
{
    struct chan_region *region = new_region(MEDIUM_REGION, (enum chan_mapping)_i);
    static const enum chan_side orders[2][2] = {{CHAN_SIDE_HOST, CHAN_SIDE_GUEST},
                                                {CHAN_SIDE_GUEST, CHAN_SIDE_HOST}};
    for (int order = 0; order < 2; order++) {
        struct chan_channel *first = open_side(region, orders[order][0]);
        ck_assert_int_eq(chan_connect(first, 0), -EAGAIN);
        ck_assert_int_eq(chan_connect(first, 5), -ETIMEDOUT);
        struct chan_channel *second = open_side(region, orders[order][1]);
        connect_both(first, second);
        ck_assert_int_eq(chan_connect(first, 0), 0); /* again changes nothing */
        expect_exchange(first, second);
        chan_close(first);
        chan_close(second);
    }
    chan_region_close(region);
}
END_TEST

START_TEST(test_not_connected)
{
    struct chan_region *region = new_region(MEDIUM_REGION, CHAN_MAPPING_CACHED);
    struct chan_channel *channel = open_side(region, CHAN_SIDE_HOST);
    const void *message = NULL;
    void *place = NULL;
    size_t length = 0;
    ck_assert_int_eq(chan_send(channel, "x", 1, -1), -ENOTCONN);
    ck_assert_int_eq(chan_reserve(channel, 1, &place, -1), -ENOTCONN);
    ck_assert_int_eq(chan_peek(channel, &message, &length, -1), -ENOTCONN);
    ck_assert_int_eq(try_recv(channel), -ENOTCONN);
    ck_assert_int_eq(chan_peer_state(channel), CHAN_PEER_ABSENT);
    chan_close(channel);
    chan_close(NULL);
    chan_region_close(region);
}
END_TEST

START_TEST(test_a_side_has_one_owner)
{
    char path[PATH_BYTES];
    scratch_path(path, "owner");
    make_region_file(path, MEDIUM_REGION, true);
    struct chan_region *region = open_path(path);
    struct chan_region *other = open_path(path);
    struct chan_channel *host = open_side(region, CHAN_SIDE_HOST);
    struct chan_channel *refused = NULL;
    struct chan_error error = {""};
    const struct chan_options as_host = {.side = CHAN_SIDE_HOST};
    ck_assert_int_eq(chan_open(region, &as_host, &refused, &error), -EBUSY);
    ck_assert_int_eq(chan_open(other, &as_host, &refused, &error), -EBUSY);
    ck_assert_ptr_nonnull(strstr(error.text, "host side"));
    struct chan_channel *guest = open_side(other, CHAN_SIDE_GUEST);
    chan_close(host);
    host = open_side(other, CHAN_SIDE_HOST);
    const struct chan_options nonsense = {.side = (enum chan_side)7};
    ck_assert_int_eq(chan_open(region, &nonsense, &refused, &error), -EINVAL);
    chan_close(host);
    chan_close(guest);
    chan_region_close(region);
    chan_region_close(other);
}
END_TEST

START_TEST(test_killed_process_leaves_its_side)
{
    char path[PATH_BYTES];
    scratch_path(path, "killed");
    make_region_file(path, MEDIUM_REGION, true);
    int ready[2];
    ck_assert_int_eq(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        (void)open_side(open_path(path), CHAN_SIDE_GUEST);
        if (write(ready[1], "r", 1) == 1)
            (void)pause();
        _exit(1);
    }
    char byte = 0;
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    struct chan_region *region = open_path(path);
    const struct chan_options as_guest = {.side = CHAN_SIDE_GUEST};
    struct chan_channel *guest = NULL;
    ck_assert_int_eq(chan_open(region, &as_guest, &guest, NULL), -EBUSY);
    (void)kill(child, SIGKILL);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    guest = open_side(region, CHAN_SIDE_GUEST);
    chan_close(guest);
    chan_region_close(region);
}
END_TEST

START_TEST(test_close_is_seen_after_draining)
{
    struct pair pair = new_pair(MEDIUM_REGION, (enum chan_mapping)_i);
    send_text(pair.guest, "one");
    send_text(pair.guest, "two");
    chan_close(pair.guest);
    ck_assert_int_eq(chan_peer_state(pair.host), CHAN_PEER_CLOSED);
    ck_assert_int_eq(chan_send(pair.host, "x", 1, 0), -EPIPE);
    expect_text(pair.host, "one");
    expect_text(pair.host, "two");
    ck_assert_int_eq(try_recv(pair.host), -EPIPE);
    ck_assert_int_eq(try_recv(pair.host), -EPIPE);
    ck_assert_int_eq(chan_connect(pair.host, 0), -EPIPE);

    ck_assert_int_eq(chan_reconnect(pair.host, 0), -EAGAIN);
    ck_assert_int_eq(try_recv(pair.host), -ENOTCONN);
    pair.guest = open_side(pair.region, CHAN_SIDE_GUEST);
    connect_both(pair.host, pair.guest);
    expect_exchange(pair.host, pair.guest);
    struct chan_stats stats;
    chan_get_stats(pair.host, &stats);
    ck_assert_uint_eq(stats.sessions, 2);
    free_pair(&pair);
}
END_TEST

START_TEST(test_restart_is_seen_after_draining)
{
    struct pair pair = new_pair(MEDIUM_REGION, (enum chan_mapping)_i);
    send_text(pair.host, "never read");
    send_text(pair.guest, "one");
    send_text(pair.guest, "two");
    chan_close(pair.guest);
    pair.guest = open_side(pair.region, CHAN_SIDE_GUEST);
    /* The new guest waits for the host to leave, and does not touch what the old one sent. */
    ck_assert_int_eq(chan_connect(pair.guest, 0), -EAGAIN);
    expect_text(pair.host, "one");
    ck_assert_int_eq(chan_connect(pair.guest, 0), -EAGAIN);
    expect_text(pair.host, "two");
    ck_assert_int_eq(try_recv(pair.host), -ECONNRESET);
    ck_assert_int_eq(chan_send(pair.host, "x", 1, 0), -ECONNRESET);
    ck_assert_int_eq(chan_connect(pair.host, 0), -ECONNRESET);
    ck_assert_int_eq(chan_peer_state(pair.host), CHAN_PEER_ABSENT);

    ck_assert_int_eq(chan_reconnect(pair.host, 0), -EAGAIN);
    connect_both(pair.guest, pair.host);
    ck_assert_int_eq(try_recv(pair.guest), -EAGAIN); /* "never read" belonged to another session */
    expect_exchange(pair.guest, pair.host);
    free_pair(&pair);
}
END_TEST

START_TEST(test_sender_notices_a_restart)
{
    struct pair pair = new_pair(MEDIUM_REGION, CHAN_MAPPING_CACHED);
    chan_close(pair.guest);
    pair.guest = open_side(pair.region, CHAN_SIDE_GUEST);
    int r = 0;
    int sent = 0;
    while ((r = chan_send(pair.host, "x", 1, 0)) == 0)
        ck_assert_int_le(++sent, 64); /* without ever waiting */
    ck_assert_int_eq(r, -ECONNRESET);
    free_pair(&pair);
}
END_TEST

START_TEST(test_blocked_calls_notice_a_restart)
{
    struct pair pair = new_pair(MEDIUM_REGION, (enum chan_mapping)_i);
    chan_close(pair.guest);
    pair.guest = open_side(pair.region, CHAN_SIDE_GUEST);
    char buffer[8];
    size_t length = 0;
    ck_assert_int_eq(chan_recv(pair.host, buffer, sizeof buffer, &length, -1), -ECONNRESET);
    free_pair(&pair);

    pair = new_pair(MEDIUM_REGION, (enum chan_mapping)_i);
    while (chan_send(pair.host, "x", 1, 0) == 0)
        ;
    chan_close(pair.guest);
    pair.guest = NULL;
    ck_assert_int_eq(chan_send(pair.host, "x", 1, -1), -EPIPE);
    free_pair(&pair);
}
END_TEST

START_TEST(test_both_restart_at_once)
{
    struct pair pair = new_pair(MEDIUM_REGION, (enum chan_mapping)_i);
    for (int round = 0; round < 20; round++) {
        send_text(pair.host, "old");
        send_text(pair.guest, "old");
        ck_assert_int_eq(chan_reconnect(pair.host, 0), -EAGAIN);
        int r = chan_reconnect(pair.guest, 0);
        ck_assert(r == 0 || r == -EAGAIN);
        connect_both(pair.guest, pair.host);
        expect_exchange(pair.host, pair.guest);
    }
    free_pair(&pair);
}
END_TEST

START_TEST(test_peer_restarts_during_the_handshake)
{
    struct chan_region *region = new_region(MEDIUM_REGION, CHAN_MAPPING_CACHED);
    struct chan_channel *host = open_side(region, CHAN_SIDE_HOST);
    struct chan_channel *guest = NULL;
    for (int round = 0; round < 50; round++) {
        chan_close(guest);
        guest = open_side(region, CHAN_SIDE_GUEST);
        /* Each is stopped somewhere else on its way. */
        for (int step = 0; step < round % 3; step++)
            (void)chan_connect(guest, 0);
        int r = chan_connect(host, 0);
        if (r == -EPIPE || r == -ECONNRESET)
            r = chan_reconnect(host, 0);
        ck_assert(r == 0 || r == -EAGAIN);
    }
    for (int i = 0; i < 3 && chan_connect(host, 0) != 0; i++)
        if (chan_connect(guest, 0) == 0)
            ck_assert_int_eq(chan_connect(guest, 0), 0);
    if (try_recv(host) == -ECONNRESET)
        ck_assert_int_eq(chan_reconnect(host, 0), -EAGAIN);
    connect_both(host, guest);
    expect_exchange(host, guest);
    chan_close(host);
    chan_close(guest);
    chan_region_close(region);
}
END_TEST

/* What a killed process leaves is a region in any state, with nobody behind it. A fresh side must neither
 * believe it nor be stuck by it once the other side is there, too. */
START_TEST(test_every_leftover_state)
{
    struct chan_region *region = new_region(MEDIUM_REGION, CHAN_MAPPING_CACHED);
    struct chan_control *controls[2] = {control_of(region, CHAN_SIDE_HOST),
                                        control_of(region, CHAN_SIDE_GUEST)};
    for (uint64_t left = 0; left < 25; left++) {
        for (uint64_t i = 0; i < 2; i++) {
            controls[i]->state = i == 0 ? left / 5 : left % 5;
            controls[i]->epoch = 100 + i;
            controls[i]->acknowledged = 101 - i; /* as if they were connected */
            controls[i]->head = 4096;
            memset(ring_of(region, i == 0 ? CHAN_SIDE_HOST : CHAN_SIDE_GUEST), 0xa5, 8192);
        }
        struct chan_channel *first = open_side(region, left % 2 ? CHAN_SIDE_HOST : CHAN_SIDE_GUEST);
        for (int i = 0; i < 5; i++)
            ck_assert_int_eq(chan_connect(first, 0), -EAGAIN);
        struct chan_channel *second = open_side(region, left % 2 ? CHAN_SIDE_GUEST : CHAN_SIDE_HOST);
        connect_both(first, second);
        expect_exchange(first, second);
        chan_close(first);
        chan_close(second);
    }
    chan_region_close(region);
}
END_TEST

/* An earlier session filled the ring with what looks like records; a later one must not take any of it for
 * one. */
START_TEST(test_stale_bytes_are_never_records)
{
    struct pair pair = new_pair(SMALL_REGION, (enum chan_mapping)_i);
    for (int round = 0; round < 50; round++) {
        struct chan_record_header words[1000];
        for (size_t i = 0; i < 1000; i++)
            words[i] = (struct chan_record_header){
                .length = 8, .type = CHAN_RECORD_MESSAGE, .sequence = (uint16_t)(i + (size_t)round * 1000)};
        ck_assert_int_eq(chan_send(pair.guest, words, sizeof words, 0), 0);
        ck_assert_int_eq(chan_reconnect(pair.guest, 0), -EAGAIN);
        ck_assert_int_eq(chan_reconnect(pair.host, 0), -EAGAIN);
        connect_both(pair.guest, pair.host);
        for (int i = 0; i < 20; i++) {
            ck_assert_int_eq(try_recv(pair.host), -EAGAIN);
            send_text(pair.guest, "12345678 and a little"); /* ends amid the old words */
            expect_text(pair.host, "12345678 and a little");
        }
        ck_assert_int_eq(try_recv(pair.host), -EAGAIN);
    }
    free_pair(&pair);
}
END_TEST

START_TEST(test_replaced_region)
{
    char path[PATH_BYTES];
    scratch_path(path, "replaced");
    make_region_file(path, MEDIUM_REGION, true);
    struct pair pair = {.region = open_path(path)};
    pair.host = open_side(pair.region, CHAN_SIDE_HOST);
    pair.guest = open_side(pair.region, CHAN_SIDE_GUEST);
    connect_both(pair.host, pair.guest);
    send_text(pair.guest, "of the old content");

    replace_superblock(path, MEDIUM_REGION, 2);
    ck_assert_int_eq(chan_peer_state(pair.host), CHAN_PEER_ABSENT);
    ck_assert_int_eq(try_recv(pair.host), -ECONNRESET); /* undrained: the ring is not what it was */
    ck_assert_int_eq(chan_send(pair.host, "x", 1, 0), -ECONNRESET);
    ck_assert_int_eq(try_recv(pair.guest), -ECONNRESET);

    ck_assert_int_eq(chan_reconnect(pair.host, 0), -EAGAIN);
    ck_assert_int_eq(chan_reconnect(pair.guest, 0), -EAGAIN);
    connect_both(pair.host, pair.guest);
    expect_exchange(pair.host, pair.guest);

    /* While the handshake is under way it is noticed, too. */
    ck_assert_int_eq(chan_reconnect(pair.host, 0), -EAGAIN);
    replace_superblock(path, MEDIUM_REGION, 3);
    ck_assert_int_eq(chan_connect(pair.host, -1), -ECONNRESET);

    /* Another size is another region. */
    replace_superblock(path, SMALL_REGION, 4);
    ck_assert_int_eq(chan_reconnect(pair.host, 0), -ESTALE);
    free_pair(&pair);
}
END_TEST

START_TEST(test_signs_of_life)
{
    struct chan_region *region = new_region(MEDIUM_REGION, CHAN_MAPPING_CACHED);
    const struct chan_options options = {.side = CHAN_SIDE_HOST, .suspect_ms = 20};
    struct chan_channel *host = NULL;
    ck_assert_int_eq(chan_open(region, &options, &host, NULL), 0);
    struct chan_channel *guest = open_side(region, CHAN_SIDE_GUEST);
    connect_both(host, guest);
    ck_assert_int_eq(chan_peer_state(host), CHAN_PEER_ALIVE);

    int64_t deadline = now_ms() + 5000;
    while (chan_peer_state(host) != CHAN_PEER_SUSPECT)
        ck_assert_int_lt(now_ms(), deadline);
    (void)try_recv(guest); /* it calls: it lives */
    ck_assert_int_eq(chan_peer_state(host), CHAN_PEER_ALIVE);
    send_text(host, "a suspect peer is no error");
    chan_close(guest);
    ck_assert_int_eq(chan_peer_state(host), CHAN_PEER_CLOSED);
    chan_close(host);
    chan_region_close(region);
}
END_TEST

TCase *session_tests(void)
{
    TCase *tests = tcase_create("session");
    tcase_set_timeout(tests, 60);
    add_mapping_test(tests, test_either_side_first);
    tcase_add_test(tests, test_not_connected);
    tcase_add_test(tests, test_a_side_has_one_owner);
    tcase_add_test(tests, test_killed_process_leaves_its_side);
    add_mapping_test(tests, test_close_is_seen_after_draining);
    add_mapping_test(tests, test_restart_is_seen_after_draining);
    tcase_add_test(tests, test_sender_notices_a_restart);
    add_mapping_test(tests, test_blocked_calls_notice_a_restart);
    add_mapping_test(tests, test_both_restart_at_once);
    tcase_add_test(tests, test_peer_restarts_during_the_handshake);
    tcase_add_test(tests, test_every_leftover_state);
    add_mapping_test(tests, test_stale_bytes_are_never_records);
    tcase_add_test(tests, test_replaced_region);
    tcase_add_test(tests, test_signs_of_life);
    return tests;
}
