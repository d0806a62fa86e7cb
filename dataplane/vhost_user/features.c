#include "dataplane/vhost_user/features.h"

/* GUEST_ANNOUNCE: the guest then announces itself after a migration, with all its addresses; its front-end
 * does the device's part of that. Where it is not acked the front-end sends SEND_RARP instead. */
static const uint64_t offer =
    FEATURE(VIRTIO_F_VERSION_1) | FEATURE(FEATURE_PROTOCOL) | FEATURE(FEATURE_LOG_ALL) |
    FEATURE(VIRTIO_F_ANY_LAYOUT) | FEATURE(VIRTIO_RING_F_INDIRECT_DESC) | FEATURE(VIRTIO_RING_F_EVENT_IDX) |
    FEATURE(VIRTIO_F_RING_PACKED) | FEATURE(FEATURE_IN_ORDER) | FEATURE(FEATURE_RING_RESET) |
    FEATURE(VIRTIO_NET_F_CSUM) | FEATURE(VIRTIO_NET_F_GUEST_CSUM) | FEATURE(VIRTIO_NET_F_MTU) |
    FEATURE(VIRTIO_NET_F_GUEST_TSO4) | FEATURE(VIRTIO_NET_F_GUEST_TSO6) | FEATURE(VIRTIO_NET_F_GUEST_ECN) |
    FEATURE(VIRTIO_NET_F_GUEST_UFO) | FEATURE(FEATURE_GUEST_USO4) | FEATURE(FEATURE_GUEST_USO6) |
    FEATURE(VIRTIO_NET_F_HOST_TSO4) | FEATURE(VIRTIO_NET_F_HOST_TSO6) | FEATURE(VIRTIO_NET_F_HOST_ECN) |
    FEATURE(VIRTIO_NET_F_HOST_UFO) | FEATURE(FEATURE_HOST_USO) | FEATURE(VIRTIO_NET_F_MRG_RXBUF) |
    FEATURE(VIRTIO_NET_F_GUEST_ANNOUNCE) | FEATURE(VIRTIO_NET_F_MQ);

static const uint64_t protocol_offer =
    FEATURE(PROTOCOL_MQ) | FEATURE(PROTOCOL_LOG_SHMFD) | FEATURE(PROTOCOL_RARP) |
    FEATURE(PROTOCOL_REPLY_ACK) | FEATURE(PROTOCOL_MTU) | FEATURE(PROTOCOL_BACKEND_REQ) |
    FEATURE(PROTOCOL_RESET_DEVICE) | FEATURE(PROTOCOL_CONFIGURE_MEM_SLOTS) | FEATURE(PROTOCOL_STATUS) |
    FEATURE(PROTOCOL_DEVICE_STATE);

/* virtio 1.2, 5.1.3.1: what a bit requires, of which one is enough. */
static const struct {
    uint64_t needed, dependent;
} requirements[] = {
    {FEATURE(VIRTIO_NET_F_CSUM), FEATURE(VIRTIO_NET_F_HOST_TSO4) | FEATURE(VIRTIO_NET_F_HOST_TSO6) |
                                     FEATURE(VIRTIO_NET_F_HOST_UFO) | FEATURE(FEATURE_HOST_USO)},
    {FEATURE(VIRTIO_NET_F_GUEST_CSUM), FEATURE(VIRTIO_NET_F_GUEST_TSO4) | FEATURE(VIRTIO_NET_F_GUEST_TSO6) |
                                           FEATURE(VIRTIO_NET_F_GUEST_UFO) | FEATURE(FEATURE_GUEST_USO4) |
                                           FEATURE(FEATURE_GUEST_USO6)},
    {FEATURE(VIRTIO_NET_F_HOST_TSO4) | FEATURE(VIRTIO_NET_F_HOST_TSO6), FEATURE(VIRTIO_NET_F_HOST_ECN)},
    {FEATURE(VIRTIO_NET_F_GUEST_TSO4) | FEATURE(VIRTIO_NET_F_GUEST_TSO6), FEATURE(VIRTIO_NET_F_GUEST_ECN)},
};

uint64_t features_offered(uint64_t off)
{
    const uint64_t always = FEATURE(VIRTIO_F_VERSION_1) | FEATURE(FEATURE_PROTOCOL);
    uint64_t offered = offer & ~(off & ~always);
    for (unsigned i = 0; i < sizeof requirements / sizeof requirements[0]; i++) {
        if ((offered & requirements[i].needed) == 0)
            offered &= ~requirements[i].dependent;
    }
    return offered;
}

uint64_t protocol_features_offered(void)
{
    return protocol_offer;
}
