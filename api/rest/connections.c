#include "api/rest/connections.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"

static const int64_t second_ns = 1000000000;

struct connections {
    pthread_mutex_t mutex; /* guards all of it, and the list fields of every connection */
    pthread_cond_t changed;
    pthread_t watcher;
    bool stopping, refusing;
    bool watcher_idles; /* until it is told: no connection waits */
    unsigned int limit, count;
    int64_t wait_ns;
    struct metrics *metrics;
    struct connection *first, *last; /* waiting, longest first: all wait equally long, so by deadline too */
};

static void append(struct connections *connections, struct connection *connection)
{
    connection->deadline_ns = clock_monotonic_ns() + connections->wait_ns;
    connection->waits = true;
    connection->next = NULL;
    connection->previous = connections->last;
    if (connections->last != NULL)
        connections->last->next = connection;
    else
        connections->first = connection;
    connections->last = connection;
}

/* The watcher sleeps until the first deadline that it saw; later ones only move away, so it has to be told of
 * a connection only when there was none. */
static void wake_watcher(struct connections *connections)
{
    if (connections->watcher_idles)
        (void)pthread_cond_signal(&connections->changed);
    connections->watcher_idles = false;
}

static void take_out(struct connections *connections, struct connection *connection)
{
    if (!connection->waits)
        return;
    connection->waits = false;
    if (connection->previous != NULL)
        connection->previous->next = connection->next;
    else
        connections->first = connection->next;
    if (connection->next != NULL)
        connection->next->previous = connection->previous;
    else
        connections->last = connection->previous;
}

/* The one that has waited longest. */
static void cut_first(struct connections *connections)
{
    struct connection *connection = connections->first;
    take_out(connections, connection);
    (void)shutdown(connection->fd, SHUT_RDWR);
}

static void *watch(void *argument)
{
    struct connections *connections = argument;
    (void)pthread_mutex_lock(&connections->mutex);
    while (!connections->stopping) {
        if (connections->first == NULL) {
            connections->watcher_idles = true;
            (void)pthread_cond_wait(&connections->changed, &connections->mutex);
            continue;
        }
        int64_t now = clock_monotonic_ns();
        int64_t deadline = connections->first->deadline_ns;
        if (deadline <= now) {
            cut_first(connections);
            continue;
        }
        struct timespec until = {.tv_sec = (time_t)(deadline / second_ns),
                                 .tv_nsec = (long)(deadline % second_ns)};
        (void)pthread_cond_timedwait(&connections->changed, &connections->mutex, &until);
    }
    (void)pthread_mutex_unlock(&connections->mutex);
    return NULL;
}

static int init_condition(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    int failed = pthread_condattr_init(&attributes);
    if (failed != 0)
        return failed;
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    failed = pthread_cond_init(condition, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    return failed;
}

int connections_new(unsigned int limit, unsigned int wait_seconds, struct metrics *metrics,
                    struct connections **ret, struct error *err)
{
    struct connections *connections = calloc(1, sizeof *connections);
    if (connections == NULL)
        return error_set(err, REASON_RESOURCE_LIMIT, "no memory for connections");
    connections->limit = limit;
    connections->wait_ns = (int64_t)wait_seconds * second_ns;
    connections->metrics = metrics;
    int failed = pthread_mutex_init(&connections->mutex, NULL);
    if (failed != 0) {
        free(connections);
        return error_set_errno(err, REASON_RESOURCE_LIMIT, failed, "cannot make a mutex");
    }
    failed = init_condition(&connections->changed);
    if (failed == 0) {
        failed = pthread_create(&connections->watcher, NULL, watch, connections);
        if (failed != 0)
            (void)pthread_cond_destroy(&connections->changed);
    }
    if (failed != 0) {
        (void)pthread_mutex_destroy(&connections->mutex);
        free(connections);
        return error_set_errno(err, REASON_RESOURCE_LIMIT, failed, "cannot watch connections");
    }
    *ret = connections;
    return 0;
}

void connections_refuse(struct connections *connections)
{
    (void)pthread_mutex_lock(&connections->mutex);
    connections->refusing = true;
    (void)pthread_mutex_unlock(&connections->mutex);
}

void connections_free(struct connections *connections)
{
    if (connections == NULL)
        return;
    (void)pthread_mutex_lock(&connections->mutex);
    connections->stopping = true;
    (void)pthread_cond_signal(&connections->changed);
    (void)pthread_mutex_unlock(&connections->mutex);
    (void)pthread_join(connections->watcher, NULL);
    (void)pthread_cond_destroy(&connections->changed);
    (void)pthread_mutex_destroy(&connections->mutex);
    free(connections);
}

static void read_peer(struct connection *connection)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    int domain = 0;
    socklen_t domain_length = sizeof domain;
    if (getsockopt(connection->fd, SOL_SOCKET, SO_DOMAIN, &domain, &domain_length) != 0 ||
        domain != AF_UNIX || getsockopt(connection->fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
        return;
    connection->has_peer = true;
    connection->uid = peer.uid;
    connection->gid = peer.gid;
    connection->pid = peer.pid;
}

struct connection *connections_add(struct connections *connections, int fd)
{
    struct connection *connection = calloc(1, sizeof *connection);
    if (connection == NULL)
        return NULL;
    connection->owner = connections;
    connection->fd = fd;
    read_peer(connection);
    (void)pthread_mutex_lock(&connections->mutex);
    if (++connections->count > connections->limit && connections->first != NULL)
        cut_first(connections);
    append(connections, connection);
    wake_watcher(connections);
    if (connections->refusing)
        (void)shutdown(fd, SHUT_RDWR);
    metrics_set(connections->metrics, METRIC_CONNECTIONS, connections->count);
    (void)pthread_mutex_unlock(&connections->mutex);
    return connection;
}

void connections_remove(struct connection *connection)
{
    if (connection == NULL)
        return;
    struct connections *connections = connection->owner;
    (void)pthread_mutex_lock(&connections->mutex);
    take_out(connections, connection);
    connections->count--;
    metrics_set(connections->metrics, METRIC_CONNECTIONS, connections->count);
    (void)pthread_mutex_unlock(&connections->mutex);
    free(connection);
}

void connection_works(struct connection *connection)
{
    struct connections *connections = connection->owner;
    (void)pthread_mutex_lock(&connections->mutex);
    take_out(connections, connection);
    (void)pthread_mutex_unlock(&connections->mutex);
}

void connection_waits(struct connection *connection)
{
    struct connections *connections = connection->owner;
    (void)pthread_mutex_lock(&connections->mutex);
    take_out(connections, connection);
    append(connections, connection);
    wake_watcher(connections);
    (void)pthread_mutex_unlock(&connections->mutex);
}
