/* What regions take, kept beside them in the same transactions: per uid, and for the node under the uid -1.
 */
#include "store/internal.h"

enum { NODE = -1 };

int usage_add(struct connection *connection, uid_t uid, uint64_t bytes, struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(&query, connection, STATEMENT_USAGE_ADD,
                    "INSERT INTO usage (uid, regions, bytes) VALUES (-1, 1, ?1), (?2, 1, ?1) ON CONFLICT "
                    "(uid) DO UPDATE"
                    " SET regions = regions + 1, bytes = bytes + excluded.bytes",
                    err) < 0) {
        return -1;
    }
    query_bind_bits(&query, bytes);
    query_bind_int(&query, uid);
    return query_run(&query, err);
}

static int subtract(struct connection *connection, uid_t uid, uint64_t bytes, struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(&query, connection, STATEMENT_USAGE_SUBTRACT,
                    "UPDATE usage SET regions = regions - 1, bytes = bytes - ? WHERE uid IN (-1, ?)",
                    err) < 0) {
        return -1;
    }
    query_bind_bits(&query, bytes);
    query_bind_int(&query, uid);
    return query_run(&query, err);
}

/* A uid without regions needs no row, so that uids that come and go do not add up. */
static int forget(struct connection *connection, uid_t uid, struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(&query, connection, STATEMENT_USAGE_FORGET,
                    "DELETE FROM usage WHERE uid = ? AND regions = 0", err) < 0) {
        return -1;
    }
    query_bind_int(&query, uid);
    return query_run(&query, err);
}

int usage_subtract(struct connection *connection, uid_t uid, uint64_t bytes, struct error *err)
{
    if (subtract(connection, uid, bytes, err) < 0) {
        return -1;
    }
    return forget(connection, uid, err);
}

static int get(struct store_view *view, int64_t uid, struct usage_row *ret, struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(&query, &view->connection, STATEMENT_USAGE_GET,
                    "SELECT regions, bytes FROM usage WHERE uid = ?", err) < 0) {
        return -1;
    }
    query_bind_int(&query, uid);
    int step = query_step(&query, err);
    if (step < 0) {
        return -1;
    }
    *ret = (struct usage_row){.regions = 0};
    if (step > 0) {
        ret->regions = query_read_bits(&query);
        ret->bytes = query_read_bits(&query);
    }
    return 0;
}

int store_usage_node(struct store_view *view, struct usage_row *ret, struct error *err)
{
    return get(view, NODE, ret, err);
}

int store_usage_uid(struct store_view *view, uid_t uid, struct usage_row *ret, struct error *err)
{
    return get(view, uid, ret, err);
}
