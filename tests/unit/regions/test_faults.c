/* Crashes and failures at each step of region_create, in a child that CHAN_FAULT is set for. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/regions/fixture.h"

#ifdef CHAN_FAULT_POINTS

static const char *const all_points[] = {
#define FAULT_POINT(name) name,
#include "base/fault_points.def"
#undef FAULT_POINT
};

/* Calls fn for each point of this folder and returns how many there were. */
static size_t for_each_point(void (*fn)(const char *point))
{
    size_t count = 0;
    for (size_t i = 0; i < sizeof all_points / sizeof all_points[0]; i++)
        if (strncmp(all_points[i], "region.", strlen("region.")) == 0) {
            fn(all_points[i]);
            count++;
        }
    return count;
}

/* Starts a child that creates the region and exits with its reason (0 when it was made). */
static pid_t start_create(const struct region_row *row, const char *point, const char *action)
{
    char spec[96];
    (void)snprintf(spec, sizeof spec, "%s=%s", point, action);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        if (setenv("CHAN_FAULT", spec, 1) < 0)
            _exit(255);
        struct region_row mine = *row;
        struct error err = ERROR_INIT;
        _exit(region_create(fixture.regions, &mine, &err) == 0 ? 0 : (int)err.reason);
    }
    return child;
}

static int wait_for(pid_t child, int options)
{
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, options), child);
    return status;
}

static void expect_exit(pid_t child, enum reason reason)
{
    int status = wait_for(child, 0);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == (int)reason, "expected exit %d, got status %#x",
                  (int)reason, status);
}

static void kill_at(const char *point)
{
    struct region_row row = make_row("killed");
    write_file("ivshmem-other", "precious", 0644);
    struct stat before = look_at(path_of("ivshmem-other"));
    int status = wait_for(start_create(&row, point, "kill"), 0);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "%s: expected SIGKILL, got %#x", point,
                  status);
    ck_assert_msg(count_files() > 1, "%s: expected a file to be left for the repair", point);
    ck_assert_msg(strcmp(point, "region.after_link") == 0 || !exists(row.name),
                  "%s: expected no file under its name before it is complete", point);
    struct error err = ERROR_INIT;
    ck_assert_msg(region_remove_unfinished(fixture.regions, &row, &err) == 0, "%s: %s", point, err.detail);
    ck_assert_msg(count_files() == 1, "%s: expected nothing of ours to be left", point);
    expect_untouched("ivshmem-other", &before, "precious");
    ck_assert_int_eq(unlink(path_of("ivshmem-other")), 0);
}

START_TEST(what_a_kill_leaves_is_removed)
{
    ck_assert_uint_eq(for_each_point(kill_at), 5);
}
END_TEST

static void kill_beside_stranger(const char *point)
{
    struct region_row row = make_row("stranger");
    if (strcmp(point, "region.after_link") == 0)
        return; /* the name is ours then */
    write_file(row.name, "precious", 0644);
    struct stat before = look_at(path_of(row.name));
    (void)wait_for(start_create(&row, point, "kill"), 0);
    ck_assert_int_eq(region_remove_unfinished(fixture.regions, &row, NULL), 0);
    expect_untouched(row.name, &before, "precious");
    ck_assert_uint_eq(count_files(), 1);
    ck_assert_int_eq(unlink(path_of(row.name)), 0);
}

START_TEST(a_strangers_file_survives_the_repair)
{
    (void)for_each_point(kill_beside_stranger);
}
END_TEST

static void fail_at(const char *point)
{
    static const struct {
        const char *name;
        enum reason reason;
    } failures[] = {{"ENOSPC", REASON_NO_SPACE},
                    {"EDQUOT", REASON_NO_SPACE},
                    {"EMFILE", REASON_RESOURCE_LIMIT},
                    {"ENOMEM", REASON_RESOURCE_LIMIT},
                    {"EIO", REASON_INTERNAL}};
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        struct region_row row = make_row("failed");
        expect_exit(start_create(&row, point, failures[i].name), failures[i].reason);
        ck_assert_msg(count_files() == 0, "%s=%s: expected nothing to be left", point, failures[i].name);
    }
}

START_TEST(a_step_that_fails_leaves_nothing)
{
    ck_assert_uint_eq(for_each_point(fail_at), 5);
}
END_TEST

static void appear_at(const char *point)
{
    if (strcmp(point, "region.after_link") == 0)
        return;
    struct region_row row = make_row("race");
    pid_t child = start_create(&row, point, "stop");
    int status = wait_for(child, WUNTRACED);
    ck_assert_msg(WIFSTOPPED(status), "%s: expected the child to stop, got %#x", point, status);
    write_file(row.name, "precious", 0644);
    struct stat before = look_at(path_of(row.name));
    ck_assert_int_eq(kill(child, SIGCONT), 0);
    expect_exit(child, REASON_FILE_EXISTS);
    expect_untouched(row.name, &before, "precious");
    ck_assert_msg(count_files() == 1, "%s: expected nothing of ours to be left", point);
    ck_assert_int_eq(unlink(path_of(row.name)), 0);
}

START_TEST(a_strangers_file_that_appears_meanwhile_is_not_touched)
{
    (void)for_each_point(appear_at);
}
END_TEST

START_TEST(a_file_that_replaces_ours_meanwhile_is_not_touched)
{
    struct region_row row = make_row("swap");
    pid_t child = start_create(&row, "region.after_link", "kill");
    (void)wait_for(child, 0);
    ck_assert_int_eq(unlink(path_of(row.name)), 0);
    write_file(row.name, "precious", 0644);
    struct stat before = look_at(path_of(row.name));
    ck_assert_int_eq(region_remove_unfinished(fixture.regions, &row, NULL), 0);
    expect_untouched(row.name, &before, "precious");
    ck_assert_uint_eq(count_files(), 1);
}
END_TEST

START_TEST(owner_and_mode_come_before_the_size)
{
    if (skip_without_root("owner_and_mode_come_before_the_size"))
        return;
    struct region_row row = make_row("order");
    row.uid = 12345;
    row.gid = 23456;
    pid_t child = start_create(&row, "region.after_owner", "stop");
    ck_assert(WIFSTOPPED(wait_for(child, WUNTRACED)));
    struct stat status = look_at(staging_path_of(&row));
    ck_assert_uint_eq(status.st_mode, S_IFREG | 0600);
    ck_assert_uint_eq(status.st_uid, 12345);
    ck_assert_uint_eq(status.st_gid, 23456);
    ck_assert_int_eq(status.st_size, 0);
    ck_assert_int_eq(status.st_blocks, 0);
    ck_assert_int_eq(kill(child, SIGCONT), 0);
    expect_exit(child, REASON_NONE);
}
END_TEST

#endif

TCase *fault_tests(void)
{
    TCase *tests = tcase_create("faults");
#ifdef CHAN_FAULT_POINTS
    tcase_add_test(tests, what_a_kill_leaves_is_removed);
    tcase_add_test(tests, a_strangers_file_survives_the_repair);
    tcase_add_test(tests, a_step_that_fails_leaves_nothing);
    tcase_add_test(tests, a_strangers_file_that_appears_meanwhile_is_not_touched);
    tcase_add_test(tests, a_file_that_replaces_ours_meanwhile_is_not_touched);
    tcase_add_test(tests, owner_and_mode_come_before_the_size);
#else
    (void)printf("SKIP faults: built without CHAN_FAULT_POINTS\n");
#endif
    return tests;
}
