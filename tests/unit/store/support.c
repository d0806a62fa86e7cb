#include "tests/unit/store/support.h"

#include <dirent.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

char test_directory[256];

void make_directory(void)
{
    const char *parent = getenv("TMPDIR");
    (void)snprintf(test_directory, sizeof test_directory, "%s/chan-store-XXXXXX",
                   parent != NULL ? parent : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(test_directory));
}

void remove_directory(void)
{
    auto_closedir DIR *directory = opendir(test_directory);
    const struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        (void)unlinkat(dirfd(directory), entry->d_name, 0);
        (void)unlinkat(dirfd(directory), entry->d_name, AT_REMOVEDIR);
    }
    (void)rmdir(test_directory);
}

void path_of(const char *name, char out[PATH_SIZE])
{
    (void)snprintf(out, PATH_SIZE, "%s/%s", test_directory, name);
}

struct store *open_store(const char *name)
{
    char path[PATH_SIZE];
    path_of(name, path);
    struct store_config config = {.path = path};
    struct store *store = NULL;
    struct error err = ERROR_INIT;
    ck_done(store_open(&config, &store, &err), err);
    return store;
}

static sqlite3 *open_raw(const char *path)
{
    sqlite3 *db = NULL;
    ck_assert_int_eq(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL), SQLITE_OK);
    (void)sqlite3_busy_timeout(db, 10000);
    return db;
}

int64_t sql_int(const char *path, const char *sql)
{
    sqlite3 *db = open_raw(path);
    sqlite3_stmt *statement = NULL;
    ck_assert_msg(sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK, "%s: %s", sql,
                  sqlite3_errmsg(db));
    ck_assert_int_eq(sqlite3_step(statement), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(statement, 0);
    (void)sqlite3_finalize(statement);
    (void)sqlite3_close(db);
    return value;
}

int sql_run(const char *path, const char *sql)
{
    sqlite3 *db = open_raw(path);
    int code = sqlite3_exec(db, sql, NULL, NULL, NULL);
    (void)sqlite3_close(db);
    return code;
}

void fill_template(struct template_row *row, const char *id, const char *annotations)
{
    *row = (struct template_row){.enable_ivshmem = true,
                                 .region = {.size_bytes = 1U << 20,
                                            .layout = REGION_LAYOUT_CHAN,
                                            .on_rollback = ON_ROLLBACK_KEEP,
                                            .vectors = 2},
                                 .annotations = strdup(annotations)};
    (void)snprintf(row->id, sizeof row->id, "%s", id);
}

void fill_sandbox(struct sandbox_row *row, const char *id, const char *template_id, bool has_region)
{
    *row = (struct sandbox_row){
        .state = SANDBOX_CREATING,
        .owner = {.kind = OWNER_PID, .pid = 42, .start_time = UINT64_MAX - 1, .boot_id = "boot"},
        .uid = 1000,
        .gid = 1001,
        .has_region = has_region};
    (void)snprintf(row->id, sizeof row->id, "%s", id);
    (void)snprintf(row->template_id, sizeof row->template_id, "%s", template_id);
    if (has_region) {
        row->region = (struct region_row){.settings = {.size_bytes = 1U << 20,
                                                       .layout = REGION_LAYOUT_RAW,
                                                       .on_rollback = ON_ROLLBACK_CLEAR},
                                          .epoch = 1,
                                          .state = REGION_CREATING,
                                          .uid = 1000,
                                          .gid = 1001};
        (void)snprintf(row->region.sandbox_id, sizeof row->region.sandbox_id, "%s", id);
        (void)snprintf(row->region.name, sizeof row->region.name, "ivshmem-%s", id);
        (void)snprintf(row->region.staging_token, sizeof row->region.staging_token, "token-%.20s", id);
    }
}

int write_unit(struct store *store, store_write_fn fn, void *argument, struct error *err)
{
    static const struct store_actor actor = {
        .who = "uid=0", .request_id = "r1", .operation = "test", .object_id = "object", .result = "ok"};
    return store_write(store, &actor, fn, argument, err);
}

int add_event(struct store_txn *txn, const char *id, struct error *err)
{
    return store_event_add(txn, "test.happened", "test", id, NULL, err);
}

static int run_put_template(struct store_txn *txn, void *argument, struct error *err)
{
    struct template_row *row = argument;
    if (store_template_put(txn, row, err) < 0) {
        return -1;
    }
    return store_event_add(txn, "template.put", "template", row->id, NULL, err);
}

int put_template(struct store *store, struct template_row *row, struct error *err)
{
    return write_unit(store, run_put_template, row, err);
}

static int run_delete_template(struct store_txn *txn, void *argument, struct error *err)
{
    if (store_template_delete(txn, argument, err) < 0) {
        return -1;
    }
    return store_event_add(txn, "template.deleted", "template", argument, NULL, err);
}

int delete_template(struct store *store, const char *id, struct error *err)
{
    char copy[ID_SIZE];
    (void)snprintf(copy, sizeof copy, "%s", id);
    return write_unit(store, run_delete_template, copy, err);
}

static int run_insert_sandbox(struct store_txn *txn, void *argument, struct error *err)
{
    struct sandbox_row *row = argument;
    if (store_sandbox_insert(txn, row, err) < 0) {
        return -1;
    }
    return store_event_add(txn, "sandbox.creating", "sandbox", row->id, "{\"a\":1}", err);
}

int insert_sandbox(struct store *store, struct sandbox_row *row, struct error *err)
{
    return write_unit(store, run_insert_sandbox, row, err);
}

static int run_update_sandbox(struct store_txn *txn, void *argument, struct error *err)
{
    struct sandbox_row *row = argument;
    if (store_sandbox_update(txn, row, err) < 0) {
        return -1;
    }
    return store_event_add(txn, "sandbox.changed", "sandbox", row->id, NULL, err);
}

int update_sandbox(struct store *store, struct sandbox_row *row, struct error *err)
{
    return write_unit(store, run_update_sandbox, row, err);
}

static int run_delete_sandbox(struct store_txn *txn, void *argument, struct error *err)
{
    if (store_sandbox_delete(txn, argument, err) < 0) {
        return -1;
    }
    return store_event_add(txn, "sandbox.deleted", "sandbox", argument, NULL, err);
}

int delete_sandbox(struct store *store, const char *id, struct error *err)
{
    char copy[ID_SIZE];
    (void)snprintf(copy, sizeof copy, "%s", id);
    return write_unit(store, run_delete_sandbox, copy, err);
}

void put_default_template(struct store *store)
{
    struct template_row row;
    fill_template(&row, "tpl", "{}");
    struct error err = ERROR_INIT;
    ck_done(put_template(store, &row, &err), err);
    template_row_clear(&row);
}
