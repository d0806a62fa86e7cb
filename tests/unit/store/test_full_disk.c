/* A disk that is full, and then is not any more. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/unit/store/support.h"

/* A small tmpfs over the test's directory, in a mount namespace that ends with the process of this test. */
static bool mount_small(void)
{
    if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("chan-test", test_directory, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m") < 0) {
        (void)fprintf(stderr, "SKIP store/full_disk: needs root to mount a small tmpfs (%s)\n",
                      strerror(errno));
        return false;
    }
    return true;
}

static void fill_up(const char *path)
{
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    static const char block[4096];
    while (write(fd, block, sizeof block) > 0) {
    }
    ck_assert_int_eq(errno, ENOSPC);
}

START_TEST(test_full_disk_passes)
{
    if (!mount_small()) {
        return;
    }
    struct store *store = open_store("full.db");
    put_default_template(store);
    char filler[PATH_SIZE];
    path_of("filler", filler);
    fill_up(filler);

    struct error err = ERROR_INIT;
    struct sandbox_row row;
    struct store_view *view = NULL;
    int done = 0;
    for (int i = 0;; i++) { /* what the WAL has already taken may hold a few more */
        ck_assert_int_lt(i, 1000);
        char id[16];
        (void)snprintf(id, sizeof id, "sb-%d", i);
        fill_sandbox(&row, id, "tpl", true);
        if (insert_sandbox(store, &row, &err) < 0) {
            break;
        }
        done++;
    }
    ck_assert_msg(err.reason == REASON_STORE_FULL, "expected store_full, got %s: %s",
                  reason_info(err.reason)->word, err.detail);
    for (int round = 0; round < 3; round++) { /* it stays that way, and reading goes on */
        ck_refused(insert_sandbox(store, &row, &err), err, REASON_STORE_FULL);
        struct sandbox_row found;
        ck_done(store_read_begin(store, &view, &err), err);
        ck_assert_int_eq(store_sandbox_get(view, row.id, &found, &err), 0);
        ck_assert_int_eq(store_revision(view), 1 + done);
        store_read_end(view);
    }

    ck_assert_int_eq(unlink(filler), 0);
    ck_done(insert_sandbox(store, &row, &err), err);
    ck_assert_int_eq(row.revision, 2 + done);
    store_close(store);

    store = open_store("full.db");
    ck_done(store_read_begin(store, &view, &err), err);
    ck_assert_int_eq(store_revision(view), 2 + done);
    ck_assert_int_eq(store_sandbox_get(view, row.id, &row, &err), 1);
    store_read_end(view);
    store_close(store);
    char path[PATH_SIZE];
    path_of("full.db", path);
    ck_assert_int_eq(
        sql_int(path, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'"), 1);
}
END_TEST

START_TEST(test_no_room_to_open)
{
    if (!mount_small()) {
        return;
    }
    char path[PATH_SIZE];
    path_of("filler", path);
    fill_up(path);
    char database[PATH_SIZE];
    path_of("chan.db", database);
    struct store_config config = {.path = database};
    struct store *store = NULL;
    struct error err = ERROR_INIT;
    ck_refused(store_open(&config, &store, &err), err, REASON_STORE_FULL);
    ck_assert_int_eq(unlink(path), 0);
    ck_done(store_open(&config, &store, &err), err);
    put_default_template(store);
    store_close(store);
}
END_TEST

TCase *full_disk_case(void)
{
    TCase *tcase = tcase_create("full_disk");
    tcase_add_test(tcase, test_full_disk_passes);
    tcase_add_test(tcase, test_no_room_to_open);
    return tcase;
}
