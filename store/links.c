/* Links with their two ends. */
#include <stdlib.h>

#include "store/internal.h"

#define SELECT_LINK                                                                                          \
    "SELECT l.id, l.state, l.uid, l.gid, l.revision, l.created_ms, l.updated_ms,"                            \
    " a.type, a.sandbox_id, a.role, a.socket_path, a.mtu,"                                                   \
    " b.type, b.sandbox_id, b.role, b.socket_path, b.mtu FROM link l"                                        \
    " JOIN link_end a ON a.link = l.number AND a.place = 0"                                                  \
    " JOIN link_end b ON b.link = l.number AND b.place = 1"

static void read_end(struct query *query, struct link_end_row *end)
{
    query_read_text(query, end->type, sizeof end->type);
    query_read_text(query, end->sandbox_id, sizeof end->sandbox_id);
    end->role = (enum link_role)query_read_enum(query, LINK_ROLE_CLIENT + 1);
    query_read_text(query, end->socket_path, sizeof end->socket_path);
    end->mtu = (uint32_t)query_read_int(query);
}

static int read_row(struct query *query, struct link_row *row, struct error *err)
{
    query_read_text(query, row->id, sizeof row->id);
    row->state = (enum link_row_state)query_read_enum(query, LINK_STATE_COUNT);
    row->uid = (uid_t)query_read_int(query);
    row->gid = (gid_t)query_read_int(query);
    row->revision = query_read_int(query);
    row->created_ms = query_read_int(query);
    row->updated_ms = query_read_int(query);
    read_end(query, &row->ends[0]);
    read_end(query, &row->ends[1]);
    return query_read_done(query, err);
}

int store_link_get(struct store_view *view, const char *id, struct link_row *row, struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(&query, &view->connection, STATEMENT_LINK_GET, SELECT_LINK " WHERE l.id = ?", err) < 0) {
        return -1;
    }
    query_bind_text(&query, id);
    int step = query_step(&query, err);
    if (step > 0 && read_row(&query, row, err) < 0) {
        return -1;
    }
    return step;
}

static int read_rows(struct query *query, struct link_row **ret, size_t *count, struct error *err)
{
    struct link_row *rows = NULL;
    size_t filled = 0;
    int step;
    while ((step = query_step(query, err)) > 0) {
        struct link_row *grown = rows_grow(rows, filled, sizeof *rows, err);
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
        store_link_list_free(rows, filled);
        return -1;
    }
    *ret = rows;
    *count = filled;
    return 0;
}

/* The two parameters with which every list ends. */
static void bind_page(struct query *query, const char *after_id, size_t limit)
{
    query_bind_text(query, after_id != NULL ? after_id : "");
    query_bind_bits(query, limit);
}

int store_link_list(struct store_view *view, const char *after_id, size_t limit, struct link_row **ret,
                    size_t *count, struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(&query, &view->connection, STATEMENT_LINK_LIST,
                    SELECT_LINK " WHERE l.id > ? ORDER BY l.id LIMIT ?", err) < 0) {
        return -1;
    }
    bind_page(&query, after_id, limit);
    return read_rows(&query, ret, count, err);
}

int store_link_list_by_sandbox(struct store_view *view, const char *sandbox_id, const char *after_id,
                               size_t limit, struct link_row **ret, size_t *count, struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(&query, &view->connection, STATEMENT_LINK_LIST_SANDBOX,
                    SELECT_LINK " WHERE l.number IN"
                                " (SELECT link FROM link_end WHERE sandbox_id <> '' AND sandbox_id = ?)"
                                " AND l.id > ? ORDER BY l.id LIMIT ?",
                    err) < 0) {
        return -1;
    }
    query_bind_text(&query, sandbox_id);
    bind_page(&query, after_id, limit);
    return read_rows(&query, ret, count, err);
}

/* As with sandboxes: those that are ready are not in the index of states. */
static int start_list_state(struct query *query, struct connection *connection, enum link_row_state state,
                            struct error *err)
{
    if (state == LINK_READY) {
        return query_start(query, connection, STATEMENT_LINK_LIST_READY,
                           SELECT_LINK " WHERE l.state = ? AND l.id > ? ORDER BY l.id LIMIT ?", err);
    }
    return query_start(query, connection, STATEMENT_LINK_LIST_STATE,
                       SELECT_LINK " WHERE l.state <> 1 AND l.state = ? AND l.id > ? ORDER BY l.id LIMIT ?",
                       err);
}

int store_link_list_state(struct store_view *view, enum link_row_state state, const char *after_id,
                          size_t limit, struct link_row **ret, size_t *count, struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (start_list_state(&query, &view->connection, state, err) < 0) {
        return -1;
    }
    query_bind_int(&query, state);
    bind_page(&query, after_id, limit);
    return read_rows(&query, ret, count, err);
}

void store_link_list_free(struct link_row *rows, size_t count)
{
    (void)count;
    free(rows);
}

int store_count_links(struct store_view *view, uint64_t counts[LINK_STATE_COUNT], struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(&query, &view->connection, STATEMENT_LINK_COUNT,
                    "SELECT state, count(*) FROM link GROUP BY state", err) < 0) {
        return -1;
    }
    uint64_t counted[LINK_STATE_COUNT] = {0};
    int step;
    while ((step = query_step(&query, err)) > 0) {
        int state = query_read_enum(&query, LINK_STATE_COUNT);
        counted[state] = query_read_bits(&query);
        if (query_read_done(&query, err) < 0) {
            return -1;
        }
    }
    if (step < 0) {
        return -1;
    }
    for (size_t i = 0; i < LINK_STATE_COUNT; i++) {
        counts[i] = counted[i];
    }
    return 0;
}

static int insert_link(struct store_txn *txn, const struct link_row *row, struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(&query, txn_connection(txn), STATEMENT_LINK_INSERT,
                    "INSERT INTO link (id, state, uid, gid, revision, created_ms, updated_ms)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?)",
                    err) < 0) {
        return -1;
    }
    query_bind_text(&query, row->id);
    query_bind_int(&query, row->state);
    query_bind_int(&query, row->uid);
    query_bind_int(&query, row->gid);
    query_bind_int(&query, txn->revision);
    query_bind_int(&query, txn->now_ms);
    query_bind_int(&query, txn->now_ms);
    return query_run(&query, err);
}

static int insert_end(struct store_txn *txn, int64_t link, int place, const struct link_end_row *end,
                      struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(&query, txn_connection(txn), STATEMENT_LINK_END_INSERT,
                    "INSERT INTO link_end (link, place, type, sandbox_id, role, socket_path, mtu)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?)",
                    err) < 0) {
        return -1;
    }
    query_bind_int(&query, link);
    query_bind_int(&query, place);
    query_bind_text(&query, end->type);
    query_bind_text(&query, end->sandbox_id);
    query_bind_int(&query, end->role);
    query_bind_text(&query, end->socket_path);
    query_bind_int(&query, end->mtu);
    return query_run(&query, err);
}

int store_link_insert(struct store_txn *txn, struct link_row *row, struct error *err)
{
    if (insert_link(txn, row, err) < 0) {
        return error_wrap(err, "storing link %s: ", row->id);
    }
    const int64_t number = sqlite3_last_insert_rowid(txn_connection(txn)->db);
    for (int place = 0; place < 2; place++) {
        if (insert_end(txn, number, place, &row->ends[place], err) < 0) {
            return error_wrap(err, "storing link %s: ", row->id);
        }
    }
    row->revision = txn->revision;
    row->created_ms = txn->now_ms;
    row->updated_ms = txn->now_ms;
    return 0;
}

int store_link_update(struct store_txn *txn, struct link_row *row, struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(&query, txn_connection(txn), STATEMENT_LINK_UPDATE,
                    "UPDATE link SET state = ?, revision = ?, updated_ms = ? WHERE id = ?", err) < 0) {
        return -1;
    }
    query_bind_int(&query, row->state);
    query_bind_int(&query, txn->revision);
    query_bind_int(&query, txn->now_ms);
    query_bind_text(&query, row->id);
    if (query_run(&query, err) < 0) {
        return error_wrap(err, "updating link %s: ", row->id);
    }
    if (sqlite3_changes64(txn_connection(txn)->db) == 0) {
        return error_set(err, REASON_LINK_NOT_FOUND, "there is no link %s", row->id);
    }
    row->revision = txn->revision;
    row->updated_ms = txn->now_ms;
    return 0;
}

static int run_with_id(struct store_txn *txn, enum statement statement, const char *sql, const char *id,
                       struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(&query, txn_connection(txn), statement, sql, err) < 0) {
        return -1;
    }
    query_bind_text(&query, id);
    return query_run(&query, err);
}

int store_link_delete(struct store_txn *txn, const char *id, struct error *err)
{
    if (run_with_id(txn, STATEMENT_LINK_END_DELETE,
                    "DELETE FROM link_end WHERE link = (SELECT number FROM link WHERE id = ?)", id,
                    err) < 0 ||
        run_with_id(txn, STATEMENT_LINK_DELETE, "DELETE FROM link WHERE id = ?", id, err) < 0) {
        return error_wrap(err, "deleting link %s: ", id);
    }
    return 0;
}

int links_mark_deleting(struct store_txn *txn, const char *sandbox_id, struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(&query, txn_connection(txn), STATEMENT_LINK_MARK,
                    "UPDATE link SET state = ?, revision = ?, updated_ms = ? WHERE number IN"
                    " (SELECT link FROM link_end WHERE sandbox_id <> '' AND sandbox_id = ?)",
                    err) < 0) {
        return -1;
    }
    query_bind_int(&query, LINK_DELETING);
    query_bind_int(&query, txn->revision);
    query_bind_int(&query, txn->now_ms);
    query_bind_text(&query, sandbox_id);
    return query_run(&query, err);
}
