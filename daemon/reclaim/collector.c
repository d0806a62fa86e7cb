/* The collector's thread: waits for owners to end and for the time of its passes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "daemon/reclaim/internal.h"

static const char collector[] = "collector";

/* The work of one pass. What is left over is done by the next one, which then follows at once. */
enum {
    PAGE = 256,
    CHANGES_MAX = 512, /* sandboxes that are changed, for each kind of change */
    LOOKS_MAX = 4096,  /* sandboxes that are looked at */
    PRUNE_ROWS = 1000, /* in one transaction, which other writers have to wait for */
    PRUNE_ROUNDS = 20
};

static bool is_stopping(const struct reclaim *reclaim)
{
    return atomic_load(&reclaim->stopping);
}

/* With the lock held: reads the sandbox anew. 1, 0 when it is gone, -1. */
static int reread(struct reclaim *reclaim, const char *id, struct sandbox_row *row, struct error *err)
{
    auto_view struct store_view *view = NULL;
    if (store_read_begin(reclaim->config.store, &view, err) < 0)
        return -1;
    return store_sandbox_get(view, id, row, err);
}

/* ---- what is done with one sandbox; each reads the row again under the lock ---- */

typedef int (*settle_fn)(struct reclaim *reclaim, const struct sandbox_row *row, struct error *err);

struct news {
    struct sandbox_row row;
    struct verdict verdict;
};

static int write_news(struct store_txn *txn, void *argument, struct error *err)
{
    struct news *news = argument;
    return sandbox_record_verdict(txn, &news->row, &news->verdict, err);
}

/* Looks at a sandbox that should be there and records what has become of it. */
static int settle_present(struct reclaim *reclaim, const struct sandbox_row *row, struct error *err)
{
    if (row->state == SANDBOX_CREATING || row->state == SANDBOX_DELETING)
        return 0;
    struct news news = {.row = *row};
    reclaim_watch(reclaim, row);
    int inspected = sandbox_inspect(reclaim, row, &news.verdict, err);
    if (verdict_is_news(&news.verdict)) {
        const struct store_actor actor = {
            .who = collector, .operation = "sandbox.examine", .object_id = row->id, .result = "ok"};
        if (store_write(reclaim->config.store, &actor, write_news, &news, err) < 0)
            return -1;
    }
    sandbox_verdict_recorded(reclaim, row, &news.verdict);
    return inspected;
}

static int settle_creating(struct reclaim *reclaim, const struct sandbox_row *row, struct error *err)
{
    return row->state == SANDBOX_CREATING ? sandbox_undo_create(reclaim, row, collector, err) : 0;
}

static int settle_deleting(struct reclaim *reclaim, const struct sandbox_row *row, struct error *err)
{
    return row->state == SANDBOX_DELETING ? sandbox_finish_delete(reclaim, row, collector, err) : 0;
}

/* The boot clock begins anew with each boot. The time of an earlier one means nothing; which boot it is of is
 * not recorded, but if the owner is of this one then so is the time. */
static bool grace_is_over(const struct reclaim *reclaim, const struct sandbox_row *row)
{
    int64_t now = clock_boot_ms();
    int64_t since = row->orphaned_boot_ms;
    bool may_be_earlier = strcmp(row->owner.boot_id, reclaim->boot_id) != 0;
    if (may_be_earlier && (since > now || since < reclaim->start_boot_ms))
        since = reclaim->start_boot_ms;
    return now - since >= reclaim->config.orphan_grace_ms;
}

static int settle_orphaned(struct reclaim *reclaim, const struct sandbox_row *row, struct error *err)
{
    if (row->state != SANDBOX_ORPHANED || !grace_is_over(reclaim, row))
        return 0;
    /* After a restart a lease runs again, as nobody could renew it meanwhile. */
    if (row->owner.kind == OWNER_LEASE &&
        owner_examine(&row->owner, reclaim->boot_id, reclaim->start_boot_ms) != OWNER_ENDED)
        return 0;
    const struct store_actor actor = {
        .who = collector, .operation = "sandbox.reclaim", .object_id = row->id, .result = "ok"};
    return reclaim_remove_sandbox(reclaim, row, &actor, true, err);
}

static void settle(struct reclaim *reclaim, const char *id, settle_fn fn, const char *failed)
{
    struct error err = ERROR_INIT;
    struct sandbox_row row;
    auto_sandbox_lock struct sandbox_lock lock = reclaim_lock(reclaim, id);
    int found = reread(reclaim, id, &row, &err);
    if (found == 0)
        watch_remove(reclaim->watches, id);
    if (found < 0 || (found > 0 && fn(reclaim, &row, &err) < 0))
        report_failure(reclaim, failed, id, &err);
}

/* ---- the walks of a pass ---- */

typedef void (*visit_fn)(struct reclaim *reclaim, const struct sandbox_row *row);

static void visit_creating(struct reclaim *reclaim, const struct sandbox_row *row)
{
    settle(reclaim, row->id, settle_creating, "a creation cannot be undone yet");
}

static void visit_deleting(struct reclaim *reclaim, const struct sandbox_row *row)
{
    settle(reclaim, row->id, settle_deleting, "a deletion cannot be finished yet");
}

static void visit_orphaned(struct reclaim *reclaim, const struct sandbox_row *row)
{
    if (grace_is_over(reclaim, row))
        settle(reclaim, row->id, settle_orphaned, "a sandbox cannot be reclaimed yet");
}

/* Looks without the lock first, as nearly all are as they were. */
static void visit_any(struct reclaim *reclaim, const struct sandbox_row *row)
{
    if (row->state == SANDBOX_CREATING || row->state == SANDBOX_DELETING)
        return;
    struct verdict verdict;
    bool owned = row->state == SANDBOX_RUNNING && row->owner.kind == OWNER_PID &&
                 strcmp(row->owner.boot_id, reclaim->boot_id) == 0;
    bool as_it_was = sandbox_inspect(reclaim, row, &verdict, NULL) == 0 && !verdict_is_news(&verdict) &&
                     verdict.in_doubt == (watch_doubt(reclaim->watches, row->id) > 0);
    if (!as_it_was || (owned && watch_is_wanted(reclaim->watches, row->id)))
        settle(reclaim, row->id, settle_present, "a sandbox cannot be examined");
}

/* Visits up to `limit` sandboxes from the cursor on. True: there are more. */
static bool walk(struct reclaim *reclaim, enum sandbox_state state, struct cursor *cursor, size_t limit,
                 visit_fn visit)
{
    for (size_t done = 0; done < limit && !is_stopping(reclaim);) {
        struct error err = ERROR_INIT;
        struct sandbox_row *rows = NULL;
        size_t count = 0;
        if (sandbox_page(reclaim, state, cursor, PAGE, &rows, &count, &err) < 0) {
            report_failure(reclaim, "sandboxes cannot be listed", "", &err);
            return false;
        }
        for (size_t i = 0; i < count && !is_stopping(reclaim); i++)
            visit(reclaim, &rows[i]);
        if (count == PAGE)
            memcpy(cursor->after_id, rows[count - 1].id, sizeof cursor->after_id);
        store_sandbox_list_free(rows, count);
        if (count < PAGE) {
            cursor->after_id[0] = '\0';
            return false;
        }
        done += count;
    }
    return true;
}

/* True: there is more. */
static bool prune(struct reclaim *reclaim)
{
    const struct reclaim_config *config = &reclaim->config;
    size_t removed = PRUNE_ROWS;
    for (int round = 0; round < PRUNE_ROUNDS && removed >= PRUNE_ROWS && !is_stopping(reclaim); round++) {
        struct error err = ERROR_INIT;
        removed = 0;
        if (store_prune(config->store, config->keep_events, clock_real_ms() - config->keep_keys_ms,
                        PRUNE_ROWS, &removed, &err) < 0)
            report_failure(reclaim, "old events cannot be dropped", "", &err);
    }
    return removed >= PRUNE_ROWS;
}

/* True: some of its work was left over. */
static bool pass(struct reclaim *reclaim)
{
    reclaim->errors_logged = 0;
    bool more = walk(reclaim, SANDBOX_CREATING, &reclaim->creating, CHANGES_MAX, visit_creating);
    more |= walk(reclaim, SANDBOX_DELETING, &reclaim->deleting, CHANGES_MAX, visit_deleting);
    /* All are looked at in turn, so many a pass; this goes on at the next pass and not at once. */
    (void)walk(reclaim, SANDBOX_STATE_COUNT, &reclaim->all, LOOKS_MAX, visit_any);
    more |= walk(reclaim, SANDBOX_ORPHANED, &reclaim->orphaned, CHANGES_MAX, visit_orphaned);
    more |= prune(reclaim);
    struct error err = ERROR_INIT;
    if (!is_stopping(reclaim) && foreign_count(reclaim, &err) < 0)
        report_failure(reclaim, "foreign files cannot be counted", "", &err);
    struct reclaim_report report;
    reclaim_get_report(reclaim, &report);
    metrics_set(reclaim->config.metrics, METRIC_OWNERS_WATCHED, report.watched_owners);
    metrics_set(reclaim->config.metrics, METRIC_OWNERS_IN_DOUBT, report.owners_in_doubt);
    metrics_add(reclaim->config.metrics, METRIC_COLLECTOR_PASSES, 1);
    atomic_store(&reclaim->last_pass_ms, clock_real_ms());
    return more;
}

/* ---- the thread ---- */

/* The next pass, now or after the interval, and then every interval. */
static void set_timer(const struct reclaim *reclaim, bool now)
{
    int64_t interval_ms = reclaim->config.pass_interval_ms;
    struct timespec interval = {.tv_sec = interval_ms / 1000, .tv_nsec = interval_ms % 1000 * 1000000};
    struct itimerspec timer = {.it_interval = interval, .it_value = interval};
    if (now)
        timer.it_value = (struct timespec){.tv_nsec = 1};
    (void)timerfd_settime(reclaim->timer_fd, 0, &timer, NULL);
}

static void owner_has_ended(struct reclaim *reclaim, int pidfd)
{
    auto_free char(*ids)[ID_SIZE] = NULL;
    size_t count = watch_take_ended(reclaim->watches, pidfd, &ids);
    for (size_t i = 0; i < count && !is_stopping(reclaim); i++)
        settle(reclaim, ids[i], settle_present, "the end of an owner cannot be recorded yet");
}

void *collector_run(void *argument)
{
    struct reclaim *reclaim = argument;
    (void)pthread_setname_np(pthread_self(), "chan-collector");
    set_timer(reclaim, true);
    while (!is_stopping(reclaim)) {
        struct epoll_event events[64];
        int count = epoll_wait(reclaim->epoll_fd, events, sizeof events / sizeof events[0], -1);
        if (count < 0 && errno != EINTR)
            break; /* cannot happen: the descriptor is ours */
        bool pass_is_due = false;
        for (int i = 0; i < count && !is_stopping(reclaim); i++) {
            int fd = events[i].data.fd;
            uint64_t expirations = 0;
            if (fd == reclaim->timer_fd)
                pass_is_due = read(fd, &expirations, sizeof expirations) > 0;
            else if (fd != reclaim->stop_fd)
                owner_has_ended(reclaim, fd);
        }
        if (pass_is_due && !is_stopping(reclaim) && pass(reclaim))
            set_timer(reclaim, true);
    }
    return NULL;
}
