#include "store/sql.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    BUSY_TIMEOUT_MS = 10000
}; /* only a foreign process, such as a shell, or the start of a WAL can make us wait */

static bool is_disk_full(sqlite3 *db, int extended)
{
    if ((extended & 0xff) == SQLITE_FULL) {
        return true;
    }
    if ((extended & 0xff) != SQLITE_IOERR) {
        return false;
    }
    int sys_errno = sqlite3_system_errno(db);
    return sys_errno == ENOSPC || sys_errno == EDQUOT;
}

int connection_error(struct connection *connection, int code, struct error *err)
{
    connection->failed = true;
    if (connection->db == NULL) {
        return error_set(err, REASON_STORE_FAILED, "SQLite: %s", sqlite3_errstr(code));
    }
    int extended = sqlite3_extended_errcode(connection->db);
    if ((extended & 0xff) != (code & 0xff)) { /* the message is about something else */
        return error_set(err, (code & 0xff) == SQLITE_FULL ? REASON_STORE_FULL : REASON_STORE_FAILED,
                         "SQLite: %s", sqlite3_errstr(code));
    }
    return error_set(err, is_disk_full(connection->db, extended) ? REASON_STORE_FULL : REASON_STORE_FAILED,
                     "SQLite: %s (%d)", sqlite3_errmsg(connection->db), extended);
}

int connection_execute(struct connection *connection, const char *sql, struct error *err)
{
    int code = sqlite3_exec(connection->db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? 0 : connection_error(connection, code, err);
}

int connection_open(struct connection *connection, const char *path, unsigned int cache_kib,
                    struct error *err)
{
    *connection = (struct connection){.db = NULL};
    int code = sqlite3_open_v2(path, &connection->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    if (code != SQLITE_OK) {
        (void)connection_error(connection, code, err);
        connection_close(connection);
        return -1;
    }
    (void)sqlite3_extended_result_codes(connection->db, 1);
    (void)sqlite3_busy_timeout(connection->db, BUSY_TIMEOUT_MS);
    char sql[320];
    /* Rows are small and a commit writes whole pages: with pages of 1 KiB a change of a dozen trees costs
     * about what one row costs with pages of 4. secure_delete is on in Debian's build and would write each
     * freed page once more; nothing here is secret. */
    (void)snprintf(sql, sizeof sql,
                   "PRAGMA page_size = %d; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                   "PRAGMA foreign_keys = ON; PRAGMA wal_autocheckpoint = 0; PRAGMA secure_delete = OFF;"
                   "PRAGMA temp_store = MEMORY; PRAGMA cache_size = -%u;",
                   PAGE_BYTES, cache_kib);
    if (connection_execute(connection, sql, err) < 0) {
        connection_close(connection);
        return -1;
    }
    return 0;
}

void connection_close(struct connection *connection)
{
    for (size_t i = 0; i < STATEMENT_COUNT; i++) {
        (void)sqlite3_finalize(connection->statements[i]);
    }
    (void)sqlite3_close(connection->db);
    *connection = (struct connection){.db = NULL};
}

int query_start(struct query *query, struct connection *connection, enum statement statement, const char *sql,
                struct error *err)
{
    *query = (struct query){.connection = connection, .code = SQLITE_OK};
    sqlite3_stmt **slot = &connection->statements[statement];
    if (*slot == NULL) {
        int code = sqlite3_prepare_v3(connection->db, sql, -1, SQLITE_PREPARE_PERSISTENT, slot, NULL);
        if (code != SQLITE_OK) {
            return connection_error(connection, code, err);
        }
    }
    query->statement = *slot;
    return 0;
}

void query_end(struct query *query)
{
    if (query->statement != NULL) {
        (void)sqlite3_reset(
            query->statement); /* answers the failure of the last step, which was reported then */
        query->statement = NULL;
    }
}

static void note_bind(struct query *query, int code)
{
    if (query->code == SQLITE_OK) {
        query->code = code;
    }
}

void query_bind_text(struct query *query, const char *text)
{
    note_bind(query, sqlite3_bind_text(query->statement, ++query->parameter, text, -1, SQLITE_STATIC));
}

void query_bind_int(struct query *query, int64_t value)
{
    note_bind(query, sqlite3_bind_int64(query->statement, ++query->parameter, value));
}

int query_step(struct query *query, struct error *err)
{
    if (query->code != SQLITE_OK) {
        return connection_error(query->connection, query->code, err);
    }
    int code = sqlite3_step(query->statement);
    query->column = 0;
    if (code == SQLITE_ROW) {
        return 1;
    }
    return code == SQLITE_DONE ? 0 : connection_error(query->connection, code, err);
}

int query_run(struct query *query, struct error *err)
{
    int step;
    do {
        step = query_step(query, err);
    } while (step > 0);
    return step;
}

int query_run_plain(struct connection *connection, enum statement statement, const char *sql,
                    struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(&query, connection, statement, sql, err) < 0) {
        return -1;
    }
    return query_run(&query, err);
}

int query_exists(struct connection *connection, enum statement statement, const char *sql,
                 const char *parameter, struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(&query, connection, statement, sql, err) < 0) {
        return -1;
    }
    query_bind_text(&query, parameter);
    return query_step(&query, err);
}

int64_t query_read_int(struct query *query)
{
    return sqlite3_column_int64(query->statement, query->column++);
}

int query_read_enum(struct query *query, int count)
{
    int64_t value = query_read_int(query);
    if (value < 0 || value >= count) {
        query->corrupt = true;
        return 0;
    }
    return (int)value;
}

void query_read_text(struct query *query, char *out, size_t size)
{
    int column = query->column++;
    const unsigned char *text = sqlite3_column_text(query->statement, column);
    size_t length = (size_t)sqlite3_column_bytes(query->statement, column);
    if (text == NULL || length >= size) {
        query->corrupt = true;
        out[0] = '\0';
        return;
    }
    memcpy(out, text, length);
    out[length] = '\0';
}

char *query_read_text_copy(struct query *query)
{
    int column = query->column++;
    const unsigned char *text = sqlite3_column_text(query->statement, column);
    if (text == NULL) {
        return NULL;
    }
    char *copy = strdup((const char *)text);
    if (copy == NULL) {
        query->code = SQLITE_NOMEM;
    }
    return copy;
}

int query_read_done(struct query *query, struct error *err)
{
    if (query->code != SQLITE_OK) {
        return connection_error(query->connection, query->code, err);
    }
    if (query->corrupt) {
        query->connection->failed = true;
        return error_set(err, REASON_STORE_FAILED, "the database holds a value that it should not: %s",
                         sqlite3_sql(query->statement));
    }
    return 0;
}
