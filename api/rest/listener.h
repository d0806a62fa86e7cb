/* Listening sockets. */
#ifndef CHAN_API_REST_LISTENER_H
#define CHAN_API_REST_LISTENER_H

#include <stddef.h>
#include <sys/types.h>
#include <sys/un.h>

#include "base/error.h"

struct listener {
    int fd;      /* -1: none */
    int lock_fd; /* of a unix socket, for as long as it lives: its path with ".lock" */
    char path[sizeof((struct sockaddr_un *)NULL)->sun_path]; /* of a unix socket, else empty */
    dev_t device;
    ino_t inode; /* of the socket's file, so that only our own is removed */
};

#define LISTENER_INIT ((struct listener){.fd = -1, .lock_fd = -1})

/* Nobody beyond mode and group can connect at any time. A stale socket of a dead daemon is replaced; a live
 * one, or a file that is no socket, is an error. group is a name or a number, or NULL. */
int listen_unix(const char *path, mode_t mode, const char *group, struct listener *ret, struct error *err);

/* "127.0.0.1:7880" or "[::1]:7880". */
int listen_tcp(const char *address, struct listener *ret, struct error *err);

/* Removes the socket's file if it is still ours, so that nobody finds the way any more. */
void listener_retire(const struct listener *listener);
void listener_close(struct listener *listener);

#endif
