/* What the files of store/ share. */
#ifndef CHAN_STORE_INTERNAL_H
#define CHAN_STORE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/sql.h"
#include "store/store.h"

enum {
    WRITER_CACHE_KIB = 8192, /* most of the database at 10,000 sandboxes */
    READER_CACHE_KIB = 512,
    CHECKPOINT_CACHE_KIB = 64, /* a checkpoint copies from file to file */

    CHECKPOINT_PAGES = 8000,      /* each time the WAL has grown by so many pages there is a checkpoint, */
    CHECKPOINT_MAX_PAGES = 16000, /* from this length on by the leader, between two commits */

    EVENTS_PER_UNIT_MAX = 256 /* an event's key is its unit's revision times this, and its place in it */
};

struct store_view {
    struct connection connection;
    struct store *store;
    int64_t revision;
    struct store_view *next_free;
};

struct store_txn {
    struct store_view *view;
    int64_t revision;
    int64_t now_ms; /* real time of all that the unit writes */
    unsigned int events;
};

struct unit; /* a write that waits for its commit: commit.c */

struct checkpointer {
    struct connection connection;
    pthread_t thread;
    bool started;
    bool stop;
    bool wanted;
    pthread_mutex_t lock; /* of stop and wanted */
    pthread_cond_t change;
};

struct store {
    struct store_config config; /* its path is `path` */
    char *path;

    struct store_view writer; /* used by the leader alone */
    pthread_mutex_t queue_lock;
    pthread_cond_t queue_idle; /* no leader */
    struct unit *queue_head, **queue_tail;
    bool leading; /* there is a leader */

    /* The leader's alone: */
    bool flushing;     /* commits wait for the disk (synchronous = FULL) */
    int wal_pages;     /* in the WAL after the last commit */
    int checkpoint_at; /* pages from which the next checkpoint is wanted */

    struct store_view *readers;
    size_t reader_count;
    pthread_mutex_t reader_lock;
    pthread_cond_t reader_free;
    struct store_view *free_readers;

    struct checkpointer checkpointer;
};

/* schema.c */
int schema_migrate(struct connection *connection, struct error *err);

/* wal.c */
/* Makes the WAL as long as it will get, where there is room. Before other threads use the store. Never fails:
 * without it commits are slower. */
void wal_reserve(const char *database_path);

/* commit.c */
/* Housekeeping: runs like a unit, but has no revision, event or audit record. */
int store_maintain(struct store *store, store_write_fn fn, void *argument, struct error *err);
/* Waits until no write is under way. */
void commit_drain(struct store *store);
/* How many units wait for the next leader; for tests. */
size_t queue_length(struct store *store);

/* checkpoint.c */
int checkpoint_start(struct store *store, struct error *err);
void checkpoint_stop(struct store *store);
/* To be called by the leader after a commit, before it hands over. */
void checkpoint_consider(struct store *store);

/* revisions.c */
int revision_get(struct connection *connection, int64_t *ret, struct error *err);
int revision_set(struct connection *connection, int64_t revision, struct error *err);

/* audit.c */
int audit_add(struct store_txn *txn, const struct store_actor *actor, struct error *err);

/* usage.c: one region of that size comes or goes */
int usage_add(struct connection *connection, uid_t uid, uint64_t bytes, struct error *err);
int usage_subtract(struct connection *connection, uid_t uid, uint64_t bytes, struct error *err);

/* links.c: the links of a sandbox that goes become LINK_DELETING */
int links_mark_deleting(struct store_txn *txn, const char *sandbox_id, struct error *err);

/* rows.c: makes room for one more row, zeroed, in a growing array of `count` rows; NULL with err when out of
 * memory. The array may move. */
void *rows_grow(void *rows, size_t count, size_t row_size, struct error *err);

static inline struct connection *txn_connection(struct store_txn *txn)
{
    return &txn->view->connection;
}

#endif
