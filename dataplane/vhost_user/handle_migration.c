/* Device state, of which we have none: what there is to know lies in the rings. And descriptors in flight, of
 * which there are none either when a ring is stopped. */
#include <poll.h>
#include <sys/epoll.h>

#include "base/cleanup.h"
#include "dataplane/vhost_user/dispatch.h"

enum { DIRECTION_SAVE = 0, DIRECTION_LOAD = 1, PHASE_STOPPED = 0 };

static void close_load(struct vhost_user_end *end, enum load_state state)
{
    struct loop_source *load = &end->session.load;
    loop_remove(end->loop, load);
    close_descriptor(&load->fd);
    end->session.load_state = state;
}

/* An empty state is an end of file at once. It is not read: a front-end could make that block. */
static void on_load(struct loop_source *source, uint32_t events)
{
    struct vhost_user_end *end = VHOST_USER_END(source, session.load);
    close_load(end, (events & EPOLLIN) != 0 ? LOAD_FAILED : LOAD_DONE);
}

static int start_load(struct vhost_user_end *end, struct message *message, struct error *err)
{
    struct session *session = &end->session;
    auto_close int fd = take_fd(&message->descriptors[0]);
    session->load = (struct loop_source){.ready = on_load, .fd = fd};
    if (loop_add(end->loop, &session->load, EPOLLIN, err) != 0) {
        session->load.fd = -1;
        session->load_state = LOAD_FAILED;
        return -1;
    }
    (void)take_fd(&fd);
    session->load_state = LOAD_OPEN;
    return 0;
}

static bool any_ring_runs(const struct session *session)
{
    for (unsigned i = 0; i < RINGS; i++) {
        if (session->rings[i].running)
            return true;
    }
    return false;
}

static int transfer_state(struct vhost_user_end *end, struct message *message, struct error *err)
{
    const struct wire_device_state what = message->payload.device_state;
    if (what.phase != PHASE_STOPPED || what.direction > DIRECTION_LOAD || any_ring_runs(&end->session))
        return -1;
    if (end->session.load.fd >= 0)
        close_load(end, LOAD_FAILED);
    if (what.direction == DIRECTION_LOAD)
        return start_load(end, message, err);
    end->session.load_state = LOAD_NONE;
    /* Saving: the descriptor is closed with the message, and with that the state has ended. */
    return 0;
}

int handle_set_device_state_fd(struct vhost_user_end *end, struct message *message, struct error *err)
{
    struct error refused = ERROR_INIT;
    const int result = transfer_state(end, message, &refused);
    message_close_descriptors(message); /* before the answer: whoever reads the state sees its end then */
    return reply_number(end, VHOST_USER_NO_DESCRIPTOR | (result == 0 ? 0 : 1), err);
}

int handle_check_device_state(struct vhost_user_end *end, struct message *message, struct error *err)
{
    (void)message;
    struct session *session = &end->session;
    if (session->load.fd >= 0) {
        struct pollfd now = {.fd = session->load.fd, .events = POLLIN};
        const bool ended = poll(&now, 1, 0) == 1 && (now.revents & (POLLHUP | POLLIN)) == POLLHUP;
        close_load(end, ended ? LOAD_DONE : LOAD_FAILED);
    }
    return reply_number(end, session->load_state == LOAD_FAILED ? 1 : 0, err);
}

/* ---- descriptors in flight: not offered, but answered with care ---- */

static int check_inflight(const struct message *message, struct error *err)
{
    const struct wire_inflight *inflight = &message->payload.inflight;
    if (inflight->queues == 0 || inflight->queues > RINGS || inflight->queue_size == 0 ||
        inflight->queue_size > VIRTQUEUE_SIZE_MAX)
        return error_set(err, REASON_INVALID_REQUEST, "there cannot be %u queues of %u entries",
                         inflight->queues, inflight->queue_size);
    return 0;
}

/* A size of 0 says that nothing is to be shared. */
int handle_get_inflight_fd(struct vhost_user_end *end, struct message *message, struct error *err)
{
    if (check_inflight(message, err) != 0)
        return -1;
    struct wire_inflight answer = message->payload.inflight;
    answer.mmap_size = answer.mmap_offset = 0;
    return reply(end, &answer, message->header.size, err);
}

int handle_set_inflight_fd(struct vhost_user_end *end, struct message *message, struct error *err)
{
    (void)end;
    if (check_inflight(message, err) != 0)
        return -1;
    return error_set(err, REASON_INVALID_REQUEST, "it was not offered");
}
