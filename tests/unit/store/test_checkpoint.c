/* The WAL stays bounded however long and hard is written. */
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>

#include "store/internal.h" /* CHECKPOINT_MAX_PAGES, PAGE_BYTES */
#include "tests/unit/store/support.h"

enum { WRITERS = 4 };

struct load {
    struct store *store;
    const char *wal_path;
    int number, writes;
    off_t largest;
    pthread_t thread;
};

static void *write_on(void *argument)
{
    struct load *load = argument;
    struct error err = ERROR_INIT;
    for (int i = 0; i < load->writes; i++) {
        struct sandbox_row row;
        char id[32];
        (void)snprintf(id, sizeof id, "sb-%d-%d", load->number, i % 50);
        fill_sandbox(&row, id, "tpl", true);
        ck_done(insert_sandbox(load->store, &row, &err), err);
        ck_done(delete_sandbox(load->store, id, &err), err);
        struct stat status;
        if (stat(load->wal_path, &status) == 0 && status.st_size > load->largest) {
            load->largest = status.st_size;
        }
    }
    return NULL;
}

START_TEST(test_wal_is_bounded)
{
    char path[PATH_SIZE];
    char wal_path[PATH_SIZE];
    path_of("load.db", path);
    path_of("load.db-wal", wal_path);
    struct store *store = open_store("load.db");
    put_default_template(store);
    struct load loads[WRITERS];
    for (int i = 0; i < WRITERS; i++) {
        loads[i] = (struct load){.store = store, .wal_path = wal_path, .number = i, .writes = 1500};
        ck_assert_int_eq(pthread_create(&loads[i].thread, NULL, write_on, &loads[i]), 0);
    }
    off_t largest = 0;
    for (int i = 0; i < WRITERS; i++) {
        ck_assert_int_eq(pthread_join(loads[i].thread, NULL), 0);
        largest = loads[i].largest > largest ? loads[i].largest : largest;
    }
    /* Twice the length at which the leader steps in: room for a pass that met the thread's and was put off.
     */
    off_t bound = (off_t)2 * CHECKPOINT_MAX_PAGES * PAGE_BYTES;
    ck_assert_msg(largest < bound, "the WAL grew to %lld bytes, expected less than %lld", (long long)largest,
                  (long long)bound);
    /* And far more than that was written, so the bound was put to the test. */
    ck_assert_int_eq(sql_int(path, "SELECT value FROM meta WHERE key = 'revision'"), 2 * WRITERS * 1500 + 1);
    struct stat status;
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_int_gt(status.st_size, 0);
    store_close(store);
    ck_assert_msg(stat(wal_path, &status) < 0, "a clean close leaves no WAL");
}
END_TEST

/* So that no commit makes the file longer, which would double the time of its fsync. */
START_TEST(test_wal_has_its_length_from_the_start)
{
    char wal_path[PATH_SIZE];
    path_of("reserved.db-wal", wal_path);
    struct store *store = open_store("reserved.db");
    struct stat before;
    struct stat after;
    ck_assert_int_eq(stat(wal_path, &before), 0);
    ck_assert_int_ge(before.st_size, (off_t)CHECKPOINT_PAGES * PAGE_BYTES);
    put_default_template(store);
    ck_assert_int_eq(stat(wal_path, &after), 0);
    ck_assert_int_eq(after.st_size, before.st_size);
    store_close(store);
    store = open_store("reserved.db"); /* zeros behind the frames disturb nobody */
    struct error err = ERROR_INIT;
    auto_view struct store_view *view = NULL;
    ck_done(store_read_begin(store, &view, &err), err);
    ck_assert_int_eq(store_revision(view), 1);
    store_read_end(view);
    view = NULL;
    store_close(store);
}
END_TEST

TCase *checkpoint_case(void)
{
    TCase *tcase = tcase_create("checkpoints");
    tcase_add_test(tcase, test_wal_is_bounded);
    tcase_add_test(tcase, test_wal_has_its_length_from_the_start);
    return tcase;
}
