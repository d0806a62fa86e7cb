/* What the sources of daemon/reclaim share. */
#ifndef CHAN_DAEMON_RECLAIM_INTERNAL_H
#define CHAN_DAEMON_RECLAIM_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/reclaim/owner.h"
#include "daemon/reclaim/reclaim.h"
#include "daemon/reclaim/watch.h"

enum { LOCK_STRIPES = 256 };

/* How far a walk over many sandboxes has come; "" is the beginning. */
struct cursor {
    char after_id[ID_SIZE];
};

struct reclaim {
    struct reclaim_config config;
    char boot_id[BOOT_ID_SIZE];
    int64_t start_boot_ms;
    pthread_mutex_t stripes[LOCK_STRIPES];
    struct watch_table *watches;
    int epoll_fd, timer_fd, stop_fd;
    bool running; /* the thread was started */
    pthread_t thread;
    atomic_bool stopping;

    /* For the report. */
    atomic_uint_fast64_t foreign_files, reclaimed_total;
    atomic_int_fast64_t last_pass_ms;

    atomic_bool rescan; /* a file became foreign although the directory did not change */

    /* The rest belongs to the collector's thread, and before it to the repair. */
    int64_t scanned_ns; /* the directory's change time when it was last scanned; 0: scan again */
    struct cursor creating, deleting, orphaned, all;
    unsigned int errors_logged; /* in this pass */
};

/* ---- one sandbox (verdict.c, remove.c) ---- */

/* What a look at a sandbox that should be there has found. */
struct verdict {
    const char *lost;     /* why the region is lost, or NULL */
    const char *orphaned; /* why the owner is gone, or NULL */
    bool in_doubt;        /* the owner cannot be examined */
    bool newly_in_doubt;  /* and that was not reported yet */
};

/* Examines owner (of a running one) and region. -1: the region could not be examined; the verdict holds what
 * else was found. */
int sandbox_inspect(struct reclaim *reclaim, const struct sandbox_row *row, struct verdict *ret,
                    struct error *err);

static inline bool verdict_is_news(const struct verdict *verdict)
{
    return verdict->lost != NULL || verdict->orphaned != NULL || verdict->newly_in_doubt;
}

/* Writes what was found into row and store. */
int sandbox_record_verdict(struct store_txn *txn, struct sandbox_row *row, const struct verdict *verdict,
                           struct error *err);

/* To be called when that was committed. */
void sandbox_verdict_recorded(struct reclaim *reclaim, const struct sandbox_row *row,
                              const struct verdict *verdict);

/* Undoes a creation that was interrupted: the file, if it was made, then the row. With the sandbox's lock
 * held, or before the daemon is ready. */
int sandbox_undo_create(struct reclaim *reclaim, const struct sandbox_row *row, const char *who,
                        struct error *err);

/* Finishes a deletion or reclaim that was interrupted. Likewise. */
int sandbox_finish_delete(struct reclaim *reclaim, const struct sandbox_row *row, const char *who,
                          struct error *err);

/* ---- shared ---- */

/* One page of sandboxes after the cursor, of one state or (SANDBOX_STATE_COUNT) of all. */
int sandbox_page(struct reclaim *reclaim, enum sandbox_state state, const struct cursor *cursor, size_t limit,
                 struct sandbox_row **rows, size_t *count, struct error *err);

/* Counts files that look like ours and are not, if the directory has changed since it was last counted. */
int foreign_count(struct reclaim *reclaim, struct error *err);

/* Logs and counts something that failed and will be tried again. */
void report_failure(struct reclaim *reclaim, const char *what, const char *sandbox_id,
                    const struct error *err);

/* The collector's thread. */
void *collector_run(void *argument); /* the struct reclaim */

#endif
