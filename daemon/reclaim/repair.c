/* The repair at start: the store is walked once, page by page. What crashes left half made or half deleted is
 * settled one by one; what was found about sandboxes that are there is written for many in one unit of the
 * store. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "daemon/reclaim/internal.h"

enum {
    PAGE = 512,
    BATCH = 64 /* sandboxes in a unit; each may have three events, and a unit has at most 256 */
};

struct batch {
    struct reclaim *reclaim;
    bool staging_names; /* there are some in the directory */
    size_t count;
    struct sandbox_row rows[BATCH];
    struct verdict verdicts[BATCH];
};

/* A store that fails makes the repair fail. A disk that is full does not: the rows stay as they are, and the
 * collector comes back to them. */
static int is_fatal(const struct error *err)
{
    return err->reason == REASON_STORE_FAILED;
}

/* Reports the failure; -1 if it is the end of the repair. */
static int judge_failure(struct reclaim *reclaim, const char *what, const char *id,
                         const struct error *failure, struct error *err)
{
    if (is_fatal(failure)) {
        if (err != NULL)
            *err = *failure;
        return -1;
    }
    report_failure(reclaim, what, id, failure);
    return 0;
}

static int write_batch(struct store_txn *txn, void *argument, struct error *err)
{
    struct batch *batch = argument;
    for (size_t i = 0; i < batch->count; i++)
        if (sandbox_record_verdict(txn, &batch->rows[i], &batch->verdicts[i], err) < 0)
            return -1;
    return 0;
}

static int flush(struct batch *batch, struct error *err)
{
    if (batch->count == 0)
        return 0;
    struct reclaim *reclaim = batch->reclaim;
    const struct store_actor actor = {.who = "repair",
                                      .operation = "repair",
                                      .object_id = batch->count == 1 ? batch->rows[0].id : "*",
                                      .result = "ok"};
    struct error failure = ERROR_INIT;
    int result = 0;
    if (store_write(reclaim->config.store, &actor, write_batch, batch, &failure) < 0)
        result = judge_failure(reclaim, "what the repair found cannot be recorded", actor.object_id, &failure,
                               err);
    else
        for (size_t i = 0; i < batch->count; i++)
            sandbox_verdict_recorded(reclaim, &batch->rows[i], &batch->verdicts[i]);
    batch->count = 0;
    return result;
}

/* Half made or half deleted. */
static int repair_unfinished(struct reclaim *reclaim, const struct sandbox_row *row, struct error *err)
{
    struct error failure = ERROR_INIT;
    int fault = fault_point("repair.before_sandbox");
    int result = -1;
    if (fault != 0)
        (void)error_set_errno(&failure, REASON_INTERNAL, fault, "repair.before_sandbox");
    else if (row->state == SANDBOX_CREATING)
        result = sandbox_undo_create(reclaim, row, "repair", &failure);
    else
        result = sandbox_finish_delete(reclaim, row, "repair", &failure);
    if (result < 0)
        return judge_failure(reclaim, "a sandbox cannot be repaired yet", row->id, &failure, err);
    metrics_add(reclaim->config.metrics, METRIC_REPAIRED, 1);
    (void)fault_point("repair.after_sandbox");
    return 0;
}

static int repair_present(struct batch *batch, const struct sandbox_row *row, struct error *err)
{
    struct reclaim *reclaim = batch->reclaim;
    struct error failure = ERROR_INIT;
    struct verdict verdict;
    reclaim_watch(reclaim, row);
    if (sandbox_inspect(reclaim, row, &verdict, &failure) < 0)
        report_failure(reclaim, "a region cannot be examined", row->id, &failure);
    if (row->has_region && batch->staging_names &&
        region_unstage(reclaim->config.regions, &row->region, &failure) < 0)
        report_failure(reclaim, "a staging file cannot be removed", row->id, &failure);
    if (!verdict_is_news(&verdict))
        return 0;
    batch->rows[batch->count] = *row;
    batch->verdicts[batch->count] = verdict;
    batch->count++;
    return batch->count == BATCH ? flush(batch, err) : 0;
}

static int repair_sandbox(struct batch *batch, const struct sandbox_row *row, struct error *err)
{
    switch (row->state) {
    case SANDBOX_CREATING:
    case SANDBOX_DELETING:
        return repair_unfinished(batch->reclaim, row, err);
    case SANDBOX_RUNNING:
    case SANDBOX_PAUSED:
    case SANDBOX_ORPHANED:
    case SANDBOX_STATE_COUNT:
        break;
    }
    return repair_present(batch, row, err);
}

static int repair_all(struct batch *batch, struct error *err)
{
    struct cursor cursor = {.after_id = ""};
    size_t count = 0;
    do {
        struct sandbox_row *rows = NULL;
        if (sandbox_page(batch->reclaim, SANDBOX_STATE_COUNT, &cursor, PAGE, &rows, &count, err) < 0)
            return -1;
        int result = 0;
        for (size_t i = 0; i < count && result == 0; i++)
            result = repair_sandbox(batch, &rows[i], err);
        if (count > 0)
            memcpy(cursor.after_id, rows[count - 1].id, sizeof cursor.after_id);
        store_sandbox_list_free(rows, count);
        if (result < 0)
            return -1;
    } while (count == PAGE);
    return flush(batch, err);
}

static int stop_at_staging_name(void *context, const char *name, const char *sandbox_id, const char *token)
{
    bool *found = context;
    (void)name;
    (void)sandbox_id;
    *found = token != NULL;
    return token != NULL;
}

int reclaim_repair(struct reclaim *reclaim, struct error *err)
{
    auto_free struct batch *batch = calloc(1, sizeof *batch);
    if (batch == NULL)
        return error_set_errno(err, REASON_RESOURCE_LIMIT, ENOMEM, "cannot repair");
    batch->reclaim = reclaim;
    struct error failure = ERROR_INIT;
    if (regions_scan(reclaim->config.regions, stop_at_staging_name, &batch->staging_names, &failure) < 0)
        report_failure(reclaim, "the directory of regions cannot be listed", "", &failure);
    if (repair_all(batch, err) < 0)
        return error_wrap(err, "repairing the state: ");
    if (foreign_count(reclaim, &failure) < 0)
        return judge_failure(reclaim, "foreign files cannot be counted", "", &failure, err);
    return 0;
}
