/* A process on one side is killed again and again, at any moment; the other side survives, gets every message
 * that was complete, no byte that was not, and is told that the session is over. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/sdk/support.h"

enum { MOST = 4000, TIMEOUT_MS = 20000 };

static int rounds(void)
{
    return UNDER_TSAN ? 30 : 200;
}

/* What the killed process sends: its round, a running number, and a pattern that follows from both. */
struct message {
    uint64_t round, number;
    unsigned char pattern[MOST];
};

static size_t pattern_length(uint64_t round, uint64_t number)
{
    uint64_t state = round * 1000003 + number;
    return (size_t)(next_random(&state) % MOST);
}

static _Noreturn void run_victim(const char *path, enum chan_side side, uint64_t round)
{
    struct chan_channel *channel = open_side(open_path(path), side);
    if (chan_connect(channel, -1) != 0)
        _exit(1);
    for (uint64_t number = 0;; number++) {
        size_t length = pattern_length(round, number);
        void *place = NULL;
        if (chan_reserve(channel, sizeof(struct message), &place, -1) != 0)
            _exit(2);
        struct message *message = place;
        message->round = round;
        message->number = number;
        fill_pattern(message->pattern, length, round + number);
        if (chan_commit(channel, offsetof(struct message, pattern) + length) != 0)
            _exit(3);
        unsigned char byte = 0;
        size_t got = 0;
        (void)chan_recv(channel, &byte, 1, &got, 0);
    }
}

/* Receives until the session ends; all of it must be one unbroken sequence of one round. Returns how many
 * came. */
static uint64_t drain(struct chan_channel *channel, uint64_t newest_round)
{
    static struct message message;
    uint64_t round = UINT64_MAX;
    for (uint64_t number = 0;; number++) {
        size_t length = 0;
        int r = chan_recv(channel, &message, sizeof message, &length, TIMEOUT_MS);
        if (r == -ECONNRESET)
            return number;
        ck_assert_msg(r == 0, "round %llu: message %llu: %s", (unsigned long long)newest_round,
                      (unsigned long long)number, chan_error_text(r));
        if (number == 0)
            round = message.round;
        ck_assert_uint_eq(message.round, round);
        ck_assert_uint_eq(message.number, number);
        ck_assert_uint_le(round, newest_round);
        ck_assert_uint_eq(length, offsetof(struct message, pattern) + pattern_length(round, number));
        ck_assert_msg(is_pattern(message.pattern, pattern_length(round, number), round + number),
                      "round %llu: message %llu is damaged", (unsigned long long)round,
                      (unsigned long long)number);
        (void)chan_send(channel, "x", 1, 0);
    }
}

static void kill_and_wait(pid_t child)
{
    (void)kill(child, SIGKILL);
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFSIGNALED(status), "the process ended by itself, with status %d", WEXITSTATUS(status));
}

static void nap(uint64_t microseconds)
{
    (void)usleep((useconds_t)microseconds);
}

/* The victim is killed while the survivor is receiving, sending, waiting, or in its handshake. */
static void torture(enum chan_side victim_side)
{
    char path[PATH_BYTES];
    scratch_path(path, "torture");
    make_region_file(path, SMALL_REGION, true);
    struct chan_region *region = open_path(path);
    struct chan_channel *channel =
        open_side(region, victim_side == CHAN_SIDE_HOST ? CHAN_SIDE_GUEST : CHAN_SIDE_HOST);
    uint64_t random = (uint64_t)victim_side;
    uint64_t received = 0;
    uint64_t sessions = 0;
    for (int round = 0; round < rounds(); round++) {
        pid_t child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0)
            run_victim(path, victim_side, (uint64_t)round);
        /* Half of the time let it get into its stride, half of the time kill it anywhere, the handshake
         * included. */
        bool met = round % 2 == 0;
        if (met) {
            int r = chan_connect(channel, TIMEOUT_MS);
            if (r == -ECONNRESET)
                r = chan_reconnect(channel, TIMEOUT_MS);
            ck_assert_msg(r == 0, "round %d: connecting: %s", round, chan_error_text(r));
        } else {
            (void)chan_connect(channel, 0);
        }
        nap(next_random(&random) % 3000);
        if (!met)
            (void)chan_connect(channel, 0);
        kill_and_wait(child);

        int r = chan_connect(channel, 0);
        if (r == -EAGAIN)
            continue; /* it never got to a session; the next one meets the same handshake */
        sessions++;
        /* Its successor tells us that it is gone; without one nobody can. */
        child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0)
            run_victim(path, victim_side, (uint64_t)round);
        received += drain(channel, (uint64_t)round);
        ck_assert_int_eq(chan_reconnect(channel, TIMEOUT_MS), 0);
        kill_and_wait(child);
    }
    ck_assert_uint_gt(sessions, (uint64_t)rounds() / 3);
    ck_assert_uint_gt(received, 0);
    chan_close(channel);
    chan_region_close(region);
}

START_TEST(test_killed_guest)
{
    torture(CHAN_SIDE_GUEST);
}
END_TEST

START_TEST(test_killed_host)
{
    torture(CHAN_SIDE_HOST);
}
END_TEST

/* Both sides are processes, both are killed at random, neither tells the other; at the end two that live must
 * meet. */
START_TEST(test_both_killed)
{
    char path[PATH_BYTES];
    scratch_path(path, "both");
    make_region_file(path, SMALL_REGION, true);
    uint64_t random = 99;
    for (int round = 0; round < rounds() / 2; round++) {
        pid_t children[2];
        for (int i = 0; i < 2; i++) {
            children[i] = fork();
            ck_assert_int_ge(children[i], 0);
            if (children[i] == 0)
                run_victim(path, (round + i) % 2 == 0 ? CHAN_SIDE_HOST : CHAN_SIDE_GUEST, (uint64_t)round);
        }
        nap(next_random(&random) % 2000);
        kill_and_wait(children[next_random(&random) % 2]);
        for (int i = 0; i < 2; i++)
            if (waitpid(children[i], NULL, WNOHANG) == 0)
                kill_and_wait(children[i]);
    }
    struct pair pair = {.region = open_path(path)};
    pair.host = open_side(pair.region, CHAN_SIDE_HOST);
    pair.guest = open_side(pair.region, CHAN_SIDE_GUEST);
    connect_both(pair.host, pair.guest);
    unsigned char byte = 0;
    size_t length = 0;
    ck_assert_int_eq(chan_recv(pair.host, &byte, 1, &length, 0), -EAGAIN);
    ck_assert_int_eq(chan_recv(pair.guest, &byte, 1, &length, 0), -EAGAIN);
    free_pair(&pair);
}
END_TEST

TCase *restart_tests(void)
{
    TCase *tests = tcase_create("restart");
    tcase_set_timeout(tests, 200);
    tcase_add_test(tests, test_killed_guest);
    tcase_add_test(tests, test_killed_host);
    tcase_add_test(tests, test_both_killed);
    return tests;
}
