/* The REST face: HTTP in, operations called, JSON out. It translates and decides nothing.
 *
 * One epoll thread of libmicrohttpd reads and writes; a request whose body is complete is suspended and
 * handed to a small pool of workers, which may block on the disk, and is resumed with its answer. So
 * thousands of idle or slow connections cost a descriptor each and hold nobody up.
 */
#ifndef CHAN_API_REST_REST_H
#define CHAN_API_REST_REST_H

#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/log.h"
#include "daemon/metrics.h"
#include "daemon/operations/operations.h"

struct rest;

struct rest_config {
    struct operations *operations;
    struct metrics *metrics;
    const struct log *log;
    const char *socket_path;  /* a stale socket of a dead daemon is replaced, a live one is an error */
    mode_t socket_mode;       /* 0660 */
    const char *socket_group; /* or NULL: the daemon's own */
    const char *tcp_address;  /* "127.0.0.1:7880", "[::1]:7880", or NULL for none */
    unsigned int workers;
    unsigned int connection_limit;
    unsigned int idle_seconds;
    size_t body_limit;   /* 1 MiB */
    size_t header_limit; /* 32 KiB */
};

/* Binds and starts answering at once; before operations are ready, with 503. */
int rest_start(const struct rest_config *config, struct rest **ret, struct error *err);

/* No new connections; requests under way end, bounded by drain_seconds; the socket file goes. NULL is fine.
 */
void rest_stop(struct rest *rest, unsigned int drain_seconds);

#endif
