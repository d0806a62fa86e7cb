#include "daemon/reclaim/watch.h"

#include <errno.h>
#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <unistd.h>

#include "base/proc_stat.h"
#include "daemon/reclaim/pidfd.h"

struct watched_sandbox {
    struct watched_owner *owner;
    LIST_ENTRY(watched_sandbox) of_owner;
    bool in_doubt;
    char id[]; /* zero-terminated */
};

struct watched_owner {
    pid_t pid;
    uint64_t start_time;
    int pidfd; /* -1: none */
    bool ended;
    size_t sandbox_count, doubt_count;
    LIST_HEAD(sandbox_list, watched_sandbox) sandboxes;
};

struct watch_table {
    pthread_mutex_t lock;
    int epoll_fd;
    size_t pidfds_max, pidfds;
    size_t in_doubt;              /* owners with a sandbox in doubt */
    void *sandboxes;              /* a tsearch tree by id */
    void *owners;                 /* a tsearch tree by pid and start time */
    struct watched_owner **by_fd; /* indexed by descriptor */
    size_t by_fd_size;
};

/* ---- trees ---- */

static int compare_owners(const void *left, const void *right)
{
    const struct watched_owner *a = left;
    const struct watched_owner *b = right;
    if (a->pid != b->pid)
        return a->pid < b->pid ? -1 : 1;
    if (a->start_time != b->start_time)
        return a->start_time < b->start_time ? -1 : 1;
    return 0;
}

/* Keys of the sandboxes' tree are ids, which stand at the end of its nodes' structs; so both are handed in as
 * ids. */
static int compare_ids(const void *left, const void *right)
{
    return strcmp(left, right);
}

static struct watched_sandbox *sandbox_of_id(const char *id)
{
    const char *start = id - offsetof(struct watched_sandbox, id);
    struct watched_sandbox *sandbox;
    memcpy(&sandbox, &start, sizeof sandbox); /* the tree keeps const keys; the struct is ours to change */
    return sandbox;
}

static struct watched_sandbox *find_sandbox(const struct watch_table *table, const char *id)
{
    const char *const *found = tfind(id, &table->sandboxes, compare_ids);
    return found != NULL ? sandbox_of_id(*found) : NULL;
}

static struct watched_owner *find_owner(const struct watch_table *table, const struct owner_row *owner)
{
    const struct watched_owner key = {.pid = owner->pid, .start_time = owner->start_time};
    struct watched_owner *const *found = tfind(&key, &table->owners, compare_owners);
    return found != NULL ? *found : NULL;
}

/* ---- descriptors ---- */

static void close_pidfd(struct watch_table *table, struct watched_owner *owner)
{
    if (owner->pidfd < 0)
        return;
    table->by_fd[owner->pidfd] = NULL;
    (void)close(owner->pidfd); /* leaves the epoll set by it */
    owner->pidfd = -1;
    table->pidfds--;
}

static int make_room(struct watch_table *table, int fd)
{
    size_t wanted = (size_t)fd + 1;
    if (wanted <= table->by_fd_size)
        return 0;
    wanted += wanted / 2;
    struct watched_owner **grown = reallocarray(table->by_fd, wanted, sizeof *grown);
    if (grown == NULL)
        return -1;
    memset(grown + table->by_fd_size, 0, (wanted - table->by_fd_size) * sizeof *grown);
    table->by_fd = grown;
    table->by_fd_size = wanted;
    return 0;
}

/* Tries to get a descriptor of the owner's process. That it is that one and not a later one of the same pid
 * is read after the descriptor is there: the pid was the owner's before, so if it still is, it was in
 * between. */
static void open_pidfd(struct watch_table *table, struct watched_owner *owner)
{
    if (owner->pidfd >= 0 || owner->ended || table->pidfds >= table->pidfds_max)
        return;
    int fd = pidfd_open_process(owner->pid);
    if (fd == -ESRCH)
        owner->ended = true;
    if (fd < 0)
        return;
    struct proc_stat stat;
    bool readable = proc_stat_read(owner->pid, &stat) == 0;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (readable && (stat.start_ticks != owner->start_time || pidfd_has_ended(fd))) {
        owner->ended = true;
    } else if (readable && make_room(table, fd) == 0 &&
               epoll_ctl(table->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0) {
        table->by_fd[fd] = owner;
        owner->pidfd = fd;
        table->pidfds++;
        return;
    }
    (void)close(fd);
}

/* ---- entries; with the lock held ---- */

static void set_doubt(struct watch_table *table, struct watched_sandbox *sandbox, bool in_doubt)
{
    struct watched_owner *owner = sandbox->owner;
    if (sandbox->in_doubt == in_doubt)
        return;
    sandbox->in_doubt = in_doubt;
    if (in_doubt)
        table->in_doubt += owner->doubt_count++ == 0;
    else
        table->in_doubt -= --owner->doubt_count == 0;
}

static void drop_owner_if_unused(struct watch_table *table, struct watched_owner *owner)
{
    if (owner->sandbox_count > 0)
        return;
    close_pidfd(table, owner);
    (void)tdelete(owner, &table->owners, compare_owners);
    free(owner);
}

static void drop_sandbox(struct watch_table *table, struct watched_sandbox *sandbox)
{
    struct watched_owner *owner = sandbox->owner;
    set_doubt(table, sandbox, false);
    LIST_REMOVE(sandbox, of_owner);
    owner->sandbox_count--;
    (void)tdelete(sandbox->id, &table->sandboxes, compare_ids);
    free(sandbox);
    drop_owner_if_unused(table, owner);
}

static struct watched_owner *get_owner(struct watch_table *table, const struct owner_row *row)
{
    struct watched_owner *owner = find_owner(table, row);
    if (owner != NULL)
        return owner;
    owner = calloc(1, sizeof *owner);
    if (owner == NULL)
        return NULL;
    owner->pid = row->pid;
    owner->start_time = row->start_time;
    owner->pidfd = -1;
    LIST_INIT(&owner->sandboxes);
    if (tsearch(owner, &table->owners, compare_owners) == NULL) {
        free(owner);
        return NULL;
    }
    return owner;
}

static struct watched_sandbox *add_sandbox(struct watch_table *table, const char *id,
                                           struct watched_owner *owner)
{
    size_t id_size = strlen(id) + 1;
    struct watched_sandbox *sandbox = calloc(1, sizeof *sandbox + id_size);
    if (sandbox == NULL)
        return NULL;
    memcpy(sandbox->id, id, id_size);
    if (tsearch(sandbox->id, &table->sandboxes, compare_ids) == NULL) {
        free(sandbox);
        return NULL;
    }
    sandbox->owner = owner;
    owner->sandbox_count++;
    LIST_INSERT_HEAD(&owner->sandboxes, sandbox, of_owner);
    return sandbox;
}

static void add(struct watch_table *table, const char *id, const struct owner_row *row)
{
    struct watched_sandbox *sandbox = find_sandbox(table, id);
    if (sandbox != NULL &&
        (sandbox->owner->pid != row->pid || sandbox->owner->start_time != row->start_time)) {
        drop_sandbox(table, sandbox);
        sandbox = NULL;
    }
    if (sandbox == NULL) {
        struct watched_owner *owner = get_owner(table, row);
        if (owner == NULL)
            return;
        sandbox = add_sandbox(table, id, owner);
        if (sandbox == NULL) {
            drop_owner_if_unused(table, owner);
            return;
        }
    }
    open_pidfd(table, sandbox->owner);
}

/* ---- the calls ---- */

int watch_table_new(int epoll_fd, size_t pidfds_max, struct watch_table **ret, struct error *err)
{
    struct watch_table *table = calloc(1, sizeof *table);
    if (table == NULL)
        return error_set_errno(err, REASON_RESOURCE_LIMIT, ENOMEM, "cannot make the table of owners");
    (void)pthread_mutex_init(&table->lock, NULL);
    table->epoll_fd = epoll_fd;
    table->pidfds_max = pidfds_max;
    *ret = table;
    return 0;
}

void watch_table_free(struct watch_table *table)
{
    if (table == NULL)
        return;
    while (table->sandboxes != NULL) {
        const char *const *root = table->sandboxes; /* a node of tsearch begins with its key */
        drop_sandbox(table, sandbox_of_id(*root));
    }
    free(table->by_fd);
    (void)pthread_mutex_destroy(&table->lock);
    free(table);
}

void watch_add(struct watch_table *table, const char *sandbox_id, const struct owner_row *owner)
{
    (void)pthread_mutex_lock(&table->lock);
    add(table, sandbox_id, owner);
    (void)pthread_mutex_unlock(&table->lock);
}

void watch_remove(struct watch_table *table, const char *sandbox_id)
{
    (void)pthread_mutex_lock(&table->lock);
    struct watched_sandbox *sandbox = find_sandbox(table, sandbox_id);
    if (sandbox != NULL)
        drop_sandbox(table, sandbox);
    (void)pthread_mutex_unlock(&table->lock);
}

bool watch_is_wanted(struct watch_table *table, const char *sandbox_id)
{
    (void)pthread_mutex_lock(&table->lock);
    const struct watched_sandbox *sandbox = find_sandbox(table, sandbox_id);
    bool wanted = sandbox == NULL ||
                  (sandbox->owner->pidfd < 0 && !sandbox->owner->ended && table->pidfds < table->pidfds_max);
    (void)pthread_mutex_unlock(&table->lock);
    return wanted;
}

enum watch_condition watch_look(struct watch_table *table, const struct owner_row *owner)
{
    (void)pthread_mutex_lock(&table->lock);
    const struct watched_owner *watched = find_owner(table, owner);
    enum watch_condition condition = WATCH_NONE;
    if (watched != NULL && watched->ended)
        condition = WATCH_ENDED;
    else if (watched != NULL && watched->pidfd >= 0)
        condition = WATCH_ALIVE;
    (void)pthread_mutex_unlock(&table->lock);
    return condition;
}

static size_t copy_ids(const struct watched_owner *owner, char (**ids)[ID_SIZE])
{
    char(*copies)[ID_SIZE] = calloc(owner->sandbox_count, sizeof *copies);
    if (copies == NULL)
        return 0;
    size_t count = 0;
    const struct watched_sandbox *sandbox;
    LIST_FOREACH(sandbox, &owner->sandboxes, of_owner)
    {
        memcpy(copies[count], sandbox->id, strlen(sandbox->id) + 1);
        count++;
    }
    *ids = copies;
    return count;
}

size_t watch_take_ended(struct watch_table *table, int pidfd, char (**ids)[ID_SIZE])
{
    size_t count = 0;
    *ids = NULL;
    (void)pthread_mutex_lock(&table->lock);
    /* The descriptor may have been closed since, and its number may even be another owner's by now. */
    struct watched_owner *owner = (size_t)pidfd < table->by_fd_size ? table->by_fd[pidfd] : NULL;
    if (owner != NULL && pidfd_has_ended(pidfd)) {
        close_pidfd(table, owner);
        owner->ended = true;
        count = copy_ids(owner, ids);
    }
    (void)pthread_mutex_unlock(&table->lock);
    return count;
}

int watch_doubt(struct watch_table *table, const char *sandbox_id)
{
    (void)pthread_mutex_lock(&table->lock);
    const struct watched_sandbox *sandbox = find_sandbox(table, sandbox_id);
    int doubt = sandbox == NULL ? -1 : sandbox->in_doubt;
    (void)pthread_mutex_unlock(&table->lock);
    return doubt;
}

void watch_set_doubt(struct watch_table *table, const char *sandbox_id, bool in_doubt)
{
    (void)pthread_mutex_lock(&table->lock);
    struct watched_sandbox *sandbox = find_sandbox(table, sandbox_id);
    if (sandbox != NULL)
        set_doubt(table, sandbox, in_doubt);
    (void)pthread_mutex_unlock(&table->lock);
}

void watch_count(struct watch_table *table, size_t *watched, size_t *in_doubt)
{
    (void)pthread_mutex_lock(&table->lock);
    *watched = table->pidfds;
    *in_doubt = table->in_doubt;
    (void)pthread_mutex_unlock(&table->lock);
}
