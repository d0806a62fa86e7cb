/* The audit record: who did what with which result, one a unit. */
#include "store/internal.h"

int audit_add(struct store_txn *txn, const struct store_actor *actor, struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(&query, txn_connection(txn), STATEMENT_AUDIT_ADD,
                    "INSERT INTO audit (revision, time_ms, who, request_id, operation, object_id, result)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?)",
                    err) < 0) {
        return -1;
    }
    query_bind_int(&query, txn->revision);
    query_bind_int(&query, txn->now_ms);
    query_bind_text(&query, actor->who);
    query_bind_text(&query, actor->request_id);
    query_bind_text(&query, actor->operation);
    query_bind_text(&query, actor->object_id);
    query_bind_text(&query, actor->result);
    if (query_run(&query, err) < 0) {
        return error_wrap(err, "storing the audit record of %s: ", actor->operation);
    }
    return 0;
}
