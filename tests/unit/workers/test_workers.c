/* Workers: polling, sleeping, waking, deadlines, commands, and the watchdog. */
#include <check.h>
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "dataplane/workers/worker.h"

/* A task that has `work` pieces of work, which anybody may add to. */
struct counter_task {
    struct worker_task task; /* first */
    atomic_int work;
    atomic_int visits, sleeps, wakes;
    int64_t sleep_for_ns; /* deadline to set when it goes to sleep */
};

static bool visit(struct worker_task *task, int64_t now)
{
    struct counter_task *counter = (struct counter_task *)task;
    (void)now;
    atomic_fetch_add(&counter->visits, 1);
    if (atomic_load(&counter->work) == 0)
        return false;
    atomic_fetch_sub(&counter->work, 1);
    return true;
}

static bool go_to_sleep(struct worker_task *task)
{
    struct counter_task *counter = (struct counter_task *)task;
    if (atomic_load(&counter->work) > 0)
        return true;
    if (counter->sleep_for_ns != 0)
        task->deadline = clock_monotonic_ns() + counter->sleep_for_ns;
    atomic_fetch_add(&counter->sleeps, 1);
    return false;
}

static void wake(struct worker_task *task)
{
    atomic_fetch_add(&((struct counter_task *)task)->wakes, 1);
}

static void init_task(struct counter_task *counter)
{
    memset(counter, 0, sizeof *counter);
    counter->task.visit = visit;
    counter->task.sleep = go_to_sleep;
    counter->task.wake = wake;
}

/* The last CPU that this process may use. */
static unsigned any_cpu(void)
{
    cpu_set_t cpus;
    ck_assert_int_eq(sched_getaffinity(0, sizeof cpus, &cpus), 0);
    for (int cpu = CPU_SETSIZE - 1; cpu >= 0; cpu--) {
        if (CPU_ISSET(cpu, &cpus))
            return (unsigned)cpu;
    }
    ck_abort_msg("no CPU may be used");
    return 0;
}

static struct worker *start_worker(void)
{
    const struct worker_config config = {.cpu = any_cpu(), .poll_ns = INT64_C(50000), .pin = true};
    struct worker *worker = NULL;
    struct error err = ERROR_INIT;
    ck_assert_msg(worker_start(&config, &worker, &err) == 0, "%s", err.detail);
    return worker;
}

struct request {
    struct worker *worker;
    struct worker_task *task;
    int fd;
    int result;
    unsigned cpu;
    pid_t thread;
};

static void add_task(void *argument)
{
    struct request *request = argument;
    request->result = worker_add(request->worker, request->task, NULL);
}

static void remove_task(void *argument)
{
    const struct request *request = argument;
    worker_remove(request->worker, request->task);
}

static void watch(void *argument)
{
    struct request *request = argument;
    request->result = worker_watch(request->task, request->fd, NULL);
}

static void unwatch(void *argument)
{
    const struct request *request = argument;
    worker_unwatch(request->task, request->fd);
}

static void note_thread(void *argument)
{
    struct request *request = argument;
    request->thread = gettid();
    request->cpu = (unsigned)sched_getcpu();
}

static void add(struct worker *worker, struct counter_task *counter)
{
    struct request request = {.worker = worker, .task = &counter->task, .result = -1};
    worker_run(worker, add_task, &request);
    ck_assert_int_eq(request.result, 0);
}

static void take_out(struct worker *worker, struct counter_task *counter)
{
    struct request request = {.worker = worker, .task = &counter->task};
    worker_run(worker, remove_task, &request);
}

/* At most five seconds. */
static void wait_at_least(const atomic_int *value, int wanted, const char *what)
{
    const int64_t end = clock_monotonic_ns() + INT64_C(5000000000);
    while (atomic_load(value) < wanted) {
        ck_assert_msg(clock_monotonic_ns() < end, "%s is %d after 5 s, %d were expected", what,
                      atomic_load(value), wanted);
        (void)sched_yield();
    }
}

START_TEST(test_runs_on_its_own_pinned_thread)
{
    struct worker *worker = start_worker();
    for (int i = 0; i < 1000; i++) {
        struct request request = {.thread = 0};
        worker_run(worker, note_thread, &request);
        ck_assert_int_ne(request.thread, 0);
        ck_assert_int_ne(request.thread, gettid());
        ck_assert_uint_eq(request.cpu, worker_cpu(worker));
    }
    worker_stop(worker);
}
END_TEST

START_TEST(test_a_cpu_that_may_not_be_used_is_refused)
{
    const struct worker_config config = {.cpu = CPU_SETSIZE - 1, .poll_ns = 1000, .pin = true};
    struct worker *worker = NULL;
    struct error err = ERROR_INIT;
    ck_assert_int_eq(worker_start(&config, &worker, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.detail, "CPU 1023"));
}
END_TEST

START_TEST(test_works_then_sleeps_until_a_descriptor_wakes_it)
{
    struct worker *worker = start_worker();
    auto_close int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct counter_task counter;
    init_task(&counter);
    atomic_store(&counter.work, 100);
    add(worker, &counter);
    struct request request = {.worker = worker, .task = &counter.task, .fd = fd, .result = -1};
    worker_run(worker, watch, &request);
    ck_assert_int_eq(request.result, 0);
    wait_at_least(&counter.sleeps, 1, "the number of sleeps");
    ck_assert_int_eq(atomic_load(&counter.work), 0);
    ck_assert_int_ge(atomic_load(&counter.visits), 101);

    for (int round = 1; round <= 20; round++) {
        const int visits = atomic_load(&counter.visits);
        atomic_store(&counter.work, 3);
        ck_assert_int_eq(eventfd_write(fd, 1), 0);
        wait_at_least(&counter.sleeps, round + 1, "the number of sleeps");
        ck_assert_int_eq(atomic_load(&counter.work), 0);
        ck_assert_int_gt(atomic_load(&counter.visits), visits + 3);
    }
    ck_assert_int_eq(atomic_load(&counter.wakes), 20);

    worker_run(worker, unwatch, &request);
    take_out(worker, &counter);
    ck_assert_uint_eq(worker_task_count(worker), 0);
    worker_stop(worker);
}
END_TEST

START_TEST(test_a_sleeping_task_wakes_beside_a_busy_one)
{
    struct worker *worker = start_worker();
    auto_close int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct counter_task busy, quiet;
    init_task(&busy);
    init_task(&quiet);
    add(worker, &quiet);
    struct request request = {.worker = worker, .task = &quiet.task, .fd = fd, .result = -1};
    worker_run(worker, watch, &request);
    wait_at_least(&quiet.sleeps, 1, "the number of sleeps");
    atomic_store(&busy.work, INT32_MAX); /* it never ends */
    add(worker, &busy);
    atomic_store(&quiet.work, 1);
    ck_assert_int_eq(eventfd_write(fd, 1), 0);
    wait_at_least(&quiet.sleeps, 2, "the number of sleeps");
    ck_assert_int_eq(atomic_load(&quiet.work), 0);
    ck_assert_int_eq(atomic_load(&busy.sleeps), 0);
    worker_run(worker, unwatch, &request);
    take_out(worker, &busy);
    take_out(worker, &quiet);
    worker_stop(worker);
}
END_TEST

START_TEST(test_a_deadline_wakes)
{
    struct worker *worker = start_worker();
    struct counter_task counter;
    init_task(&counter);
    counter.sleep_for_ns = INT64_C(200000);
    add(worker, &counter);
    wait_at_least(&counter.sleeps, 5, "the number of sleeps");
    ck_assert_int_ge(atomic_load(&counter.wakes), 4);
    take_out(worker, &counter);
    worker_stop(worker);
}
END_TEST

START_TEST(test_many_tasks_come_and_go)
{
    enum { TASKS = 200 };
    struct worker *worker = start_worker();
    struct counter_task *counters = calloc(TASKS, sizeof *counters);
    ck_assert_ptr_nonnull(counters);
    for (int i = 0; i < TASKS; i++) {
        init_task(&counters[i]);
        atomic_store(&counters[i].work, i);
        counters[i].sleep_for_ns = i % 3 == 0 ? INT64_C(100000) : 0;
        add(worker, &counters[i]);
    }
    ck_assert_uint_eq(worker_task_count(worker), TASKS);
    for (int i = 0; i < TASKS; i += 2)
        take_out(worker, &counters[i]);
    for (int i = 1; i < TASKS; i += 2) {
        wait_at_least(&counters[i].sleeps, 1, "the number of sleeps");
        ck_assert_int_eq(atomic_load(&counters[i].work), 0);
        take_out(worker, &counters[i]);
    }
    ck_assert_uint_eq(worker_task_count(worker), 0);
    free(counters);
    worker_stop(worker);
}
END_TEST

START_TEST(test_what_epoll_refuses_is_an_error)
{
    struct worker *worker = start_worker();
    struct counter_task counter;
    init_task(&counter);
    add(worker, &counter);
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    struct request request = {.worker = worker, .task = &counter.task, .fd = fileno(file), .result = 0};
    worker_run(worker, watch, &request);
    ck_assert_int_eq(request.result, -1);
    (void)fclose(file);
    take_out(worker, &counter);
    worker_stop(worker);
}
END_TEST

/* A peer's eventfd that is full and blocks. */
struct blocked_write {
    struct worker_task *task;
    int fd;
    bool interrupted;
    int code;
};

static void write_blocked(void *argument)
{
    struct blocked_write *blocked = argument;
    const uint64_t one = 1;
    worker_write_begin(blocked->task);
    blocked->code = write(blocked->fd, &one, sizeof one) < 0 ? errno : 0;
    blocked->interrupted = worker_write_end(blocked->task);
}

START_TEST(test_the_watchdog_ends_a_write_that_blocks)
{
    struct worker *worker = start_worker();
    auto_close int fd = eventfd(0, EFD_CLOEXEC);
    const uint64_t most = UINT64_MAX - 1;
    ck_assert_int_eq(write(fd, &most, sizeof most), (ssize_t)sizeof most);
    struct counter_task counter;
    init_task(&counter);
    add(worker, &counter);
    struct blocked_write blocked = {.task = &counter.task, .fd = fd};
    worker_run(worker, write_blocked, &blocked);
    ck_assert_int_eq(blocked.code, EINTR);
    ck_assert(blocked.interrupted);
    /* A write that does not block is left alone. */
    uint64_t value = 0;
    ck_assert_int_eq(read(fd, &value, sizeof value), (ssize_t)sizeof value);
    worker_run(worker, write_blocked, &blocked);
    ck_assert_int_eq(blocked.code, 0);
    ck_assert(!blocked.interrupted);
    take_out(worker, &counter);
    worker_stop(worker);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("workers");
    TCase *tcase = tcase_create("workers");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, test_runs_on_its_own_pinned_thread);
    tcase_add_test(tcase, test_a_cpu_that_may_not_be_used_is_refused);
    tcase_add_test(tcase, test_works_then_sleeps_until_a_descriptor_wakes_it);
    tcase_add_test(tcase, test_a_sleeping_task_wakes_beside_a_busy_one);
    tcase_add_test(tcase, test_a_deadline_wakes);
    tcase_add_test(tcase, test_many_tasks_come_and_go);
    tcase_add_test(tcase, test_what_epoll_refuses_is_an_error);
    tcase_add_test(tcase, test_the_watchdog_ends_a_write_that_blocks);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
