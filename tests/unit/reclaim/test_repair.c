/* The repair at start. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/unit/reclaim/fixture.h"

/* As a restart of the daemon. */
static void restart(void)
{
    fixture_close();
    fixture_open();
    repair();
}

static const char *staging_path(const char *id)
{
    static char path[256];
    struct sandbox_row row;
    ck_assert(get_sandbox(id, &row));
    (void)snprintf(path, sizeof path, "%s/.chan-%s", fixture.shm_directory, row.region.staging_token);
    return path;
}

START_TEST(half_made_ones_are_undone)
{
    make_sandbox_until("intent", no_owner(), PROGRESS_INTENT);
    make_sandbox_until("linked", no_owner(), PROGRESS_FILE);
    make_sandbox_until("staged", no_owner(), PROGRESS_FILE);
    ck_assert_int_eq(unlink(region_path("staged")), 0);
    make_sandbox("good", no_owner());
    restart();
    static const char *const undone[] = {"intent", "linked", "staged"};
    for (size_t i = 0; i < 3; i++) {
        ck_assert_msg(is_gone(undone[i]), "expected %s to be undone", undone[i]);
        expect_event("sandbox.create_failed", undone[i], "interrupted");
    }
    (void)expect_sandbox("good", SANDBOX_RUNNING);
    ck_assert(has_region_file("good"));
    ck_assert_uint_eq(count_files(), 1);
    ck_assert_double_eq(metric("chan_repaired_sandboxes_total"), 3);
}
END_TEST

START_TEST(a_strangers_file_survives_the_undoing)
{
    make_sandbox_until("box", no_owner(), PROGRESS_INTENT);
    write_file(region_path("box"), "precious");
    restart();
    ck_assert(is_gone("box"));
    expect_content(region_path("box"), "precious");
    struct reclaim_report report;
    reclaim_get_report(fixture.reclaim, &report);
    ck_assert_uint_eq(report.foreign_files, 1);
}
END_TEST

static void set_reclaimed(struct sandbox_row *row)
{
    set_deleting(row);
    (void)snprintf(row->reason, sizeof row->reason, "owner_gone");
}

START_TEST(half_deleted_ones_are_finished)
{
    make_sandbox("with", no_owner());
    make_sandbox("without", no_owner());
    make_sandbox("reclaimed", no_owner());
    change_sandbox("with", set_deleting);
    change_sandbox("without", set_deleting);
    change_sandbox("reclaimed", set_reclaimed);
    ck_assert_int_eq(unlink(region_path("without")), 0);
    restart();
    ck_assert(is_gone("with") && is_gone("without") && is_gone("reclaimed"));
    ck_assert_uint_eq(count_files(), 0);
    expect_event("sandbox.deleted", "with", NULL);
    expect_event("sandbox.deleted", "without", NULL);
    expect_event("sandbox.reclaimed", "reclaimed", "owner_gone");
}
END_TEST

START_TEST(a_staging_name_that_was_left_goes)
{
    make_sandbox_until("box", no_owner(), PROGRESS_READY);
    ck_assert_uint_eq(count_files(), 2);
    int64_t before = revision();
    restart();
    (void)expect_sandbox("box", SANDBOX_RUNNING);
    ck_assert(has_region_file("box"));
    ck_assert_uint_eq(count_files(), 1);
    ck_assert_int_eq(revision(), before); /* nothing to say about it */
}
END_TEST

static void expect_lost(const char *id, const char *reason)
{
    struct sandbox_row row = expect_sandbox(id, SANDBOX_RUNNING);
    ck_assert_int_eq(row.region.state, REGION_LOST);
    ck_assert_str_eq(row.region.reason, reason);
    expect_event("region.lost", id, reason);
}

START_TEST(lost_regions_are_reported_and_never_remade)
{
    make_sandbox("missing", no_owner());
    make_sandbox("replaced", no_owner());
    make_sandbox("cut", no_owner());
    make_sandbox("rebooted", no_owner());
    make_sandbox("good", no_owner());
    ck_assert_int_eq(unlink(region_path("missing")), 0);
    ck_assert_int_eq(unlink(region_path("replaced")), 0);
    write_file(region_path("replaced"), "precious");
    ck_assert_int_eq(truncate(region_path("cut"), 4096), 0);
    change_sandbox("rebooted", set_other_boot);
    for (int i = 0; i < 2; i++) { /* the second time finds nothing new */
        restart();
        expect_lost("missing", "file_missing");
        expect_lost("replaced", "file_replaced");
        expect_lost("cut", "wrong_size");
        expect_lost("rebooted", "host_reboot");
    }
    ck_assert_int_eq(expect_sandbox("good", SANDBOX_RUNNING).region.state, REGION_READY);
    ck_assert_uint_eq(count_events("region.lost", "good"), 0);
    ck_assert(!has_region_file("missing"));
    expect_content(region_path("replaced"), "precious");
}
END_TEST

START_TEST(owners_are_examined_and_watched)
{
    pid_t alive = start_process();
    pid_t dead = start_process();
    make_sandbox("alive1", process_owner(alive));
    make_sandbox("alive2", process_owner(alive));
    make_plain_sandbox("plain", process_owner(dead));
    make_sandbox("dead", process_owner(dead));
    make_sandbox("paused", process_owner(dead));
    change_sandbox("paused", set_paused);
    fixture_close();
    end_process(dead);
    fixture_open();
    repair();
    (void)expect_sandbox("alive1", SANDBOX_RUNNING);
    (void)expect_sandbox("alive2", SANDBOX_RUNNING);
    (void)expect_sandbox("paused", SANDBOX_PAUSED);
    static const char *const orphans[] = {"plain", "dead"};
    for (size_t i = 0; i < 2; i++) {
        struct sandbox_row row = expect_sandbox(orphans[i], SANDBOX_ORPHANED);
        ck_assert_str_eq(row.reason, "owner_gone");
        ck_assert_int_gt(row.orphaned_boot_ms, 0);
        ck_assert_int_le(row.orphaned_boot_ms, clock_boot_ms());
        expect_event("sandbox.orphaned", orphans[i], "owner_gone");
    }
    ck_assert(has_region_file("dead"));
    struct reclaim_report report;
    reclaim_get_report(fixture.reclaim, &report);
    ck_assert_uint_eq(report.watched_owners, 1); /* one descriptor for both of its sandboxes */
    end_process(alive);
}
END_TEST

START_TEST(a_reused_pid_and_another_boot_are_orphans)
{
    struct owner_row other = process_owner(getpid());
    other.start_time -= 1;
    make_sandbox("reused", other);
    make_plain_sandbox("boot", process_owner(getpid()));
    change_sandbox("boot", set_other_boot);
    restart();
    (void)expect_sandbox("reused", SANDBOX_ORPHANED);
    (void)expect_sandbox("boot", SANDBOX_ORPHANED);
}
END_TEST

static void end_lease(struct sandbox_row *row)
{
    row->owner.lease_expires_boot_ms = clock_boot_ms() - 1000;
}

START_TEST(leases_run_again_after_a_start)
{
    make_sandbox("lease", lease_owner(3600));
    make_sandbox("boot", lease_owner(3600));
    change_sandbox("lease", end_lease);
    change_sandbox("boot", set_other_boot);
    restart();
    (void)expect_sandbox("lease", SANDBOX_RUNNING);
    ck_assert_int_eq(expect_sandbox("boot", SANDBOX_RUNNING).region.state, REGION_LOST);
}
END_TEST

START_TEST(a_hidden_owner_is_kept_and_reported_once)
{
    pid_t pid = start_process();
    make_sandbox("box", process_owner(pid));
    fixture_close();
    fixture_open();
    if (hide_proc("a_hidden_owner_is_kept_and_reported_once")) {
        struct reclaim_report report;
        repair();
        reclaim_get_report(fixture.reclaim, &report);
        show_proc();
        ck_assert_uint_eq(report.owners_in_doubt, 1);
        ck_assert_uint_eq(report.watched_owners, 0);
        (void)expect_sandbox("box", SANDBOX_RUNNING);
        expect_event("sandbox.owner_in_doubt", "box", "owner_unknown");
        repair();
        reclaim_get_report(fixture.reclaim, &report);
        ck_assert_uint_eq(report.watched_owners, 1);
    }
    end_process(pid);
}
END_TEST

START_TEST(one_that_cannot_be_repaired_does_not_stop_the_others)
{
    make_sandbox_until("a", no_owner(), PROGRESS_FILE);
    make_sandbox_until("b", no_owner(), PROGRESS_FILE);
    make_sandbox_until("c", no_owner(), PROGRESS_FILE);
    ck_assert_int_eq(unlink(staging_path("b")), 0);
    ck_assert_int_eq(mkdir(staging_path("b"), 0700), 0); /* unlink cannot remove it, not even as root */
    restart();
    ck_assert(is_gone("a") && is_gone("c"));
    (void)expect_sandbox("b", SANDBOX_CREATING);
    ck_assert_double_eq(metric("chan_collector_errors_total"), 1);
    ck_assert_double_eq(metric("chan_repaired_sandboxes_total"), 2);
    ck_assert_int_eq(rmdir(staging_path("b")), 0);
    start();
    wait_until(is_gone("b")); /* the collector tries again */
}
END_TEST

START_TEST(foreign_files_are_counted_and_left)
{
    make_sandbox("mine", no_owner());
    write_file(region_path("stranger"), "precious");
    char staging[256];
    (void)snprintf(staging, sizeof staging, "%s/.chan-0123456789abcdef0123456789abcdef",
                   fixture.shm_directory);
    write_file(staging, "precious");
    char other[256];
    (void)snprintf(other, sizeof other, "%s/something-else", fixture.shm_directory);
    write_file(other, "");
    restart();
    struct reclaim_report report;
    reclaim_get_report(fixture.reclaim, &report);
    ck_assert_uint_eq(report.foreign_files, 2);
    ck_assert_double_eq(metric("chan_foreign_files"), 2);
    expect_content(region_path("stranger"), "precious");
    expect_content(staging, "precious");
    ck_assert_uint_eq(count_files(), 4);
}
END_TEST

/* More than a page and a batch, each with something to say. */
START_TEST(many_sandboxes)
{
    enum { COUNT = 1100 };
    char id[32];
    for (int i = 0; i < COUNT; i++) {
        (void)snprintf(id, sizeof id, "box-%04d", i);
        make_sandbox(id, no_owner());
        if (i % 3 == 0)
            ck_assert_int_eq(unlink(region_path(id)), 0);
    }
    int64_t before = revision();
    restart();
    size_t lost = 0;
    for (int i = 0; i < COUNT; i++) {
        (void)snprintf(id, sizeof id, "box-%04d", i);
        struct sandbox_row row = expect_sandbox(id, SANDBOX_RUNNING);
        ck_assert_msg((row.region.state == REGION_LOST) == (i % 3 == 0), "%s: got state %d", id,
                      (int)row.region.state);
        lost += row.region.state == REGION_LOST;
    }
    ck_assert_uint_eq(lost, (COUNT + 2) / 3);
    ck_assert_msg(revision() - before <= (int64_t)lost / 32, "expected few units of the store, got %lld",
                  (long long)(revision() - before));
    expect_event("region.lost", "box-0000", "file_missing");
    expect_event("region.lost", "box-1098", "file_missing");
}
END_TEST

#ifdef CHAN_FAULT_POINTS

/* Runs fn in a process of its own, with everything opened there and this fault armed (NULL: none): a process
 * reads CHAN_FAULT but once. Returns the status of waitpid. */
static int in_process(const char *fault, void (*fn)(void))
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        if (fault != NULL && setenv("CHAN_FAULT", fault, 1) < 0)
            _exit(1);
        fixture_open();
        fn();
        fixture_close();
        _exit(0);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

static void make_unfinished_ones(void)
{
    make_sandbox_until("creating1", no_owner(), PROGRESS_FILE);
    make_sandbox_until("creating2", no_owner(), PROGRESS_FILE);
    make_sandbox("deleting1", no_owner());
    make_sandbox("deleting2", no_owner());
    change_sandbox("deleting1", set_deleting);
    change_sandbox("deleting2", set_deleting);
}

static void expect_nothing_left(void)
{
    repair();
    ck_assert_msg(is_gone("creating1") && is_gone("creating2") && is_gone("deleting1") &&
                      is_gone("deleting2"),
                  "expected no row to be left");
    ck_assert_msg(count_files() == 0, "expected no file to be left");
}

static void repair_but_one(void)
{
    repair();
    ck_assert_double_eq(metric("chan_repaired_sandboxes_total"), 3);
    ck_assert_double_eq(metric("chan_collector_errors_total"), 1);
    start();
    wait_until(is_gone("creating1") && is_gone("creating2") && is_gone("deleting1") && is_gone("deleting2"));
    ck_assert_uint_eq(count_files(), 0);
}

START_TEST(a_killed_repair_can_be_repeated)
{
    static const char *const points[] = {
        "repair.before_sandbox", "repair.after_sandbox", "delete.before_intent", "delete.after_intent",
        "delete.after_unlink",   "delete.before_forget", "delete.after_forget"};
    fixture_close();
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++)
        for (int nth = 1; nth <= 2; nth++) {
            char fault[96];
            (void)snprintf(fault, sizeof fault, "%s:%d=kill", points[i], nth);
            ck_assert_int_eq(in_process(NULL, make_unfinished_ones), 0);
            int status = in_process(fault, repair);
            ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "%s: got status %#x", fault,
                          status);
            status = in_process(NULL, expect_nothing_left);
            ck_assert_msg(status == 0, "after %s: got status %#x", fault, status);
        }
}
END_TEST

START_TEST(a_step_that_fails_leaves_its_sandbox_to_the_collector)
{
    static const char *const points[] = {"repair.before_sandbox", "delete.before_intent",
                                         "delete.after_intent", "delete.after_unlink",
                                         "delete.before_forget"};
    fixture_close();
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
        char fault[96];
        (void)snprintf(fault, sizeof fault, "%s=EACCES", points[i]);
        ck_assert_int_eq(in_process(NULL, make_unfinished_ones), 0);
        int status = in_process(fault, repair_but_one);
        ck_assert_msg(status == 0, "%s: got status %#x", fault, status);
    }
}
END_TEST

#endif

TCase *repair_tests(void)
{
    TCase *tests = tcase_create("repair");
    tcase_add_test(tests, half_made_ones_are_undone);
    tcase_add_test(tests, a_strangers_file_survives_the_undoing);
    tcase_add_test(tests, half_deleted_ones_are_finished);
    tcase_add_test(tests, a_staging_name_that_was_left_goes);
    tcase_add_test(tests, lost_regions_are_reported_and_never_remade);
    tcase_add_test(tests, owners_are_examined_and_watched);
    tcase_add_test(tests, a_reused_pid_and_another_boot_are_orphans);
    tcase_add_test(tests, leases_run_again_after_a_start);
    tcase_add_test(tests, a_hidden_owner_is_kept_and_reported_once);
    tcase_add_test(tests, one_that_cannot_be_repaired_does_not_stop_the_others);
    tcase_add_test(tests, foreign_files_are_counted_and_left);
    tcase_add_test(tests, many_sandboxes);
#ifdef CHAN_FAULT_POINTS
    tcase_add_test(tests, a_killed_repair_can_be_repeated);
    tcase_add_test(tests, a_step_that_fails_leaves_its_sandbox_to_the_collector);
#else
    (void)printf("SKIP faults of the repair: built without CHAN_FAULT_POINTS\n");
#endif
    return tests;
}
