/* Group commit.
 *
 * Theory of operation. A writer appends its unit to the queue. If nobody leads, it becomes leader; else it
 * sleeps. The leader takes the whole queue, runs every unit in one transaction, and commits: one fsync for
 * all. While it does so, more units queue up; when it is done it wakes those it has committed and hands the
 * lead to the first of the others. So the disk is not idle while someone waits, nobody waits for a timer, and
 * a batch is as large as the load makes it. It is bounded by the number of threads that write, each of which
 * has one unit.
 *
 * The writer's connection belongs to the leader. Handing over goes through the queue's lock and the units'
 * semaphores.
 *
 * A batch of intents alone (store_write_intent) is committed without waiting for the disk; SQLite keeps the
 * order of what is in the WAL, so the next flush takes it along.
 *
 * A unit that fails is rolled back to its savepoint and leaves the others alone. A unit that is alone needs
 * no savepoint: the transaction is its own.
 */
#include <errno.h>
#include <semaphore.h>

#include "base/clock.h"
#include "store/internal.h"

struct unit {
    store_write_fn fn;
    void *argument;
    const struct store_actor *actor; /* NULL: housekeeping, without revision, event and audit record */
    struct error *err;
    int result;
    bool intent; /* need not be on disk */
    bool leads;  /* woken to lead, not because it is done */
    sem_t wake;
    struct unit *next;
};

static bool in_transaction(const struct store *store)
{
    return sqlite3_get_autocommit(store->writer.connection.db) == 0;
}

static void roll_back(struct store *store)
{
    if (in_transaction(store)) { /* SQLite ends a transaction by itself when the disk is full or fails */
        (void)query_run_plain(&store->writer.connection, STATEMENT_ROLLBACK, "ROLLBACK", NULL);
    }
}

/* What the unit does, between its savepoints. */
static int run_body(struct store *store, struct unit *unit)
{
    struct connection *writer = &store->writer.connection;
    struct store_txn txn = {
        .view = &store->writer, .revision = store->writer.revision + 1, .now_ms = clock_real_ms()};
    writer->failed = false;
    int result = unit->fn(&txn, unit->argument, unit->err);
    if (result < 0) {
        return -1;
    }
    if (writer->failed) { /* half of a change may be there, whatever the function thinks of it */
        return error_set(unit->err, REASON_INTERNAL,
                         "a unit of change went on after its store call had failed");
    }
    if (result > 0 || unit->actor == NULL) {
        return result;
    }
    if (txn.events == 0) {
        return error_set(unit->err, REASON_INTERNAL, "%s of %s added no event", unit->actor->operation,
                         unit->actor->object_id);
    }
    if (audit_add(&txn, unit->actor, unit->err) < 0) {
        return -1;
    }
    store->writer.revision = txn.revision;
    return 0;
}

/* Runs a unit of a batch of several. Unless it answers 0, nothing of it is left in the transaction. */
static int run_in_savepoint(struct store *store, struct unit *unit)
{
    struct connection *writer = &store->writer.connection;
    if (query_run_plain(writer, STATEMENT_SAVEPOINT, "SAVEPOINT unit", unit->err) < 0) {
        return -1;
    }
    int result = run_body(store, unit);
    if (result != 0 && in_transaction(store)) {
        (void)query_run_plain(writer, STATEMENT_ROLLBACK_TO, "ROLLBACK TO unit", NULL);
    }
    if (in_transaction(store) &&
        query_run_plain(writer, STATEMENT_RELEASE, "RELEASE unit", result < 0 ? NULL : unit->err) < 0) {
        roll_back(store); /* it cannot be told what is left in it */
        return -1;
    }
    return result;
}

static void fail_all(struct unit *batch, const struct error *cause)
{
    for (struct unit *unit = batch; unit != NULL; unit = unit->next) {
        if (unit->result < 0) {
            continue; /* it has an error of its own */
        }
        unit->result = -1;
        if (unit->err != NULL) {
            *unit->err = *cause;
        }
    }
}

/* Commits wait for the disk unless all that is in them are intents. The setting cannot be changed inside a
 * transaction, so it follows what the batch is going to be. */
static int set_flushing(struct store *store, const struct unit *batch, struct error *err)
{
    bool flushing = false;
    for (const struct unit *unit = batch; unit != NULL; unit = unit->next) {
        flushing = flushing || !unit->intent;
    }
    if (flushing == store->flushing) {
        return 0;
    }
    if (connection_execute(&store->writer.connection,
                           flushing ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL", err) < 0) {
        return -1;
    }
    store->flushing = flushing;
    return 0;
}

/* SQLite would go on with a file that was removed or renamed, and all that is written would be lost with it.
 */
static int check_place(struct store *store, struct error *err)
{
    int moved = 0;
    if (sqlite3_file_control(store->writer.connection.db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) !=
            SQLITE_OK ||
        moved == 0) {
        return 0;
    }
    return error_set(err, REASON_STORE_FAILED,
                     "the database %s was removed, renamed or replaced while it was in use; put it back, or "
                     "start chand again",
                     store->path);
}

static void run_batch(struct store *store, struct unit *batch)
{
    int64_t start_ns = clock_monotonic_ns();
    struct error err = ERROR_INIT;
    struct connection *writer = &store->writer.connection;
    if (check_place(store, &err) < 0 || set_flushing(store, batch, &err) < 0 ||
        query_run_plain(writer, STATEMENT_BEGIN_WRITE, "BEGIN IMMEDIATE", &err) < 0) {
        (void)error_wrap(&err, "beginning a transaction: ");
        fail_all(batch, &err);
        return;
    }
    int64_t committed_revision = store->writer.revision;
    size_t done = 0;
    for (struct unit *unit = batch; unit != NULL && in_transaction(store); unit = unit->next) {
        bool alone = batch->next == NULL;
        unit->result = alone ? run_body(store, unit) : run_in_savepoint(store, unit);
        done += unit->result == 0 ? 1 : 0;
    }
    if (!in_transaction(store)) {
        (void)error_set(&err, REASON_STORE_FAILED,
                        "another change in the same transaction made SQLite end it");
        store->writer.revision = committed_revision;
        fail_all(batch, &err);
        return;
    }
    if (done == 0) {
        roll_back(store);
        return;
    }
    bool raised = store->writer.revision != committed_revision;
    if ((raised && revision_set(writer, store->writer.revision, &err) < 0) ||
        query_run_plain(writer, STATEMENT_COMMIT, "COMMIT", &err) < 0) {
        (void)error_wrap(&err, "committing: ");
        roll_back(store);
        store->writer.revision = committed_revision;
        fail_all(batch, &err);
        return;
    }
    if (store->config.on_commit != NULL) {
        store->config.on_commit(store->config.context, clock_monotonic_ns() - start_ns, done);
    }
}

static void lead(struct store *store, struct unit *self)
{
    (void)pthread_mutex_lock(&store->queue_lock);
    struct unit *batch = store->queue_head;
    store->queue_head = NULL;
    store->queue_tail = &store->queue_head;
    (void)pthread_mutex_unlock(&store->queue_lock);

    run_batch(store, batch);
    struct unit *next = NULL;
    for (struct unit *unit = batch; unit != NULL; unit = next) {
        next = unit->next; /* the unit lives on its writer's stack and is gone once that is awake */
        if (unit != self) {
            (void)sem_post(&unit->wake);
        }
    }
    checkpoint_consider(store);

    (void)pthread_mutex_lock(&store->queue_lock);
    struct unit *heir = store->queue_head;
    if (heir != NULL) {
        heir->leads = true;
        (void)sem_post(&heir->wake);
    } else {
        store->leading = false;
        (void)pthread_cond_broadcast(&store->queue_idle);
    }
    (void)pthread_mutex_unlock(&store->queue_lock);
}

static int submit(struct store *store, struct unit *unit)
{
    (void)sem_init(&unit->wake, 0, 0);
    (void)pthread_mutex_lock(&store->queue_lock);
    *store->queue_tail = unit;
    store->queue_tail = &unit->next;
    bool leads = !store->leading;
    store->leading = true;
    (void)pthread_mutex_unlock(&store->queue_lock);
    if (!leads) {
        while (sem_wait(&unit->wake) < 0 && errno == EINTR) {
        }
        leads = unit->leads;
    }
    if (leads) {
        lead(store, unit);
    }
    (void)sem_destroy(&unit->wake);
    return unit->result;
}

int store_write(struct store *store, const struct store_actor *actor, store_write_fn fn, void *argument,
                struct error *err)
{
    struct unit unit = {.fn = fn, .argument = argument, .actor = actor, .err = err};
    return submit(store, &unit);
}

int store_write_intent(struct store *store, const struct store_actor *actor, store_write_fn fn,
                       void *argument, struct error *err)
{
    struct unit unit = {.fn = fn, .argument = argument, .actor = actor, .err = err, .intent = true};
    return submit(store, &unit);
}

int store_maintain(struct store *store, store_write_fn fn, void *argument, struct error *err)
{
    struct unit unit = {.fn = fn, .argument = argument, .err = err};
    return submit(store, &unit);
}

size_t queue_length(struct store *store)
{
    size_t length = 0;
    (void)pthread_mutex_lock(&store->queue_lock);
    for (const struct unit *unit = store->queue_head; unit != NULL; unit = unit->next) {
        length++;
    }
    (void)pthread_mutex_unlock(&store->queue_lock);
    return length;
}

void commit_drain(struct store *store)
{
    (void)pthread_mutex_lock(&store->queue_lock);
    while (store->leading) {
        (void)pthread_cond_wait(&store->queue_idle, &store->queue_lock);
    }
    (void)pthread_mutex_unlock(&store->queue_lock);
}

struct store_view *store_txn_view(struct store_txn *txn)
{
    return txn->view;
}

int64_t store_txn_revision(const struct store_txn *txn)
{
    return txn->revision;
}
