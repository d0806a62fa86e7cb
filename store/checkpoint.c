/* Checkpoints: moving pages from the WAL into the database, away from the commits.
 *
 * Theory of operation. A thread with a connection of its own makes a passive checkpoint whenever the WAL has
 * grown by CHECKPOINT_PAGES. SQLite starts the WAL again from its beginning when a write finds all of it
 * checkpointed, so after a pause in the load the file is used again and does not grow (which also makes
 * commits cheaper: overwriting changes no metadata of the file).
 *
 * Under a load without pause each pass finds newer pages behind it. So once the WAL is CHECKPOINT_MAX_PAGES
 * long, the leader makes a pass itself between two commits. The thread has already moved nearly everything,
 * so that is short, and since nobody else writes it is complete, and the next commit starts the WAL again.
 */
#include <errno.h>
#include <time.h>

#include "store/internal.h"

enum { RETRY_SECONDS = 1 };

static int on_commit(void *context, sqlite3 *db, const char *schema, int pages)
{
    (void)db;
    (void)schema;
    struct store *store = context;
    if (pages < store->wal_pages) { /* it has started again */
        store->checkpoint_at = CHECKPOINT_PAGES;
    }
    store->wal_pages = pages;
    return SQLITE_OK;
}

static int make_pass(struct connection *connection)
{
    return sqlite3_wal_checkpoint_v2(connection->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
}

/* Waits until a pass is wanted. After a failed one, such as on a full disk, not before RETRY_SECONDS have
 * passed. false: stop. */
static bool wait_for_want(struct checkpointer *checkpointer, bool failed)
{
    struct timespec retry = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &retry);
    retry.tv_sec += RETRY_SECONDS;
    (void)pthread_mutex_lock(&checkpointer->lock);
    int waited = 0;
    while (failed && !checkpointer->stop && waited != ETIMEDOUT) {
        waited = pthread_cond_timedwait(&checkpointer->change, &checkpointer->lock, &retry);
    }
    while (!checkpointer->wanted && !checkpointer->stop) {
        (void)pthread_cond_wait(&checkpointer->change, &checkpointer->lock);
    }
    checkpointer->wanted = false;
    bool stop = checkpointer->stop;
    (void)pthread_mutex_unlock(&checkpointer->lock);
    return !stop;
}

static void *run(void *argument)
{
    struct checkpointer *checkpointer = argument;
    bool failed = false;
    while (wait_for_want(checkpointer, failed)) {
        int code = make_pass(&checkpointer->connection);
        failed = code != SQLITE_OK && code != SQLITE_BUSY; /* busy: the leader is at it */
    }
    return NULL;
}

int checkpoint_start(struct store *store, struct error *err)
{
    struct checkpointer *checkpointer = &store->checkpointer;
    if (connection_open(&checkpointer->connection, store->config.path, CHECKPOINT_CACHE_KIB, err) < 0) {
        return -1;
    }
    (void)pthread_mutex_init(&checkpointer->lock, NULL);
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&checkpointer->change, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    store->checkpoint_at = CHECKPOINT_PAGES;
    (void)sqlite3_wal_hook(store->writer.connection.db, on_commit, store);
    int code = pthread_create(&checkpointer->thread, NULL, run, checkpointer);
    if (code != 0) {
        connection_close(&checkpointer->connection);
        return error_set_errno(err, REASON_STORE_FAILED, code, "cannot start the checkpoint thread");
    }
    checkpointer->started = true;
    return 0;
}

void checkpoint_stop(struct store *store)
{
    struct checkpointer *checkpointer = &store->checkpointer;
    if (!checkpointer->started) {
        return;
    }
    (void)pthread_mutex_lock(&checkpointer->lock);
    checkpointer->stop = true;
    (void)pthread_cond_signal(&checkpointer->change);
    (void)pthread_mutex_unlock(&checkpointer->lock);
    (void)pthread_join(checkpointer->thread, NULL);
    connection_close(&checkpointer->connection);
    (void)pthread_cond_destroy(&checkpointer->change);
    (void)pthread_mutex_destroy(&checkpointer->lock);
    checkpointer->started = false;
}

void checkpoint_consider(struct store *store)
{
    if (store->wal_pages < store->checkpoint_at) {
        return;
    }
    store->checkpoint_at = store->wal_pages + CHECKPOINT_PAGES;
    if (store->wal_pages >= CHECKPOINT_MAX_PAGES) {
        (void)make_pass(
            &store->writer.connection); /* busy, or a full disk: tried again when the WAL has grown more */
        return;
    }
    struct checkpointer *checkpointer = &store->checkpointer;
    (void)pthread_mutex_lock(&checkpointer->lock);
    checkpointer->wanted = true;
    (void)pthread_cond_signal(&checkpointer->change);
    (void)pthread_mutex_unlock(&checkpointer->lock);
}
