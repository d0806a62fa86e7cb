/* The server role: listens, and takes front-ends, of which one is served and another may wait (standby.c). */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "dataplane/vhost_user/internal.h"

enum { BACKLOG = 16, PAUSE_NS = 100 * 1000 * 1000, PATIENCE_NS = 200 * 1000 * 1000 };

/* ---- the socket ---- */

/* Removes a socket on which nobody listens; anything else is left where it is. */
static int remove_stale(const struct sockaddr_un *address, struct error *err)
{
    const char *path = address->sun_path;
    struct stat status;
    if (lstat(path, &status) != 0)
        return errno == ENOENT ? 0 : error_set_errno(err, REASON_SOCKET_FAILED, errno, "looking at %s", path);
    if (!S_ISSOCK(status.st_mode))
        return error_set(err, REASON_SOCKET_FAILED, "%s exists and is not a socket", path);
    auto_close int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (probe < 0)
        return error_set_errno(err, REASON_RESOURCE_LIMIT, errno, "making a socket");
    if (connect(probe, (const struct sockaddr *)address, sizeof *address) == 0 || errno == EAGAIN)
        return error_set(err, REASON_SOCKET_FAILED, "somebody listens on %s already", path);
    if (errno != ECONNREFUSED)
        return error_set_errno(err, REASON_SOCKET_FAILED, errno, "finding out whether %s is in use", path);
    if (unlink(path) != 0)
        return error_set_errno(err, REASON_SOCKET_FAILED, errno, "removing the stale socket %s", path);
    return 0;
}

static int bind_path(struct vhost_user_end *end, int *ret, struct error *err)
{
    const char *path = end->end.specification.socket_path;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    _Static_assert(END_PATH_SIZE <= sizeof address.sun_path, "a path of an end fits");
    memcpy(address.sun_path, path, strnlen(path, END_PATH_SIZE - 1));
    if (remove_stale(&address, err) != 0)
        return -1;
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set_errno(err, REASON_RESOURCE_LIMIT, errno, "making a socket");
    /* Linux gives the file the socket's mode. */
    struct stat status;
    if (fchmod(fd, 0600) != 0 || bind(fd, (const struct sockaddr *)&address, sizeof address) != 0 ||
        listen(fd, BACKLOG) != 0 || lstat(path, &status) != 0)
        return error_set_errno(err, REASON_SOCKET_FAILED, errno, "listening on %s", path);
    end->listener.bound = true;
    end->listener.device = status.st_dev;
    end->listener.inode = status.st_ino;
    *ret = take_fd(&fd);
    return 0;
}

static int check_given(int fd, struct error *err)
{
    int type = 0;
    int domain = 0;
    int listening = 0;
    socklen_t size = sizeof type;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0)
        return error_set_errno(err, REASON_SOCKET_FAILED, errno, "examining the listening socket");
    if (domain != AF_UNIX || type != SOCK_STREAM || listening == 0)
        return error_set(err, REASON_SOCKET_FAILED, "the descriptor is no listening unix stream socket");
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return error_set_errno(err, REASON_SOCKET_FAILED, errno, "making the listening socket not block");
    return 0;
}

/* ---- out of descriptors ---- */

static void pause_listening(struct vhost_user_end *end)
{
    loop_remove(end->loop, &end->listener.source);
    loop_timer_set(end->loop, &end->listener.pause, clock_monotonic_ns() + PAUSE_NS);
}

static void reserve_spare(struct listener *listener)
{
    if (listener->spare < 0)
        listener->spare = fcntl(listener->source.fd, F_DUPFD_CLOEXEC, 0);
}

/* No descriptor is left: the spare one is spent on turning the client away, so that it does not wait. */
static void turn_away_without_descriptor(struct vhost_user_end *end)
{
    struct listener *listener = &end->listener;
    if (listener->spare < 0) {
        pause_listening(end);
        return;
    }
    close_descriptor(&listener->spare);
    auto_close int fd = accept4(listener->source.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        pause_listening(end);
}

/* ---- turning away ---- */

static void let_go(struct vhost_user_end *end)
{
    struct listener *listener = &end->listener;
    loop_timer_clear(end->loop, &listener->patience);
    loop_remove(end->loop, &listener->leaving);
    close_descriptor(&listener->leaving.fd);
}

static void on_hang_up(struct loop_source *source, uint32_t events)
{
    (void)events;
    let_go(VHOST_USER_END(source, listener.leaving));
}

static void on_patience_over(struct loop_timer *timer)
{
    let_go(VHOST_USER_END(timer, listener.patience));
}

/* The client sees the end of the connection at once. Its socket is closed only when it has hung up, or soon:
 * until then its first message does not fail under it with a broken pipe, which kills some. */
static void turn_away(struct vhost_user_end *end, int fd)
{
    struct listener *listener = &end->listener;
    struct error err = ERROR_INIT;
    let_go(end);
    listener->leaving = (struct loop_source){.ready = on_hang_up, .fd = fd};
    if (shutdown(fd, SHUT_WR) != 0 || loop_add(end->loop, &listener->leaving, 0, &err) != 0)
        let_go(end);
    else
        loop_timer_set(end->loop, &listener->patience, clock_monotonic_ns() + PATIENCE_NS);
}

/* ---- accepting ---- */

/* Room for one more session: the front-end of one may have left unnoticed so far. */
static struct vhost_user_end *find_place(struct vhost_user_end *end)
{
    struct vhost_user_end *place = standby_find_place(end);
    struct vhost_user_end *const both[] = {end, end->standby};
    for (unsigned i = 0; place == NULL && i < 2; i++) {
        if (both[i] != NULL && session_is_dead(&both[i]->session)) {
            session_end(both[i], false, "the front-end left");
            place = standby_find_place(end);
        }
    }
    return place;
}

static void on_client(struct loop_source *source, uint32_t events)
{
    (void)events;
    struct vhost_user_end *end = VHOST_USER_END(source, listener.source);
    auto_close int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            turn_away_without_descriptor(end);
        reserve_spare(&end->listener);
        return;
    }
    reserve_spare(&end->listener);
    struct vhost_user_end *place = find_place(end);
    if (place == NULL) {
        turn_away(end, take_fd(&fd));
        return;
    }
    struct error err = ERROR_INIT;
    (void)session_begin(place, take_fd(&fd), &err); /* on failure the client is turned away as well */
}

static void on_pause_over(struct loop_timer *timer)
{
    struct vhost_user_end *end = VHOST_USER_END(timer, listener.pause);
    reserve_spare(&end->listener);
    struct error err = ERROR_INIT;
    if (loop_add(end->loop, &end->listener.source, EPOLLIN, &err) != 0)
        loop_timer_set(end->loop, timer, clock_monotonic_ns() + PAUSE_NS);
}

int listener_start(struct vhost_user_end *end, int fd, struct error *err)
{
    auto_close int listening = fd;
    if (fd >= 0 ? check_given(fd, err) != 0 : bind_path(end, &listening, err) != 0)
        return -1;
    struct listener *listener = &end->listener;
    listener->pause.expired = on_pause_over;
    listener->patience.expired = on_patience_over;
    listener->source = (struct loop_source){.ready = on_client, .fd = listening};
    if (loop_add(end->loop, &listener->source, EPOLLIN, err) != 0) {
        listener->source.fd = -1;
        return -1;
    }
    (void)take_fd(&listening);
    reserve_spare(listener);
    return 0;
}

void listener_stop(struct vhost_user_end *end)
{
    struct listener *listener = &end->listener;
    const char *path = end->end.specification.socket_path;
    let_go(end);
    loop_timer_clear(end->loop, &listener->pause);
    loop_remove(end->loop, &listener->source);
    cleanup_close(&listener->source.fd);
    cleanup_close(&listener->spare);
    listener->source.fd = listener->spare = -1;
    struct stat status;
    if (listener->bound && lstat(path, &status) == 0 && status.st_dev == listener->device &&
        status.st_ino == listener->inode)
        (void)unlink(path);
    listener->bound = false;
}
