/* The global revision: one number for each unit of change. */
#include "store/internal.h"

int revision_get(struct connection *connection, int64_t *ret, struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(&query, connection, STATEMENT_REVISION_GET,
                    "SELECT value FROM meta WHERE key = 'revision'", err) < 0) {
        return -1;
    }
    int step = query_step(&query, err);
    if (step == 0) {
        return error_set(err, REASON_STORE_FAILED, "the database has lost its revision");
    }
    if (step > 0) {
        *ret = query_read_int(&query);
    }
    return step > 0 ? 0 : -1;
}

int revision_set(struct connection *connection, int64_t revision, struct error *err)
{
    auto_query struct query query = {.statement = NULL};
    if (query_start(&query, connection, STATEMENT_REVISION_SET,
                    "UPDATE meta SET value = ? WHERE key = 'revision'", err) < 0) {
        return -1;
    }
    query_bind_int(&query, revision);
    return query_run(&query, err);
}
