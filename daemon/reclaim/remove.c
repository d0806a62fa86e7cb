/* Removal of a sandbox, and what undoes a creation that was interrupted. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "daemon/reclaim/internal.h"

static int check_fault(const char *point, struct error *err)
{
    int fault = fault_point(point);
    if (fault == 0)
        return 0;
    enum reason reason = fault == ENOSPC ? REASON_STORE_FULL : REASON_INTERNAL;
    return error_set_errno(err, reason, fault, "the step at %s failed", point);
}

/* ---- the units ---- */

struct removal {
    struct sandbox_row row;
    bool reclaimed;
    bool left_foreign;
};

/* The reason stays in the row of a sandbox that is reclaimed; so it is known what to finish after a crash. */
static int write_intent(struct store_txn *txn, void *argument, struct error *err)
{
    struct removal *removal = argument;
    struct sandbox_row *row = &removal->row;
    row->state = SANDBOX_DELETING;
    row->region.state = REGION_DELETING;
    if (!removal->reclaimed)
        row->reason[0] = '\0';
    if (store_sandbox_update(txn, row, err) < 0)
        return -1;
    return store_event_add(txn, "sandbox.deleting", "sandbox", row->id, NULL, err);
}

static int write_forgotten(struct store_txn *txn, void *argument, struct error *err)
{
    const struct removal *removal = argument;
    const struct sandbox_row *row = &removal->row;
    char detail[96];
    (void)snprintf(detail, sizeof detail, "{\"reason\":\"%s\"}", row->reason);
    if (removal->left_foreign &&
        store_event_add(txn, "region.foreign_file_left", "region", row->id, NULL, err) < 0)
        return -1;
    if (store_sandbox_delete(txn, row->id, err) < 0)
        return -1;
    return store_event_add(txn, removal->reclaimed ? "sandbox.reclaimed" : "sandbox.deleted", "sandbox",
                           row->id, removal->reclaimed ? detail : NULL, err);
}

/* ---- removal ---- */

static int remove_file(struct reclaim *reclaim, struct removal *removal, struct error *err)
{
    const struct region_row *region = &removal->row.region;
    if (region->identity.inode == 0) /* deleted before its creation was recorded */
        return region_remove_unfinished(reclaim->config.regions, region, err);
    return region_remove(reclaim->config.regions, region, &removal->left_foreign, err);
}

static int remove_region(struct reclaim *reclaim, struct removal *removal, const struct store_actor *actor,
                         struct error *err)
{
    if (removal->row.state != SANDBOX_DELETING) {
        struct store_actor intent = *actor;
        intent.result = "intent";
        /* A power cut takes a file of a tmpfs away too, so its intent need not be on disk before. */
        bool outlive = regions_outlive_host(reclaim->config.regions);
        if ((outlive ? store_write : store_write_intent)(reclaim->config.store, &intent, write_intent,
                                                         removal, err) < 0)
            return -1;
    }
    if (check_fault("delete.after_intent", err) < 0 || remove_file(reclaim, removal, err) < 0 ||
        check_fault("delete.after_unlink", err) < 0)
        return -1;
    if (removal->left_foreign)
        atomic_store(&reclaim->rescan, true);
    return 0;
}

int reclaim_remove_sandbox(struct reclaim *reclaim, const struct sandbox_row *sandbox,
                           const struct store_actor *actor, bool reclaimed, struct error *err)
{
    struct removal removal = {.row = *sandbox, .reclaimed = reclaimed};
    if (check_fault("delete.before_intent", err) < 0)
        return -1;
    if (sandbox->has_region && remove_region(reclaim, &removal, actor, err) < 0)
        return -1;
    if (check_fault("delete.before_forget", err) < 0 ||
        store_write(reclaim->config.store, actor, write_forgotten, &removal, err) < 0)
        return -1;
    (void)fault_point("delete.after_forget"); /* nothing is left that could fail */
    watch_remove(reclaim->watches, sandbox->id);
    if (reclaimed) {
        atomic_fetch_add(&reclaim->reclaimed_total, 1);
        metrics_add(reclaim->config.metrics, METRIC_RECLAIMED, 1);
    }
    return 0;
}

int sandbox_finish_delete(struct reclaim *reclaim, const struct sandbox_row *row, const char *who,
                          struct error *err)
{
    const struct store_actor actor = {
        .who = who, .operation = "sandbox.delete", .object_id = row->id, .result = "ok"};
    return reclaim_remove_sandbox(reclaim, row, &actor, row->reason[0] != '\0', err);
}

/* ---- undoing a creation ---- */

static int write_undone(struct store_txn *txn, void *argument, struct error *err)
{
    const struct sandbox_row *row = argument;
    if (store_sandbox_delete(txn, row->id, err) < 0)
        return -1;
    return store_event_add(txn, "sandbox.create_failed", "sandbox", row->id, "{\"reason\":\"interrupted\"}",
                           err);
}

int sandbox_undo_create(struct reclaim *reclaim, const struct sandbox_row *row, const char *who,
                        struct error *err)
{
    const struct store_actor actor = {
        .who = who, .operation = "sandbox.create", .object_id = row->id, .result = "interrupted"};
    struct sandbox_row undone = *row;
    if (row->has_region && region_remove_unfinished(reclaim->config.regions, &row->region, err) < 0)
        return -1;
    if (store_write(reclaim->config.store, &actor, write_undone, &undone, err) < 0)
        return -1;
    watch_remove(reclaim->watches, row->id);
    return 0;
}
