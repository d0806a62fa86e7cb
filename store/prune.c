/* Dropping what is old: events, audit records, idempotency keys. */
#include "store/internal.h"

struct prune {
    uint64_t keep_events;
    int64_t keys_before_ms;
    size_t limit;
    size_t removed;
};

static int run_limited(struct connection *connection, enum statement statement, const char *sql,
                       int64_t bound, size_t limit, size_t *removed, struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(&query, connection, statement, sql, err) < 0) {
        return -1;
    }
    query_bind_int(&query, bound);
    query_bind_bits(&query, limit);
    if (query_run(&query, err) < 0) {
        return -1;
    }
    *removed += (size_t)sqlite3_changes64(connection->db);
    return 0;
}

/* The id of the last event to drop; -1 when there is none. */
static int find_cutoff(struct connection *connection, int64_t last_revision, size_t limit, int64_t *ret,
                       struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(&query, connection, STATEMENT_EVENT_CUTOFF,
                    "SELECT ifnull(max(id), -1) FROM (SELECT id FROM event WHERE id < ? ORDER BY id LIMIT ?)",
                    err) < 0) {
        return -1;
    }
    query_bind_int(&query, (last_revision + 1) * EVENTS_PER_UNIT_MAX);
    query_bind_bits(&query, limit);
    if (query_step(&query, err) < 0) {
        return -1;
    }
    *ret = query_read_int(&query);
    return 0;
}

static int set_compacted(struct connection *connection, int64_t revision, struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(&query, connection, STATEMENT_COMPACTED_SET,
                    "UPDATE meta SET value = ? WHERE key = 'compacted'", err) < 0) {
        return -1;
    }
    query_bind_int(&query, revision);
    return query_run(&query, err);
}

/* The limit may cut through a unit's events. Its revision is then compacted already: who reads since an
 * earlier one is told so, and who reads since this one misses nothing. */
static int prune_events(struct connection *connection, int64_t last_revision, struct prune *prune,
                        struct error *err)
{
    int64_t cutoff = -1;
    if (find_cutoff(connection, last_revision, prune->limit, &cutoff, err) < 0) {
        return -1;
    }
    if (cutoff < 0) {
        return 0;
    }
    if (set_compacted(connection, cutoff / EVENTS_PER_UNIT_MAX, err) < 0) {
        return -1;
    }
    return run_limited(
        connection, STATEMENT_EVENT_PRUNE,
        "DELETE FROM event WHERE id IN (SELECT id FROM event WHERE id <= ? ORDER BY id LIMIT ?)", cutoff,
        prune->limit, &prune->removed, err);
}

static int run_prune(struct store_txn *txn, void *argument, struct error *err)
{
    struct prune *prune = argument;
    struct connection *connection = txn_connection(txn);
    prune->removed = 0;
    uint64_t newest = (uint64_t)store_revision(txn->view);
    if (newest > prune->keep_events) {
        int64_t last_revision = (int64_t)(newest - prune->keep_events);
        if (prune_events(connection, last_revision, prune, err) < 0 ||
            run_limited(connection, STATEMENT_AUDIT_PRUNE,
                        "DELETE FROM audit WHERE revision IN"
                        " (SELECT revision FROM audit WHERE revision <= ? ORDER BY revision LIMIT ?)",
                        last_revision, prune->limit, &prune->removed, err) < 0) {
            return -1;
        }
    }
    return run_limited(connection, STATEMENT_IDEMPOTENCY_PRUNE,
                       "DELETE FROM idempotency WHERE key IN"
                       " (SELECT key FROM idempotency WHERE created_ms < ? ORDER BY created_ms LIMIT ?)",
                       prune->keys_before_ms, prune->limit, &prune->removed, err);
}

int store_prune(struct store *store, uint64_t keep_events, int64_t keys_before_ms, size_t limit,
                size_t *removed, struct error *err)
{
    struct prune prune = {.keep_events = keep_events, .keys_before_ms = keys_before_ms, .limit = limit};
    if (store_maintain(store, run_prune, &prune, err) < 0) {
        return error_wrap(err, "pruning: ");
    }
    *removed = prune.removed;
    return 0;
}
