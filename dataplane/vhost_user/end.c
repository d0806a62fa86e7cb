/* The end as a whole: made, described, destroyed. */
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "dataplane/vhost_user/internal.h"
#include "dataplane/vhost_user/vhost_user.h"

static int start(struct vhost_user_end *end, int *listener, struct error *err)
{
    if (end->end.specification.role == END_SERVER)
        return listener_start(end, take_fd(listener), err);
    if (*listener >= 0)
        return error_set(err, REASON_INVALID_REQUEST, "an end that connects has no listening socket");
    connector_start(end);
    return 0;
}

int vhost_user_end_new(const struct end_specification *specification, int listener, struct control_loop *loop,
                       struct worker_task *task, struct end **ret, struct error *err)
{
    auto_close int given = listener;
    struct vhost_user_end *end = calloc(1, sizeof *end);
    if (end == NULL)
        return error_set(err, REASON_RESOURCE_LIMIT, "making an end: out of memory");
    end->end =
        (struct end){.operations = &vhost_user_end_operations, .task = task, .specification = *specification};
    end->loop = loop;
    end->live = end;
    end->listener.source.fd = end->listener.leaving.fd = end->listener.spare = -1;
    session_init(end);
    if (start(end, &given, err) != 0) {
        listener_stop(end);
        free(end);
        return -1;
    }
    *ret = &end->end;
    return 0;
}

void vhost_user_end_destroy(struct end *base)
{
    struct vhost_user_end *end = vhost_user_end_of(base);
    standby_destroy(end);
    if (session_is_open(&end->session))
        session_end(end, false, "the link was deleted");
    connector_stop(end);
    listener_stop(end);
    for (unsigned i = 0; i < RINGS; i++)
        virtqueue_free(end->path.queues[i]);
    free(end);
}

void vhost_user_end_set_offloads(struct end *base, uint64_t offloads_off)
{
    base->specification.offloads_off = offloads_off; /* offered from the next connection on */
}

/* ---- its state, and why ---- */

static unsigned running_pairs(const struct vhost_user_end *end)
{
    unsigned count = 0;
    for (unsigned i = 0; i < RINGS; i += 2)
        count += end->session.rings[i].running || end->session.rings[i + 1].running;
    return count;
}

static bool receives(const struct vhost_user_end *end)
{
    for (unsigned i = 0; i < RINGS; i += 2) {
        if (end->session.rings[i].running && (end->path.enabled & bit(i)) != 0)
            return true;
    }
    return false;
}

/* The first ring that was given up; RINGS: none. */
static unsigned faulted_ring(const struct session *session)
{
    unsigned i = 0;
    while (i < RINGS && session->rings[i].fault == 0)
        i++;
    return i;
}

static void describe_absence(const struct vhost_user_end *end, struct end_status *status)
{
    const char *path = end->end.specification.socket_path;
    const bool client = end->end.specification.role == END_CLIENT;
    status->state = end->misbehaved ? END_FAULTED : END_WAITING;
    if (end->history[0] == '\0')
        (void)snprintf(status->reason, sizeof status->reason, "nobody %s %s",
                       client ? "has listened yet on" : "is connected to", path);
    else if (client)
        (void)snprintf(status->reason, sizeof status->reason, "%.140s; trying again", end->history);
    else if (end->misbehaved)
        (void)snprintf(status->reason, sizeof status->reason, "%s", end->history);
    else
        (void)snprintf(status->reason, sizeof status->reason, "%.30s; waiting at %s", end->history, path);
}

static void describe_session(const struct vhost_user_end *end, struct end_status *status)
{
    const struct session *session = &end->session;
    const unsigned faulted = faulted_ring(session);
    if (faulted < RINGS) {
        status->state = END_FAULTED;
        (void)snprintf(status->reason, sizeof status->reason, "queue %u: %s", faulted,
                       ring_fault_text(session->rings[faulted].fault));
    } else if (receives(end)) {
        status->state = END_RUNNING;
        status->reason[0] = '\0';
    } else {
        status->state = END_CONNECTED;
        (void)snprintf(status->reason, sizeof status->reason,
                       session->refusal[0] != '\0'
                           ? "connected; refused: %.130s"
                           : "connected; the driver has not started its receive queue%s",
                       session->refusal);
    }
}

void vhost_user_end_status(const struct end *base, struct end_status *status)
{
    const struct vhost_user_end *primary = (const struct vhost_user_end *)base;
    const struct vhost_user_end *standby = primary->standby;
    const struct vhost_user_end *shown = primary->live;
    const struct session *session = &shown->session;
    const bool open = session_is_open(session);
    *status = (struct end_status){
        .features = open ? session->features : 0,
        .protocol_features = open ? session->protocol_features : 0,
        .queue_pairs = open ? running_pairs(shown) : 0,
        .peer_pid = open ? session->peer_pid : 0,
        .connections = primary->connections + (standby != NULL ? standby->connections : 0),
        .faults = primary->fault_count + (standby != NULL ? standby->fault_count : 0)};
    if (open)
        describe_session(shown, status);
    else
        describe_absence(shown, status);
}
