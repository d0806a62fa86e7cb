/* Sandboxes, which come and go with their region. */
#include <stdlib.h>
#include <string.h>

#include "store/internal.h"
#include "store/regions.h"

#define SANDBOX_COLUMNS                                                                                      \
    "id, template_id, state, reason, owner_kind, owner_pid, owner_start_time, owner_lease_seconds,"          \
    " owner_lease_expires_boot_ms, owner_boot_id, uid, gid, orphaned_boot_ms, revision, created_ms, "        \
    "updated_ms"

#define SELECT_SANDBOX                                                                                       \
    "SELECT s.id, s.template_id, s.state, s.reason, s.owner_kind, s.owner_pid, s.owner_start_time,"          \
    " s.owner_lease_seconds, s.owner_lease_expires_boot_ms, s.owner_boot_id, s.uid, s.gid, "                 \
    "s.orphaned_boot_ms,"                                                                                    \
    " s.revision, s.created_ms, s.updated_ms, r.sandbox IS NOT NULL, " REGION_COLUMNS_OF_R                   \
    " FROM sandbox s LEFT JOIN region r ON r.sandbox = s.number"

static int read_row(struct query *query, struct sandbox_row *row, struct error *err)
{
    query_read_text(query, row->id, sizeof row->id);
    query_read_text(query, row->template_id, sizeof row->template_id);
    row->state = (enum sandbox_state)query_read_enum(query, SANDBOX_STATE_COUNT);
    query_read_text(query, row->reason, sizeof row->reason);
    row->owner.kind = (enum owner_kind)query_read_enum(query, OWNER_LEASE + 1);
    row->owner.pid = (pid_t)query_read_int(query);
    row->owner.start_time = query_read_bits(query);
    row->owner.lease_seconds = query_read_int(query);
    row->owner.lease_expires_boot_ms = query_read_int(query);
    query_read_text(query, row->owner.boot_id, sizeof row->owner.boot_id);
    row->uid = (uid_t)query_read_int(query);
    row->gid = (gid_t)query_read_int(query);
    row->orphaned_boot_ms = query_read_int(query);
    row->revision = query_read_int(query);
    row->created_ms = query_read_int(query);
    row->updated_ms = query_read_int(query);
    row->has_region = query_read_enum(query, 2) != 0;
    row->region = (struct region_row){.sandbox_id = ""};
    if (row->has_region) {
        memcpy(row->region.sandbox_id, row->id, sizeof row->region.sandbox_id);
        region_read(query, &row->region);
    }
    return query_read_done(query, err);
}

int store_sandbox_get(struct store_view *view, const char *id, struct sandbox_row *row, struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(&query, &view->connection, STATEMENT_SANDBOX_GET, SELECT_SANDBOX " WHERE s.id = ?", err) <
        0) {
        return -1;
    }
    query_bind_text(&query, id);
    int step = query_step(&query, err);
    if (step > 0 && read_row(&query, row, err) < 0) {
        return -1;
    }
    return step;
}

static int read_rows(struct query *query, struct sandbox_row **ret, size_t *count, struct error *err)
{
    struct sandbox_row *rows = NULL;
    size_t filled = 0;
    int step;
    while ((step = query_step(query, err)) > 0) {
        struct sandbox_row *grown = rows_grow(rows, filled, sizeof *rows, err);
        if (grown == NULL) {
            step = -1;
            break;
        }
        rows = grown;
        if (read_row(query, &rows[filled], err) < 0) {
            step = -1;
            break;
        }
        filled++;
    }
    if (step < 0) {
        store_sandbox_list_free(rows, filled);
        return -1;
    }
    *ret = rows;
    *count = filled;
    return 0;
}

int store_sandbox_list(struct store_view *view, const char *after_id, size_t limit, struct sandbox_row **ret,
                       size_t *count, struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(&query, &view->connection, STATEMENT_SANDBOX_LIST,
                    SELECT_SANDBOX " WHERE s.id > ? ORDER BY s.id LIMIT ?", err) < 0) {
        return -1;
    }
    query_bind_text(&query, after_id != NULL ? after_id : "");
    query_bind_bits(&query, limit);
    return read_rows(&query, ret, count, err);
}

/* Nearly all sandboxes are running: those are not in the index of states, and come in the order of their ids.
 */
static int start_list_state(struct query *query, struct connection *connection, enum sandbox_state state,
                            struct error *err)
{
    if (state == SANDBOX_RUNNING) {
        return query_start(query, connection, STATEMENT_SANDBOX_LIST_RUNNING,
                           SELECT_SANDBOX " WHERE s.state = ? AND s.id > ? ORDER BY s.id LIMIT ?", err);
    }
    return query_start(
        query, connection, STATEMENT_SANDBOX_LIST_STATE,
        SELECT_SANDBOX " WHERE s.state <> 1 AND s.state = ? AND s.id > ? ORDER BY s.id LIMIT ?", err);
}

int store_sandbox_list_state(struct store_view *view, enum sandbox_state state, const char *after_id,
                             size_t limit, struct sandbox_row **ret, size_t *count, struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (start_list_state(&query, &view->connection, state, err) < 0) {
        return -1;
    }
    query_bind_int(&query, state);
    query_bind_text(&query, after_id != NULL ? after_id : "");
    query_bind_bits(&query, limit);
    return read_rows(&query, ret, count, err);
}

void store_sandbox_list_free(struct sandbox_row *rows, size_t count)
{
    (void)count;
    free(rows);
}

int store_count_sandboxes(struct store_view *view, uint64_t counts[SANDBOX_STATE_COUNT], struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(
            &query, &view->connection, STATEMENT_SANDBOX_COUNT,
            "SELECT state, count(*) FROM sandbox WHERE state <> 1 GROUP BY state UNION ALL"
            " SELECT 1, (SELECT count(*) FROM sandbox) - (SELECT count(*) FROM sandbox WHERE state <> 1)",
            err) < 0) {
        return -1;
    }
    uint64_t counted[SANDBOX_STATE_COUNT] = {0};
    int step;
    while ((step = query_step(&query, err)) > 0) {
        int state = query_read_enum(&query, SANDBOX_STATE_COUNT);
        counted[state] = query_read_bits(&query);
        if (query_read_done(&query, err) < 0) {
            return -1;
        }
    }
    if (step < 0) {
        return -1;
    }
    for (size_t i = 0; i < SANDBOX_STATE_COUNT; i++) {
        counts[i] = counted[i];
    }
    return 0;
}

static void bind_owner(struct query *query, const struct owner_row *owner)
{
    query_bind_int(query, owner->kind);
    query_bind_int(query, owner->pid);
    query_bind_bits(query, owner->start_time);
    query_bind_int(query, owner->lease_seconds);
    query_bind_int(query, owner->lease_expires_boot_ms);
    query_bind_text(query, owner->boot_id);
}

static int insert_sandbox(struct store_txn *txn, const struct sandbox_row *row, struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(&query, txn_connection(txn), STATEMENT_SANDBOX_INSERT,
                    "INSERT INTO sandbox (" SANDBOX_COLUMNS
                    ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    err) < 0) {
        return -1;
    }
    query_bind_text(&query, row->id);
    query_bind_text(&query, row->template_id);
    query_bind_int(&query, row->state);
    query_bind_text(&query, row->reason);
    bind_owner(&query, &row->owner);
    query_bind_int(&query, row->uid);
    query_bind_int(&query, row->gid);
    query_bind_int(&query, row->orphaned_boot_ms);
    query_bind_int(&query, txn->revision);
    query_bind_int(&query, txn->now_ms);
    query_bind_int(&query, txn->now_ms);
    return query_run(&query, err);
}

int store_sandbox_insert(struct store_txn *txn, struct sandbox_row *row, struct error *err)
{
    struct connection *connection = txn_connection(txn);
    if (insert_sandbox(txn, row, err) < 0 ||
        (row->has_region &&
         region_insert(connection, sqlite3_last_insert_rowid(connection->db), &row->region, err) < 0)) {
        return error_wrap(err, "storing sandbox %s: ", row->id);
    }
    row->revision = txn->revision;
    row->created_ms = txn->now_ms;
    row->updated_ms = txn->now_ms;
    return 0;
}

static int update_sandbox(struct store_txn *txn, const struct sandbox_row *row, struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(
            &query, txn_connection(txn), STATEMENT_SANDBOX_UPDATE,
            "UPDATE sandbox SET state = ?, reason = ?, owner_kind = ?, owner_pid = ?, owner_start_time = ?,"
            " owner_lease_seconds = ?, owner_lease_expires_boot_ms = ?, owner_boot_id = ?,"
            " orphaned_boot_ms = ?, revision = ?, updated_ms = ? WHERE id = ?",
            err) < 0) {
        return -1;
    }
    query_bind_int(&query, row->state);
    query_bind_text(&query, row->reason);
    bind_owner(&query, &row->owner);
    query_bind_int(&query, row->orphaned_boot_ms);
    query_bind_int(&query, txn->revision);
    query_bind_int(&query, txn->now_ms);
    query_bind_text(&query, row->id);
    if (query_run(&query, err) < 0) {
        return -1;
    }
    if (sqlite3_changes64(txn_connection(txn)->db) == 0) {
        return error_set(err, REASON_SANDBOX_NOT_FOUND, "there is no sandbox %s", row->id);
    }
    return 0;
}

int store_sandbox_update(struct store_txn *txn, struct sandbox_row *row, struct error *err)
{
    if (update_sandbox(txn, row, err) < 0 ||
        (row->has_region && region_update(txn_connection(txn), row->id, &row->region, err) < 0)) {
        return error_wrap(err, "updating sandbox %s: ", row->id);
    }
    row->revision = txn->revision;
    row->updated_ms = txn->now_ms;
    return 0;
}

static int delete_sandbox(struct store_txn *txn, const char *id, struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(&query, txn_connection(txn), STATEMENT_SANDBOX_DELETE, "DELETE FROM sandbox WHERE id = ?",
                    err) < 0) {
        return -1;
    }
    query_bind_text(&query, id);
    return query_run(&query, err);
}

int store_sandbox_delete(struct store_txn *txn, const char *id, struct error *err)
{
    if (region_delete(txn_connection(txn), id, err) < 0 || delete_sandbox(txn, id, err) < 0 ||
        links_mark_deleting(txn, id, err) < 0) {
        return error_wrap(err, "deleting sandbox %s: ", id);
    }
    return 0;
}
