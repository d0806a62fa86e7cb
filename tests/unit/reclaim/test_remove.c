/* The removal that operations and the collector share, and the lock of a sandbox. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/reclaim/fixture.h"

static int remove_sandbox(const char *id, bool reclaimed)
{
    struct sandbox_row row;
    struct error err = ERROR_INIT;
    const struct store_actor actor = {
        .who = "test", .operation = "sandbox.delete", .object_id = id, .result = "ok"};
    struct sandbox_lock lock = reclaim_lock(fixture.reclaim, id);
    ck_assert(get_sandbox(id, &row));
    int result = reclaim_remove_sandbox(fixture.reclaim, &row, &actor, reclaimed, &err);
    reclaim_unlock(&lock);
    ck_assert_msg(result == 0 || err.detail[0] != '\0', "expected a detail");
    return result;
}

static uint64_t regions_in_use(void)
{
    auto_view struct store_view *view = NULL;
    struct usage_row usage;
    ck_assert_int_eq(store_read_begin(fixture.store, &view, NULL), 0);
    ck_assert_int_eq(store_usage_node(view, &usage, NULL), 0);
    return usage.regions;
}

START_TEST(a_sandbox_with_a_region_goes_in_two_units)
{
    make_sandbox("box", process_owner(getpid()));
    struct reclaim_report report;
    reclaim_get_report(fixture.reclaim, &report);
    ck_assert_uint_eq(report.watched_owners, 1);
    ck_assert_uint_eq(regions_in_use(), 1);
    int64_t before = revision();
    ck_assert_int_eq(remove_sandbox("box", false), 0);
    ck_assert_int_eq(revision(), before + 2);
    ck_assert(is_gone("box"));
    ck_assert_uint_eq(count_files(), 0);
    ck_assert_uint_eq(regions_in_use(), 0);
    expect_event("sandbox.deleting", "box", NULL);
    expect_event("sandbox.deleted", "box", NULL);
    ck_assert_uint_eq(count_events("sandbox.reclaimed", "box"), 0);
    reclaim_get_report(fixture.reclaim, &report);
    ck_assert_uint_eq(report.watched_owners, 0);
    ck_assert_uint_eq(report.reclaimed_total, 0);
}
END_TEST

START_TEST(a_sandbox_without_one_goes_in_one_unit)
{
    make_plain_sandbox("plain", no_owner());
    int64_t before = revision();
    ck_assert_int_eq(remove_sandbox("plain", false), 0);
    ck_assert_int_eq(revision(), before + 1);
    ck_assert(is_gone("plain"));
    expect_event("sandbox.deleted", "plain", NULL);
}
END_TEST

START_TEST(a_reclaimed_one_says_so)
{
    make_sandbox("box", no_owner());
    ck_assert_int_eq(remove_sandbox("box", true), 0);
    expect_event("sandbox.reclaimed", "box", "");
    struct reclaim_report report;
    reclaim_get_report(fixture.reclaim, &report);
    ck_assert_uint_eq(report.reclaimed_total, 1);
    ck_assert_double_eq(metric("chan_reclaimed_sandboxes_total"), 1);
}
END_TEST

START_TEST(a_foreign_file_is_left_and_reported)
{
    make_sandbox("box", no_owner());
    ck_assert_int_eq(unlink(region_path("box")), 0);
    write_file(region_path("box"), "precious");
    ck_assert_int_eq(remove_sandbox("box", false), 0);
    ck_assert(is_gone("box"));
    expect_content(region_path("box"), "precious");
    expect_event("region.foreign_file_left", "box", NULL);
}
END_TEST

START_TEST(a_missing_file_is_fine)
{
    make_sandbox("box", no_owner());
    ck_assert_int_eq(unlink(region_path("box")), 0);
    ck_assert_int_eq(remove_sandbox("box", false), 0);
    ck_assert(is_gone("box"));
    ck_assert_uint_eq(count_events("region.foreign_file_left", "box"), 0);
}
END_TEST

START_TEST(a_half_made_one_can_be_deleted)
{
    make_sandbox_until("box", no_owner(), PROGRESS_FILE);
    ck_assert_uint_eq(count_files(), 2);
    ck_assert_int_eq(remove_sandbox("box", false), 0);
    ck_assert(is_gone("box"));
    ck_assert_uint_eq(count_files(), 0);
}
END_TEST

/* unlink cannot remove a directory, not even as root. */
static void put_directory_at_staging_name(const char *id, char path[256])
{
    struct sandbox_row row;
    ck_assert(get_sandbox(id, &row));
    (void)snprintf(path, 256, "%s/.chan-%s", fixture.shm_directory, row.region.staging_token);
    ck_assert_int_eq(mkdir(path, 0700), 0);
}

static void set_orphaned(struct sandbox_row *row)
{
    row->state = SANDBOX_ORPHANED;
    (void)snprintf(row->reason, sizeof row->reason, "owner_gone");
}

START_TEST(a_file_that_cannot_be_removed_leaves_the_intent)
{
    char path[256];
    make_sandbox("box", no_owner());
    change_sandbox("box", set_orphaned);
    put_directory_at_staging_name("box", path);
    ck_assert_int_eq(remove_sandbox("box", false), -1);
    struct sandbox_row row = expect_sandbox("box", SANDBOX_DELETING);
    ck_assert_int_eq(row.region.state, REGION_DELETING);
    ck_assert_str_eq(row.reason, ""); /* so that it is finished as a deletion and not as a reclaim */
    ck_assert_uint_eq(regions_in_use(), 1);
    ck_assert_int_eq(rmdir(path), 0);
    ck_assert_int_eq(remove_sandbox("box", false), 0);
    ck_assert(is_gone("box"));
    expect_event("sandbox.deleting", "box", NULL); /* one, although it took two tries */
}
END_TEST

enum { THREADS = 4, ROUNDS = 5000, TOTAL = THREADS * ROUNDS };
static unsigned int counted;

static void *count_under_lock(void *argument)
{
    (void)argument;
    for (int i = 0; i < ROUNDS; i++) {
        auto_sandbox_lock struct sandbox_lock lock = reclaim_lock(fixture.reclaim, "box");
        counted++;
    }
    return NULL;
}

START_TEST(the_lock_excludes)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, count_under_lock, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_uint_eq(counted, TOTAL);
    struct sandbox_lock lock = reclaim_lock(fixture.reclaim, "box");
    reclaim_unlock(&lock);
    reclaim_unlock(&lock); /* twice is as once */
}
END_TEST

TCase *remove_tests(void)
{
    TCase *tests = tcase_create("remove");
    tcase_add_test(tests, a_sandbox_with_a_region_goes_in_two_units);
    tcase_add_test(tests, a_sandbox_without_one_goes_in_one_unit);
    tcase_add_test(tests, a_reclaimed_one_says_so);
    tcase_add_test(tests, a_foreign_file_is_left_and_reported);
    tcase_add_test(tests, a_missing_file_is_fine);
    tcase_add_test(tests, a_half_made_one_can_be_deleted);
    tcase_add_test(tests, a_file_that_cannot_be_removed_leaves_the_intent);
    tcase_add_test(tests, the_lock_excludes);
    return tests;
}
