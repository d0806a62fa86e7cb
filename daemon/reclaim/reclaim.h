/* Reclaim: nothing leaks and no live one is taken. Repairs at start what a crash left, notices owners that
 * end, and removes what the store says is ours and whose owner is provably gone. In doubt it keeps and
 * reports.
 *
 * Also the home of what deletion and collection share: the lock of a sandbox and the removal itself.
 */
#ifndef CHAN_DAEMON_RECLAIM_RECLAIM_H
#define CHAN_DAEMON_RECLAIM_RECLAIM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/log.h"
#include "daemon/metrics.h"
#include "daemon/regions/regions.h"
#include "store/store.h"

struct reclaim;

struct reclaim_config {
    struct store *store;
    struct regions *regions;
    struct metrics *metrics;
    const struct log *log;
    int64_t orphan_grace_ms;  /* from orphaned to reclaimed */
    int64_t pass_interval_ms; /* between passes of the collector; an owner's end is noticed at once by its
                                 pidfd */
    uint64_t keep_events;     /* events and audit records that stay */
    int64_t keep_keys_ms;     /* how long an Idempotency-Key is remembered */
};

/* Makes the collector; starts no thread and changes nothing yet. */
int reclaim_new(const struct reclaim_config *config, struct reclaim **ret, struct error *err);
void reclaim_free(struct reclaim *reclaim); /* stops the thread first; NULL is fine */

/* Compares the store with the files and repairs the difference; to be called once, before the daemon is
 * ready. creating: undone. deleting: finished. ready: staging names removed, files checked, lost ones
 * reported (state lost with the reason file_missing, file_replaced, wrong_size or host_reboot; an event;
 * never remade). Owners are examined and watched. Files that look like ours but are not in the store are
 * reported as foreign and left. */
int reclaim_repair(struct reclaim *reclaim, struct error *err);

/* Starts the collector's thread. After reclaim_repair. */
int reclaim_start(struct reclaim *reclaim, struct error *err);

/* ---- for operations ---- */

const char *reclaim_boot_id(const struct reclaim *reclaim);
int64_t reclaim_start_boot_ms(const struct reclaim *reclaim);

/* The lock of one sandbox id: whoever changes a sandbox or its file holds it. Lock tables are striped; a
 * thread holds at most one at a time. */
struct sandbox_lock {
    void *stripe;
};
struct sandbox_lock reclaim_lock(struct reclaim *reclaim, const char *sandbox_id);
void reclaim_unlock(struct sandbox_lock *lock);
#define auto_sandbox_lock __attribute__((cleanup(reclaim_unlock), unused))

/* Watches the owner of a sandbox that has just been created, resumed or renewed. Process owners share one
 * pidfd per process; without a descriptor to spare the collector's passes look instead. Never fails. */
void reclaim_watch(struct reclaim *reclaim, const struct sandbox_row *sandbox);
/* The sandbox is gone, or its owner changed. */
void reclaim_unwatch(struct reclaim *reclaim, const char *sandbox_id);

/* Deletes a sandbox: intent, file, rows; watches too. The caller holds its lock and has read `sandbox` under
 * it. `who` and `operation` go into audit and events ("sandbox.deleted", or "sandbox.reclaimed" when
 * `reclaimed`). A foreign file under the region's name is left and reported by an event. On failure the row
 * says deleting, and the collector tries again. Without a region it is one store unit; with one, two. */
int reclaim_remove_sandbox(struct reclaim *reclaim, const struct sandbox_row *sandbox,
                           const struct store_actor *actor, bool reclaimed, struct error *err);

/* What the last pass saw, for /v1/node and metrics. */
struct reclaim_report {
    uint64_t watched_owners;
    uint64_t owners_in_doubt;
    uint64_t foreign_files;
    uint64_t reclaimed_total;
    int64_t last_pass_ms; /* real time; 0 before the first */
};
void reclaim_get_report(struct reclaim *reclaim, struct reclaim_report *ret);

#endif
