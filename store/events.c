/* Events. */
#include <inttypes.h>
#include <stdlib.h>

#include "store/internal.h"

void event_row_clear(struct event_row *row)
{
    free(row->detail);
    *row = (struct event_row){.detail = NULL};
}

int store_event_add(struct store_txn *txn, const char *kind, const char *object_kind, const char *object_id,
                    const char *detail, struct error *err)
{
    if (txn->events == EVENTS_PER_UNIT_MAX) {
        return error_set(err, REASON_INTERNAL, "a unit of change has more than %d events",
                         EVENTS_PER_UNIT_MAX);
    }
    auto_query struct query query = {.statement = NULL};
    if (query_start(
            &query, txn_connection(txn), STATEMENT_EVENT_ADD,
            "INSERT INTO event (id, time_ms, kind, object_kind, object_id, detail) VALUES (?, ?, ?, ?, ?, ?)",
            err) < 0) {
        return -1;
    }
    query_bind_int(&query, txn->revision * EVENTS_PER_UNIT_MAX + txn->events);
    query_bind_int(&query, txn->now_ms);
    query_bind_text(&query, kind);
    query_bind_text(&query, object_kind);
    query_bind_text(&query, object_id);
    query_bind_text(&query, detail);
    if (query_run(&query, err) < 0) {
        return error_wrap(err, "storing the event %s of %s: ", kind, object_id);
    }
    txn->events++;
    return 0;
}

static int read_compacted(struct connection *connection, int64_t *ret, struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(&query, connection, STATEMENT_COMPACTED_GET,
                    "SELECT value FROM meta WHERE key = 'compacted'", err) < 0) {
        return -1;
    }
    int step = query_step(&query, err);
    if (step < 0) {
        return -1;
    }
    *ret = step > 0 ? query_read_int(&query) : 0;
    return 0;
}

static int read_row(struct query *query, struct event_row *row, struct error *err)
{
    struct event_row read = {.detail = NULL};
    read.revision = query_read_int(query) / EVENTS_PER_UNIT_MAX;
    read.time_ms = query_read_int(query);
    query_read_text(query, read.kind, sizeof read.kind);
    query_read_text(query, read.object_kind, sizeof read.object_kind);
    query_read_text(query, read.object_id, sizeof read.object_id);
    read.detail = query_read_text_copy(query);
    if (query_read_done(query, err) < 0) {
        event_row_clear(&read);
        return -1;
    }
    *row = read;
    return 0;
}

/* Reads at most `limit` events, but goes on to the end of the unit if the first one alone has more, and drops
 * the last unit if the limit cuts it: a reader goes on after a revision, so a page must hold whole units. */
static int read_units(struct query *query, size_t limit, struct event_row **rows, size_t *count,
                      struct error *err)
{
    int step;
    while ((step = query_step(query, err)) > 0) {
        struct event_row *grown = rows_grow(*rows, *count, sizeof **rows, err);
        if (grown == NULL) {
            return -1;
        }
        *rows = grown;
        if (read_row(query, &grown[*count], err) < 0) {
            return -1;
        }
        int64_t revision = grown[*count].revision;
        (*count)++;
        if (*count <= limit) {
            continue;
        }
        if (revision == grown[0].revision) { /* one unit of more than `limit` */
            continue;
        }
        while (*count > 0 && grown[*count - 1].revision == revision) {
            event_row_clear(&grown[--*count]);
        }
        return 0;
    }
    return step;
}

int store_event_list(struct store_view *view, int64_t since, size_t limit, struct event_row **ret,
                     size_t *count, int64_t *newest, struct error *err)
{
    int64_t compacted = 0;
    if (read_compacted(&view->connection, &compacted, err) < 0) {
        return -1;
    }
    if (since == EVENTS_SINCE_OLDEST) {
        since = compacted;
    }
    if (since < compacted) {
        return error_set(err, REASON_REVISION_COMPACTED,
                         "events up to revision %" PRId64
                         " are no longer kept, asked for those since %" PRId64,
                         compacted, since);
    }
    struct event_row *rows = NULL;
    size_t filled = 0;
    if (limit > 0 && since < view->revision) {
        auto_query struct query query = {.statement = NULL};
        if (query_start(&query, &view->connection, STATEMENT_EVENT_LIST,
                        "SELECT id, time_ms, kind, object_kind, object_id, detail FROM event WHERE id >= ? "
                        "ORDER BY id",
                        err) < 0) {
            return -1;
        }
        query_bind_int(&query, (since + 1) * EVENTS_PER_UNIT_MAX);
        if (read_units(&query, limit, &rows, &filled, err) < 0) {
            store_event_list_free(rows, filled);
            return -1;
        }
    }
    *ret = rows;
    *count = filled;
    *newest = view->revision;
    return 0;
}

void store_event_list_free(struct event_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        event_row_clear(&rows[i]);
    }
    free(rows);
}
