/* Idempotency keys that were used. */
#include "store/internal.h"

int store_idempotency_get(struct store_view *view, const char *key, struct idempotency_row *row,
                          struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(&query, &view->connection, STATEMENT_IDEMPOTENCY_GET,
                    "SELECT key, request, created_ms FROM idempotency WHERE key = ?", err) < 0) {
        return -1;
    }
    query_bind_text(&query, key);
    int step = query_step(&query, err);
    if (step <= 0) {
        return step;
    }
    query_read_text(&query, row->key, sizeof row->key);
    query_read_text(&query, row->request, sizeof row->request);
    row->created_ms = query_read_int(&query);
    return query_read_done(&query, err) < 0 ? -1 : 1;
}

int store_idempotency_put(struct store_txn *txn, const struct idempotency_row *row, struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(
            &query, txn_connection(txn), STATEMENT_IDEMPOTENCY_PUT,
            "INSERT INTO idempotency (key, request, created_ms) VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE"
            " SET request = excluded.request, created_ms = excluded.created_ms",
            err) < 0) {
        return -1;
    }
    query_bind_text(&query, row->key);
    query_bind_text(&query, row->request);
    query_bind_int(&query, row->created_ms);
    if (query_run(&query, err) < 0) {
        return error_wrap(err, "storing an idempotency key: ");
    }
    return 0;
}
