/* Making it, its locks, and what others ask of it. */
#include "daemon/links/links.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "daemon/links/internal.h"
#include "daemon/links/sockets.h"

/* NULL stays NULL. */
static int copy_text(const char *text, char **ret)
{
    if (text == NULL)
        return 0;
    *ret = strdup(text);
    return *ret != NULL ? 0 : -1;
}

static void init_locks(struct links *links)
{
    (void)pthread_mutex_init(&links->lock, NULL);
    pthread_condattr_t monotonic;
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&links->change, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    for (size_t i = 0; i < LOCK_STRIPES; i++)
        (void)pthread_mutex_init(&links->stripes[i], NULL);
}

int links_new(const struct links_config *config, struct links **ret, struct error *err)
{
    struct links *links = calloc(1, sizeof *links);
    if (links == NULL)
        return error_set_errno(err, REASON_RESOURCE_LIMIT, ENOMEM, "cannot keep links");
    links->config = *config;
    links->client = CLIENT_INIT;
    links->spawn = SPAWN_INIT;
    links->directory_fd = -1;
    init_locks(links);
    set_reason(links, "no link was made yet, so none was started");
    links->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (links->wake_fd < 0 || copy_text(config->runtime_directory, &links->runtime_directory) != 0 ||
        copy_text(config->dataplane_program, &links->program) != 0 ||
        copy_text(config->dataplane_cpus, &links->cpus) != 0) {
        links_free(links);
        return error_set_errno(err, REASON_RESOURCE_LIMIT, errno, "cannot keep links");
    }
    const int length = snprintf(links->socket_path, sizeof links->socket_path, "%s/dataplane.sock",
                                config->runtime_directory);
    if (length < 0 || (size_t)length >= sizeof links->socket_path) {
        links_free(links);
        return error_set(err, REASON_INTERNAL,
                         "runtime-dir: the path of a socket has at most %zu characters: %s",
                         sizeof links->socket_path - 1, config->runtime_directory);
    }
    links->directory_fd = sockets_open(config->runtime_directory, err);
    if (links->directory_fd < 0) {
        links_free(links);
        return -1;
    }
    *ret = links;
    return 0;
}

/* A disk that is full does not keep chand from starting: the thread comes back to it. */
static int repair(struct links *links, uint64_t *wanted, struct error *err)
{
    struct error failure = ERROR_INIT;
    if (links_settle(links, "repair", &failure) != 0) {
        if (failure.reason == REASON_STORE_FAILED) {
            *err = failure;
            return -1;
        }
        log_write(links->config.log, LOG_LEVEL_WARNING, "a link that is half done cannot be repaired yet",
                  "detail", failure.detail, NULL);
    }
    if (links_sweep(links, &failure) != 0)
        log_write(links->config.log, LOG_LEVEL_WARNING, "a link's directory cannot be removed yet", "detail",
                  failure.detail, NULL);
    uint64_t counts[LINK_STATE_COUNT];
    auto_view struct store_view *view = NULL;
    if (store_read_begin(links->config.store, &view, err) != 0 || store_count_links(view, counts, err) != 0)
        return -1;
    *wanted = counts[LINK_READY];
    atomic_store(&links->may_exist, counts[LINK_CREATING] + counts[LINK_READY] + counts[LINK_DELETING] > 0);
    return 0;
}

static int start_thread(struct links *links, struct error *err)
{
    /* Signals are for the main thread. */
    sigset_t all;
    sigset_t old;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    const int failed = pthread_create(&links->thread, NULL, keeper_run, links);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (failed != 0)
        return error_set_errno(err, REASON_RESOURCE_LIMIT, failed, "cannot start the thread of the links");
    links->running = true;
    return 0;
}

int links_start(struct links *links, struct error *err)
{
    uint64_t wanted = 0;
    if (repair(links, &wanted, err) != 0)
        return error_wrap(err, "repairing the links: ");
    const int64_t deadline_ns = call_deadline_ns();
    (void)pthread_mutex_lock(&links->lock);
    const int started = start_thread(links, err);
    bool in_time = started == 0 && wanted > 0;
    while (links->rounds == 0 && links->attempts == 0 && in_time)
        in_time = links_wait(links, deadline_ns);
    (void)pthread_mutex_unlock(&links->lock);
    return started;
}

void links_free(struct links *links)
{
    if (links == NULL)
        return;
    if (links->running) {
        atomic_store(&links->stopping, true);
        keeper_wake(links);
        (void)pthread_join(links->thread, NULL);
    }
    spawn_forget(&links->spawn);
    client_close(&links->client);
    statistics_unmap(&links->statistics);
    cleanup_close(&links->directory_fd);
    cleanup_close(&links->wake_fd);
    for (size_t i = 0; i < LOCK_STRIPES; i++)
        (void)pthread_mutex_destroy(&links->stripes[i]);
    (void)pthread_cond_destroy(&links->change);
    (void)pthread_mutex_destroy(&links->lock);
    free(links->runtime_directory);
    free(links->program);
    free(links->cpus);
    free(links);
}

/* ---- locks ---- */

static pthread_mutex_t *stripe_of(struct links *links, const char *id)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (; *id != '\0'; id++)
        hash = (hash ^ (unsigned char)*id) * 16777619u;
    return &links->stripes[hash % LOCK_STRIPES];
}

struct link_lock links_lock(struct links *links, const char *id)
{
    pthread_mutex_t *stripe = stripe_of(links, id);
    (void)pthread_mutex_lock(stripe);
    return (struct link_lock){.stripe = stripe};
}

bool links_try_lock(struct links *links, const char *id, struct link_lock *ret)
{
    pthread_mutex_t *stripe = stripe_of(links, id);
    if (pthread_mutex_trylock(stripe) != 0)
        return false;
    ret->stripe = stripe;
    return true;
}

void links_unlock(struct link_lock *lock)
{
    if (lock->stripe != NULL)
        (void)pthread_mutex_unlock(lock->stripe);
    lock->stripe = NULL;
}

/* ---- reports ---- */

bool links_may_exist(const struct links *links)
{
    return links != NULL && atomic_load(&links->may_exist);
}

void links_report(struct links *links, struct links_report *ret)
{
    *ret = (struct links_report){.connected = false};
    if (links == NULL) {
        (void)snprintf(ret->reason, sizeof ret->reason, "this chand keeps no links");
        return;
    }
    (void)pthread_mutex_lock(&links->lock);
    *ret = links->report;
    ret->connected = links->connected;
    (void)pthread_mutex_unlock(&links->lock);
}
