#include "tests/unit/regions/fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

struct fixture fixture;

void fixture_reopen(const char *pattern)
{
    struct error err = ERROR_INIT;
    const struct regions_config config = {.directory = fixture.directory, .name_pattern = pattern};
    regions_close(fixture.regions);
    fixture.regions = NULL;
    ck_assert_msg(regions_open(&config, &fixture.regions, &err) == 0, "%s", err.detail);
}

static char base[] = "/dev/shm/chan-unit-regions-XXXXXX";

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
    (void)status;
    (void)type;
    (void)ftw;
    return remove(path);
}

void fixture_make_base(void)
{
    if (mkdtemp(base) == NULL) {
        perror(base);
        exit(EXIT_FAILURE);
    }
}

void fixture_remove_base(void)
{
    if (nftw(base, remove_entry, 16, FTW_DEPTH | FTW_PHYS) < 0)
        perror(base);
}

void fixture_setup(void)
{
    (void)snprintf(fixture.directory, sizeof fixture.directory, "%s/XXXXXX", base);
    ck_assert_ptr_nonnull(mkdtemp(fixture.directory));
    fixture.regions = NULL;
    fixture_reopen("ivshmem-{sandboxID}");
}

void fixture_teardown(void)
{
    regions_close(fixture.regions);
}

struct region_row make_row(const char *sandbox_id)
{
    struct region_row row = {.settings = {.size_bytes = 1048576, .layout = REGION_LAYOUT_CHAN},
                             .epoch = 1,
                             .state = REGION_CREATING,
                             .uid = geteuid(),
                             .gid = getegid()};
    struct error err = ERROR_INIT;
    (void)snprintf(row.sandbox_id, sizeof row.sandbox_id, "%s", sandbox_id);
    region_name(fixture.regions, sandbox_id, row.name);
    ck_assert_msg(region_make_token(row.staging_token, &err) == 0, "%s", err.detail);
    return row;
}

void create(struct region_row *row)
{
    struct error err = ERROR_INIT;
    ck_assert_msg(region_create(fixture.regions, row, &err) == 0, "expected %s to be made: %s", row->name,
                  err.detail);
}

void expect_failure(struct region_row *row, enum reason reason)
{
    struct error err = ERROR_INIT;
    ck_assert_msg(region_create(fixture.regions, row, &err) == -1, "expected that %s cannot be made",
                  row->name);
    ck_assert_msg(err.reason == reason, "expected %s, got %s: %s", reason_info(reason)->word,
                  reason_info(err.reason)->word, err.detail);
    ck_assert_msg(err.detail[0] != '\0', "expected a detail");
    ck_assert_msg(row->identity.inode == 0, "expected no identity of a file that was not made");
}

const char *path_of(const char *name)
{
    static char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", fixture.directory, name);
    return path;
}

const char *staging_path_of(const struct region_row *row)
{
    char name[64];
    (void)snprintf(name, sizeof name, ".chan-%s", row->staging_token);
    return path_of(name);
}

bool exists(const char *name)
{
    struct stat status;
    return lstat(path_of(name), &status) == 0;
}

size_t count_files(void)
{
    auto_closedir DIR *dir = opendir(fixture.directory);
    ck_assert_ptr_nonnull(dir);
    size_t count = 0;
    const struct dirent *entry;
    while ((entry = readdir(dir)) != NULL)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    return count;
}

void write_file(const char *name, const char *content, mode_t mode)
{
    auto_close int fd = open(path_of(name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ck_assert_msg(fd >= 0, "%s: %s", path_of(name), strerror(errno));
    ck_assert_int_eq(write(fd, content, strlen(content)), (ssize_t)strlen(content));
    ck_assert_int_eq(fchmod(fd, mode), 0);
}

struct stat look_at(const char *path)
{
    struct stat status;
    ck_assert_msg(lstat(path, &status) == 0, "expected %s to be there: %s", path, strerror(errno));
    return status;
}

void expect_untouched(const char *name, const struct stat *before, const char *content)
{
    struct stat now = look_at(path_of(name));
    ck_assert_uint_eq(now.st_ino, before->st_ino);
    ck_assert_uint_eq(now.st_mode, before->st_mode);
    ck_assert_uint_eq(now.st_uid, before->st_uid);
    ck_assert_uint_eq(now.st_gid, before->st_gid);
    ck_assert_uint_eq(now.st_nlink, before->st_nlink);
    ck_assert_int_eq(now.st_size, before->st_size);
    ck_assert_int_eq(now.st_mtim.tv_sec, before->st_mtim.tv_sec);
    ck_assert_int_eq(now.st_mtim.tv_nsec, before->st_mtim.tv_nsec);
    ck_assert_int_eq(now.st_ctim.tv_sec, before->st_ctim.tv_sec);
    ck_assert_int_eq(now.st_ctim.tv_nsec, before->st_ctim.tv_nsec);
    if (content == NULL)
        return;
    auto_fclose FILE *file = fopen(path_of(name), "re");
    ck_assert_ptr_nonnull(file);
    char text[256];
    size_t got = fread(text, 1, sizeof text - 1, file);
    text[got] = '\0';
    ck_assert_str_eq(text, content);
}

bool skip_without_root(const char *test)
{
    if (geteuid() == 0)
        return false;
    (void)printf("SKIP %s: needs root\n", test);
    return true;
}
