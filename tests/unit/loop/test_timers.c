/* Timers: their order, clearing and setting them from callbacks, and that they leave room for others. */
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "dataplane/loop/loop.h"
#include "tests/unit/loop/suites.h"

enum { MANY = 5000, MS = 1000000 };

/* What the callbacks of one test report to. */
struct record {
    struct control_loop *loop;
    unsigned calls, wanted; /* quits when wanted is reached */
    int64_t last_at;        /* of the timer that was called last */
    unsigned last_id;
    bool out_of_order;
};

struct alarm {
    struct loop_timer timer; /* first */
    struct record *record;
    int64_t at; /* as it was set */
    unsigned id, calls;
    struct alarm *clears, *sets;
};

static void on_expired(struct loop_timer *timer)
{
    struct alarm *alarm = (struct alarm *)timer;
    struct record *record = alarm->record;
    ck_assert_int_eq(timer->at, 0);
    ck_assert_int_ge(clock_monotonic_ns(), alarm->at);
    if (alarm->at < record->last_at || (alarm->at == record->last_at && alarm->id < record->last_id))
        record->out_of_order = true;
    record->last_at = alarm->at;
    record->last_id = alarm->id;
    alarm->calls++;
    if (alarm->clears != NULL)
        loop_timer_clear(record->loop, &alarm->clears->timer);
    if (alarm->sets != NULL)
        loop_timer_set(record->loop, &alarm->sets->timer, 1);
    if (++record->calls == record->wanted)
        loop_quit(record->loop);
}

static void set(struct alarm *alarm, struct record *record, unsigned id, int64_t at)
{
    *alarm = (struct alarm){.timer = {.expired = on_expired}, .record = record, .at = at, .id = id};
    loop_timer_set(record->loop, &alarm->timer, at);
}

static void make(struct record *record, unsigned wanted)
{
    struct error err = ERROR_INIT;
    *record = (struct record){.wanted = wanted};
    ck_assert_msg(loop_new(&record->loop, &err) == 0, "%s", err.detail);
}

static void run(struct record *record)
{
    struct error err = ERROR_INIT;
    ck_assert_msg(loop_run(record->loop, &err) == 0, "%s", err.detail);
}

START_TEST(test_many_are_called_in_order)
{
    struct record record;
    make(&record, 0);
    auto_free struct alarm *alarms = calloc(MANY, sizeof *alarms);
    ck_assert_ptr_nonnull(alarms);
    const int64_t base = clock_monotonic_ns();
    uint32_t random = 12345;
    /* Times that repeat, in no order; every third is cleared again, every fifth is moved. */
    for (unsigned i = 0; i < MANY; i++) {
        random = random * 1664525 + 1013904223;
        set(&alarms[i], &record, i, base + (int64_t)(random >> 16) % 1000 * (MS / 50));
    }
    unsigned left = MANY;
    for (unsigned i = 0; i < MANY; i += 3) {
        loop_timer_clear(record.loop, &alarms[i].timer);
        loop_timer_clear(record.loop, &alarms[i].timer);
        left--;
    }
    for (unsigned i = 0; i < MANY; i += 5) {
        if (i % 3 == 0)
            continue;
        random = random * 1664525 + 1013904223;
        alarms[i].at = base + (int64_t)(random >> 16) % 1000 * (MS / 50);
        alarms[i].id = MANY + i; /* set later than all others */
        loop_timer_set(record.loop, &alarms[i].timer, alarms[i].at);
    }
    record.wanted = left;
    run(&record);
    ck_assert(!record.out_of_order);
    for (unsigned i = 0; i < MANY; i++)
        ck_assert_msg(alarms[i].calls == (i % 3 == 0 ? 0 : 1), "timer %u: %u calls", i, alarms[i].calls);
    loop_free(record.loop);
}
END_TEST

START_TEST(test_one_that_was_cleared_by_another_is_not_called)
{
    struct record record;
    make(&record, 2);
    struct alarm first, second, third;
    const int64_t now = clock_monotonic_ns();
    set(&first, &record, 0, now);
    set(&second, &record, 1, now);
    set(&third, &record, 2, now);
    first.clears = &second;
    run(&record);
    ck_assert_uint_eq(first.calls, 1);
    ck_assert_uint_eq(second.calls, 0);
    ck_assert_uint_eq(third.calls, 1);
    loop_free(record.loop);
}
END_TEST

static void on_ready(struct loop_source *source, uint32_t events)
{
    (void)source;
    (void)events;
}

struct seen {
    struct loop_source source; /* first */
    struct control_loop *loop;
};

static void on_ready_quit(struct loop_source *source, uint32_t events)
{
    (void)events;
    loop_quit(((struct seen *)source)->loop);
}

START_TEST(test_one_that_sets_itself_again_leaves_room_for_the_rest)
{
    struct record record;
    make(&record, 0);
    struct alarm again, other;
    set(&again, &record, 0, 1);
    again.sets = &again;
    set(&other, &record, 1, clock_monotonic_ns() + MS);
    other.clears = &again;
    record.wanted = UINT32_MAX;
    auto_close int fd = eventfd(1, EFD_CLOEXEC);
    struct seen seen = {.source = {.ready = on_ready_quit, .fd = fd}, .loop = record.loop};
    struct error err = ERROR_INIT;
    ck_assert_int_eq(loop_add(record.loop, &seen.source, EPOLLIN, &err), 0);
    run(&record); /* ends: the source is called */
    seen.source.ready = on_ready;
    while (other.calls == 0) {
        record.wanted = record.calls + 1;
        run(&record);
    }
    ck_assert_uint_gt(again.calls, 0);
    ck_assert_int_eq(again.timer.at, 0);
    loop_free(record.loop);
}
END_TEST

START_TEST(test_setting_again_moves_it)
{
    struct record record;
    make(&record, 1);
    struct alarm moved, fence;
    set(&moved, &record, 0, 1);
    moved.at = clock_monotonic_ns() + 3600LL * 1000 * MS;
    loop_timer_set(record.loop, &moved.timer, moved.at);
    set(&fence, &record, 1, clock_monotonic_ns() + MS);
    run(&record);
    ck_assert_uint_eq(moved.calls, 0);
    ck_assert_uint_eq(fence.calls, 1);
    ck_assert_int_eq(moved.timer.at, moved.at);
    loop_free(record.loop);
}
END_TEST

TCase *timers_tcase(void)
{
    TCase *tcase = tcase_create("timers");
    tcase_add_test(tcase, test_many_are_called_in_order);
    tcase_add_test(tcase, test_one_that_was_cleared_by_another_is_not_called);
    tcase_add_test(tcase, test_one_that_sets_itself_again_leaves_room_for_the_rest);
    tcase_add_test(tcase, test_setting_again_moves_it);
    return tcase;
}
