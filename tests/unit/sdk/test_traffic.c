/* Many messages at once in both directions, between threads and between processes, every byte checked. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/sdk/support.h"

enum { MOST = 3000, TIMEOUT_MS = 20000 };

static unsigned long message_count(void)
{
    return UNDER_TSAN ? 20000 : 200000;
}

/* One direction: message i has a length and a content that follow from i. */
struct job {
    struct chan_channel *channel;
    bool zero_copy;
    unsigned long count;
    uint64_t seed;
    const char *failure; /* NULL: all went well */
    unsigned long at;
};

static size_t length_of(const struct job *job, unsigned long i)
{
    uint64_t state = job->seed + i;
    uint64_t random = next_random(&state);
    /* Mostly small ones, now and then a large one, so that both full and empty happen. */
    return random % 16 == 0 ? (size_t)(random >> 8) % MOST : (size_t)(random >> 8) % 64;
}

static void *give_up(struct job *job, const char *what, unsigned long at)
{
    job->failure = what;
    job->at = at;
    return NULL;
}

static void *send_all(void *argument)
{
    struct job *job = argument;
    unsigned char buffer[MOST];
    for (unsigned long i = 0; i < job->count; i++) {
        size_t length = length_of(job, i);
        if (job->zero_copy) {
            void *place = NULL;
            if (chan_reserve(job->channel, MOST, &place, TIMEOUT_MS) != 0)
                return give_up(job, "reserving", i);
            fill_pattern(place, length, i);
            if (chan_commit(job->channel, length) != 0)
                return give_up(job, "committing", i);
            continue;
        }
        fill_pattern(buffer, length, i);
        if (chan_send(job->channel, buffer, length, TIMEOUT_MS) != 0)
            return give_up(job, "sending", i);
    }
    return NULL;
}

static void *receive_all(void *argument)
{
    struct job *job = argument;
    unsigned char buffer[MOST];
    for (unsigned long i = 0; i < job->count; i++) {
        size_t length = 0;
        const void *message = buffer;
        int r = job->zero_copy ? chan_peek(job->channel, &message, &length, TIMEOUT_MS)
                               : chan_recv(job->channel, buffer, sizeof buffer, &length, TIMEOUT_MS);
        if (r != 0)
            return give_up(job, chan_error_text(r), i);
        if (length != length_of(job, i))
            return give_up(job, "a wrong length", i);
        if (!is_pattern(message, length, i))
            return give_up(job, "wrong content", i);
        if (job->zero_copy && chan_release(job->channel) != 0)
            return give_up(job, "releasing", i);
    }
    return NULL;
}

static void expect_success(const struct job *job)
{
    ck_assert_msg(job->failure == NULL, "message %lu of %lu: %s", job->at, job->count, job->failure);
}

/* Four threads on the one mapping, so that ThreadSanitizer sees that they use the same memory: each side
 * sends in one thread and receives in another. */
START_TEST(test_threads_both_ways)
{
    struct pair pair = new_pair(SMALL_REGION, (enum chan_mapping)_i);
    for (int zero_copy = 0; zero_copy < 2; zero_copy++) {
        struct job jobs[4] = {{.channel = pair.host, .seed = 1},
                              {.channel = pair.guest, .seed = 1},
                              {.channel = pair.guest, .seed = 2},
                              {.channel = pair.host, .seed = 2}};
        pthread_t threads[4];
        for (int i = 0; i < 4; i++) {
            jobs[i].zero_copy = zero_copy != 0;
            jobs[i].count = message_count();
            ck_assert_int_eq(pthread_create(&threads[i], NULL, i % 2 == 0 ? send_all : receive_all, &jobs[i]),
                             0);
        }
        for (int i = 0; i < 4; i++)
            ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        for (int i = 0; i < 4; i++)
            expect_success(&jobs[i]);
    }
    struct chan_stats stats;
    chan_get_stats(pair.host, &stats);
    ck_assert_uint_eq(stats.sent_messages, 2 * message_count());
    ck_assert_uint_eq(stats.received_messages, 2 * message_count());
    ck_assert_int_eq(chan_peer_state(pair.host), CHAN_PEER_ALIVE);
    free_pair(&pair);
}
END_TEST

/* In the child: receives all, then sends as many back. */
static int run_child(const char *path)
{
    struct chan_channel *channel = open_side(open_path(path), CHAN_SIDE_GUEST);
    if (chan_connect(channel, TIMEOUT_MS) != 0)
        return 2;
    struct job in = {.channel = channel, .count = message_count(), .seed = 3};
    (void)receive_all(&in);
    struct job out = {.channel = channel, .count = message_count(), .seed = 4, .zero_copy = true};
    (void)send_all(&out);
    chan_close(channel);
    return in.failure == NULL && out.failure == NULL ? 0 : 1;
}

START_TEST(test_processes)
{
    char path[PATH_BYTES];
    scratch_path(path, "processes");
    make_region_file(path, 1 << 20, true);
    pid_t child = fork();
    if (child == 0)
        _exit(run_child(path));
    struct chan_region *region = open_path(path);
    struct chan_channel *channel = open_side(region, CHAN_SIDE_HOST);
    ck_assert_int_eq(chan_connect(channel, TIMEOUT_MS), 0);
    struct job out = {.channel = channel, .count = message_count(), .seed = 3};
    (void)send_all(&out);
    expect_success(&out);
    struct job in = {.channel = channel, .count = message_count(), .seed = 4, .zero_copy = true};
    (void)receive_all(&in);
    expect_success(&in);
    unsigned char byte = 0;
    size_t length = 0;
    ck_assert_int_eq(chan_recv(channel, &byte, 1, &length, TIMEOUT_MS), -EPIPE);
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with status %#x",
                  (unsigned)status);
    chan_close(channel);
    chan_region_close(region);
}
END_TEST

TCase *traffic_tests(void)
{
    TCase *tests = tcase_create("traffic");
    tcase_set_timeout(tests, 120);
    add_mapping_test(tests, test_threads_both_ways);
    tcase_add_test(tests, test_processes);
    return tests;
}
