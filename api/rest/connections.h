/* The open connections of all listeners, and the two rules that keep slow clients from holding the daemon:
 *
 * - A connection that waits for its client, to send a request or to take an answer, has a bounded time for
 * it, however busily it drips bytes. The time starts anew with every answer. While the daemon itself works,
 * no time runs.
 * - Beyond the limit the connection that has waited longest is closed in favour of the new one.
 *
 * Both act by shutdown(2), which libmicrohttpd notices at once; the descriptor stays open until it says so.
 */
#ifndef CHAN_API_REST_CONNECTIONS_H
#define CHAN_API_REST_CONNECTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "daemon/metrics.h"

struct connections;

struct connection {
    struct connections *owner;
    struct connection *previous, *next; /* in the list of those that wait */
    bool waits;                         /* is in that list */
    int64_t deadline_ns;
    int fd;
    bool has_peer; /* a unix socket's; uid, gid and pid are as SO_PEERCRED has them */
    uid_t uid;
    gid_t gid;
    pid_t pid;
};

/* Starts the thread that watches the deadlines. metrics may be NULL. */
int connections_new(unsigned int limit, unsigned int wait_seconds, struct metrics *metrics,
                    struct connections **ret, struct error *err);
/* From now on a new connection is closed at once. */
void connections_refuse(struct connections *connections);
/* After every connection is closed. NULL is fine. */
void connections_free(struct connections *connections);

/* All of these are for any thread. A new connection waits. NULL when out of memory. */
struct connection *connections_add(struct connections *connections, int fd);
void connections_remove(struct connection *connection); /* before the descriptor is closed; NULL is fine */
void connection_works(struct connection *connection);
void connection_waits(struct connection *connection); /* its time starts anew */

#endif
