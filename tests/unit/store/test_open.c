/* Opening: modes, schema, migrations, and what the schema refuses. */
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/unit/store/support.h"

static void check_mode(const char *path)
{
    struct stat status;
    ck_assert_msg(stat(path, &status) == 0, "%s is not there", path);
    ck_assert_msg((status.st_mode & 07777) == 0600, "%s: expected mode 0600, is %o", path,
                  status.st_mode & 07777);
}

START_TEST(test_files_are_private)
{
    mode_t old = umask(0);
    struct store *store = open_store("private.db");
    put_default_template(store);
    char path[PATH_SIZE];
    path_of("private.db", path);
    check_mode(path);
    path_of("private.db-wal", path);
    check_mode(path);
    path_of("private.db-shm", path);
    check_mode(path);
    store_close(store);
    (void)umask(old);
}
END_TEST

START_TEST(test_new_database_is_current)
{
    char path[PATH_SIZE];
    path_of("new.db", path);
    store_close(open_store("new.db"));
    ck_assert_int_ge(store_schema_version(), 1);
    ck_assert_int_eq(sql_int(path, "PRAGMA user_version"), store_schema_version());
    store_close(open_store("new.db")); /* a current one is opened as it is */
    ck_assert_int_eq(sql_int(path, "PRAGMA user_version"), store_schema_version());
}
END_TEST

START_TEST(test_empty_database_is_migrated)
{
    char path[PATH_SIZE];
    path_of("empty.db", path);
    ck_assert_int_eq(sql_run(path, "PRAGMA user_version = 0; VACUUM"), SQLITE_OK);
    struct store *store = open_store("empty.db");
    put_default_template(store);
    store_close(store);
    ck_assert_int_eq(sql_int(path, "PRAGMA user_version"), store_schema_version());
}
END_TEST

START_TEST(test_newer_schema_is_refused)
{
    char path[PATH_SIZE];
    path_of("newer.db", path);
    store_close(open_store("newer.db"));
    ck_assert_int_eq(sql_run(path, "PRAGMA user_version = 4711"), SQLITE_OK);
    struct store_config config = {.path = path};
    struct store *store = NULL;
    struct error err = ERROR_INIT;
    ck_refused(store_open(&config, &store, &err), err, REASON_STORE_FAILED);
    ck_assert_msg(strstr(err.detail, "4711") != NULL, "the detail names no version: %s", err.detail);
    ck_assert_msg(strstr(err.detail, path) != NULL, "the detail names no file: %s", err.detail);
    ck_assert_ptr_null(store);
    ck_assert_int_eq(sql_int(path, "PRAGMA user_version"), 4711);
}
END_TEST

START_TEST(test_failed_migration_changes_nothing)
{
    char path[PATH_SIZE];
    path_of("broken.db", path);
    /* "event" is made late in the first step: what came before it must be gone again. */
    ck_assert_int_eq(sql_run(path, "CREATE TABLE event (mine TEXT)"), SQLITE_OK);
    struct store_config config = {.path = path};
    struct store *store = NULL;
    struct error err = ERROR_INIT;
    ck_refused(store_open(&config, &store, &err), err, REASON_STORE_FAILED);
    ck_assert_int_eq(sql_int(path, "PRAGMA user_version"), 0);
    ck_assert_int_eq(sql_int(path, "SELECT count(*) FROM sqlite_schema WHERE type = 'table'"), 1);
}
END_TEST

START_TEST(test_no_directory)
{
    char path[PATH_SIZE];
    path_of("missing/chan.db", path);
    struct store_config config = {.path = path};
    struct store *store = NULL;
    struct error err = ERROR_INIT;
    ck_refused(store_open(&config, &store, &err), err, REASON_STORE_FAILED);
    ck_assert_msg(strstr(err.detail, "No such file") != NULL, "unclear detail: %s", err.detail);
}
END_TEST

START_TEST(test_not_a_database)
{
    char path[PATH_SIZE];
    path_of("text.db", path);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < 1000; i++) {
        ck_assert_int_gt(fprintf(file, "this is a text file\n"), 0);
    }
    ck_assert_int_eq(fclose(file), 0);
    struct store_config config = {.path = path};
    struct store *store = NULL;
    struct error err = ERROR_INIT;
    ck_refused(store_open(&config, &store, &err), err, REASON_STORE_FAILED);
}
END_TEST

START_TEST(test_tables_are_strict)
{
    char path[PATH_SIZE];
    path_of("strict.db", path);
    store_close(open_store("strict.db"));
    ck_assert_int_gt(
        sql_int(path, "SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND strict = 1"), 0);
    ck_assert_int_eq(sql_int(path,
                             "SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND strict = 0"
                             " AND name NOT LIKE 'sqlite_%'"),
                     0);
    ck_assert_int_eq(sql_run(path, "INSERT INTO usage (uid, regions, bytes) VALUES (1, 'many', 0)"),
                     SQLITE_CONSTRAINT);
}
END_TEST

START_TEST(test_state_survives_reopening)
{
    struct store *store = open_store("reopen.db");
    put_default_template(store);
    struct sandbox_row row;
    struct error err = ERROR_INIT;
    fill_sandbox(&row, "sb", "tpl", true);
    ck_done(insert_sandbox(store, &row, &err), err);
    store_close(store);

    store = open_store("reopen.db");
    struct store_view *view = NULL;
    ck_done(store_read_begin(store, &view, &err), err);
    ck_assert_int_eq(store_revision(view), 2);
    struct sandbox_row found;
    ck_assert_int_eq(store_sandbox_get(view, "sb", &found, &err), 1);
    ck_assert_str_eq(found.region.name, "ivshmem-sb");
    struct usage_row usage;
    ck_done(store_usage_node(view, &usage, &err), err);
    ck_assert_uint_eq(usage.regions, 1);
    store_read_end(view);

    fill_sandbox(&row, "sb2", "tpl", false);
    ck_done(insert_sandbox(store, &row, &err), err);
    ck_assert_int_eq(row.revision, 3);
    store_close(store);
}
END_TEST

START_TEST(test_corrupt_value_is_an_error)
{
    char path[PATH_SIZE];
    path_of("corrupt.db", path);
    struct store *store = open_store("corrupt.db");
    put_default_template(store);
    struct sandbox_row row;
    struct error err = ERROR_INIT;
    fill_sandbox(&row, "sb", "tpl", false);
    ck_done(insert_sandbox(store, &row, &err), err);
    ck_assert_int_eq(sql_run(path, "UPDATE sandbox SET state = 99"), SQLITE_OK);
    struct store_view *view = NULL;
    ck_done(store_read_begin(store, &view, &err), err);
    ck_refused(store_sandbox_get(view, "sb", &row, &err), err, REASON_STORE_FAILED);
    struct sandbox_row *rows = NULL;
    size_t count = 0;
    ck_refused(store_sandbox_list(view, NULL, 10, &rows, &count, &err), err, REASON_STORE_FAILED);
    ck_assert_ptr_null(rows);
    store_read_end(view);
    store_close(store);
}
END_TEST

TCase *open_case(void)
{
    TCase *tcase = tcase_create("open");
    tcase_add_test(tcase, test_files_are_private);
    tcase_add_test(tcase, test_new_database_is_current);
    tcase_add_test(tcase, test_empty_database_is_migrated);
    tcase_add_test(tcase, test_newer_schema_is_refused);
    tcase_add_test(tcase, test_failed_migration_changes_nothing);
    tcase_add_test(tcase, test_no_directory);
    tcase_add_test(tcase, test_not_a_database);
    tcase_add_test(tcase, test_tables_are_strict);
    tcase_add_test(tcase, test_state_survives_reopening);
    tcase_add_test(tcase, test_corrupt_value_is_an_error);
    return tcase;
}
