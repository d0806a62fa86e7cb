/* What is offered to a front-end: always the same, whatever the other end of the link has. */
#ifndef CHAN_DATAPLANE_VHOST_USER_FEATURES_H
#define CHAN_DATAPLANE_VHOST_USER_FEATURES_H

#include <linux/vhost_types.h>
#include <linux/virtio_config.h>
#include <linux/virtio_net.h>
#include <linux/virtio_ring.h>
#include <stdint.h>

#define FEATURE(number) (UINT64_C(1) << (number))

/* Bits that the headers of a Debian 12 kernel do not name, or only in newer ones. */
enum {
    FEATURE_LOG_ALL = 26,
    FEATURE_PROTOCOL = 30, /* VHOST_USER_F_PROTOCOL_FEATURES */
    FEATURE_IN_ORDER = 35,
    FEATURE_RING_RESET = 40,
    FEATURE_GUEST_USO4 = 54,
    FEATURE_GUEST_USO6 = 55,
    FEATURE_HOST_USO = 56
};

enum {
    PROTOCOL_MQ = 0,
    PROTOCOL_LOG_SHMFD = 1,
    PROTOCOL_RARP = 2,
    PROTOCOL_REPLY_ACK = 3,
    PROTOCOL_MTU = 4,
    PROTOCOL_BACKEND_REQ = 5,
    PROTOCOL_RESET_DEVICE = 13,
    PROTOCOL_CONFIGURE_MEM_SLOTS = 15,
    PROTOCOL_STATUS = 16,
    PROTOCOL_DEVICE_STATE = 19
};

/* The virtio features to offer without the bits of `off`. What depends on a bit that is off is off, too;
 * VERSION_1 and the protocol features stay. */
uint64_t features_offered(uint64_t off);
uint64_t protocol_features_offered(void);

#endif
