/* Names, patterns, the directory and its scan. */
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "tests/unit/regions/fixture.h"

static void expect_refused(const char *directory, const char *pattern, const char *word)
{
    struct error err = ERROR_INIT;
    struct regions *regions = NULL;
    const struct regions_config config = {.directory = directory, .name_pattern = pattern};
    ck_assert_msg(regions_open(&config, &regions, &err) == -1, "expected \"%s\" in %s to be refused", pattern,
                  directory);
    ck_assert_ptr_null(regions);
    ck_assert_msg(strstr(err.detail, word) != NULL, "expected a detail with \"%s\", got: %s", word,
                  err.detail);
}

START_TEST(bad_patterns_are_refused)
{
    expect_refused(fixture.directory, "", "has no {sandboxID}");
    expect_refused(fixture.directory, "ivshmem", "has no {sandboxID}");
    expect_refused(fixture.directory, "{sandboxid}", "has no {sandboxID}");
    expect_refused(fixture.directory, "{sandboxID}-{sandboxID}", "more than once");
    expect_refused(fixture.directory, "{name}-{sandboxID}", "brace");
    expect_refused(fixture.directory, "{sandboxID}}", "brace");
    expect_refused(fixture.directory, "a/{sandboxID}", "slash");
    expect_refused(fixture.directory, "../{sandboxID}", "slash");
    expect_refused(fixture.directory, "a\n{sandboxID}", "control character");
    expect_refused(fixture.directory, ".chan-{sandboxID}", ".chan-");
    expect_refused(fixture.directory, ".chan-x-{sandboxID}", ".chan-");
    expect_refused(fixture.directory, ".c{sandboxID}", ".chan-"); /* with the id "han-1" */
    expect_refused(fixture.directory, ".{sandboxID}", ".chan-");
}
END_TEST

START_TEST(the_longest_name_fits_exactly)
{
    char pattern[256];
    char id[ID_SIZE];
    memset(id, 'i', sizeof id - 1);
    id[sizeof id - 1] = '\0';
    (void)snprintf(pattern, sizeof pattern, "%0127d{sandboxID}", 0);
    fixture_reopen(pattern);
    struct region_row row = make_row(id);
    ck_assert_uint_eq(strlen(row.name), 255);
    create(&row);
    ck_assert(exists(row.name));
    (void)snprintf(pattern, sizeof pattern, "%0128d{sandboxID}", 0);
    expect_refused(fixture.directory, pattern, "too long");
}
END_TEST

START_TEST(names_follow_the_pattern)
{
    static const struct {
        const char *pattern, *name;
    } cases[] = {{"ivshmem-{sandboxID}", "ivshmem-a.b_c-1"},
                 {"{sandboxID}", "a.b_c-1"},
                 {"pre {sandboxID}.shm", "pre a.b_c-1.shm"},
                 {".d{sandboxID}", ".da.b_c-1"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture_reopen(cases[i].pattern);
        char name[REGION_NAME_SIZE];
        region_name(fixture.regions, "a.b_c-1", name);
        ck_assert_str_eq(name, cases[i].name);
    }
}
END_TEST

START_TEST(bad_directories_are_refused)
{
    char text[600];
    (void)snprintf(text, sizeof text, "%s/missing", fixture.directory);
    expect_refused(text, "{sandboxID}", "No such file");
    expect_refused("dev/shm", "{sandboxID}", "absolute");
    expect_refused("/proc/self/status", "{sandboxID}", "Not a directory");
    (void)snprintf(text, sizeof text, "/%0300d", 0);
    expect_refused(text, "{sandboxID}", "longer");
    expect_refused("/proc/self", "{sandboxID}", "cannot make files");
}
END_TEST

START_TEST(trailing_slashes_do_not_get_into_paths)
{
    char text[128];
    (void)snprintf(text, sizeof text, "%s///", fixture.directory);
    const struct regions_config config = {.directory = text, .name_pattern = "{sandboxID}"};
    struct regions *regions = NULL;
    ck_assert_int_eq(regions_open(&config, &regions, NULL), 0);
    ck_assert_str_eq(regions_directory(regions), fixture.directory);
    regions_close(regions);
    regions_close(NULL);
}
END_TEST

START_TEST(tokens_are_random_hex)
{
    char first[STAGING_TOKEN_SIZE];
    char second[STAGING_TOKEN_SIZE];
    ck_assert_int_eq(region_make_token(first, NULL), 0);
    ck_assert_int_eq(region_make_token(second, NULL), 0);
    ck_assert_uint_eq(strlen(first), 32);
    ck_assert_uint_eq(strspn(first, "0123456789abcdef"), 32);
    ck_assert_str_ne(first, second);
}
END_TEST

struct seen {
    char ids[1024]; /* each followed by a space */
    size_t tokens, calls, stop_after;
};

static int note(void *context, const char *name, const char *sandbox_id, const char *token)
{
    struct seen *seen = context;
    ck_assert_msg((sandbox_id == NULL) != (token == NULL), "expected one of id and token for %s", name);
    if (token != NULL) {
        ck_assert_uint_eq(strlen(token), 32);
        seen->tokens++;
    } else {
        size_t used = strlen(seen->ids);
        (void)snprintf(seen->ids + used, sizeof seen->ids - used, "%s ", sandbox_id);
    }
    seen->calls++;
    return seen->stop_after != 0 && seen->calls == seen->stop_after;
}

static void scan(struct seen *seen)
{
    struct error err = ERROR_INIT;
    ck_assert_msg(regions_scan(fixture.regions, note, seen, &err) == 0, "%s", err.detail);
}

START_TEST(scan_finds_what_looks_like_ours)
{
    static const char *const others[] = {"ivshmem-",
                                         "ivshmem-.hidden",
                                         "ivshmem--dash",
                                         "ivshmem-a..b",
                                         "ivshmem-with space",
                                         "xivshmem-a",
                                         "vshmem-a",
                                         ".chan-",
                                         ".chan-0123456789abcdef0123456789abcde",
                                         ".chan-0123456789ABCDEF0123456789abcdef",
                                         ".chan-0123456789abcdef0123456789abcdef0"};
    char longer[200];
    (void)snprintf(longer, sizeof longer, "ivshmem-%0129d", 0);
    write_file(longer, "", 0600);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        write_file(others[i], "", 0600);
    struct seen none = {.ids = ""};
    scan(&none);
    ck_assert_msg(none.calls == 0, "expected nothing of ours, got %s", none.ids);

    write_file("ivshmem-one", "", 0600);
    ck_assert_int_eq(symlink("nowhere", path_of("ivshmem-two.2")), 0);
    write_file(".chan-0123456789abcdef0123456789abcdef", "", 0600);
    struct seen some = {.ids = ""};
    scan(&some);
    ck_assert_uint_eq(some.calls, 3);
    ck_assert_uint_eq(some.tokens, 1);
    ck_assert_msg(strstr(some.ids, "one ") != NULL && strstr(some.ids, "two.2 ") != NULL, "got %s", some.ids);

    struct seen first = {.ids = "", .stop_after = 1};
    scan(&first);
    ck_assert_uint_eq(first.calls, 1);
}
END_TEST

START_TEST(scan_takes_a_suffix_apart)
{
    fixture_reopen("r-{sandboxID}.shm");
    write_file("r-box.shm", "", 0600);
    write_file("r-.shm", "", 0600);
    write_file("r-box.sh", "", 0600);
    struct seen seen = {.ids = ""};
    scan(&seen);
    ck_assert_str_eq(seen.ids, "box ");
}
END_TEST

START_TEST(a_change_of_the_directory_is_seen)
{
    int64_t before = 0;
    int64_t after = 0;
    ck_assert_int_eq(regions_changed(fixture.regions, &before, NULL), 0);
    ck_assert_int_eq(regions_changed(fixture.regions, &after, NULL), 0);
    ck_assert_int_eq(before, after);
    ck_assert(!regions_has_file(fixture.regions, "ivshmem-a"));
    /* The clock of file times moves in ticks, so it may take a few files until one falls into the next. */
    for (int i = 0; i < 100000 && after == before; i++) {
        write_file("ivshmem-a", "", 0600);
        ck_assert(regions_has_file(fixture.regions, "ivshmem-a"));
        ck_assert_int_eq(unlink(path_of("ivshmem-a")), 0);
        ck_assert_int_eq(regions_changed(fixture.regions, &after, NULL), 0);
    }
    ck_assert_int_gt(after, before);
}
END_TEST

START_TEST(space_is_that_of_the_file_system)
{
    uint64_t total = 0;
    uint64_t unused = 0;
    struct statvfs expected;
    ck_assert_int_eq(regions_space(fixture.regions, &total, &unused, NULL), 0);
    ck_assert_int_eq(statvfs(fixture.directory, &expected), 0);
    ck_assert_uint_eq(total, (uint64_t)expected.f_blocks * expected.f_frsize);
    ck_assert_uint_le(unused, total);
}
END_TEST

TCase *names_tests(void)
{
    TCase *tests = tcase_create("names");
    tcase_add_test(tests, bad_patterns_are_refused);
    tcase_add_test(tests, the_longest_name_fits_exactly);
    tcase_add_test(tests, names_follow_the_pattern);
    tcase_add_test(tests, bad_directories_are_refused);
    tcase_add_test(tests, trailing_slashes_do_not_get_into_paths);
    tcase_add_test(tests, tokens_are_random_hex);
    tcase_add_test(tests, scan_finds_what_looks_like_ours);
    tcase_add_test(tests, scan_takes_a_suffix_apart);
    tcase_add_test(tests, a_change_of_the_directory_is_seen);
    tcase_add_test(tests, space_is_that_of_the_file_system);
    return tests;
}
