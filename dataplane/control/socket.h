/* The control socket's place in the file system. */
#ifndef CHAN_DATAPLANE_CONTROL_SOCKET_H
#define CHAN_DATAPLANE_CONTROL_SOCKET_H

#include <sys/types.h>

#include "base/error.h"

struct control_socket {
    int fd;      /* listening, SOCK_SEQPACKET, not blocking; -1: there is none */
    int lock_fd; /* PATH.lock, held */
    const char *path;
    dev_t device;
    ino_t inode;
};

#define CONTROL_SOCKET_NONE ((struct control_socket){.fd = -1, .lock_fd = -1})

/* Listens on the path (which stays the caller's), mode 0600. A stale socket there is replaced, anything else
 * is left alone and an error. While it is held, no second dataplane can have the path. */
int control_socket_open(const char *path, struct control_socket *ret, struct error *err);
/* Removes the socket, if it is still the one that was made. The lock's file stays: removing it would let two
 * others lock two different files of that name. */
void control_socket_close(struct control_socket *socket);

#endif
