#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/sdk/support.h"

static void expect_refusal(const char *path, unsigned flags, int expected, const char *word)
{
    struct chan_region *region = NULL;
    struct chan_error error = {""};
    int r = chan_region_open_path(path, flags, &region, &error);
    ck_assert_msg(r == expected, "%s: expected %d, got %d (%s)", path, expected, r, error.text);
    ck_assert_ptr_null(region);
    ck_assert_msg(strstr(error.text, word) != NULL, "'%s' does not say '%s'", error.text, word);
    /* Nobody has to take the text. */
    ck_assert_int_eq(chan_region_open_path(path, flags, &region, NULL), expected);
}

START_TEST(test_opens_a_region)
{
    char path[PATH_BYTES];
    scratch_path(path, "good");
    make_region_file(path, 1 << 20, true);
    struct chan_region *region = open_path(path);
    ck_assert_uint_eq(chan_region_size(region), 1 << 20);
    ck_assert_int_eq(chan_region_mapping(region), CHAN_MAPPING_CACHED);
    ck_assert_str_eq(chan_mapping_name(chan_region_mapping(region)), "cached");
    ck_assert_str_eq(chan_region_path(region), path);
    ck_assert_uint_eq(chan_region_superblock(region)->epoch, 1);
    ck_assert_mem_eq(chan_region_base(region), "CHANRGN1", 8);
    chan_region_close(region);
}
END_TEST

START_TEST(test_opens_a_raw_region)
{
    char path[PATH_BYTES];
    scratch_path(path, "raw");
    make_region_file(path, 4096, false); /* smaller than any layout */
    struct chan_region *region = open_path(path);
    ck_assert_ptr_null(chan_region_superblock(region));
    unsigned char *bytes = chan_region_base(region);
    bytes[4095] = 0x5a;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    unsigned char last = 0;
    ck_assert_int_eq(pread(fd, &last, 1, 4095), 1);
    (void)close(fd);
    ck_assert_uint_eq(last, 0x5a);

    struct chan_channel *channel = NULL;
    struct chan_error error = {""};
    ck_assert_int_eq(chan_open(region, NULL, &channel, &error), -ENOMSG);
    ck_assert_ptr_nonnull(strstr(error.text, "superblock"));
    chan_region_close(region);
}
END_TEST

START_TEST(test_larger_mapping_than_region)
{
    char path[PATH_BYTES];
    scratch_path(path, "larger");
    make_region_file(path, 2 << 20, false);
    replace_superblock(path, 1 << 20, 3);
    struct chan_region *region = open_path(path);
    ck_assert_uint_eq(chan_region_superblock(region)->size, 1 << 20);
    ck_assert_uint_eq(chan_region_size(region), 2 << 20);
    chan_region_close(region);
}
END_TEST

START_TEST(test_refuses_what_is_no_region)
{
    char path[PATH_BYTES];
    char other[PATH_BYTES];
    scratch_path(path, "missing");
    expect_refusal(path, 0, -ENOENT, "enableIvshmem");

    scratch_path(path, "target");
    make_region_file(path, 65536, true);
    scratch_path(other, "symlink");
    ck_assert_int_eq(symlink(path, other), 0);
    expect_refusal(other, 0, -ELOOP, "symbolic link");

    scratch_path(path, "folder");
    ck_assert_int_eq(mkdir(path, 0700), 0);
    expect_refusal(path, 0, -EISDIR, "directory");
    expect_refusal(path, CHAN_REGION_READ_ONLY, -EINVAL, "regular file");

    scratch_path(path, "fifo");
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    expect_refusal(path, 0, -EINVAL, "regular file"); /* and does not wait for a writer */
    expect_refusal("/dev/null", 0, -EINVAL, "regular file");

    scratch_path(path, "empty");
    make_region_file(path, 0, false);
    expect_refusal(path, 0, -EINVAL, "0 bytes");
    scratch_path(path, "odd");
    make_region_file(path, 65537, false);
    expect_refusal(path, 0, -EINVAL, "65537 bytes");
    expect_refusal(path, 1u << 31, -EINVAL, "flags");
}
END_TEST

START_TEST(test_refuses_a_bad_superblock)
{
    char path[PATH_BYTES];
    scratch_path(path, "short");
    make_region_file(path, 65536, false);
    replace_superblock(path, 1 << 20, 1); /* says more than there is */
    expect_refusal(path, 0, -EMSGSIZE, "superblock");

    scratch_path(path, "damaged");
    make_region_file(path, 65536, true);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ck_assert_int_eq(pwrite(fd, "x", 1, offsetof(struct chan_superblock, nonce)), 1);
    (void)close(fd);
    expect_refusal(path, 0, -EBADMSG, "damaged");

    /* As raw bytes it can still be looked at. */
    struct chan_region *region = NULL;
    ck_assert_int_eq(chan_region_open_path(path, CHAN_REGION_RAW, &region, NULL), 0);
    ck_assert_ptr_null(chan_region_superblock(region));
    chan_region_close(region);
}
END_TEST

START_TEST(test_read_only)
{
    char path[PATH_BYTES];
    scratch_path(path, "read-only");
    make_region_file(path, 65536, true);
    ck_assert_int_eq(chmod(path, 0400), 0);
    struct chan_region *region = NULL;
    ck_assert_int_eq(chan_region_open_path(path, CHAN_REGION_READ_ONLY, &region, NULL), 0);
    struct chan_channel *channel = NULL;
    ck_assert_int_eq(chan_open(region, NULL, &channel, NULL), -EACCES);
    struct chan_side_info info = {.state = 99};
    ck_assert_int_eq(chan_inspect(region, CHAN_SIDE_GUEST, &info), 0);
    ck_assert_uint_eq(info.state, CHAN_STATE_RESET);
    ck_assert_int_eq(chan_inspect(region, CHAN_SIDE_AUTO, &info), -EINVAL);
    chan_region_close(region);
}
END_TEST

START_TEST(test_close_on_exec_and_no_leak)
{
    char path[PATH_BYTES];
    scratch_path(path, "descriptors");
    make_region_file(path, 65536, true);
    int before = dup(0);
    (void)close(before);
    struct chan_region *region = open_path(path);
    ck_assert_int_eq(fcntl(before, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    chan_region_close(region);
    chan_region_close(NULL);
    ck_assert_int_eq(fcntl(before, F_GETFD), -1);

    ck_assert_int_eq(truncate(path, 65537), 0);
    ck_assert_int_eq(chan_region_open_path(path, 0, &region, NULL), -EINVAL);
    int after = dup(0);
    (void)close(after);
    ck_assert_int_eq(after, before);
}
END_TEST

START_TEST(test_region_outlives_its_handle)
{
    char path[PATH_BYTES];
    scratch_path(path, "outlives");
    make_region_file(path, 65536, true);
    struct chan_region *region = open_path(path);
    struct chan_channel *channel = open_side(region, CHAN_SIDE_HOST);
    chan_region_close(region);
    ck_assert_int_eq(chan_connect(channel, 0), -EAGAIN); /* touches the mapping */
    chan_close(channel);
}
END_TEST

TCase *region_tests(void)
{
    TCase *tests = tcase_create("region");
    tcase_add_test(tests, test_opens_a_region);
    tcase_add_test(tests, test_opens_a_raw_region);
    tcase_add_test(tests, test_larger_mapping_than_region);
    tcase_add_test(tests, test_refuses_what_is_no_region);
    tcase_add_test(tests, test_refuses_a_bad_superblock);
    tcase_add_test(tests, test_read_only);
    tcase_add_test(tests, test_close_on_exec_and_no_leak);
    tcase_add_test(tests, test_region_outlives_its_handle);
    return tests;
}
