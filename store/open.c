/* Opening, closing, and the pool of connections that read. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "store/internal.h"

enum { DEFAULT_READERS = 4, MAX_READERS = 64 };

/* SQLite gives the WAL and its index the mode of the database. The descriptor is closed before SQLite opens
 * the file, because closing it later would drop SQLite's locks. */
static int make_private_file(const char *path, struct error *err)
{
    auto_close int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        enum reason reason = errno == ENOSPC || errno == EDQUOT ? REASON_STORE_FULL : REASON_STORE_FAILED;
        return error_set_errno(err, reason, errno, "cannot open it");
    }
    if (fchmod(fd, 0600) < 0) {
        return error_set_errno(err, REASON_STORE_FAILED, errno, "cannot set its mode to 0600");
    }
    return 0;
}

static int open_readers(struct store *store, struct error *err)
{
    size_t count = store->config.readers != 0 ? store->config.readers : DEFAULT_READERS;
    if (count > MAX_READERS) {
        return error_set(err, REASON_STORE_FAILED, "%zu read connections, at most %d", count, MAX_READERS);
    }
    store->readers = calloc(count, sizeof *store->readers);
    if (store->readers == NULL) {
        return error_set(err, REASON_STORE_FAILED, "out of memory");
    }
    for (; store->reader_count < count; store->reader_count++) {
        struct store_view *reader = &store->readers[store->reader_count];
        if (connection_open(&reader->connection, store->config.path, READER_CACHE_KIB, err) < 0) {
            return -1;
        }
        reader->store = store;
        reader->next_free = store->free_readers;
        store->free_readers = reader;
    }
    return 0;
}

static int open_all(struct store *store, struct error *err)
{
    struct connection *writer = &store->writer.connection;
    if (make_private_file(store->config.path, err) < 0 ||
        connection_open(writer, store->config.path, WRITER_CACHE_KIB, err) < 0 ||
        schema_migrate(writer, err) < 0 || revision_get(writer, &store->writer.revision, err) < 0 ||
        open_readers(store, err) < 0 || checkpoint_start(store, err) < 0) {
        return error_wrap(err, "database %s: ", store->config.path);
    }
    wal_reserve(store->config.path);
    return 0;
}

/* SQLite would count every allocation under one lock that all connections share. Refused, and only slower,
 * when someone in this process has used SQLite before. */
static void configure_sqlite(void)
{
    (void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}

int store_open(const struct store_config *config, struct store **ret, struct error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, configure_sqlite);
    struct store *store = calloc(1, sizeof *store);
    char *path = strdup(config->path);
    if (store == NULL || path == NULL) {
        free(store);
        free(path);
        return error_set(err, REASON_STORE_FAILED, "out of memory");
    }
    store->config = *config;
    store->path = path;
    store->config.path = path;
    store->writer.store = store;
    store->flushing = true; /* as connection_open sets it */
    store->queue_tail = &store->queue_head;
    (void)pthread_mutex_init(&store->queue_lock, NULL);
    (void)pthread_cond_init(&store->queue_idle, NULL);
    (void)pthread_mutex_init(&store->reader_lock, NULL);
    (void)pthread_cond_init(&store->reader_free, NULL);
    if (open_all(store, err) < 0) {
        store_close(store);
        return -1;
    }
    *ret = store;
    return 0;
}

static void drain_readers(struct store *store)
{
    (void)pthread_mutex_lock(&store->reader_lock);
    for (size_t taken = 0; taken < store->reader_count; taken++) {
        while (store->free_readers == NULL) {
            (void)pthread_cond_wait(&store->reader_free, &store->reader_lock);
        }
        store->free_readers = store->free_readers->next_free;
    }
    (void)pthread_mutex_unlock(&store->reader_lock);
}

void store_close(struct store *store)
{
    if (store == NULL) {
        return;
    }
    commit_drain(store);
    drain_readers(store);
    checkpoint_stop(store);
    for (size_t i = 0; i < store->reader_count; i++) {
        connection_close(&store->readers[i].connection);
    }
    connection_close(&store->writer.connection); /* the last one: SQLite checkpoints and removes the WAL */
    free(store->readers);
    (void)pthread_cond_destroy(&store->reader_free);
    (void)pthread_mutex_destroy(&store->reader_lock);
    (void)pthread_cond_destroy(&store->queue_idle);
    (void)pthread_mutex_destroy(&store->queue_lock);
    free(store->path);
    free(store);
}

int store_read_begin(struct store *store, struct store_view **ret, struct error *err)
{
    (void)pthread_mutex_lock(&store->reader_lock);
    while (store->free_readers == NULL) {
        (void)pthread_cond_wait(&store->reader_free, &store->reader_lock);
    }
    struct store_view *view = store->free_readers;
    store->free_readers = view->next_free;
    (void)pthread_mutex_unlock(&store->reader_lock);

    /* BEGIN alone pins nothing: the first read does. */
    if (query_run_plain(&view->connection, STATEMENT_BEGIN_READ, "BEGIN", err) < 0 ||
        revision_get(&view->connection, &view->revision, err) < 0) {
        store_read_end(view);
        return -1;
    }
    *ret = view;
    return 0;
}

void store_read_end(struct store_view *view)
{
    if (view == NULL) {
        return;
    }
    if (sqlite3_get_autocommit(view->connection.db) == 0) {
        (void)query_run_plain(&view->connection, STATEMENT_END_READ, "ROLLBACK", NULL);
    }
    struct store *store = view->store;
    (void)pthread_mutex_lock(&store->reader_lock);
    view->next_free = store->free_readers;
    store->free_readers = view;
    (void)pthread_cond_signal(&store->reader_free);
    (void)pthread_mutex_unlock(&store->reader_lock);
}

int64_t store_revision(struct store_view *view)
{
    return view->revision;
}
