/* The client role: connects to a front-end that listens, and tries again for ever. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "dataplane/vhost_user/internal.h"

static const int64_t wait_first_ns = INT64_C(20) * 1000 * 1000;
static const int64_t wait_most_ns = INT64_C(1000) * 1000 * 1000;

static void try_later(struct vhost_user_end *end)
{
    struct connector *connector = &end->connector;
    loop_timer_set(end->loop, &connector->retry, clock_monotonic_ns() + connector->wait_ns);
    connector->wait_ns = connector->wait_ns * 2 < wait_most_ns ? connector->wait_ns * 2 : wait_most_ns;
}

static int try(struct vhost_user_end *end, struct error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    _Static_assert(END_PATH_SIZE <= sizeof address.sun_path, "a path of an end fits");
    const char *path = end->end.specification.socket_path;
    memcpy(address.sun_path, path, strnlen(path, END_PATH_SIZE - 1));
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set_errno(err, REASON_RESOURCE_LIMIT, errno, "making a socket");
    /* A unix socket is connected at once or not at all: where others would wait, this is EAGAIN. */
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) != 0)
        return error_set_errno(err, REASON_SOCKET_FAILED, errno, "connecting to %s", address.sun_path);
    return session_begin(end, take_fd(&fd), err);
}

static void on_retry(struct loop_timer *timer)
{
    struct vhost_user_end *end = VHOST_USER_END(timer, connector.retry);
    struct error err = ERROR_INIT;
    if (try(end, &err) != 0) {
        (void)snprintf(end->history, sizeof end->history, "%.*s", END_REASON_SIZE - 1, err.detail);
        try_later(end);
    }
}

void connector_start(struct vhost_user_end *end)
{
    end->connector.wait_ns = wait_first_ns;
    end->connector.retry.expired = on_retry;
    loop_timer_set(end->loop, &end->connector.retry, clock_monotonic_ns());
}

void connector_retry(struct vhost_user_end *end)
{
    /* A front-end that does nothing but hang up is asked less and less often. */
    if (end->session.features_acked)
        end->connector.wait_ns = wait_first_ns;
    try_later(end);
}

void connector_stop(struct vhost_user_end *end)
{
    loop_timer_clear(end->loop, &end->connector.retry);
}
