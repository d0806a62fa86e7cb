/* Templates. */
#include <stdlib.h>
#include <string.h>

#include "store/internal.h"

#define TEMPLATE_COLUMNS                                                                                     \
    "id, enable_ivshmem, size_bytes, layout, on_rollback, vectors, annotations, revision, created_ms, "      \
    "updated_ms"

void template_row_clear(struct template_row *row)
{
    free(row->annotations);
    *row = (struct template_row){.annotations = NULL};
}

static int read_row(struct query *query, struct template_row *row, struct error *err)
{
    struct template_row read = {.annotations = NULL};
    query_read_text(query, read.id, sizeof read.id);
    read.enable_ivshmem = query_read_enum(query, 2) != 0;
    read.region.size_bytes = query_read_bits(query);
    read.region.layout = (enum region_layout)query_read_enum(query, REGION_LAYOUT_RAW + 1);
    read.region.on_rollback = (enum on_rollback)query_read_enum(query, ON_ROLLBACK_CLEAR + 1);
    read.region.vectors = (uint32_t)query_read_int(query);
    read.annotations = query_read_text_copy(query);
    read.revision = query_read_int(query);
    read.created_ms = query_read_int(query);
    read.updated_ms = query_read_int(query);
    if (query_read_done(query, err) < 0) {
        template_row_clear(&read);
        return -1;
    }
    *row = read;
    return 0;
}

int store_template_get(struct store_view *view, const char *id, struct template_row *row, struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(&query, &view->connection, STATEMENT_TEMPLATE_GET,
                    "SELECT " TEMPLATE_COLUMNS " FROM template WHERE id = ?", err) < 0) {
        return -1;
    }
    query_bind_text(&query, id);
    int step = query_step(&query, err);
    if (step > 0 && read_row(&query, row, err) < 0) {
        return -1;
    }
    return step;
}

int store_template_list(struct store_view *view, const char *after_id, size_t limit,
                        struct template_row **ret, size_t *count, struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(&query, &view->connection, STATEMENT_TEMPLATE_LIST,
                    "SELECT " TEMPLATE_COLUMNS " FROM template WHERE id > ? ORDER BY id LIMIT ?", err) < 0) {
        return -1;
    }
    query_bind_text(&query, after_id != NULL ? after_id : "");
    query_bind_bits(&query, limit);
    struct template_row *rows = NULL;
    size_t filled = 0;
    size_t bytes = 0;
    int step = 0;
    while (bytes < TEMPLATE_PAGE_BYTES && (step = query_step(&query, err)) > 0) {
        struct template_row *grown = rows_grow(rows, filled, sizeof *rows, err);
        if (grown == NULL) {
            step = -1;
            break;
        }
        rows = grown;
        if (read_row(&query, &rows[filled], err) < 0) {
            step = -1;
            break;
        }
        bytes += strlen(rows[filled].annotations);
        filled++;
    }
    if (step < 0) {
        store_template_list_free(rows, filled);
        return -1;
    }
    *ret = rows;
    *count = filled;
    return 0;
}

void store_template_list_free(struct template_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        template_row_clear(&rows[i]);
    }
    free(rows);
}

int store_template_in_use(struct store_view *view, const char *id, struct error *err)
{
    return query_exists(&view->connection, STATEMENT_TEMPLATE_IN_USE,
                        "SELECT 1 FROM sandbox WHERE template_id = ? LIMIT 1", id, err);
}

int store_count_templates(struct store_view *view, uint64_t *count, struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(&query, &view->connection, STATEMENT_TEMPLATE_COUNT, "SELECT count(*) FROM template",
                    err) < 0 ||
        query_step(&query, err) < 0) {
        return -1;
    }
    *count = query_read_bits(&query);
    return 0;
}

int store_template_put(struct store_txn *txn, struct template_row *row, struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(&query, txn_connection(txn), STATEMENT_TEMPLATE_PUT,
                    "INSERT INTO template (" TEMPLATE_COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                    " ON CONFLICT (id) DO UPDATE SET enable_ivshmem = excluded.enable_ivshmem,"
                    " size_bytes = excluded.size_bytes, layout = excluded.layout,"
                    " on_rollback = excluded.on_rollback, vectors = excluded.vectors,"
                    " annotations = excluded.annotations, revision = excluded.revision,"
                    " updated_ms = excluded.updated_ms"
                    " RETURNING created_ms",
                    err) < 0) {
        return -1;
    }
    query_bind_text(&query, row->id);
    query_bind_int(&query, row->enable_ivshmem ? 1 : 0);
    query_bind_bits(&query, row->region.size_bytes);
    query_bind_int(&query, row->region.layout);
    query_bind_int(&query, row->region.on_rollback);
    query_bind_int(&query, row->region.vectors);
    query_bind_text(&query, row->annotations != NULL ? row->annotations : "{}");
    query_bind_int(&query, txn->revision);
    query_bind_int(&query, txn->now_ms);
    query_bind_int(&query, txn->now_ms);
    if (query_step(&query, err) < 0) {
        return error_wrap(err, "storing template %s: ", row->id);
    }
    int64_t created_ms = query_read_int(&query);
    if (query_run(&query, err) < 0) {
        return error_wrap(err, "storing template %s: ", row->id);
    }
    row->revision = txn->revision;
    row->created_ms = created_ms;
    row->updated_ms = txn->now_ms;
    return 0;
}

int store_template_delete(struct store_txn *txn, const char *id, struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(&query, txn_connection(txn), STATEMENT_TEMPLATE_DELETE,
                    "DELETE FROM template WHERE id = ?", err) < 0) {
        return -1;
    }
    query_bind_text(&query, id);
    if (query_run(&query, err) < 0) {
        return error_wrap(err, "deleting template %s: ", id);
    }
    return 0;
}
