/* Links between two fake ends: order, pairs, receivers without buffers, pause. */
#include <check.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "dataplane/links/link.h"
#include "tests/unit/links/fake_end.h"

enum { PATIENCE_MS = 30 };

static struct worker *worker;
static struct statistics_slot *slot;
static struct link *joined; /* `link` is a system call */
static struct fake_end *ends;

static void setup(void)
{
    cpu_set_t cpus;
    ck_assert_int_eq(sched_getaffinity(0, sizeof cpus, &cpus), 0);
    unsigned cpu = 0;
    while (!CPU_ISSET(cpu, &cpus))
        cpu++;
    const struct worker_config config = {.cpu = cpu, .poll_ns = INT64_C(20000), .pin = true};
    ck_assert_int_eq(worker_start(&config, &worker, NULL), 0);
    slot = aligned_alloc(128, sizeof *slot);
    ck_assert_ptr_nonnull(slot);
    memset(slot, 0, sizeof *slot);
    const struct link_config link_config = {
        .worker = worker, .slot = slot, .patience_ns = PATIENCE_MS * INT64_C(1000000)};
    ck_assert_int_eq(link_new(&link_config, &joined, NULL), 0);
    ends = calloc(2, sizeof *ends);
    ck_assert_ptr_nonnull(ends);
    fake_end_init(&ends[0], link_task(joined));
    fake_end_init(&ends[1], link_task(joined));
    struct end *both[2] = {&ends[0].end, &ends[1].end};
    ck_assert_int_eq(link_open(joined, both, NULL), 0);
}

static void teardown(void)
{
    link_close(joined);
    ck_assert_uint_eq(atomic_load(&ends[0].destroyed), 1);
    ck_assert_uint_eq(atomic_load(&ends[1].destroyed), 1);
    worker_stop(worker);
    fake_end_clear(&ends[0]);
    fake_end_clear(&ends[1]);
    free(ends);
    free(slot);
}

static uint64_t dropped(unsigned side)
{
    return atomic_load(&slot->directions[side].dropped[STATISTICS_DROP_RECEIVER_FULL]);
}

/* Waits until `value` is `wanted`, at most five seconds. */
static void wait_for_count(const atomic_uint *value, unsigned wanted, const char *what)
{
    const int64_t end = clock_monotonic_ns() + INT64_C(5000000000);
    while (atomic_load(value) != wanted) {
        ck_assert_msg(clock_monotonic_ns() < end, "%s is %u after 5 s, %u was expected", what,
                      atomic_load(value), wanted);
        (void)sched_yield();
    }
}

static void wait_for_sleep(uint64_t sleeps)
{
    const int64_t end = clock_monotonic_ns() + INT64_C(5000000000);
    while (atomic_load(&slot->sleeps) < sleeps) {
        ck_assert_msg(clock_monotonic_ns() < end, "the link does not go to sleep");
        (void)sched_yield();
    }
}

START_TEST(test_frames_arrive_in_order_both_ways)
{
    fake_end_refill(&ends[0], 1000);
    fake_end_refill(&ends[1], 1000);
    fake_end_send(&ends[0], 0, 1000);
    fake_end_send(&ends[1], 0, 700);
    wait_for_count(&ends[1].received_count, 1000, "what the second end has received");
    wait_for_count(&ends[0].received_count, 700, "what the first end has received");
    for (unsigned i = 0; i < 1000; i++)
        ck_assert_uint_eq(ends[1].received[i], i);
    for (unsigned i = 0; i < 700; i++)
        ck_assert_uint_eq(ends[0].received[i], i);
    ck_assert_uint_ge(atomic_load(&ends[0].interrupts), 1);
    ck_assert_uint_eq(dropped(0) + dropped(1), 0);
}
END_TEST

START_TEST(test_a_sleeping_link_is_woken_by_a_kick)
{
    fake_end_refill(&ends[1], 1000);
    for (unsigned round = 1; round <= 50; round++) {
        const uint64_t sleeps = atomic_load(&slot->sleeps);
        fake_end_send(&ends[0], 0, 1);
        wait_for_count(&ends[1].received_count, round, "what the second end has received");
        wait_for_sleep(sleeps + 1);
    }
}
END_TEST

START_TEST(test_every_pair_is_moved)
{
    atomic_store(&ends[0].pairs, 0xa5);
    link_pause(joined, false); /* a visit, by which it learns of the pairs */
    fake_end_refill(&ends[1], 1000);
    for (unsigned pair = 0; pair < END_QUEUE_PAIRS; pair++) {
        if ((0xa5 >> pair & 1) != 0)
            fake_end_send(&ends[0], pair, 100);
    }
    wait_for_count(&ends[1].received_count, 400, "what the second end has received");
    unsigned next[END_QUEUE_PAIRS] = {0};
    for (unsigned i = 0; i < 400; i++) {
        const unsigned pair = ends[1].received[i] >> 16;
        ck_assert_uint_eq(ends[1].received[i] & 0xffff, next[pair]);
        next[pair]++;
    }
}
END_TEST

START_TEST(test_frames_wait_for_a_receiver_that_is_slow)
{
    fake_end_refill(&ends[1], 10);
    fake_end_send(&ends[0], 0, 200);
    for (unsigned received = 10; received < 200; received += 10) {
        wait_for_count(&ends[1].received_count, received, "what the second end has received");
        fake_end_refill(&ends[1], 10);
    }
    wait_for_count(&ends[1].received_count, 200, "what the second end has received");
    for (unsigned i = 0; i < 200; i++)
        ck_assert_uint_eq(ends[1].received[i], i);
    ck_assert_uint_eq(dropped(0), 0);
    ck_assert_uint_ge(atomic_load(&slot->directions[0].stalls), 1);
}
END_TEST

START_TEST(test_a_receiver_that_never_refills_does_not_stop_the_sender_or_the_other_way)
{
    fake_end_refill(&ends[0], 500);
    fake_end_send(&ends[0], 0, 300);
    fake_end_send(&ends[1], 0, 500);
    wait_for_count(&ends[0].received_count, 500, "what the first end has received");
    wait_for_count(&ends[0].sent[0], 300, "what was taken from the first end");
    ck_assert_uint_eq(dropped(0), 300);
    /* From now on frames are dropped at once, and the link still sleeps in between. */
    const uint64_t sleeps = atomic_load(&slot->sleeps);
    fake_end_send(&ends[0], 0, 5);
    wait_for_count(&ends[0].sent[0], 305, "what was taken from the first end");
    wait_for_sleep(sleeps + 1);
    ck_assert_uint_eq(dropped(0), 305);
    /* It comes back to life. */
    fake_end_refill(&ends[1], 100);
    fake_end_send(&ends[0], 0, 7);
    wait_for_count(&ends[1].received_count, 7, "what the second end has received");
    ck_assert_uint_eq(ends[1].received[0], 305);
    ck_assert_uint_eq(dropped(0), 305);
}
END_TEST

START_TEST(test_a_frame_that_never_fits_takes_no_other_along)
{
    atomic_store(&ends[1].unwanted, 7);
    fake_end_refill(&ends[1], 1000);
    fake_end_send(&ends[0], 0, 40);
    wait_for_count(&ends[0].sent[0], 40, "what was taken from the first end");
    ck_assert_uint_eq(atomic_load(&ends[1].received_count), 39);
    ck_assert_uint_eq(dropped(0), 1);
    for (unsigned i = 0; i < 39; i++)
        ck_assert_uint_eq(ends[1].received[i], i < 7 ? i : i + 1);
}
END_TEST

START_TEST(test_a_sender_that_leaves_while_its_frames_wait)
{
    fake_end_send(&ends[0], 0, 10);
    const int64_t end = clock_monotonic_ns() + INT64_C(5000000000);
    while (atomic_load(&slot->directions[0].stalls) == 0 && clock_monotonic_ns() < end)
        (void)sched_yield();
    atomic_store(&ends[0].pairs, 0);
    link_pause(joined, false); /* wakes it, if it sleeps; from here on the sender is known to be gone */
    fake_end_refill(&ends[1], 10);
    wait_for_sleep(1);
    ck_assert_uint_eq(atomic_load(&ends[1].received_count), 0);
    ck_assert_uint_eq(dropped(0), 0);
}
END_TEST

START_TEST(test_a_paused_link_moves_nothing)
{
    fake_end_refill(&ends[1], 100);
    link_pause(joined, true);
    ck_assert(link_is_paused(joined));
    wait_for_sleep(1);
    fake_end_send(&ends[0], 0, 10);
    link_pause(joined, true); /* a round trip through the worker */
    ck_assert_uint_eq(atomic_load(&ends[1].received_count), 0);
    link_pause(joined, false);
    wait_for_count(&ends[1].received_count, 10, "what the second end has received");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("links");
    TCase *tcase = tcase_create("links");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_frames_arrive_in_order_both_ways);
    tcase_add_test(tcase, test_a_sleeping_link_is_woken_by_a_kick);
    tcase_add_test(tcase, test_every_pair_is_moved);
    tcase_add_test(tcase, test_frames_wait_for_a_receiver_that_is_slow);
    tcase_add_test(tcase, test_a_receiver_that_never_refills_does_not_stop_the_sender_or_the_other_way);
    tcase_add_test(tcase, test_a_frame_that_never_fits_takes_no_other_along);
    tcase_add_test(tcase, test_a_sender_that_leaves_while_its_frames_wait);
    tcase_add_test(tcase, test_a_paused_link_moves_nothing);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
