#include "api/rest/workers.h"

#include <pthread.h>
#include <stdatomic.h>

#include "api/rest/gate.h"
#include "suites.h"

enum { JOBS = 1000, THREADS = 4 };

struct counted {
    struct job job;
    atomic_int *ran;
};

static void count(struct job *job)
{
    struct counted *counted = (struct counted *)job;
    atomic_fetch_add(counted->ran, 1);
}

START_TEST(every_job_runs_once)
{
    static struct counted jobs[JOBS];
    atomic_int ran = 0;
    struct workers *workers = NULL;
    struct error err = ERROR_INIT;
    ck_assert_int_eq(workers_new(THREADS, &workers, &err), 0);
    for (int i = 0; i < JOBS; i++) {
        jobs[i] = (struct counted){.job = {.run = count}, .ran = &ran};
        workers_submit(workers, &jobs[i].job);
    }
    workers_free(workers); /* runs what is queued first */
    ck_assert_int_eq(ran, JOBS);
}
END_TEST

struct meeting {
    struct job job;
    pthread_barrier_t *barrier;
};

static void meet(struct job *job)
{
    (void)pthread_barrier_wait(((struct meeting *)job)->barrier);
}

START_TEST(as_many_run_at_once_as_there_are_workers)
{
    struct workers *workers = NULL;
    struct error err = ERROR_INIT;
    pthread_barrier_t barrier;
    struct meeting jobs[THREADS];
    ck_assert_int_eq(pthread_barrier_init(&barrier, NULL, THREADS), 0);
    ck_assert_int_eq(workers_new(THREADS, &workers, &err), 0);
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (struct meeting){.job = {.run = meet}, .barrier = &barrier};
        workers_submit(workers, &jobs[i].job);
    }
    workers_free(workers); /* would wait for ever if one of them did not run beside the others */
    (void)pthread_barrier_destroy(&barrier);
}
END_TEST

START_TEST(a_drained_gate_is_closed)
{
    struct gate gate;
    struct error err = ERROR_INIT;
    ck_assert_int_eq(gate_init(&gate, &err), 0);
    ck_assert(gate_enter(&gate));
    ck_assert(!gate_is_draining(&gate) && !gate_is_closed(&gate));
    gate_answered(&gate);
    gate_drain(&gate, 0); /* the answer is not taken yet, but the time is over */
    ck_assert(gate_is_draining(&gate) && gate_is_closed(&gate));
    ck_assert(!gate_enter(&gate));
    gate_leave(&gate);
    gate_destroy(&gate);
}
END_TEST

struct slow_request {
    struct job job;
    struct gate *gate;
    atomic_bool *done;
};

static void finish_late(struct job *job)
{
    struct slow_request *request = (struct slow_request *)job;
    while (!gate_is_closed(request->gate)) {
    }
    atomic_store(request->done, true);
    gate_answered(request->gate);
    gate_leave(request->gate);
}

START_TEST(a_drain_outlives_every_operation)
{
    struct gate gate;
    struct workers *workers = NULL;
    struct error err = ERROR_INIT;
    atomic_bool done = false;
    ck_assert_int_eq(gate_init(&gate, &err), 0);
    ck_assert_int_eq(workers_new(1, &workers, &err), 0);
    struct slow_request request = {.job = {.run = finish_late}, .gate = &gate, .done = &done};
    ck_assert(gate_enter(&gate));
    workers_submit(workers, &request.job);
    gate_drain(&gate, 0);
    ck_assert(atomic_load(&done));
    workers_free(workers);
    gate_destroy(&gate);
}
END_TEST

TCase *workers_tests(void)
{
    TCase *tests = tcase_create("workers");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, every_job_runs_once);
    tcase_add_test(tests, as_many_run_at_once_as_there_are_workers);
    tcase_add_test(tests, a_drained_gate_is_closed);
    tcase_add_test(tests, a_drain_outlives_every_operation);
    return tests;
}
