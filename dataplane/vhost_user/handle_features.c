/* What both sides can do, and the state of the device as a whole. */
#include "dataplane/vhost_user/dispatch.h"

int handle_get_features(struct vhost_user_end *end, struct message *message, struct error *err)
{
    (void)message;
    return reply_number(end, end->session.offered, err);
}

int handle_set_features(struct vhost_user_end *end, struct message *message, struct error *err)
{
    struct session *session = &end->session;
    const uint64_t features = message->payload.number;
    if ((features & ~session->offered) != 0)
        return error_set(err, REASON_INVALID_REQUEST, "features %#llx were not offered",
                         (unsigned long long)(features & ~session->offered));
    const uint64_t log_all = FEATURE(FEATURE_LOG_ALL);
    const uint64_t changed = session->features_acked ? features ^ session->features : UINT64_MAX;
    /* The log is switched while rings run (a migration begins or ends); all else is a matter of their start.
     */
    const bool anew = (changed & ~log_all) != 0;
    if (anew)
        rings_stop_all(end);
    session->features = features;
    session->features_acked = true;
    if ((changed & log_all) != 0)
        rings_set_log(end, session->log);
    /* A front-end without protocol features knows no SET_VRING_ENABLE. For others this never disables. */
    if ((features & FEATURE(FEATURE_PROTOCOL)) == 0)
        rings_set_enabled(end, RECEIVE_RINGS | SEND_RINGS, true);
    for (unsigned i = 0; anew && i < RINGS; i++) {
        if (ring_start(end, i, err) != 0)
            return -1;
    }
    return 0;
}

int handle_get_protocol_features(struct vhost_user_end *end, struct message *message, struct error *err)
{
    (void)message;
    return reply_number(end, protocol_features_offered(), err);
}

int handle_set_protocol_features(struct vhost_user_end *end, struct message *message, struct error *err)
{
    const uint64_t features = message->payload.number;
    if ((features & ~protocol_features_offered()) != 0)
        return error_set(err, REASON_INVALID_REQUEST, "protocol features %#llx were not offered",
                         (unsigned long long)(features & ~protocol_features_offered()));
    end->session.protocol_features = features;
    return 0;
}

/* QEMU and DPDK take the number for pairs, Cloud Hypervisor for rings; so it is that of the rings, or the
 * last one could not use them all. */
int handle_get_queue_num(struct vhost_user_end *end, struct message *message, struct error *err)
{
    (void)message;
    return reply_number(end, RINGS, err);
}

int handle_set_owner(struct vhost_user_end *end, struct message *message, struct error *err)
{
    (void)end;
    (void)message;
    (void)err;
    return 0;
}

/* A front-end that knows SET_VRING_ENABLE will use it again; another one could not. */
static void disable_all(struct vhost_user_end *end)
{
    if ((end->session.features & FEATURE(FEATURE_PROTOCOL)) != 0)
        rings_set_enabled(end, RECEIVE_RINGS | SEND_RINGS, false);
}

int handle_reset_owner(struct vhost_user_end *end, struct message *message, struct error *err)
{
    (void)message;
    (void)err;
    disable_all(end);
    return 0;
}

/* Memory, descriptors and what else belongs to the connection stay. So does what a GET_VRING_BASE answers,
 * until the next start, which begins anew: QEMU 7 sets the status to 0 first and then asks where the rings
 * were. */
static void reset_device(struct vhost_user_end *end)
{
    struct session *session = &end->session;
    rings_stop_all(end);
    disable_all(end);
    for (unsigned i = 0; i < RINGS; i++) {
        session->rings[i].started = session->rings[i].based = false;
        session->rings[i].fault = 0;
    }
    session->status = 0;
}

int handle_reset_device(struct vhost_user_end *end, struct message *message, struct error *err)
{
    (void)message;
    (void)err;
    reset_device(end);
    return 0;
}

int handle_set_status(struct vhost_user_end *end, struct message *message, struct error *err)
{
    const uint64_t status = message->payload.number;
    if (status > UINT8_MAX)
        return error_set(err, REASON_INVALID_REQUEST, "there is no status %#llx", (unsigned long long)status);
    if (status == 0)
        reset_device(end);
    end->session.status = status;
    return 0;
}

int handle_get_status(struct vhost_user_end *end, struct message *message, struct error *err)
{
    (void)message;
    return reply_number(end, end->session.status, err);
}
