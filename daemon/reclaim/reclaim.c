/* Reclaim: making it, its locks, and what others ask of it.
 *
 * Theory of operation. The store says what there should be, the directory what there is, /proc who is alive.
 *
 * At start reclaim_repair walks the store once and makes the three agree. From then on one thread, the
 * collector (collector.c), keeps them so. It is woken by the pidfd of an owner that ends, and by a timer for
 * its passes. A pass looks at everything, a bounded number of sandboxes at a time, and needs nothing but the
 * store's rows; so whatever a wake-up missed, or could not do because the disk was full, a later pass does.
 *
 * A sandbox whose owner is proved gone becomes orphaned, which a resume, a renewal or a pause can still undo,
 * and is removed when the grace is over. Paused ones need no owner. What cannot be proved is kept.
 *
 * Nobody changes a sandbox without its lock. The collector decides on a row that it has read under the lock,
 * so an operation under way is waited for and never undone. The repair runs before there are operations and
 * takes no locks.
 */
#include "daemon/reclaim/reclaim.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "daemon/reclaim/internal.h"

/* ---- making ---- */

/* Half of the descriptors stay for everything else. */
static size_t pidfds_max(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return 0;
    return limit.rlim_cur / 2;
}

static int add_to_epoll(struct reclaim *reclaim, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    return fd < 0 ? -1 : epoll_ctl(reclaim->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static int make_descriptors(struct reclaim *reclaim, struct error *err)
{
    reclaim->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    reclaim->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    reclaim->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (reclaim->epoll_fd < 0 || add_to_epoll(reclaim, reclaim->stop_fd) < 0 ||
        add_to_epoll(reclaim, reclaim->timer_fd) < 0)
        return error_set_errno(err, REASON_RESOURCE_LIMIT, errno, "cannot make the collector's descriptors");
    return 0;
}

int reclaim_new(const struct reclaim_config *config, struct reclaim **ret, struct error *err)
{
    struct reclaim *reclaim = calloc(1, sizeof *reclaim);
    if (reclaim == NULL)
        return error_set_errno(err, REASON_RESOURCE_LIMIT, ENOMEM, "cannot make the collector");
    reclaim->config = *config;
    reclaim->start_boot_ms = clock_boot_ms();
    reclaim->epoll_fd = reclaim->stop_fd = reclaim->timer_fd = -1;
    for (size_t i = 0; i < LOCK_STRIPES; i++)
        (void)pthread_mutex_init(&reclaim->stripes[i], NULL);
    if (clock_boot_id(reclaim->boot_id, err) < 0 || make_descriptors(reclaim, err) < 0 ||
        watch_table_new(reclaim->epoll_fd, pidfds_max(), &reclaim->watches, err) < 0) {
        reclaim_free(reclaim);
        return -1;
    }
    *ret = reclaim;
    return 0;
}

int reclaim_start(struct reclaim *reclaim, struct error *err)
{
    /* Signals are for the main thread. */
    sigset_t all;
    sigset_t old;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    int failed = pthread_create(&reclaim->thread, NULL, collector_run, reclaim);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (failed != 0)
        return error_set_errno(err, REASON_RESOURCE_LIMIT, failed, "cannot start the collector");
    reclaim->running = true;
    return 0;
}

static void stop(struct reclaim *reclaim)
{
    if (!reclaim->running)
        return;
    atomic_store(&reclaim->stopping, true);
    (void)eventfd_write(reclaim->stop_fd, 1);
    (void)pthread_join(reclaim->thread, NULL);
    reclaim->running = false;
}

void reclaim_free(struct reclaim *reclaim)
{
    if (reclaim == NULL)
        return;
    stop(reclaim);
    watch_table_free(reclaim->watches);
    cleanup_close(&reclaim->timer_fd);
    cleanup_close(&reclaim->stop_fd);
    cleanup_close(&reclaim->epoll_fd);
    for (size_t i = 0; i < LOCK_STRIPES; i++)
        (void)pthread_mutex_destroy(&reclaim->stripes[i]);
    free(reclaim);
}

/* ---- for operations ---- */

const char *reclaim_boot_id(const struct reclaim *reclaim)
{
    return reclaim->boot_id;
}

int64_t reclaim_start_boot_ms(const struct reclaim *reclaim)
{
    return reclaim->start_boot_ms;
}

static size_t stripe_of(const char *id)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (; *id != '\0'; id++)
        hash = (hash ^ (unsigned char)*id) * 16777619u;
    return hash % LOCK_STRIPES;
}

struct sandbox_lock reclaim_lock(struct reclaim *reclaim, const char *sandbox_id)
{
    pthread_mutex_t *stripe = &reclaim->stripes[stripe_of(sandbox_id)];
    (void)pthread_mutex_lock(stripe);
    return (struct sandbox_lock){.stripe = stripe};
}

void reclaim_unlock(struct sandbox_lock *lock)
{
    if (lock->stripe != NULL)
        (void)pthread_mutex_unlock(lock->stripe);
    lock->stripe = NULL;
}

void reclaim_watch(struct reclaim *reclaim, const struct sandbox_row *sandbox)
{
    const struct owner_row *owner = &sandbox->owner;
    if (sandbox->state == SANDBOX_RUNNING && owner->kind == OWNER_PID &&
        strcmp(owner->boot_id, reclaim->boot_id) == 0)
        watch_add(reclaim->watches, sandbox->id, owner);
    else
        watch_remove(reclaim->watches, sandbox->id);
}

void reclaim_unwatch(struct reclaim *reclaim, const char *sandbox_id)
{
    watch_remove(reclaim->watches, sandbox_id);
}

void reclaim_get_report(struct reclaim *reclaim, struct reclaim_report *ret)
{
    size_t watched = 0;
    size_t in_doubt = 0;
    watch_count(reclaim->watches, &watched, &in_doubt);
    *ret = (struct reclaim_report){.watched_owners = watched,
                                   .owners_in_doubt = in_doubt,
                                   .foreign_files = atomic_load(&reclaim->foreign_files),
                                   .reclaimed_total = atomic_load(&reclaim->reclaimed_total),
                                   .last_pass_ms = atomic_load(&reclaim->last_pass_ms)};
}

/* ---- shared within the folder ---- */

void report_failure(struct reclaim *reclaim, const char *what, const char *sandbox_id,
                    const struct error *err)
{
    enum { LOGGED_MAX = 10 }; /* a pass; what fails once a pass would fill the log otherwise */
    metrics_add(reclaim->config.metrics, METRIC_COLLECTOR_ERRORS, 1);
    if (reclaim->errors_logged++ < LOGGED_MAX)
        log_write(reclaim->config.log, LOG_LEVEL_WARNING, what, "sandboxID", sandbox_id, "reason",
                  reason_info(err->reason)->word, "detail", err->detail, NULL);
}

int sandbox_page(struct reclaim *reclaim, enum sandbox_state state, const struct cursor *cursor, size_t limit,
                 struct sandbox_row **rows, size_t *count, struct error *err)
{
    auto_view struct store_view *view = NULL;
    if (store_read_begin(reclaim->config.store, &view, err) < 0)
        return -1;
    if (state == SANDBOX_STATE_COUNT)
        return store_sandbox_list(view, cursor->after_id, limit, rows, count, err);
    return store_sandbox_list_state(view, state, cursor->after_id, limit, rows, count, err);
}
