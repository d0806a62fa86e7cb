/* Whose file is it, and what is removed. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/regions/fixture.h"

static void expect_condition(const struct region_row *row, enum region_condition expected)
{
    struct error err = ERROR_INIT;
    enum region_condition condition;
    ck_assert_msg(region_examine(fixture.regions, row, &condition, &err) == 0, "%s", err.detail);
    ck_assert_int_eq(condition, expected);
}

static void expect_removal(const struct region_row *row, bool expected_foreign)
{
    struct error err = ERROR_INIT;
    bool left_foreign = !expected_foreign;
    ck_assert_msg(region_remove(fixture.regions, row, &left_foreign, &err) == 0, "%s", err.detail);
    ck_assert_int_eq(left_foreign, expected_foreign);
}

/* A finished region. */
static struct region_row finished(const char *id)
{
    struct region_row row = make_row(id);
    create(&row);
    ck_assert_int_eq(region_unstage(fixture.regions, &row, NULL), 0);
    return row;
}

START_TEST(our_file_is_removed)
{
    struct region_row row = finished("mine");
    expect_condition(&row, REGION_IS_OURS);
    expect_removal(&row, false);
    ck_assert_uint_eq(count_files(), 0);
    expect_condition(&row, REGION_IS_MISSING);
    expect_removal(&row, false); /* twice is as once */
}
END_TEST

START_TEST(a_file_of_another_size_is_still_ours_to_remove)
{
    struct region_row row = finished("cut");
    ck_assert_int_eq(truncate(path_of(row.name), 4096), 0);
    expect_condition(&row, REGION_IS_WRONG_SIZE);
    expect_removal(&row, false);
    ck_assert_uint_eq(count_files(), 0);
}
END_TEST

START_TEST(a_file_that_replaced_ours_stays)
{
    struct region_row row = finished("replaced");
    ck_assert_int_eq(unlink(path_of(row.name)), 0);
    write_file(row.name, "precious", 0640);
    struct stat before = look_at(path_of(row.name));
    expect_condition(&row, REGION_IS_FOREIGN);
    expect_removal(&row, true);
    expect_untouched(row.name, &before, "precious");
}
END_TEST

START_TEST(a_symlink_to_our_own_file_is_foreign)
{
    struct region_row row = finished("moved");
    char target[512];
    (void)snprintf(target, sizeof target, "%s", path_of("elsewhere"));
    ck_assert_int_eq(rename(path_of(row.name), target), 0);
    ck_assert_int_eq(symlink("elsewhere", path_of(row.name)), 0);
    expect_condition(&row, REGION_IS_FOREIGN);
    expect_removal(&row, true);
    ck_assert_uint_eq(count_files(), 2);
}
END_TEST

START_TEST(a_directory_is_foreign)
{
    struct region_row row = finished("directory");
    ck_assert_int_eq(unlink(path_of(row.name)), 0);
    ck_assert_int_eq(mkdir(path_of(row.name), 0700), 0);
    expect_condition(&row, REGION_IS_FOREIGN);
    expect_removal(&row, true);
    ck_assert(exists(row.name));
}
END_TEST

START_TEST(a_reused_inode_number_is_foreign)
{
    struct region_row row = finished("inode");
    ck_assert_msg(row.identity.birth_ns != 0, "expected a birth time on this file system");
    struct region_row older = row;
    older.identity.birth_ns -= 1;
    expect_condition(&older, REGION_IS_FOREIGN);
    struct region_row elsewhere = row;
    elsewhere.identity.device += 1;
    expect_condition(&elsewhere, REGION_IS_FOREIGN);
    struct region_row unrecorded = row;
    memset(&unrecorded.identity, 0, sizeof unrecorded.identity);
    expect_condition(&unrecorded, REGION_IS_FOREIGN);
    expect_removal(&older, true);
    expect_condition(&row, REGION_IS_OURS);
}
END_TEST

START_TEST(without_a_birth_time_only_this_boot_counts)
{
    struct region_row row = finished("nobirth");
    row.identity.birth_ns = 0;
    expect_condition(&row, REGION_IS_OURS);
    row.identity.boot_id[0] = row.identity.boot_id[0] == 'f' ? '0' : 'f';
    expect_condition(&row, REGION_IS_FOREIGN);
}
END_TEST

START_TEST(a_staging_name_that_was_left_goes_with_the_region)
{
    struct region_row row = make_row("staged");
    create(&row);
    ck_assert_uint_eq(count_files(), 2);
    expect_removal(&row, false);
    ck_assert_uint_eq(count_files(), 0);
}
END_TEST

START_TEST(unstage_removes_the_staging_name_only)
{
    struct region_row row = make_row("staged");
    create(&row);
    ck_assert_int_eq(region_unstage(fixture.regions, &row, NULL), 0);
    ck_assert_int_eq(region_unstage(fixture.regions, &row, NULL), 0);
    expect_condition(&row, REGION_IS_OURS);
    ck_assert_uint_eq(count_files(), 1);
}
END_TEST

START_TEST(an_unfinished_region_is_removed_by_its_staging_name)
{
    struct region_row row = make_row("unfinished");
    struct region_row unrecorded = row;
    create(&row);
    ck_assert_int_eq(region_remove_unfinished(fixture.regions, &unrecorded, NULL), 0);
    ck_assert_uint_eq(count_files(), 0);
    ck_assert_int_eq(region_remove_unfinished(fixture.regions, &unrecorded, NULL), 0);
}
END_TEST

START_TEST(without_a_staging_name_nothing_is_proved)
{
    struct region_row row = make_row("stranger");
    write_file(row.name, "precious", 0640);
    struct stat before = look_at(path_of(row.name));
    ck_assert_int_eq(region_remove_unfinished(fixture.regions, &row, NULL), 0);
    expect_untouched(row.name, &before, "precious");
    const char *staging = strrchr(staging_path_of(&row), '/') + 1;
    char name[64];
    (void)snprintf(name, sizeof name, "%s", staging);
    write_file(name, "", 0600);
    ck_assert_int_eq(region_remove_unfinished(fixture.regions, &row, NULL), 0);
    expect_untouched(row.name, &before, "precious");
    ck_assert_uint_eq(count_files(), 1);
}
END_TEST

TCase *remove_tests(void)
{
    TCase *tests = tcase_create("remove");
    tcase_add_test(tests, our_file_is_removed);
    tcase_add_test(tests, a_file_of_another_size_is_still_ours_to_remove);
    tcase_add_test(tests, a_file_that_replaced_ours_stays);
    tcase_add_test(tests, a_symlink_to_our_own_file_is_foreign);
    tcase_add_test(tests, a_directory_is_foreign);
    tcase_add_test(tests, a_reused_inode_number_is_foreign);
    tcase_add_test(tests, without_a_birth_time_only_this_boot_counts);
    tcase_add_test(tests, a_staging_name_that_was_left_goes_with_the_region);
    tcase_add_test(tests, unstage_removes_the_staging_name_only);
    tcase_add_test(tests, an_unfinished_region_is_removed_by_its_staging_name);
    tcase_add_test(tests, without_a_staging_name_nothing_is_proved);
    return tests;
}
