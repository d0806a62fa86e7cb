/* The state of chand in SQLite: WAL, synchronous=FULL, STRICT tables, foreign keys, versioned migrations.
 *
 * Writing: store_write runs a callback inside one durable unit of change. The unit gets its own revision, at
 * least one event and one audit record, or is rolled back whole. Units of callers that wait at the same time
 * share one SQLite transaction, each in a savepoint of its own, and so one fsync (group commit): the first
 * waiter becomes leader and runs them all, so that a lone caller pays for no thread switch. When store_write
 * returns 0 the change is on disk.
 *
 * Reading: store_read_begin takes a connection from a small pool and pins one snapshot; reads never wait for
 * writers. Inside a write, the same read calls work on the transaction's own view.
 *
 * A background thread checkpoints the WAL, so that hardly any commit pays for it.
 */
#ifndef CHAN_STORE_STORE_H
#define CHAN_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "store/rows.h"

struct store;
struct store_view; /* a snapshot to read from: a read transaction or a write in progress */
struct store_txn;  /* a write in progress */

struct store_config {
    const char *path;     /* the database file; made if missing, mode 0600 */
    unsigned int readers; /* read connections; 0 for the default of 4 */
    /* Called after each transaction that was committed, with its duration and the number of units in it; may
     * be NULL. Runs on the leader's thread, must be quick. */
    void (*on_commit)(void *context, int64_t duration_ns, size_t units);
    void *context;
};

/* Opens or makes the database and brings its schema up to date, one migration after the other, each in a
 * transaction. A database of a newer schema is refused with REASON_STORE_FAILED and a detail that says which
 * version is needed. */
int store_open(const struct store_config *config, struct store **ret, struct error *err);

/* Waits for running writes, checkpoints and closes. NULL is fine. */
void store_close(struct store *store);

/* The schema version this build writes. */
int store_schema_version(void);

/* ---- reading ---- */

/* Waits while all read connections are in use; so a thread holds one view at most. */
int store_read_begin(struct store *store, struct store_view **ret, struct error *err);
void store_read_end(struct store_view *view); /* NULL is fine */
static inline void store_read_end_cleanup(struct store_view **view)
{
    store_read_end(*view);
}
#define auto_view __attribute__((cleanup(store_read_end_cleanup)))

int64_t store_revision(struct store_view *view); /* the newest revision in that view */

/* Lookups return 1 when found, 0 when not, -1 with err on failure. */
int store_template_get(struct store_view *view, const char *id, struct template_row *row, struct error *err);
int store_sandbox_get(struct store_view *view, const char *id, struct sandbox_row *row, struct error *err);

int store_link_get(struct store_view *view, const char *id, struct link_row *row, struct error *err);

void template_row_clear(struct template_row *row);
void event_row_clear(struct event_row *row);

/* Pages: rows with id > after_id (NULL or "" for the first), ascending, at most limit. *ret is an array of
 * *count rows, to be freed with the matching ..._list_free. */
/* A page of templates ends too with the row that brings its annotations to so many bytes: a client decides
 * how long they are, and how many of them it asks for. */
enum { TEMPLATE_PAGE_BYTES = 1024 * 1024 };
int store_template_list(struct store_view *view, const char *after_id, size_t limit,
                        struct template_row **ret, size_t *count, struct error *err);
void store_template_list_free(struct template_row *rows, size_t count);
int store_sandbox_list(struct store_view *view, const char *after_id, size_t limit, struct sandbox_row **ret,
                       size_t *count, struct error *err);
void store_sandbox_list_free(struct sandbox_row *rows, size_t count);

/* Sandboxes in one state, id > after_id. For the collector and the repair at start. */
int store_sandbox_list_state(struct store_view *view, enum sandbox_state state, const char *after_id,
                             size_t limit, struct sandbox_row **ret, size_t *count, struct error *err);

/* Links likewise: all, those with an end of that sandbox, and those in one state. */
int store_link_list(struct store_view *view, const char *after_id, size_t limit, struct link_row **ret,
                    size_t *count, struct error *err);
int store_link_list_by_sandbox(struct store_view *view, const char *sandbox_id, const char *after_id,
                               size_t limit, struct link_row **ret, size_t *count, struct error *err);
int store_link_list_state(struct store_view *view, enum link_row_state state, const char *after_id,
                          size_t limit, struct link_row **ret, size_t *count, struct error *err);
void store_link_list_free(struct link_row *rows, size_t count);

/* As since: from the oldest event on that is still kept. */
enum { EVENTS_SINCE_OLDEST = -1 };

/* Events with revision > since, in order, at most limit. The events of one unit are never parted, so that the
 * last revision of a page is the `since` of the next: a unit that does not fit waits for the next page, and a
 * first unit of more than `limit` events comes whole. Answers REASON_REVISION_COMPACTED when events after
 * `since` were pruned. *newest is the store's revision in this view. */
int store_event_list(struct store_view *view, int64_t since, size_t limit, struct event_row **ret,
                     size_t *count, int64_t *newest, struct error *err);
void store_event_list_free(struct event_row *rows, size_t count);

/* Is any sandbox (in any state) of this template there? 1, 0 or -1. */
int store_template_in_use(struct store_view *view, const char *id, struct error *err);

int store_count_sandboxes(struct store_view *view, uint64_t counts[SANDBOX_STATE_COUNT], struct error *err);
int store_count_templates(struct store_view *view, uint64_t *count, struct error *err);
int store_count_links(struct store_view *view, uint64_t counts[LINK_STATE_COUNT], struct error *err);
int store_count_lost_regions(struct store_view *view, uint64_t *count, struct error *err);
int store_usage_node(struct store_view *view, struct usage_row *ret, struct error *err);
int store_usage_uid(struct store_view *view, uid_t uid, struct usage_row *ret, struct error *err);

/* Is a region with that file name known? 1, 0 or -1. For telling foreign files from ours. */
int store_region_name_known(struct store_view *view, const char *name, struct error *err);
/* Is a region being made (state creating) under that staging token? 1, 0 or -1. */
int store_staging_token_known(struct store_view *view, const char *token, struct error *err);

/* ---- writing ---- */

/* Who changes something, for the audit record. */
struct store_actor {
    const char *who;        /* "uid=0 pid=42", "collector", "repair" */
    const char *request_id; /* or NULL */
    const char *operation;  /* "sandbox.create" */
    const char *object_id;
    /* "ok", "intent", or a reason word when an operation is undone. Read after the callback, which may set
     * it. */
    const char *result;
};

/* The callback returns 0, or -1 with err to roll this unit (and no other) back, or 1 when all is as wanted
 * and nothing is to be written. It runs on the leader's thread while its caller waits, so it must not depend
 * on the thread, nor block on anything another writer may hold. The commit may still fail after it: it must
 * only touch the transaction and outputs that count once store_write has returned 0. */
typedef int (*store_write_fn)(struct store_txn *txn, void *argument, struct error *err);

/* Runs fn and commits, as described on top. 1 when fn said so and what it has read is on disk. An error of fn
 * is handed back as it is; a full disk is REASON_STORE_FULL, anything else REASON_STORE_FAILED. After -1
 * nothing of the unit is in the database. Any thread. */
int store_write(struct store *store, const struct store_actor *actor, store_write_fn fn, void *argument,
                struct error *err);

/* As store_write, but without waiting for the disk: what is written outlives chand, however that ends, and
 * the next store_write takes it to the disk too; a power cut before that may undo it (never half of it, and
 * never out of order). Only for an intent about something that a power cut undoes as well, such as a file on
 * a tmpfs. */
int store_write_intent(struct store *store, const struct store_actor *actor, store_write_fn fn,
                       void *argument, struct error *err);

struct store_view *store_txn_view(struct store_txn *txn);
int64_t store_txn_revision(const struct store_txn *txn); /* the revision this unit will have */

/* Every unit must add at least one event; detail is a JSON object as text, or NULL. */
int store_event_add(struct store_txn *txn, const char *kind, const char *object_kind, const char *object_id,
                    const char *detail, struct error *err);

/* Insert or replace; sets revision, created_ms (kept on replace) and updated_ms of the row that is passed. */
int store_template_put(struct store_txn *txn, struct template_row *row, struct error *err);
int store_template_delete(struct store_txn *txn, const char *id, struct error *err);

/* Inserts the sandbox and, when has_region, its region, and adds to the usage. Sets revision and times. */
int store_sandbox_insert(struct store_txn *txn, struct sandbox_row *row, struct error *err);
/* Writes state, reason, owner, orphaned_boot_ms and, when has_region, the region's changeable columns (state,
 * reason, epoch, identity). Sets revision and updated_ms. Fails with REASON_SANDBOX_NOT_FOUND when it is
 * gone. */
int store_sandbox_update(struct store_txn *txn, struct sandbox_row *row, struct error *err);
/* Removes sandbox and region and takes them from the usage, and marks its links as deleting: whatever removes
 * a sandbox takes its links along. Not there: fine. */
int store_sandbox_delete(struct store_txn *txn, const char *id, struct error *err);

/* Inserts the link with its ends. Sets revision and times. */
int store_link_insert(struct store_txn *txn, struct link_row *row, struct error *err);
/* Writes the state, all that ever changes. Sets revision and updated_ms. Fails with REASON_LINK_NOT_FOUND
 * when it is gone. */
int store_link_update(struct store_txn *txn, struct link_row *row, struct error *err);
int store_link_delete(struct store_txn *txn, const char *id, struct error *err); /* not there: fine */

/* Idempotency keys: 1 found, 0 not, -1. */
int store_idempotency_get(struct store_view *view, const char *key, struct idempotency_row *row,
                          struct error *err);
int store_idempotency_put(struct store_txn *txn, const struct idempotency_row *row, struct error *err);

/* Housekeeping of the collector, not a change of any object, so it needs no event and raises no revision:
 * drops events and audit records of all but the newest `keep_events` units, and idempotency keys older than
 * keys_before_ms (real time). At most `limit` rows of each a call. *removed gets the number of rows. */
int store_prune(struct store *store, uint64_t keep_events, int64_t keys_before_ms, size_t limit,
                size_t *removed, struct error *err);

#endif
