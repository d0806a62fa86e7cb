#include "api/rest/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/cleanup.h"

/* ---- unix ---- */

/* Starts of two daemons exclude each other, so that neither takes the other's new socket for a stale one. The
 * file's mode keeps strangers from holding the lock. */
static int take_lock(const char *path, int *ret, struct error *err)
{
    char lock_path[sizeof(struct sockaddr_un) + sizeof ".lock"];
    (void)snprintf(lock_path, sizeof lock_path, "%s.lock", path);
    auto_close int fd = open(lock_path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_set_errno(err, REASON_INTERNAL, errno, "cannot open %s", lock_path);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK)
            return error_set(err, REASON_INTERNAL, "another daemon listens on %s", path);
        return error_set_errno(err, REASON_INTERNAL, errno, "cannot lock %s", lock_path);
    }
    *ret = take_fd(&fd);
    return 0;
}

static int remove_stale(const char *path, const struct sockaddr_un *address, struct error *err)
{
    struct stat status;
    if (lstat(path, &status) != 0) {
        if (errno == ENOENT)
            return 0;
        return error_set_errno(err, REASON_INTERNAL, errno, "cannot look at %s", path);
    }
    if (!S_ISSOCK(status.st_mode))
        return error_set(err, REASON_INTERNAL,
                         "%s exists and is not a socket; remove it or choose another place", path);
    auto_close int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (probe < 0)
        return error_set_errno(err, REASON_RESOURCE_LIMIT, errno, "cannot make a socket");
    if (connect(probe, (const struct sockaddr *)address, sizeof *address) == 0 || errno == EAGAIN)
        return error_set(err, REASON_INTERNAL, "another daemon listens on %s", path);
    if (errno != ECONNREFUSED)
        return error_set_errno(err, REASON_INTERNAL, errno, "cannot tell whether %s is in use", path);
    if (unlink(path) != 0)
        return error_set_errno(err, REASON_INTERNAL, errno, "cannot remove the stale socket %s", path);
    return 0;
}

static int find_group(const char *name, gid_t *ret, struct error *err)
{
    char buffer[16384];
    struct group entry;
    struct group *found = NULL;
    int failed = getgrnam_r(name, &entry, buffer, sizeof buffer, &found);
    if (found != NULL) {
        *ret = found->gr_gid;
        return 0;
    }
    char *end = NULL;
    errno = 0;
    unsigned long number = strtoul(name, &end, 10);
    if (name[0] >= '0' && name[0] <= '9' && *end == '\0' && errno == 0 && number < (gid_t)-1) {
        *ret = (gid_t)number;
        return 0;
    }
    if (failed != 0)
        return error_set_errno(err, REASON_INTERNAL, failed, "cannot look up the group %s", name);
    return error_set(err, REASON_INTERNAL, "there is no group %s", name);
}

/* Linux gives a socket's file the mode that the socket has, less the umask: 0600 first, the group next, the
 * mode last. */
static int bind_unix(int fd, const struct sockaddr_un *address, mode_t mode, const char *group,
                     struct error *err)
{
    const char *path = address->sun_path;
    gid_t gid = 0;
    if (group != NULL && find_group(group, &gid, err) != 0)
        return -1;
    if (fchmod(fd, 0600) != 0 || bind(fd, (const struct sockaddr *)address, sizeof *address) != 0)
        return error_set_errno(err, REASON_INTERNAL, errno, "cannot make the socket %s", path);
    if ((group != NULL && lchown(path, (uid_t)-1, gid) != 0) || chmod(path, mode) != 0) {
        int failed = errno;
        (void)unlink(path);
        return error_set_errno(err, REASON_INTERNAL, failed, "cannot set group and mode of the socket %s",
                               path);
    }
    return 0;
}

int listen_unix(const char *path, mode_t mode, const char *group, struct listener *ret, struct error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return error_set(err, REASON_INTERNAL, "the path of the socket is longer than %zu characters: %s",
                         sizeof address.sun_path - 1, path);
    memcpy(address.sun_path, path, strlen(path) + 1);
    auto_close int lock = -1;
    if (take_lock(path, &lock, err) != 0 || remove_stale(path, &address, err) != 0)
        return -1;
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set_errno(err, REASON_RESOURCE_LIMIT, errno, "cannot make a socket");
    if (bind_unix(fd, &address, mode, group, err) != 0)
        return -1;
    struct stat status;
    if (lstat(path, &status) != 0 || listen(fd, SOMAXCONN) != 0) {
        int failed = errno;
        (void)unlink(path);
        return error_set_errno(err, REASON_INTERNAL, failed, "cannot listen on %s", path);
    }
    *ret = (struct listener){
        .fd = take_fd(&fd), .lock_fd = take_fd(&lock), .device = status.st_dev, .inode = status.st_ino};
    memcpy(ret->path, address.sun_path, sizeof ret->path);
    return 0;
}

/* ---- TCP ---- */

/* host and port are parts of text, which is changed. */
static int split_address(char *text, const char **host, const char **port)
{
    char *colon = strrchr(text, ':');
    if (colon == NULL || colon == text)
        return -1;
    *colon = '\0';
    *port = colon + 1;
    *host = text;
    if (text[0] == '[') {
        if (colon[-1] != ']')
            return -1;
        colon[-1] = '\0';
        *host = text + 1;
    }
    return 0;
}

static int bind_tcp(const struct addrinfo *info, int *ret)
{
    auto_close int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int on = 1;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        (info->ai_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) != 0) ||
        bind(fd, info->ai_addr, info->ai_addrlen) != 0 || listen(fd, SOMAXCONN) != 0)
        return -1;
    *ret = take_fd(&fd);
    return 0;
}

int listen_tcp(const char *address, struct listener *ret, struct error *err)
{
    auto_free char *text = strdup(address);
    if (text == NULL)
        return error_set(err, REASON_RESOURCE_LIMIT, "no memory for an address");
    const char *host = NULL;
    const char *port = NULL;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *info = NULL;
    if (split_address(text, &host, &port) != 0 || getaddrinfo(host, port, &hints, &info) != 0)
        return error_set(err, REASON_INTERNAL, "\"%s\" is not ADDRESS:PORT or [ADDRESS]:PORT", address);
    int fd = -1;
    int bound = bind_tcp(info, &fd);
    int failed = errno;
    freeaddrinfo(info);
    if (bound != 0)
        return error_set_errno(err, REASON_INTERNAL, failed, "cannot listen on %s", address);
    *ret = (struct listener){.fd = fd, .lock_fd = -1};
    return 0;
}

void listener_retire(const struct listener *listener)
{
    struct stat status;
    if (listener->path[0] != '\0' && lstat(listener->path, &status) == 0 &&
        status.st_dev == listener->device && status.st_ino == listener->inode)
        (void)unlink(listener->path);
}

void listener_close(struct listener *listener)
{
    cleanup_close(&listener->fd);
    cleanup_close(&listener->lock_fd);
    *listener = LISTENER_INIT;
}
