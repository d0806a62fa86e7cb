/* Making the file: what it is when it is there, and what happens to what is in the way. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "chan/layout.h"
#include "tests/unit/regions/fixture.h"

static void read_superblock(const char *name, struct chan_superblock *ret)
{
    auto_close int fd = open(path_of(name), O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pread(fd, ret, sizeof *ret, 0), (ssize_t)sizeof *ret);
}

/* Bytes from `offset` on that are not zero. */
static size_t count_nonzero(const char *name, size_t offset)
{
    auto_close int fd = open(path_of(name), O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    size_t size = (size_t)look_at(path_of(name)).st_size;
    unsigned char *bytes = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(bytes, MAP_FAILED);
    size_t count = 0;
    for (size_t i = offset; i < size; i++)
        count += bytes[i] != 0;
    ck_assert_int_eq(munmap(bytes, size), 0);
    return count;
}

START_TEST(a_region_is_complete)
{
    static const uint64_t sizes[] = {32768, 1048576, 8388608};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "box%zu", i);
        struct region_row row = make_row(id);
        row.settings.size_bytes = sizes[i];
        row.epoch = 5;
        create(&row);
        struct stat status = look_at(path_of(row.name));
        ck_assert_uint_eq(status.st_mode, S_IFREG | 0600);
        ck_assert_uint_eq((uint64_t)status.st_size, sizes[i]);
        ck_assert_msg((uint64_t)status.st_blocks * 512 >= sizes[i], "expected %ju reserved bytes, got %jd",
                      (uintmax_t)sizes[i], (intmax_t)status.st_blocks * 512);
        ck_assert_uint_eq(row.identity.inode, status.st_ino);
        ck_assert_uint_eq(row.identity.device, status.st_dev);
        ck_assert_msg(strlen(row.identity.boot_id) == 36, "expected a boot id");
        struct chan_superblock superblock;
        read_superblock(row.name, &superblock);
        ck_assert_int_eq(chan_superblock_check(&superblock, sizes[i]), 0);
        ck_assert_uint_eq(superblock.size, sizes[i]);
        ck_assert_uint_eq(superblock.epoch, 5);
        ck_assert_uint_eq(count_nonzero(row.name, sizeof superblock), 0);
        ck_assert_int_eq(region_unstage(fixture.regions, &row, NULL), 0);
        ck_assert_uint_eq(look_at(path_of(row.name)).st_nlink, 1);
    }
    ck_assert_uint_eq(count_files(), sizeof sizes / sizeof sizes[0]);
}
END_TEST

START_TEST(each_region_has_its_own_nonce)
{
    struct chan_superblock superblocks[2];
    for (int i = 0; i < 2; i++) {
        struct region_row row = make_row(i == 0 ? "one" : "two");
        create(&row);
        read_superblock(row.name, &superblocks[i]);
    }
    ck_assert_uint_ne(superblocks[0].nonce, superblocks[1].nonce);
}
END_TEST

START_TEST(raw_is_all_zeros)
{
    struct region_row row = make_row("raw");
    row.settings.layout = REGION_LAYOUT_RAW;
    row.settings.size_bytes = 4096;
    create(&row);
    ck_assert_int_eq(look_at(path_of(row.name)).st_size, 4096);
    ck_assert_uint_eq(count_nonzero(row.name, 0), 0);
}
END_TEST

START_TEST(a_size_that_the_layout_cannot_have_is_refused)
{
    struct region_row row = make_row("small");
    row.settings.size_bytes = 4096;
    expect_failure(&row, REASON_INTERNAL);
    ck_assert_uint_eq(count_files(), 0);
}
END_TEST

START_TEST(the_umask_does_not_matter)
{
    static const mode_t masks[] = {0, 0777};
    for (size_t i = 0; i < 2; i++) {
        mode_t old = umask(masks[i]);
        struct region_row row = make_row(i == 0 ? "open" : "closed");
        create(&row);
        (void)umask(old);
        ck_assert_uint_eq(look_at(path_of(row.name)).st_mode, S_IFREG | 0600);
    }
}
END_TEST

START_TEST(the_file_belongs_to_whom_it_is_for)
{
    if (skip_without_root("the_file_belongs_to_whom_it_is_for"))
        return;
    struct region_row row = make_row("given");
    row.uid = 12345;
    row.gid = 23456;
    create(&row);
    struct stat status = look_at(path_of(row.name));
    ck_assert_uint_eq(status.st_uid, 12345);
    ck_assert_uint_eq(status.st_gid, 23456);
    ck_assert_uint_eq(status.st_mode, S_IFREG | 0600);
}
END_TEST

START_TEST(an_expected_gid_overrides_a_setgid_directory)
{
    if (skip_without_root("an_expected_gid_overrides_a_setgid_directory"))
        return;
    ck_assert_int_eq(chown(fixture.directory, 0, 54321), 0);
    ck_assert_int_eq(chmod(fixture.directory, 02755), 0);
    struct region_row row = make_row("setgid");
    create(&row);
    ck_assert_uint_eq(look_at(path_of(row.name)).st_gid, getegid());
}
END_TEST

/* ---- what is in the way ---- */

START_TEST(a_strangers_file_is_not_touched)
{
    struct region_row row = make_row("taken");
    write_file(row.name, "precious", 0644);
    struct stat before = look_at(path_of(row.name));
    expect_failure(&row, REASON_FILE_EXISTS);
    expect_untouched(row.name, &before, "precious");
    ck_assert_uint_eq(count_files(), 1);
}
END_TEST

START_TEST(a_dangling_symlink_is_not_followed)
{
    struct region_row row = make_row("link");
    char target[128];
    (void)snprintf(target, sizeof target, "%s/target", fixture.directory);
    ck_assert_int_eq(symlink(target, path_of(row.name)), 0);
    struct stat before = look_at(path_of(row.name));
    expect_failure(&row, REASON_FILE_EXISTS);
    expect_untouched(row.name, &before, NULL);
    ck_assert_msg(!exists("target"), "expected the symlink not to be followed");
    ck_assert_uint_eq(count_files(), 1);
}
END_TEST

START_TEST(a_symlink_to_a_file_is_not_followed)
{
    struct region_row row = make_row("link");
    write_file("target", "precious", 0644);
    ck_assert_int_eq(symlink("target", path_of(row.name)), 0);
    struct stat link_before = look_at(path_of(row.name));
    struct stat target_before = look_at(path_of("target"));
    expect_failure(&row, REASON_FILE_EXISTS);
    expect_untouched(row.name, &link_before, NULL);
    expect_untouched("target", &target_before, "precious");
    ck_assert_uint_eq(count_files(), 2);
}
END_TEST

START_TEST(a_directory_is_in_the_way_too)
{
    struct region_row row = make_row("directory");
    ck_assert_int_eq(mkdir(path_of(row.name), 0700), 0);
    expect_failure(&row, REASON_FILE_EXISTS);
    ck_assert_uint_eq(count_files(), 1);
}
END_TEST

START_TEST(another_region_of_the_name_is_not_touched)
{
    struct region_row first = make_row("same");
    create(&first);
    ck_assert_int_eq(region_unstage(fixture.regions, &first, NULL), 0);
    struct stat before = look_at(path_of(first.name));
    struct region_row second = make_row("same");
    expect_failure(&second, REASON_FILE_EXISTS);
    expect_untouched(first.name, &before, NULL);
    ck_assert_uint_eq(count_files(), 1);
}
END_TEST

START_TEST(a_staging_name_that_is_taken_is_not_touched)
{
    struct region_row row = make_row("staging");
    const char *name = strrchr(staging_path_of(&row), '/') + 1;
    char staging[64];
    (void)snprintf(staging, sizeof staging, "%s", name);
    write_file(staging, "precious", 0644);
    struct stat before = look_at(path_of(staging));
    expect_failure(&row, REASON_INTERNAL);
    expect_untouched(staging, &before, "precious");
    ck_assert_uint_eq(count_files(), 1);
}
END_TEST

/* ---- no room, no right, no descriptor ---- */

/* Mounts a file system over the fixture's directory, visible to this process only. */
static bool mount_over(const char *test, const char *type, const char *options)
{
    if (skip_without_root(test))
        return false;
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("chan-unit", fixture.directory, type, 0, options) < 0) {
        (void)printf("SKIP %s: cannot mount %s: %s\n", test, type, strerror(errno));
        return false;
    }
    fixture_reopen("ivshmem-{sandboxID}");
    return true;
}

static void unmount(void)
{
    regions_close(fixture.regions);
    fixture.regions = NULL;
    ck_assert_int_eq(umount(fixture.directory), 0);
}

START_TEST(a_full_tmpfs_is_no_space_and_nothing_is_left)
{
    if (!mount_over("a_full_tmpfs_is_no_space_and_nothing_is_left", "tmpfs", "size=1m"))
        return;
    struct region_row row = make_row("first");
    row.settings.size_bytes = 524288;
    create(&row);
    ck_assert_int_eq(region_unstage(fixture.regions, &row, NULL), 0);
    uint64_t total = 0;
    uint64_t before = 0;
    uint64_t after = 0;
    ck_assert_int_eq(regions_space(fixture.regions, &total, &before, NULL), 0);
    for (int i = 0; i < 3; i++) {
        struct region_row big = make_row("big");
        expect_failure(&big, REASON_NO_SPACE);
        ck_assert_uint_eq(count_files(), 1);
    }
    ck_assert_int_eq(regions_space(fixture.regions, &total, &after, NULL), 0);
    ck_assert_uint_eq(after, before);
    unmount();
}
END_TEST

START_TEST(a_tmpfs_without_inodes_is_no_space)
{
    if (!mount_over("a_tmpfs_without_inodes_is_no_space", "tmpfs", "size=1m,nr_inodes=2"))
        return;
    write_file("last", "", 0600);
    struct region_row row = make_row("none");
    expect_failure(&row, REASON_NO_SPACE);
    ck_assert_uint_eq(count_files(), 1);
    unmount();
}
END_TEST

START_TEST(a_file_system_that_cannot_reserve_is_named)
{
    if (!mount_over("a_file_system_that_cannot_reserve_is_named", "ramfs", NULL))
        return;
    struct region_row row = make_row("ramfs");
    struct error err = ERROR_INIT;
    ck_assert_int_eq(region_create(fixture.regions, &row, &err), -1);
    ck_assert_int_eq(err.reason, REASON_INTERNAL);
    ck_assert_msg(strstr(err.detail, "fallocate") != NULL, "expected the cause, got: %s", err.detail);
    ck_assert_uint_eq(count_files(), 0);
    unmount();
}
END_TEST

/* Runs fn in a child that it may give up its rights in; the test fails when it does. */
static void in_child(void (*fn)(void))
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        fn();
        _exit(0);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "expected the child to succeed, status %#x",
                  status);
}

static enum reason reason_of_create(struct region_row *row)
{
    struct error err = ERROR_INIT;
    return region_create(fixture.regions, row, &err) == 0 ? REASON_NONE : err.reason;
}

static void as_nobody(void)
{
    if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0)
        _exit(1);
    struct region_row own = make_row("own");
    if (reason_of_create(&own) != REASON_NONE || region_unstage(fixture.regions, &own, NULL) < 0)
        _exit(2);
    struct region_row other = make_row("other");
    other.uid = 1;
    if (reason_of_create(&other) != REASON_UID_NOT_PERMITTED)
        _exit(3);
    other = make_row("other");
    other.gid = 1;
    if (reason_of_create(&other) != REASON_UID_NOT_PERMITTED)
        _exit(4);
}

START_TEST(an_ordinary_user_makes_files_of_its_own_only)
{
    if (skip_without_root("an_ordinary_user_makes_files_of_its_own_only"))
        return;
    ck_assert_int_eq(chown(fixture.directory, 65534, 65534), 0);
    in_child(as_nobody);
    ck_assert_uint_eq(count_files(), 1);
    ck_assert_uint_eq(look_at(path_of("ivshmem-own")).st_uid, 65534);
}
END_TEST

static void with_chown_only(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {
        {.effective = 1u << CAP_CHOWN, .permitted = 1u << CAP_CHOWN, .inheritable = 0}};
    if (syscall(SYS_capset, &header, data) < 0)
        _exit(1);
    struct region_row row = make_row("given");
    row.uid = 12345;
    if (reason_of_create(&row) != REASON_UID_NOT_PERMITTED)
        _exit(2);
}

START_TEST(hard_link_protection_is_explained_and_nothing_is_left)
{
    if (skip_without_root("hard_link_protection_is_explained_and_nothing_is_left"))
        return;
    auto_fclose FILE *file = fopen("/proc/sys/fs/protected_hardlinks", "re");
    if (file == NULL || fgetc(file) != '1') {
        (void)printf(
            "SKIP hard_link_protection_is_explained_and_nothing_is_left: fs.protected_hardlinks is off\n");
        return;
    }
    in_child(with_chown_only);
    ck_assert_uint_eq(count_files(), 0);
}
END_TEST

START_TEST(no_descriptor_is_a_resource_limit)
{
    struct region_row row = make_row("fds");
    struct rlimit old;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
    struct rlimit none = {.rlim_cur = 0, .rlim_max = old.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    struct error err = ERROR_INIT;
    int created = region_create(fixture.regions, &row, &err);
    enum reason reason = err.reason;
    int scanned = regions_scan(fixture.regions, NULL, NULL, &err);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
    ck_assert_int_eq(created, -1);
    ck_assert_int_eq(reason, REASON_RESOURCE_LIMIT);
    ck_assert_int_eq(scanned, -1);
    ck_assert_int_eq(err.reason, REASON_RESOURCE_LIMIT);
    ck_assert_uint_eq(count_files(), 0);
}
END_TEST

START_TEST(a_file_size_limit_is_a_resource_limit)
{
    (void)signal(SIGXFSZ, SIG_IGN);
    struct rlimit old;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
    struct rlimit small = {.rlim_cur = 65536, .rlim_max = old.rlim_max};
    struct region_row row = make_row("limit");
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    enum reason reason = reason_of_create(&row);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
    ck_assert_int_eq(reason, REASON_RESOURCE_LIMIT);
    ck_assert_uint_eq(count_files(), 0);
}
END_TEST

START_TEST(a_directory_that_was_replaced_gets_no_file)
{
    char moved[sizeof fixture.directory + 8];
    (void)snprintf(moved, sizeof moved, "%s-moved", fixture.directory);
    struct region_row row = make_row("sb");
    ck_assert_int_eq(rename(fixture.directory, moved), 0);
    expect_failure(&row, REASON_INTERNAL);
    ck_assert_int_eq(mkdir(fixture.directory, 0755), 0);
    expect_failure(&row, REASON_INTERNAL);
    ck_assert_uint_eq(count_files(), 0);
    ck_assert_int_eq(rmdir(fixture.directory), 0);
    ck_assert_int_eq(symlink(moved, fixture.directory), 0); /* it leads to the same directory */
    create(&row);
    ck_assert_int_eq(unlink(fixture.directory), 0);
    ck_assert_int_eq(rename(moved, fixture.directory), 0);
    ck_assert(exists(row.name));
}
END_TEST

START_TEST(no_descriptor_leaks)
{
    int before = dup(0);
    ck_assert_int_ge(before, 0);
    (void)close(before);
    struct region_row taken = make_row("taken");
    write_file(taken.name, "x", 0600);
    for (int i = 0; i < 20; i++) {
        struct region_row row = make_row("good");
        create(&row);
        enum region_condition condition;
        bool left_foreign = true;
        ck_assert_int_eq(region_examine(fixture.regions, &row, &condition, NULL), 0);
        ck_assert_int_eq(region_remove(fixture.regions, &row, &left_foreign, NULL), 0);
        taken = make_row("taken");
        expect_failure(&taken, REASON_FILE_EXISTS);
    }
    int after = dup(0);
    (void)close(after);
    ck_assert_int_eq(after, before);
}
END_TEST

/* ---- threads ---- */

enum { THREADS = 4, ROUNDS = 25 };
static atomic_int same_name_made;

static void *make_many(void *argument)
{
    const int *number = argument;
    for (int i = 0; i < ROUNDS; i++) {
        char id[32];
        (void)snprintf(id, sizeof id, "t%d-%d", *number, i);
        struct region_row row = make_row(id);
        row.settings.size_bytes = 65536;
        create(&row);
        ck_assert_int_eq(region_unstage(fixture.regions, &row, NULL), 0);
        enum region_condition condition = REGION_IS_MISSING;
        ck_assert_int_eq(region_examine(fixture.regions, &row, &condition, NULL), 0);
        ck_assert_int_eq(condition, REGION_IS_OURS);
        bool left_foreign = true;
        ck_assert_int_eq(region_remove(fixture.regions, &row, &left_foreign, NULL), 0);
        ck_assert(!left_foreign);
        struct region_row same = make_row("same");
        same.settings.size_bytes = 65536;
        if (region_create(fixture.regions, &same, NULL) == 0) {
            ck_assert_int_eq(region_unstage(fixture.regions, &same, NULL), 0);
            atomic_fetch_add(&same_name_made, 1);
        }
    }
    return NULL;
}

START_TEST(many_threads)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, make_many, &numbers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_int_eq(atomic_load(&same_name_made), 1);
    ck_assert_uint_eq(count_files(), 1);
}
END_TEST

TCase *create_tests(void)
{
    TCase *tests = tcase_create("create");
    tcase_add_test(tests, a_region_is_complete);
    tcase_add_test(tests, each_region_has_its_own_nonce);
    tcase_add_test(tests, raw_is_all_zeros);
    tcase_add_test(tests, a_size_that_the_layout_cannot_have_is_refused);
    tcase_add_test(tests, the_umask_does_not_matter);
    tcase_add_test(tests, the_file_belongs_to_whom_it_is_for);
    tcase_add_test(tests, an_expected_gid_overrides_a_setgid_directory);
    tcase_add_test(tests, a_strangers_file_is_not_touched);
    tcase_add_test(tests, a_dangling_symlink_is_not_followed);
    tcase_add_test(tests, a_symlink_to_a_file_is_not_followed);
    tcase_add_test(tests, a_directory_is_in_the_way_too);
    tcase_add_test(tests, another_region_of_the_name_is_not_touched);
    tcase_add_test(tests, a_staging_name_that_is_taken_is_not_touched);
    tcase_add_test(tests, a_full_tmpfs_is_no_space_and_nothing_is_left);
    tcase_add_test(tests, a_tmpfs_without_inodes_is_no_space);
    tcase_add_test(tests, a_file_system_that_cannot_reserve_is_named);
    tcase_add_test(tests, an_ordinary_user_makes_files_of_its_own_only);
    tcase_add_test(tests, hard_link_protection_is_explained_and_nothing_is_left);
    tcase_add_test(tests, no_descriptor_is_a_resource_limit);
    tcase_add_test(tests, a_file_size_limit_is_a_resource_limit);
    tcase_add_test(tests, a_directory_that_was_replaced_gets_no_file);
    tcase_add_test(tests, no_descriptor_leaks);
    tcase_add_test(tests, many_threads);
    return tests;
}
