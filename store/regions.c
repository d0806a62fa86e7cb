/* The region rows of sandboxes, and questions about them. */
#include "store/regions.h"

#include <stdio.h>

void region_read(struct query *query, struct region_row *row)
{
    query_read_text(query, row->name, sizeof row->name);
    query_read_text(query, row->staging_token, sizeof row->staging_token);
    row->settings.size_bytes = query_read_bits(query);
    row->settings.layout = (enum region_layout)query_read_enum(query, REGION_LAYOUT_RAW + 1);
    row->settings.on_rollback = (enum on_rollback)query_read_enum(query, ON_ROLLBACK_CLEAR + 1);
    row->settings.vectors = (uint32_t)query_read_int(query);
    row->epoch = query_read_bits(query);
    row->state = (enum region_state)query_read_enum(query, REGION_DELETING + 1);
    query_read_text(query, row->reason, sizeof row->reason);
    row->uid = (uid_t)query_read_int(query);
    row->gid = (gid_t)query_read_int(query);
    row->identity.device = query_read_bits(query);
    row->identity.inode = query_read_bits(query);
    row->identity.birth_ns = query_read_int(query);
    query_read_text(query, row->identity.boot_id, sizeof row->identity.boot_id);
}

static void bind_identity(struct query *query, const struct region_identity *identity)
{
    query_bind_bits(query, identity->device);
    query_bind_bits(query, identity->inode);
    query_bind_int(query, identity->birth_ns);
    query_bind_text(query, identity->boot_id);
}

int region_insert(struct connection *connection, int64_t sandbox, const struct region_row *row,
                  struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(
            &query, connection, STATEMENT_REGION_INSERT,
            "INSERT INTO region (sandbox, name, staging_token, size_bytes, layout, on_rollback, vectors,"
            " epoch, state, reason, uid, gid, device, inode, birth_ns, boot_id)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            err) < 0) {
        return -1;
    }
    query_bind_int(&query, sandbox);
    query_bind_text(&query, row->name);
    query_bind_text(&query, row->staging_token);
    query_bind_bits(&query, row->settings.size_bytes);
    query_bind_int(&query, row->settings.layout);
    query_bind_int(&query, row->settings.on_rollback);
    query_bind_int(&query, row->settings.vectors);
    query_bind_bits(&query, row->epoch);
    query_bind_int(&query, row->state);
    query_bind_text(&query, row->reason);
    query_bind_int(&query, row->uid);
    query_bind_int(&query, row->gid);
    bind_identity(&query, &row->identity);
    if (query_run(&query, err) < 0) {
        return -1;
    }
    return usage_add(connection, row->uid, row->settings.size_bytes, err);
}

int region_update(struct connection *connection, const char *sandbox_id, const struct region_row *row,
                  struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(&query, connection, STATEMENT_REGION_UPDATE,
                    "UPDATE region SET epoch = ?, state = ?, reason = ?, device = ?, inode = ?, birth_ns = ?,"
                    " boot_id = ? WHERE sandbox = (SELECT number FROM sandbox WHERE id = ?)",
                    err) < 0) {
        return -1;
    }
    query_bind_bits(&query, row->epoch);
    query_bind_int(&query, row->state);
    query_bind_text(&query, row->reason);
    bind_identity(&query, &row->identity);
    query_bind_text(&query, sandbox_id);
    if (query_run(&query, err) < 0) {
        return -1;
    }
    if (sqlite3_changes64(connection->db) == 0) {
        connection->failed = true; /* its sandbox was updated already */
        return error_set(err, REASON_STORE_FAILED, "it has no region in the database");
    }
    return 0;
}

int region_delete(struct connection *connection, const char *sandbox_id, struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(&query, connection, STATEMENT_REGION_DELETE,
                    "DELETE FROM region WHERE sandbox = (SELECT number FROM sandbox WHERE id = ?)"
                    " RETURNING uid, size_bytes",
                    err) < 0) {
        return -1;
    }
    query_bind_text(&query, sandbox_id);
    int step = query_step(&query, err);
    if (step <= 0) {
        return step;
    }
    uid_t uid = (uid_t)query_read_int(&query);
    uint64_t bytes = query_read_bits(&query);
    if (query_run(&query, err) < 0) {
        return -1;
    }
    return usage_subtract(connection, uid, bytes, err);
}

int store_count_lost_regions(struct store_view *view, uint64_t *count, struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(&query, &view->connection, STATEMENT_REGION_COUNT_LOST,
                    "SELECT count(*) FROM region INDEXED BY region_lost WHERE state = 2", err) < 0 ||
        query_step(&query, err) < 0) {
        return -1;
    }
    *count = query_read_bits(&query);
    return 0;
}

int store_region_name_known(struct store_view *view, const char *name, struct error *err)
{
    return query_exists(&view->connection, STATEMENT_REGION_NAME_KNOWN, "SELECT 1 FROM region WHERE name = ?",
                        name, err);
}

int store_staging_token_known(struct store_view *view, const char *token, struct error *err)
{
    return query_exists(&view->connection, STATEMENT_REGION_TOKEN_KNOWN,
                        "SELECT 1 FROM region WHERE state = 0 AND staging_token = ?", token, err);
}
