/* What is of network devices only. */
#include <string.h>

#include "base/cleanup.h"
#include "dataplane/vhost_user/dispatch.h"

enum { MAC_SIZE = 6, MTU_MIN = 68, MTU_MAX = 65535 };

/* A request "who has 0.0.0.0 to MAC" as of RFC 903, as QEMU makes it. */
static void make_rarp(const uint8_t mac[MAC_SIZE], uint8_t frame[ANNOUNCEMENT_SIZE])
{
    static const uint8_t middle[] = {0x80, 0x35, 0, 1, 8, 0, 6, 4, 0, 3}; /* RARP, Ethernet, IPv4, request */
    memset(frame, 0, ANNOUNCEMENT_SIZE);
    memset(frame, 0xff, MAC_SIZE);
    memcpy(frame + 6, mac, MAC_SIZE);
    memcpy(frame + 12, middle, sizeof middle);
    memcpy(frame + 22, mac, MAC_SIZE);
    memcpy(frame + 32, mac, MAC_SIZE);
}

struct announcement {
    struct vhost_user_end *end;
    const uint8_t *mac;
};

static void announce_on_worker(void *argument)
{
    const struct announcement *announcement = argument;
    struct datapath *path = &announcement->end->path;
    if (path->announcement_count < ANNOUNCEMENTS)
        make_rarp(announcement->mac, path->announcements[path->announcement_count++]);
    worker_wake(announcement->end->end.task);
}

/* A guest that has moved and cannot say so itself: its front-end has us tell the network, which is the other
 * end, where its address is now. */
int handle_send_rarp(struct vhost_user_end *end, struct message *message, struct error *err)
{
    (void)err;
    struct announcement announcement = {.end = end, .mac = message->payload.bytes};
    worker_run(end->end.task->worker, announce_on_worker, &announcement);
    return 0;
}

int handle_net_set_mtu(struct vhost_user_end *end, struct message *message, struct error *err)
{
    const uint64_t mtu = message->payload.number;
    const uint64_t most = end->end.specification.mtu != 0 ? end->end.specification.mtu : MTU_MAX;
    if (mtu < MTU_MIN || mtu > most)
        return error_set(err, REASON_INVALID_REQUEST, "an MTU of %llu; it may be %d to %llu",
                         (unsigned long long)mtu, MTU_MIN, (unsigned long long)most);
    return 0;
}

/* The device's configuration is the front-end's own (CONFIG is not offered); an empty answer says so. */
int handle_get_config(struct vhost_user_end *end, struct message *message, struct error *err)
{
    (void)message;
    return reply(end, NULL, 0, err);
}

/* A channel for requests of ours. There is none to make: it is kept, since that is what was asked for. */
int handle_set_backend_req_fd(struct vhost_user_end *end, struct message *message, struct error *err)
{
    (void)err;
    cleanup_close(&end->session.backend_request_fd);
    end->session.backend_request_fd = take_fd(&message->descriptors[0]);
    return 0;
}
