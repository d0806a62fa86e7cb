/* The life of a connection. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "dataplane/vhost_user/internal.h"

enum { MESSAGES_PER_TURN = 32 }; /* then others get theirs */

/* ---- beginning and end ---- */

static void datapath_reset(struct datapath *path)
{
    path->running = path->enabled = path->polled = path->owed = path->nudge = 0;
    for (unsigned i = 0; i < RINGS; i++) {
        if (path->queues[i] != NULL) {
            virtqueue_stop(path->queues[i]);
            virtqueue_set_call(path->queues[i], -1);
            virtqueue_set_log(path->queues[i], NULL, false, 0);
        }
        path->call_fds[i] = path->error_fds[i] = -1;
    }
    path->memory = NULL;
    path->log = NULL;
    path->announcement_count = 0;
    path->announcing = false;
    path->fault_event = -1;
    atomic_store_explicit(&path->memory_lost, false, memory_order_relaxed);
    atomic_store_explicit(&path->faulted, 0, memory_order_relaxed);
    datapath_refresh(path);
}

void session_init(struct vhost_user_end *end)
{
    struct session *session = &end->session;
    session->socket = (struct loop_source){.fd = -1};
    session->faults = (struct loop_source){.fd = -1};
    session->load = (struct loop_source){.fd = -1};
    session->backend_request_fd = -1;
    for (unsigned i = 0; i < RINGS; i++)
        session->rings[i] = (struct ring){.kick_fd = -1, .call_fd = -1, .error_fd = -1};
    datapath_reset(&end->path);
}

static void reset_on_worker(void *argument)
{
    struct vhost_user_end *end = argument;
    for (unsigned i = 0; i < RINGS; i++) {
        if (end->session.rings[i].running && end->session.rings[i].kick_fd >= 0)
            worker_unwatch(end->end.task, end->session.rings[i].kick_fd);
    }
    datapath_reset(&end->path);
}

void session_end(struct vhost_user_end *end, bool misbehaved, const char *reason)
{
    struct session *session = &end->session;
    worker_run(end->end.task->worker, reset_on_worker, end);
    struct loop_source *const sources[] = {&session->socket, &session->faults, &session->load};
    for (unsigned i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        loop_remove(end->loop, sources[i]);
        close_descriptor(&sources[i]->fd);
    }
    receiver_done(&session->receiver);
    close_descriptor(&session->backend_request_fd);
    for (unsigned i = 0; i < RINGS; i++) {
        struct ring *ring = &session->rings[i];
        cleanup_close(&ring->kick_fd);
        cleanup_close(&ring->call_fd);
        cleanup_close(&ring->error_fd);
        *ring = (struct ring){.kick_fd = -1, .call_fd = -1, .error_fd = -1};
    }
    guest_memory_free(session->memory);
    session->memory = NULL;
    dirty_log_free(session->log);
    session->log = NULL;
    end->misbehaved = misbehaved;
    end->fault_count += misbehaved;
    (void)snprintf(end->history, sizeof end->history, "%s", reason);
    standby_choose(end);
    if (end->end.specification.role == END_CLIENT)
        connector_retry(end);
}

bool session_is_dead(const struct session *session)
{
    struct pollfd hung_up = {.fd = session->socket.fd, .events = POLLRDHUP};
    return poll(&hung_up, 1, 0) == 1 && (hung_up.revents & (POLLHUP | POLLERR | POLLRDHUP)) != 0;
}

/* ---- events ---- */

static void end_for(struct vhost_user_end *end, const struct error *err)
{
    char reason[END_REASON_SIZE];
    (void)snprintf(reason, sizeof reason, "the front-end was disconnected: %.*s", END_REASON_SIZE / 2 + 40,
                   err->detail);
    session_end(end, true, reason);
}

static void end_for_leaving(struct vhost_user_end *end)
{
    session_end(end, false, "the front-end left");
}

/* False: the session is over. */
static bool look_for_faults(struct vhost_user_end *end)
{
    if (rings_collect_faults(end)) {
        standby_choose(end);
        return true;
    }
    session_end(end, true,
                "the front-end was disconnected: the guest's memory was truncated while it was in use");
    return false;
}

static void on_fault(struct loop_source *source, uint32_t events)
{
    (void)events;
    uint64_t count = 0;
    (void)!read(source->fd, &count, sizeof count); /* an eventfd of our own that never blocks */
    (void)look_for_faults(VHOST_USER_END(source, session.faults));
}

/* While an answer is pending nothing is read: what the front-end sends then waits in its own socket. */
static int set_interest(struct vhost_user_end *end, struct error *err)
{
    struct session *session = &end->session;
    return loop_change(end->loop, &session->socket, output_pending(&session->output) ? EPOLLOUT : EPOLLIN,
                       err);
}

/* One message, or what there is of it. True: there may be another. */
static bool step(struct vhost_user_end *end, struct error *err)
{
    struct session *session = &end->session;
    switch (receiver_read(&session->receiver, session->socket.fd, err)) {
    case RECEIVE_MORE:
        return false;
    case RECEIVE_CLOSED:
        end_for_leaving(end);
        return false;
    case RECEIVE_MESSAGE:
        if (!look_for_faults(end))
            return false;
        if (dispatch(end, err) == 0) {
            receiver_done(&session->receiver);
            return !output_pending(&session->output);
        }
        break;
    case RECEIVE_ERROR:
        break;
    }
    end_for(end, err);
    return false;
}

static void on_socket(struct loop_source *source, uint32_t events)
{
    struct vhost_user_end *end = VHOST_USER_END(source, session.socket);
    struct session *session = &end->session;
    struct error err = ERROR_INIT;
    if (output_pending(&session->output)) {
        const bool gone = (events & (EPOLLHUP | EPOLLERR)) != 0 && (events & EPOLLOUT) == 0;
        if (gone || output_continue(&session->output, source->fd, &err) != 0) {
            end_for_leaving(end);
            return;
        }
        if (output_pending(&session->output))
            return;
        if (set_interest(end, &err) != 0)
            end_for(end, &err);
        return;
    }
    for (unsigned i = 0; i < MESSAGES_PER_TURN; i++) {
        if (!step(end, &err))
            break;
    }
    if (session_is_open(session) && output_pending(&session->output) && set_interest(end, &err) != 0)
        end_for(end, &err);
}

static void begin_on_worker(void *argument)
{
    struct vhost_user_end *end = argument;
    end->path.fault_event = end->session.faults.fd;
}

static uint32_t pid_of_peer(int fd)
{
    struct ucred peer = {.pid = 0};
    socklen_t size = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid < 0)
        return 0;
    return (uint32_t)peer.pid;
}

int session_begin(struct vhost_user_end *end, int fd, struct error *err)
{
    auto_close int connection = fd;
    auto_close int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (event < 0)
        return error_set_errno(err, REASON_RESOURCE_LIMIT, errno, "taking a connection");
    struct session *session = &end->session;
    session->socket = (struct loop_source){.ready = on_socket, .fd = connection};
    session->faults = (struct loop_source){.ready = on_fault, .fd = event};
    if (loop_add(end->loop, &session->socket, EPOLLIN, err) != 0 ||
        loop_add(end->loop, &session->faults, EPOLLIN, err) != 0) {
        loop_remove(end->loop, &session->socket);
        session->socket.fd = session->faults.fd = -1;
        return -1;
    }
    (void)take_fd(&connection);
    (void)take_fd(&event);
    session->output.length = session->output.sent = 0;
    session->offered = features_offered(end->end.specification.offloads_off);
    session->features = session->protocol_features = session->status = 0;
    session->features_acked = false;
    session->load_state = LOAD_NONE;
    session->refusal[0] = '\0';
    session->peer_pid = pid_of_peer(session->socket.fd);
    end->connections++;
    end->misbehaved = false;
    worker_run(end->end.task->worker, begin_on_worker, end);
    return 0;
}
