/* The collector at work. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/unit/reclaim/fixture.h"

/* Opens again with that grace. */
static void reopen_with_grace(int64_t grace_ms)
{
    fixture_close();
    fixture.grace_ms = grace_ms;
    fixture_open();
}

enum { NEVER_MS = 3600000 };

static enum sandbox_state state_of(const char *id)
{
    struct sandbox_row row;
    return get_sandbox(id, &row) ? row.state : SANDBOX_STATE_COUNT;
}

START_TEST(an_owner_that_ends_takes_its_sandboxes_along)
{
    pid_t pid = start_process();
    pid_t other = start_process();
    repair();
    start();
    make_sandbox("one", process_owner(pid));
    make_plain_sandbox("two", process_owner(pid));
    make_sandbox("other", process_owner(other));
    make_sandbox("free", no_owner());
    wait_for_passes();
    (void)expect_sandbox("one", SANDBOX_RUNNING);
    end_process(pid);
    wait_until(is_gone("one") && is_gone("two"));
    static const char *const reclaimed[] = {"one", "two"};
    for (size_t i = 0; i < 2; i++) {
        expect_event("sandbox.orphaned", reclaimed[i], "owner_gone");
        expect_event("sandbox.reclaimed", reclaimed[i], "owner_gone");
    }
    wait_for_passes();
    (void)expect_sandbox("other", SANDBOX_RUNNING);
    (void)expect_sandbox("free", SANDBOX_RUNNING);
    ck_assert_uint_eq(count_files(), 2);
    struct reclaim_report report;
    reclaim_get_report(fixture.reclaim, &report);
    ck_assert_uint_eq(report.reclaimed_total, 2);
    ck_assert_uint_eq(report.watched_owners, 1);
    ck_assert_int_gt(report.last_pass_ms, 0);
    ck_assert_double_eq(metric("chan_owners_watched"), 1);
    end_process(other);
}
END_TEST

START_TEST(the_end_is_noticed_without_a_pass)
{
    fixture_close();
    fixture.grace_ms = NEVER_MS;
    fixture.interval_ms = NEVER_MS;
    fixture_open();
    repair();
    start();
    wait_until(metric("chan_collector_passes_total") >= 1); /* the one at the start */
    pid_t pid = start_process();
    make_sandbox("box", process_owner(pid));
    end_process(pid);
    wait_until(state_of("box") == SANDBOX_ORPHANED);
    ck_assert_double_eq(metric("chan_collector_passes_total"), 1);
}
END_TEST

START_TEST(an_orphan_stays_for_its_grace)
{
    reopen_with_grace(NEVER_MS);
    pid_t pid = start_process();
    repair();
    start();
    make_sandbox("box", process_owner(pid));
    end_process(pid);
    wait_until(state_of("box") == SANDBOX_ORPHANED);
    wait_for_passes();
    (void)expect_sandbox("box", SANDBOX_ORPHANED);
    ck_assert(has_region_file("box"));
}
END_TEST

START_TEST(the_grace_is_counted_from_the_end_over_a_restart)
{
    reopen_with_grace(NEVER_MS);
    pid_t pid = start_process();
    repair();
    start();
    make_sandbox("box", process_owner(pid));
    end_process(pid);
    wait_until(state_of("box") == SANDBOX_ORPHANED);
    reopen_with_grace(1);
    repair();
    start();
    wait_until(is_gone("box"));
    ck_assert_uint_eq(count_files(), 0);
    expect_event("sandbox.orphaned", "box", "owner_gone");
}
END_TEST

static void orphan_of_later(struct sandbox_row *row)
{
    row->state = SANDBOX_ORPHANED;
    (void)snprintf(row->reason, sizeof row->reason, "owner_gone");
    row->orphaned_boot_ms = clock_boot_ms() + 1000000000; /* a boot that ran longer than this one */
    set_other_boot(row);
}

static void orphan_of_earlier(struct sandbox_row *row)
{
    orphan_of_later(row);
    row->orphaned_boot_ms = 1;
}

START_TEST(the_grace_of_an_earlier_boot_starts_anew)
{
    int64_t grace_ms = clock_boot_ms() / 2 < 600000 ? clock_boot_ms() / 2 : 600000;
    for (int round = 0; round < 2; round++) {
        reopen_with_grace(round == 0 ? grace_ms : 0);
        repair();
        if (round == 0) {
            make_sandbox("later", no_owner());
            make_sandbox("earlier", no_owner());
            change_sandbox("later", orphan_of_later);
            change_sandbox("earlier", orphan_of_earlier);
        }
        start();
        if (round == 0) {
            wait_for_passes();
            (void)expect_sandbox("later", SANDBOX_ORPHANED);
            (void)expect_sandbox("earlier", SANDBOX_ORPHANED);
        }
    }
    wait_until(is_gone("later") && is_gone("earlier"));
}
END_TEST

static struct owner_row new_owner;

static void give_to_new_owner(struct sandbox_row *row)
{
    row->state = SANDBOX_RUNNING;
    row->reason[0] = '\0';
    row->orphaned_boot_ms = 0;
    row->owner = new_owner;
}

START_TEST(an_orphan_that_was_saved_stays)
{
    fixture_close();
    fixture.grace_ms = 300;
    fixture_open();
    pid_t first = start_process();
    pid_t second = start_process();
    repair();
    start();
    make_sandbox("box", process_owner(first));
    new_owner = process_owner(second);
    end_process(first);
    wait_until(state_of("box") == SANDBOX_ORPHANED);
    int64_t orphaned_ms = clock_boot_ms();
    change_sandbox("box", give_to_new_owner);
    wait_until(clock_boot_ms() > orphaned_ms + 2 * fixture.grace_ms);
    wait_for_passes();
    (void)expect_sandbox("box", SANDBOX_RUNNING);
    end_process(second); /* and it is the new one that counts */
    wait_until(is_gone("box"));
}
END_TEST

static void set_orphaned(struct sandbox_row *row)
{
    row->state = SANDBOX_ORPHANED;
    (void)snprintf(row->reason, sizeof row->reason, "owner_gone");
    row->orphaned_boot_ms = clock_boot_ms();
}

START_TEST(an_orphan_that_is_saved_at_the_last_moment_stays)
{
    pid_t pid = start_process();
    repair();
    make_sandbox("box", process_owner(pid));
    change_sandbox("box", set_orphaned);
    new_owner = process_owner(pid);
    struct sandbox_lock lock = reclaim_lock(fixture.reclaim, "box");
    start();
    /* The collector has seen an orphan whose grace is over, and now waits for the lock, or will. */
    for (int waited_ms = 0; waited_ms < 200;)
        waited_ms += wait_a_little();
    struct sandbox_row row = expect_sandbox("box", SANDBOX_ORPHANED);
    give_to_new_owner(&row);
    write_row(&row);
    reclaim_unlock(&lock);
    wait_for_passes();
    (void)expect_sandbox("box", SANDBOX_RUNNING);
    end_process(pid);
    wait_until(is_gone("box"));
}
END_TEST

START_TEST(a_paused_one_needs_no_owner)
{
    pid_t pid = start_process();
    repair();
    start();
    make_sandbox("box", process_owner(pid));
    change_sandbox("box", set_paused);
    end_process(pid);
    wait_for_passes();
    (void)expect_sandbox("box", SANDBOX_PAUSED);
    ck_assert(has_region_file("box"));
    ck_assert_uint_eq(count_events("sandbox.orphaned", "box"), 0);
}
END_TEST

START_TEST(a_lease_that_is_over_orphans)
{
    repair();
    start();
    make_sandbox("short", lease_owner(1));
    make_sandbox("long", lease_owner(3600));
    make_sandbox("paused", lease_owner(1));
    change_sandbox("paused", set_paused);
    wait_for_passes();
    ck_assert_uint_eq(count_events("sandbox.orphaned", "short"), 0);
    wait_until(is_gone("short"));
    expect_event("sandbox.orphaned", "short", "lease_expired");
    expect_event("sandbox.reclaimed", "short", "lease_expired");
    (void)expect_sandbox("long", SANDBOX_RUNNING);
    (void)expect_sandbox("paused", SANDBOX_PAUSED);
}
END_TEST

START_TEST(without_descriptors_the_passes_look)
{
    struct rlimit old;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
    reclaim_free(fixture.reclaim);
    fixture.reclaim = NULL;
    /* Descriptors for watches are half of the limit: with 40 there are 20, and the 10 of the other half are
     * not enough for one more than the first 20 owners. */
    struct rlimit few = {.rlim_cur = 40, .rlim_max = old.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    const struct reclaim_config config = {.store = fixture.store,
                                          .regions = fixture.regions,
                                          .metrics = fixture.metrics,
                                          .pass_interval_ms = 20,
                                          .keep_events = 100000,
                                          .keep_keys_ms = 60000};
    ck_assert_int_eq(reclaim_new(&config, &fixture.reclaim, NULL), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
    repair();
    start();
    enum { OWNERS = 25 };
    pid_t pids[OWNERS];
    char id[16];
    for (int i = 0; i < OWNERS; i++) {
        pids[i] = start_process();
        (void)snprintf(id, sizeof id, "box-%d", i);
        make_plain_sandbox(id, process_owner(pids[i]));
    }
    struct reclaim_report report;
    reclaim_get_report(fixture.reclaim, &report);
    ck_assert_uint_eq(report.watched_owners, 20);
    wait_for_passes();
    end_process(pids[OWNERS - 1]); /* one that has no descriptor */
    (void)snprintf(id, sizeof id, "box-%d", OWNERS - 1);
    wait_until(is_gone(id));
    end_process(pids[0]); /* one that has, and leaves it to another */
    wait_until(is_gone("box-0"));
    wait_for_passes();
    reclaim_get_report(fixture.reclaim, &report);
    ck_assert_uint_eq(report.watched_owners, 20);
    for (int i = 1; i < OWNERS - 1; i++) {
        (void)snprintf(id, sizeof id, "box-%d", i);
        (void)expect_sandbox(id, SANDBOX_RUNNING);
        end_process(pids[i]);
    }
    wait_until(metric("chan_reclaimed_sandboxes_total") == OWNERS);
}
END_TEST

START_TEST(a_hidden_owner_is_kept_until_it_can_be_examined)
{
    pid_t alive = start_process();
    pid_t dead = start_process();
    struct owner_row alive_owner = process_owner(alive);
    struct owner_row dead_owner = process_owner(dead);
    repair();
    if (hide_proc("a_hidden_owner_is_kept_until_it_can_be_examined")) {
        make_sandbox("alive1", alive_owner);
        make_sandbox("alive2", alive_owner);
        make_sandbox("dead", dead_owner);
        start();
        wait_until(count_events("sandbox.owner_in_doubt", "dead") > 0 &&
                   count_events("sandbox.owner_in_doubt", "alive1") > 0 &&
                   count_events("sandbox.owner_in_doubt", "alive2") > 0);
        wait_for_passes();
        struct reclaim_report report;
        reclaim_get_report(fixture.reclaim, &report);
        show_proc();
        ck_assert_uint_eq(report.owners_in_doubt, 2);
        expect_event("sandbox.owner_in_doubt", "alive1", "owner_unknown");
        expect_event("sandbox.owner_in_doubt", "alive2", "owner_unknown");
        end_process(dead);
        wait_until(is_gone("dead"));
        wait_for_passes();
        reclaim_get_report(fixture.reclaim, &report);
        ck_assert_uint_eq(report.owners_in_doubt, 0);
        ck_assert_uint_eq(report.watched_owners, 1);
        (void)expect_sandbox("alive1", SANDBOX_RUNNING);
        (void)expect_sandbox("alive2", SANDBOX_RUNNING);
    } else {
        end_process(dead);
    }
    end_process(alive);
}
END_TEST

START_TEST(what_was_stuck_is_tried_again)
{
    repair();
    make_sandbox_until("creating", no_owner(), PROGRESS_FILE);
    make_sandbox("deleting", no_owner());
    change_sandbox("deleting", set_deleting);
    make_sandbox("good", no_owner());
    start();
    wait_until(is_gone("creating") && is_gone("deleting"));
    expect_event("sandbox.create_failed", "creating", "interrupted");
    expect_event("sandbox.deleted", "deleting", NULL);
    (void)expect_sandbox("good", SANDBOX_RUNNING);
    ck_assert_uint_eq(count_files(), 1);
}
END_TEST

static void finish_creation(const char *id, struct sandbox_row *row)
{
    ck_assert(get_sandbox(id, row));
    ck_assert_int_eq(row->state, SANDBOX_CREATING);
    ck_assert_int_eq(region_create(fixture.regions, &row->region, NULL), 0);
    row->state = SANDBOX_RUNNING;
    row->region.state = REGION_READY;
}

START_TEST(an_operation_under_way_is_not_disturbed)
{
    repair();
    make_sandbox_until("box", no_owner(), PROGRESS_INTENT);
    struct sandbox_lock lock = reclaim_lock(fixture.reclaim, "box");
    start();
    /* The first pass now waits for the lock, or will. */
    for (int waited_ms = 0; waited_ms < 200;)
        waited_ms += wait_a_little();
    struct sandbox_row row;
    finish_creation("box", &row);
    write_row(&row);
    ck_assert_int_eq(region_unstage(fixture.regions, &row.region, NULL), 0);
    reclaim_unlock(&lock);
    wait_for_passes();
    (void)expect_sandbox("box", SANDBOX_RUNNING);
    ck_assert(has_region_file("box"));
}
END_TEST

START_TEST(a_file_that_vanishes_is_noticed)
{
    repair();
    start();
    make_sandbox("box", no_owner());
    make_sandbox("good", no_owner());
    wait_for_passes();
    ck_assert_int_eq(unlink(region_path("box")), 0);
    wait_until(count_events("region.lost", "box") > 0);
    wait_for_passes();
    expect_event("region.lost", "box", "file_missing");
    ck_assert_int_eq(expect_sandbox("box", SANDBOX_RUNNING).region.state, REGION_LOST);
    ck_assert_int_eq(expect_sandbox("good", SANDBOX_RUNNING).region.state, REGION_READY);
}
END_TEST

static bool foreign_files_are(uint64_t expected)
{
    struct reclaim_report report;
    reclaim_get_report(fixture.reclaim, &report);
    return report.foreign_files == expected;
}

START_TEST(foreign_files_are_counted_as_they_come_and_go)
{
    repair();
    start();
    make_sandbox("mine", no_owner());
    write_file(region_path("stranger"), "precious");
    wait_until(foreign_files_are(1));
    make_sandbox("more", no_owner());
    wait_for_passes();
    ck_assert(foreign_files_are(1));
    ck_assert_int_eq(unlink(region_path("stranger")), 0);
    wait_until(foreign_files_are(0));
}
END_TEST

START_TEST(old_events_are_dropped)
{
    fixture_close();
    fixture.keep_events = 10;
    fixture_open();
    for (int i = 0; i < 30; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "box-%d", i);
        make_plain_sandbox(id, no_owner());
    }
    repair();
    start();
    wait_for_passes();
    auto_view struct store_view *view = NULL;
    struct error err = ERROR_INIT;
    struct event_row *events = NULL;
    size_t count = 0;
    int64_t newest = 0;
    ck_assert_int_eq(store_read_begin(fixture.store, &view, NULL), 0);
    ck_assert_int_eq(store_event_list(view, 0, 1000, &events, &count, &newest, &err), -1);
    ck_assert_int_eq(err.reason, REASON_REVISION_COMPACTED);
    newest = store_revision(view);
    ck_assert_int_eq(store_event_list(view, newest - 10, 1000, &events, &count, &newest, &err), 0);
    ck_assert_uint_eq(count, 10);
    store_event_list_free(events, count);
}
END_TEST

/* Operations of several threads beside the collector and owners that end. */
enum { THREADS = 3, ROUNDS = 15 };

static void *create_and_delete(void *argument)
{
    const int *number = argument;
    struct owner_row owner = process_owner(getpid());
    for (int i = 0; i < ROUNDS; i++) {
        char id[32];
        (void)snprintf(id, sizeof id, "t%d-%d", *number, i);
        make_sandbox(id, owner);
        struct sandbox_row row;
        const struct store_actor actor = {
            .who = "test", .operation = "sandbox.delete", .object_id = id, .result = "ok"};
        auto_sandbox_lock struct sandbox_lock lock = reclaim_lock(fixture.reclaim, id);
        ck_assert(get_sandbox(id, &row));
        ck_assert_int_eq(row.state, SANDBOX_RUNNING);
        ck_assert_int_eq(reclaim_remove_sandbox(fixture.reclaim, &row, &actor, false, NULL), 0);
    }
    return NULL;
}

START_TEST(beside_operations)
{
    fixture_close();
    fixture.interval_ms = 1;
    fixture_open();
    repair();
    start();
    pid_t owners[ROUNDS];
    for (int i = 0; i < ROUNDS; i++)
        owners[i] = start_process();
    pthread_t threads[THREADS];
    int numbers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, create_and_delete, &numbers[i]), 0);
    }
    for (int i = 0; i < ROUNDS; i++) {
        char id[32];
        (void)snprintf(id, sizeof id, "owned-%d", i);
        make_sandbox(id, process_owner(owners[i]));
        end_process(owners[i]);
    }
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    wait_until(metric("chan_reclaimed_sandboxes_total") == ROUNDS);
    ck_assert_uint_eq(count_files(), 0);
    ck_assert_double_eq(metric("chan_collector_errors_total"), 0);
    struct reclaim_report report;
    reclaim_get_report(fixture.reclaim, &report);
    ck_assert_uint_eq(report.watched_owners, 0);
}
END_TEST

START_TEST(it_stops_whatever_it_does)
{
    repair();
    reclaim_free(NULL);
    for (int i = 0; i < 5; i++) {
        start();
        fixture_close();
        fixture_open();
    }
}
END_TEST

TCase *collector_tests(void)
{
    TCase *tests = tcase_create("collector");
    tcase_add_test(tests, an_owner_that_ends_takes_its_sandboxes_along);
    tcase_add_test(tests, the_end_is_noticed_without_a_pass);
    tcase_add_test(tests, an_orphan_stays_for_its_grace);
    tcase_add_test(tests, the_grace_is_counted_from_the_end_over_a_restart);
    tcase_add_test(tests, the_grace_of_an_earlier_boot_starts_anew);
    tcase_add_test(tests, an_orphan_that_was_saved_stays);
    tcase_add_test(tests, an_orphan_that_is_saved_at_the_last_moment_stays);
    tcase_add_test(tests, a_paused_one_needs_no_owner);
    tcase_add_test(tests, a_lease_that_is_over_orphans);
    tcase_add_test(tests, without_descriptors_the_passes_look);
    tcase_add_test(tests, a_hidden_owner_is_kept_until_it_can_be_examined);
    tcase_add_test(tests, what_was_stuck_is_tried_again);
    tcase_add_test(tests, an_operation_under_way_is_not_disturbed);
    tcase_add_test(tests, a_file_that_vanishes_is_noticed);
    tcase_add_test(tests, foreign_files_are_counted_as_they_come_and_go);
    tcase_add_test(tests, old_events_are_dropped);
    tcase_add_test(tests, beside_operations);
    tcase_add_test(tests, it_stops_whatever_it_does);
    return tests;
}
