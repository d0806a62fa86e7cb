/* The schema, as the steps that lead to it. A step that was released is never changed; a new one is added
 * below it. */
#include <inttypes.h>
#include <stdio.h>

#include "store/internal.h"

/* migrations[n] leads from version n to n + 1; the version is SQLite's user_version. */
static const char *const migrations[] = {
    /* Enum values are stored as their numbers in store/rows.h.
     *
     * A commit pays for each page it changes, and a shared commit only once for a page that several units
     * change. Ids come in any order, so a tree that is sorted by them has each unit change a page of its own.
     * Sandboxes and regions therefore lie in the order in which they were made; only id and name are indexed
     * over all of them, states only where few are expected. */
    "CREATE TABLE meta ("
    "  key TEXT PRIMARY KEY,"
    "  value INTEGER NOT NULL"
    ") STRICT, WITHOUT ROWID;"
    /* revision: of the newest unit. compacted: events up to it may have been pruned. */
    "INSERT INTO meta (key, value) VALUES ('revision', 0), ('compacted', 0);"

    "CREATE TABLE template ("
    "  id TEXT PRIMARY KEY,"
    "  enable_ivshmem INTEGER NOT NULL,"
    "  size_bytes INTEGER NOT NULL,"
    "  layout INTEGER NOT NULL,"
    "  on_rollback INTEGER NOT NULL,"
    "  vectors INTEGER NOT NULL,"
    "  annotations TEXT NOT NULL,"
    "  revision INTEGER NOT NULL,"
    "  created_ms INTEGER NOT NULL,"
    "  updated_ms INTEGER NOT NULL"
    ") STRICT, WITHOUT ROWID;"

    "CREATE TABLE sandbox ("
    "  number INTEGER PRIMARY KEY,"
    "  id TEXT NOT NULL UNIQUE,"
    "  template_id TEXT NOT NULL REFERENCES template (id),"
    "  state INTEGER NOT NULL,"
    "  reason TEXT NOT NULL,"
    "  owner_kind INTEGER NOT NULL,"
    "  owner_pid INTEGER NOT NULL,"
    "  owner_start_time INTEGER NOT NULL,"
    "  owner_lease_seconds INTEGER NOT NULL,"
    "  owner_lease_expires_boot_ms INTEGER NOT NULL,"
    "  owner_boot_id TEXT NOT NULL,"
    "  uid INTEGER NOT NULL,"
    "  gid INTEGER NOT NULL,"
    "  orphaned_boot_ms INTEGER NOT NULL,"
    "  revision INTEGER NOT NULL,"
    "  created_ms INTEGER NOT NULL,"
    "  updated_ms INTEGER NOT NULL"
    ") STRICT;"
    "CREATE INDEX sandbox_not_running ON sandbox (state, id) WHERE state <> 1;"
    "CREATE INDEX sandbox_by_template ON sandbox (template_id);"

    "CREATE TABLE region ("
    "  sandbox INTEGER PRIMARY KEY REFERENCES sandbox (number),"
    "  name TEXT NOT NULL UNIQUE,"
    "  staging_token TEXT NOT NULL,"
    "  size_bytes INTEGER NOT NULL,"
    "  layout INTEGER NOT NULL,"
    "  on_rollback INTEGER NOT NULL,"
    "  vectors INTEGER NOT NULL,"
    "  epoch INTEGER NOT NULL,"
    "  state INTEGER NOT NULL,"
    "  reason TEXT NOT NULL,"
    "  uid INTEGER NOT NULL,"
    "  gid INTEGER NOT NULL,"
    "  device INTEGER NOT NULL,"
    "  inode INTEGER NOT NULL,"
    "  birth_ns INTEGER NOT NULL,"
    "  boot_id TEXT NOT NULL"
    ") STRICT;"
    "CREATE INDEX region_creating ON region (staging_token) WHERE state = 0;"
    "CREATE INDEX region_lost ON region (state) WHERE state = 2;"

    /* What the regions of a uid take; -1 is the whole node. */
    "CREATE TABLE usage ("
    "  uid INTEGER PRIMARY KEY,"
    "  regions INTEGER NOT NULL CHECK (regions >= 0),"
    "  bytes INTEGER NOT NULL CHECK (bytes >= 0)"
    ") STRICT;"

    "CREATE TABLE event ("
    "  id INTEGER PRIMARY KEY," /* revision * 256 + the event's place in its unit */
    "  time_ms INTEGER NOT NULL,"
    "  kind TEXT NOT NULL,"
    "  object_kind TEXT NOT NULL,"
    "  object_id TEXT NOT NULL,"
    "  detail TEXT"
    ") STRICT;"

    "CREATE TABLE audit ("
    "  revision INTEGER PRIMARY KEY,"
    "  time_ms INTEGER NOT NULL,"
    "  who TEXT NOT NULL,"
    "  request_id TEXT,"
    "  operation TEXT NOT NULL,"
    "  object_id TEXT NOT NULL,"
    "  result TEXT NOT NULL"
    ") STRICT;"

    "CREATE TABLE idempotency ("
    "  key TEXT PRIMARY KEY,"
    "  request TEXT NOT NULL,"
    "  created_ms INTEGER NOT NULL"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX idempotency_by_age ON idempotency (created_ms);",

    /* Links, and their two ends. A sandbox may go before the links that are marked as deleting with it, so an
     * end names it without a reference. */
    "CREATE TABLE link ("
    "  number INTEGER PRIMARY KEY,"
    "  id TEXT NOT NULL UNIQUE,"
    "  state INTEGER NOT NULL,"
    "  uid INTEGER NOT NULL,"
    "  gid INTEGER NOT NULL,"
    "  revision INTEGER NOT NULL,"
    "  created_ms INTEGER NOT NULL,"
    "  updated_ms INTEGER NOT NULL"
    ") STRICT;"
    "CREATE INDEX link_not_ready ON link (state, id) WHERE state <> 1;"
    "CREATE TABLE link_end ("
    "  link INTEGER NOT NULL REFERENCES link (number),"
    "  place INTEGER NOT NULL," /* 0 or 1 */
    "  type TEXT NOT NULL,"
    "  sandbox_id TEXT NOT NULL," /* "": of no sandbox */
    "  role INTEGER NOT NULL,"
    "  socket_path TEXT NOT NULL,"
    "  mtu INTEGER NOT NULL,"
    "  PRIMARY KEY (link, place)"
    ") STRICT, WITHOUT ROWID;"
    "CREATE INDEX link_end_by_sandbox ON link_end (sandbox_id) WHERE sandbox_id <> '';",
};

_Static_assert(SANDBOX_RUNNING == 1, "the index sandbox_not_running names this state");
_Static_assert(REGION_CREATING == 0 && REGION_LOST == 2, "the indexes of region name these states");
_Static_assert(LINK_READY == 1, "the index link_not_ready names this state");
_Static_assert(EVENTS_PER_UNIT_MAX == 256, "keys of events in databases are made with it");

enum { SCHEMA_VERSION = sizeof migrations / sizeof migrations[0] };

int store_schema_version(void)
{
    return SCHEMA_VERSION;
}

static int read_version(struct connection *connection, int64_t *ret, struct error *err)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(connection->db, "PRAGMA user_version", -1, &statement, NULL);
    if (code == SQLITE_OK) {
        code = sqlite3_step(statement);
    }
    if (code == SQLITE_ROW) {
        *ret = sqlite3_column_int64(statement, 0);
    }
    (void)sqlite3_finalize(statement);
    return code == SQLITE_ROW ? 0 : connection_error(connection, code, err);
}

static int apply(struct connection *connection, int64_t version, struct error *err)
{
    char set_version[64];
    (void)snprintf(set_version, sizeof set_version, "PRAGMA user_version = %" PRId64, version + 1);
    if (connection_execute(connection, "BEGIN IMMEDIATE", err) < 0) {
        return -1;
    }
    if (connection_execute(connection, migrations[version], err) < 0 ||
        connection_execute(connection, set_version, err) < 0 ||
        connection_execute(connection, "COMMIT", err) < 0) {
        (void)connection_execute(connection, "ROLLBACK", NULL);
        return -1;
    }
    return 0;
}

int schema_migrate(struct connection *connection, struct error *err)
{
    int64_t version = 0;
    if (read_version(connection, &version, err) < 0) {
        return error_wrap(err, "reading the schema version: ");
    }
    if (version > SCHEMA_VERSION || version < 0) {
        return error_set(err, REASON_STORE_FAILED,
                         "the database has schema version %" PRId64
                         " and this chand knows versions up to %d: "
                         "start a chand that knows version %" PRId64,
                         version, SCHEMA_VERSION, version);
    }
    for (; version < SCHEMA_VERSION; version++) {
        if (apply(connection, version, err) < 0) {
            return error_wrap(err, "migrating the database from schema version %" PRId64 ": ", version);
        }
    }
    return 0;
}
