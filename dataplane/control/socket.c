#include "dataplane/control/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { BACKLOG = 16, SOCKET_MODE = 0600 };

static int make_socket(struct error *err)
{
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return fd >= 0 ? fd : error_set_errno(err, REASON_RESOURCE_LIMIT, errno, "making a socket");
}

static int lock_path(const char *path, int *ret, struct error *err)
{
    char lock[PATH_MAX];
    if (snprintf(lock, sizeof lock, "%s.lock", path) >= (int)sizeof lock)
        return error_set(err, REASON_SOCKET_FAILED, "the path is too long");
    auto_close int fd = open(lock, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_set_errno(err, REASON_SOCKET_FAILED, errno, "opening %s", lock);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK)
            return error_set(err, REASON_SOCKET_FAILED, "another chan-dataplane uses it");
        return error_set_errno(err, REASON_SOCKET_FAILED, errno, "locking %s", lock);
    }
    *ret = take_fd(&fd);
    return 0;
}

/* Removes a socket on which nobody listens; anything else is left where it is. */
static int remove_stale(const struct sockaddr_un *address, struct error *err)
{
    struct stat status;
    if (lstat(address->sun_path, &status) != 0) {
        if (errno == ENOENT)
            return 0;
        return error_set_errno(err, REASON_SOCKET_FAILED, errno, "looking at it");
    }
    if (!S_ISSOCK(status.st_mode))
        return error_set(err, REASON_SOCKET_FAILED, "it exists and is not a socket");
    auto_close int probe = make_socket(err);
    if (probe < 0)
        return -1;
    if (connect(probe, (const struct sockaddr *)address, sizeof *address) == 0 || errno == EAGAIN ||
        errno == EPROTOTYPE)
        return error_set(err, REASON_SOCKET_FAILED, "another program listens on it");
    if (errno != ECONNREFUSED)
        return error_set_errno(err, REASON_SOCKET_FAILED, errno, "finding out whether it is in use");
    if (unlink(address->sun_path) != 0)
        return error_set_errno(err, REASON_SOCKET_FAILED, errno, "removing the stale socket");
    return 0;
}

static int listen_on(const char *path, struct control_socket *socket, struct error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const size_t length = strlen(path);
    if (length >= sizeof address.sun_path)
        return error_set(err, REASON_SOCKET_FAILED, "the path is longer than the %zu bytes of a unix socket",
                         sizeof address.sun_path - 1);
    memcpy(address.sun_path, path, length + 1);
    if (lock_path(path, &socket->lock_fd, err) != 0 || remove_stale(&address, err) != 0)
        return -1;
    socket->fd = make_socket(err);
    if (socket->fd < 0)
        return -1;
    /* Linux gives the file the socket's mode. */
    struct stat status;
    if (fchmod(socket->fd, SOCKET_MODE) != 0 ||
        bind(socket->fd, (const struct sockaddr *)&address, sizeof address) != 0 ||
        lstat(path, &status) != 0 || listen(socket->fd, BACKLOG) != 0)
        return error_set_errno(err, REASON_SOCKET_FAILED, errno, "listening");
    socket->path = path;
    socket->device = status.st_dev;
    socket->inode = status.st_ino;
    return 0;
}

int control_socket_open(const char *path, struct control_socket *ret, struct error *err)
{
    struct control_socket socket = CONTROL_SOCKET_NONE;
    if (listen_on(path, &socket, err) != 0) {
        control_socket_close(&socket);
        return error_wrap(err, "control socket %s: ", path);
    }
    *ret = socket;
    return 0;
}

void control_socket_close(struct control_socket *socket)
{
    struct stat status;
    if (socket->path != NULL && lstat(socket->path, &status) == 0 && status.st_dev == socket->device &&
        status.st_ino == socket->inode)
        (void)unlink(socket->path);
    cleanup_close(&socket->fd);
    cleanup_close(&socket->lock_fd);
    *socket = CONTROL_SOCKET_NONE;
}
