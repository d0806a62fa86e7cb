/* Is the owner still there? */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/proc_stat.h"
#include "tests/unit/reclaim/fixture.h"

static enum owner_condition examine(const struct owner_row *owner)
{
    return owner_examine(owner, reclaim_boot_id(fixture.reclaim), reclaim_start_boot_ms(fixture.reclaim));
}

static void expect_not_recorded(pid_t pid, enum reason reason)
{
    struct owner_row owner = {.kind = OWNER_NONE};
    struct error err = ERROR_INIT;
    ck_assert_int_eq(owner_record_process(pid, reclaim_boot_id(fixture.reclaim), &owner, &err), -1);
    ck_assert_msg(err.reason == reason, "expected %s, got %s: %s", reason_info(reason)->word,
                  reason_info(err.reason)->word, err.detail);
    ck_assert_int_eq(owner.kind, OWNER_NONE);
}

START_TEST(a_live_process_is_recorded_and_alive)
{
    pid_t pid = start_process();
    struct owner_row owner = process_owner(pid);
    struct proc_stat stat;
    ck_assert_int_eq(proc_stat_read(pid, &stat), 0);
    ck_assert_int_eq(owner.kind, OWNER_PID);
    ck_assert_int_eq(owner.pid, pid);
    ck_assert_uint_eq(owner.start_time, stat.start_ticks);
    ck_assert_str_eq(owner.boot_id, reclaim_boot_id(fixture.reclaim));
    ck_assert_int_eq(examine(&owner), OWNER_ALIVE);
    end_process(pid);
    ck_assert_int_eq(examine(&owner), OWNER_ENDED);
    expect_not_recorded(pid, REASON_OWNER_GONE);
}
END_TEST

START_TEST(a_zombie_has_ended)
{
    pid_t pid = start_process();
    struct owner_row owner = process_owner(pid);
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    siginfo_t info;
    ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    ck_assert_int_eq(examine(&owner), OWNER_ENDED);
    expect_not_recorded(pid, REASON_OWNER_GONE);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}
END_TEST

static void *wait_for_end(void *argument)
{
    char byte;
    const int *pipe_end = argument;
    (void)!read(*pipe_end, &byte, 1);
    _exit(0);
}

START_TEST(a_process_lives_on_in_its_other_threads)
{
    int pipe_ends[2];
    ck_assert_int_eq(pipe(pipe_ends), 0);
    fixture_close(); /* ThreadSanitizer lets no thread start after a fork beside other threads */
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        pthread_t thread;
        (void)close(pipe_ends[1]);
        if (pthread_create(&thread, NULL, wait_for_end, &pipe_ends[0]) != 0)
            _exit(1);
        (void)syscall(SYS_exit, 0); /* this thread only */
    }
    fixture_open();
    (void)close(pipe_ends[0]);
    struct proc_stat stat;
    wait_until(proc_stat_read(pid, &stat) == 0 && stat.state == 'Z');
    struct owner_row owner = process_owner(pid);
    ck_assert_int_eq(examine(&owner), OWNER_ALIVE);
    (void)close(pipe_ends[1]);
    wait_until(examine(&owner) == OWNER_ENDED);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}
END_TEST

START_TEST(a_reused_pid_is_not_the_owner)
{
    struct owner_row owner = process_owner(getpid());
    ck_assert_int_eq(examine(&owner), OWNER_ALIVE);
    owner.start_time -= 1;
    ck_assert_int_eq(examine(&owner), OWNER_ENDED);
}
END_TEST

START_TEST(a_process_of_another_boot_has_ended)
{
    struct sandbox_row row = {.owner = process_owner(getpid())};
    set_other_boot(&row);
    ck_assert_int_eq(examine(&row.owner), OWNER_ENDED);
}
END_TEST

START_TEST(what_is_no_process_is_refused)
{
    expect_not_recorded(0, REASON_OWNER_GONE);
    expect_not_recorded(-1, REASON_OWNER_GONE);
    expect_not_recorded(INT32_MAX, REASON_OWNER_GONE);
}
END_TEST

struct thread_probe {
    pid_t tid;
    sem_t started, end;
};

static void *be_a_thread(void *argument)
{
    struct thread_probe *probe = argument;
    probe->tid = (pid_t)syscall(SYS_gettid);
    (void)sem_post(&probe->started);
    while (sem_wait(&probe->end) < 0)
        continue;
    return NULL;
}

START_TEST(a_thread_is_refused)
{
    struct thread_probe probe;
    pthread_t thread;
    ck_assert_int_eq(sem_init(&probe.started, 0, 0), 0);
    ck_assert_int_eq(sem_init(&probe.end, 0, 0), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, be_a_thread, &probe), 0);
    while (sem_wait(&probe.started) < 0)
        continue;
    expect_not_recorded(probe.tid, REASON_OWNER_UNKNOWN);
    ck_assert_int_eq(sem_post(&probe.end), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

START_TEST(no_descriptor_is_a_resource_limit)
{
    struct rlimit old;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
    struct rlimit none = {.rlim_cur = 0, .rlim_max = old.rlim_max};
    struct owner_row owner = process_owner(getpid());
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    struct owner_row ignored;
    struct error err = ERROR_INIT;
    int recorded = owner_record_process(getpid(), reclaim_boot_id(fixture.reclaim), &ignored, &err);
    enum owner_condition condition = examine(&owner);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
    ck_assert_int_eq(recorded, -1);
    ck_assert_int_eq(err.reason, REASON_RESOURCE_LIMIT);
    ck_assert_int_eq(condition, OWNER_IN_DOUBT);
}
END_TEST

START_TEST(one_descriptor_is_not_enough)
{
    struct rlimit old;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
    int lowest = dup(STDERR_FILENO);
    ck_assert_int_ge(lowest, 0);
    ck_assert_int_eq(close(lowest), 0);
    struct rlimit one = {.rlim_cur = (rlim_t)lowest + 1, .rlim_max = old.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &one), 0);
    struct owner_row ignored;
    struct error err = ERROR_INIT;
    int recorded = owner_record_process(getpid(), reclaim_boot_id(fixture.reclaim), &ignored, &err);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
    ck_assert_int_eq(recorded, -1);
    ck_assert_int_eq(err.reason, REASON_RESOURCE_LIMIT);
}
END_TEST

START_TEST(a_hidden_process_is_in_doubt)
{
    pid_t pid = start_process();
    struct owner_row owner = process_owner(pid);
    if (!hide_proc("a_hidden_process_is_in_doubt")) {
        end_process(pid);
        return;
    }
    enum owner_condition alive = examine(&owner);
    struct owner_row ignored;
    struct error err = ERROR_INIT;
    int recorded = owner_record_process(pid, reclaim_boot_id(fixture.reclaim), &ignored, &err);
    end_process(pid);
    enum owner_condition dead = examine(&owner);
    show_proc();
    ck_assert_int_eq(alive, OWNER_IN_DOUBT);
    ck_assert_int_eq(recorded, -1);
    ck_assert_int_eq(err.reason, REASON_OWNER_UNKNOWN);
    ck_assert_int_eq(dead, OWNER_ENDED); /* nobody has the pid: that is proof without /proc */
}
END_TEST

START_TEST(a_lease_runs_on_the_boot_clock)
{
    const char *boot = reclaim_boot_id(fixture.reclaim);
    int64_t before = clock_boot_ms();
    struct owner_row owner = lease_owner(60);
    ck_assert_int_eq(owner.kind, OWNER_LEASE);
    ck_assert_int_eq(owner.lease_seconds, 60);
    ck_assert_int_ge(owner.lease_expires_boot_ms, before + 60000);
    ck_assert_int_le(owner.lease_expires_boot_ms, clock_boot_ms() + 60000);
    ck_assert_str_eq(owner.boot_id, boot);

    int64_t long_ago = clock_boot_ms() - 1000000;
    ck_assert_int_eq(owner_examine(&owner, boot, long_ago), OWNER_ALIVE);
    owner.lease_expires_boot_ms = clock_boot_ms();
    ck_assert_int_eq(owner_examine(&owner, boot, long_ago), OWNER_ENDED);
    /* A daemon that has just started gives everybody the time to renew. */
    ck_assert_int_eq(owner_examine(&owner, boot, clock_boot_ms() - 59000), OWNER_ALIVE);
    ck_assert_int_eq(owner_examine(&owner, boot, clock_boot_ms() - 60000), OWNER_ENDED);
}
END_TEST

START_TEST(a_lease_of_another_boot_runs_from_the_start)
{
    const char *boot = reclaim_boot_id(fixture.reclaim);
    struct sandbox_row row = {.owner = lease_owner(60)};
    set_other_boot(&row);
    row.owner.lease_expires_boot_ms = clock_boot_ms() + 1000000000; /* on a clock that is gone */
    ck_assert_int_eq(owner_examine(&row.owner, boot, clock_boot_ms() - 59000), OWNER_ALIVE);
    ck_assert_int_eq(owner_examine(&row.owner, boot, clock_boot_ms() - 60000), OWNER_ENDED);
    row.owner.lease_expires_boot_ms = 0;
    ck_assert_int_eq(owner_examine(&row.owner, boot, clock_boot_ms() - 59000), OWNER_ALIVE);
}
END_TEST

START_TEST(a_lease_can_be_renewed_in_place)
{
    struct sandbox_row row = {.owner = lease_owner(60)};
    set_other_boot(&row);
    owner_record_lease(90, reclaim_boot_id(fixture.reclaim), &row.owner);
    ck_assert_int_eq(row.owner.lease_seconds, 90);
    ck_assert_str_eq(row.owner.boot_id, reclaim_boot_id(fixture.reclaim));
    owner_record_lease(30, row.owner.boot_id, &row.owner);
    ck_assert_int_eq(row.owner.lease_seconds, 30);
    ck_assert_str_eq(row.owner.boot_id, reclaim_boot_id(fixture.reclaim));
}
END_TEST

START_TEST(without_an_owner_nobody_ends)
{
    struct owner_row owner = no_owner();
    ck_assert_int_eq(examine(&owner), OWNER_ALIVE);
}
END_TEST

TCase *owner_tests(void)
{
    TCase *tests = tcase_create("owner");
    tcase_add_test(tests, a_live_process_is_recorded_and_alive);
    tcase_add_test(tests, a_zombie_has_ended);
    tcase_add_test(tests, a_process_lives_on_in_its_other_threads);
    tcase_add_test(tests, a_reused_pid_is_not_the_owner);
    tcase_add_test(tests, a_process_of_another_boot_has_ended);
    tcase_add_test(tests, what_is_no_process_is_refused);
    tcase_add_test(tests, a_thread_is_refused);
    tcase_add_test(tests, no_descriptor_is_a_resource_limit);
    tcase_add_test(tests, one_descriptor_is_not_enough);
    tcase_add_test(tests, a_hidden_process_is_in_doubt);
    tcase_add_test(tests, a_lease_runs_on_the_boot_clock);
    tcase_add_test(tests, a_lease_of_another_boot_runs_from_the_start);
    tcase_add_test(tests, a_lease_can_be_renewed_in_place);
    tcase_add_test(tests, without_an_owner_nobody_ends);
    return tests;
}
