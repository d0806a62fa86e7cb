/* A look at a sandbox that should be there: is its owner, and is its region's file? */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/reclaim/internal.h"

static enum owner_condition examine_owner(const struct reclaim *reclaim, const struct owner_row *owner)
{
    if (owner->kind == OWNER_PID && strcmp(owner->boot_id, reclaim->boot_id) == 0) {
        switch (watch_look(reclaim->watches, owner)) {
        case WATCH_ALIVE:
            return OWNER_ALIVE;
        case WATCH_ENDED:
            return OWNER_ENDED;
        case WATCH_NONE:
            break;
        }
    }
    return owner_examine(owner, reclaim->boot_id, reclaim->start_boot_ms);
}

static void inspect_owner(struct reclaim *reclaim, const struct sandbox_row *row, struct verdict *verdict)
{
    if (row->state != SANDBOX_RUNNING)
        return; /* a paused one needs none; an orphaned one was judged */
    switch (examine_owner(reclaim, &row->owner)) {
    case OWNER_ALIVE:
        break;
    case OWNER_ENDED:
        verdict->orphaned = row->owner.kind == OWNER_LEASE ? "lease_expired" : "owner_gone";
        break;
    case OWNER_IN_DOUBT:
        verdict->in_doubt = true;
        verdict->newly_in_doubt = watch_doubt(reclaim->watches, row->id) == 0;
        break;
    }
}

static int inspect_region(const struct reclaim *reclaim, const struct sandbox_row *row,
                          struct verdict *verdict, struct error *err)
{
    static const char *const words[] = {[REGION_IS_OURS] = NULL,
                                        [REGION_IS_MISSING] = "file_missing",
                                        [REGION_IS_FOREIGN] = "file_replaced",
                                        [REGION_IS_WRONG_SIZE] = "wrong_size"};
    if (!row->has_region || row->region.state != REGION_READY)
        return 0;
    if (strcmp(row->region.identity.boot_id, reclaim->boot_id) != 0) {
        verdict->lost = "host_reboot";
        return 0;
    }
    enum region_condition condition;
    if (region_examine(reclaim->config.regions, &row->region, &condition, err) < 0)
        return -1;
    verdict->lost = words[condition];
    return 0;
}

int sandbox_inspect(struct reclaim *reclaim, const struct sandbox_row *row, struct verdict *ret,
                    struct error *err)
{
    *ret = (struct verdict){.lost = NULL};
    inspect_owner(reclaim, row, ret);
    return inspect_region(reclaim, row, ret, err);
}

static int add_event(struct store_txn *txn, const char *kind, const char *object_kind, const char *id,
                     const char *reason, struct error *err)
{
    char detail[96];
    (void)snprintf(detail, sizeof detail, "{\"reason\":\"%s\"}", reason);
    return store_event_add(txn, kind, object_kind, id, detail, err);
}

int sandbox_record_verdict(struct store_txn *txn, struct sandbox_row *row, const struct verdict *verdict,
                           struct error *err)
{
    if (verdict->lost != NULL) {
        row->region.state = REGION_LOST;
        (void)snprintf(row->region.reason, sizeof row->region.reason, "%s", verdict->lost);
        if (add_event(txn, "region.lost", "region", row->id, verdict->lost, err) < 0)
            return -1;
    }
    if (verdict->orphaned != NULL) {
        row->state = SANDBOX_ORPHANED;
        row->orphaned_boot_ms = clock_boot_ms();
        (void)snprintf(row->reason, sizeof row->reason, "%s", verdict->orphaned);
        if (add_event(txn, "sandbox.orphaned", "sandbox", row->id, verdict->orphaned, err) < 0)
            return -1;
    }
    if (verdict->newly_in_doubt &&
        add_event(txn, "sandbox.owner_in_doubt", "sandbox", row->id, "owner_unknown", err) < 0)
        return -1;
    if (verdict->lost == NULL && verdict->orphaned == NULL)
        return 0; /* doubt changes nothing of the sandbox */
    return store_sandbox_update(txn, row, err);
}

void sandbox_verdict_recorded(struct reclaim *reclaim, const struct sandbox_row *row,
                              const struct verdict *verdict)
{
    if (verdict->orphaned != NULL)
        watch_remove(reclaim->watches, row->id);
    else
        watch_set_doubt(reclaim->watches, row->id, verdict->in_doubt);
}
