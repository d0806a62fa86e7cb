/* Connections and statements: the thin layer between the typed calls of the store and SQLite. Private to
 * store/.
 *
 * A statement is prepared at its first use and kept with its connection. A struct query binds its parameters
 * and reads its columns one after the other, in the order of the SQL text, and remembers the first thing that
 * went wrong, so that a call checks once, where it steps.
 *
 * One connection is used by one thread at a time.
 */
#ifndef CHAN_STORE_SQL_H
#define CHAN_STORE_SQL_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { PAGE_BYTES = 1024 }; /* of the database, from its creation on */

/* One slot of a connection's cache each. The SQL stands where it is used. */
enum statement {
    STATEMENT_BEGIN_READ,
    STATEMENT_END_READ,
    STATEMENT_BEGIN_WRITE,
    STATEMENT_COMMIT,
    STATEMENT_ROLLBACK,
    STATEMENT_SAVEPOINT,
    STATEMENT_RELEASE,
    STATEMENT_ROLLBACK_TO,
    STATEMENT_REVISION_GET,
    STATEMENT_REVISION_SET,
    STATEMENT_COMPACTED_GET,
    STATEMENT_COMPACTED_SET,
    STATEMENT_TEMPLATE_GET,
    STATEMENT_TEMPLATE_LIST,
    STATEMENT_TEMPLATE_IN_USE,
    STATEMENT_TEMPLATE_COUNT,
    STATEMENT_TEMPLATE_PUT,
    STATEMENT_TEMPLATE_DELETE,
    STATEMENT_SANDBOX_GET,
    STATEMENT_SANDBOX_LIST,
    STATEMENT_SANDBOX_LIST_STATE,
    STATEMENT_SANDBOX_LIST_RUNNING,
    STATEMENT_SANDBOX_COUNT,
    STATEMENT_SANDBOX_INSERT,
    STATEMENT_SANDBOX_UPDATE,
    STATEMENT_SANDBOX_DELETE,
    STATEMENT_REGION_INSERT,
    STATEMENT_REGION_UPDATE,
    STATEMENT_REGION_DELETE,
    STATEMENT_REGION_COUNT_LOST,
    STATEMENT_REGION_NAME_KNOWN,
    STATEMENT_REGION_TOKEN_KNOWN,
    STATEMENT_LINK_GET,
    STATEMENT_LINK_LIST,
    STATEMENT_LINK_LIST_SANDBOX,
    STATEMENT_LINK_LIST_STATE,
    STATEMENT_LINK_LIST_READY,
    STATEMENT_LINK_COUNT,
    STATEMENT_LINK_INSERT,
    STATEMENT_LINK_UPDATE,
    STATEMENT_LINK_DELETE,
    STATEMENT_LINK_MARK,
    STATEMENT_LINK_END_INSERT,
    STATEMENT_LINK_END_DELETE,
    STATEMENT_USAGE_GET,
    STATEMENT_USAGE_ADD,
    STATEMENT_USAGE_SUBTRACT,
    STATEMENT_USAGE_FORGET,
    STATEMENT_EVENT_ADD,
    STATEMENT_EVENT_LIST,
    STATEMENT_EVENT_CUTOFF,
    STATEMENT_EVENT_PRUNE,
    STATEMENT_AUDIT_ADD,
    STATEMENT_AUDIT_PRUNE,
    STATEMENT_IDEMPOTENCY_GET,
    STATEMENT_IDEMPOTENCY_PUT,
    STATEMENT_IDEMPOTENCY_PRUNE,
    STATEMENT_COUNT
};

struct connection {
    sqlite3 *db;
    bool
        failed; /* a statement failed since someone last cleared this: the transaction is not to be trusted */
    sqlite3_stmt *statements[STATEMENT_COUNT];
};

/* Opens the database file, which must exist, in WAL mode with synchronous=FULL and foreign keys. The page
 * cache grows to at most cache_kib. On failure nothing is left open. */
int connection_open(struct connection *connection, const char *path, unsigned int cache_kib,
                    struct error *err);
/* Also for a connection that is zeroed or failed to open. */
void connection_close(struct connection *connection);

/* Sets err from the failure `code` of SQLite: REASON_STORE_FULL when the disk is full, else
 * REASON_STORE_FAILED, with SQLite's message. Marks the connection failed. Returns -1. */
int connection_error(struct connection *connection, int code, struct error *err);

/* Runs SQL text that is not worth keeping: pragmas, migrations. */
int connection_execute(struct connection *connection, const char *sql, struct error *err);

struct query {
    struct connection *connection;
    sqlite3_stmt *statement;
    int parameter, column; /* the last one bound, the next one to read */
    int code;              /* first failure of binding */
    bool corrupt;          /* a value that was read does not fit its place */
};

/* Ends the query; its statement can be used again. */
void query_end(struct query *query);
#define auto_query __attribute__((cleanup(query_end)))

int query_start(struct query *query, struct connection *connection, enum statement statement, const char *sql,
                struct error *err);

/* Text is not copied: it must live until query_end. NULL binds NULL. */
void query_bind_text(struct query *query, const char *text);
void query_bind_int(struct query *query, int64_t value);
static inline void query_bind_bits(struct query *query, uint64_t value)
{
    query_bind_int(query, (int64_t)value); /* all 64 bits; SQLite's integers are signed */
}

/* 1: a row is there. 0: no more rows. -1. */
int query_step(struct query *query, struct error *err);
/* Runs a statement that answers no rows. */
int query_run(struct query *query, struct error *err);
/* The same for a statement without parameters, from start to end. */
int query_run_plain(struct connection *connection, enum statement statement, const char *sql,
                    struct error *err);
/* Does it answer any row? 1, 0 or -1. */
int query_exists(struct connection *connection, enum statement statement, const char *sql,
                 const char *parameter, struct error *err);

int64_t query_read_int(struct query *query);
static inline uint64_t query_read_bits(struct query *query)
{
    return (uint64_t)query_read_int(query);
}
/* A value of an enum with `count` values from 0. */
int query_read_enum(struct query *query, int count);
void query_read_text(struct query *query, char *out, size_t size);
/* NULL for NULL and when out of memory, which the next query_read_done reports. */
char *query_read_text_copy(struct query *query);
/* After the last column of a row: fails when a value was not what the schema promises. */
int query_read_done(struct query *query, struct error *err);

#endif
