/* vhost-user messages as they are on the wire, and the one table of those that we take. */
#ifndef CHAN_DATAPLANE_VHOST_USER_MESSAGES_H
#define CHAN_DATAPLANE_VHOST_USER_MESSAGES_H

#include <stdbool.h>
#include <stdint.h>

enum {
    VHOST_USER_VERSION = 1,
    VHOST_USER_VERSION_MASK = 3,
    VHOST_USER_REPLY = 1 << 2,
    VHOST_USER_NEED_REPLY = 1 << 3,

    VHOST_USER_PAYLOAD_MAX = 4096,
    VHOST_USER_DESCRIPTORS_MAX = 253, /* what Linux sends with one sendmsg */

    /* of SET_VRING_KICK, SET_VRING_CALL and SET_VRING_ERR, and of the answer to SET_DEVICE_STATE_FD */
    VHOST_USER_INDEX_MASK = 0xff,
    VHOST_USER_NO_DESCRIPTOR = 1 << 8,

    VHOST_USER_RING_LOGGED = 1 << 0 /* flag of SET_VRING_ADDR */
};

struct wire_header {
    uint32_t id;
    uint32_t flags;
    uint32_t size; /* of the payload */
};

struct wire_ring_state {
    uint32_t index;
    uint32_t value;
};

struct wire_ring_addresses {
    uint32_t index;
    uint32_t flags;
    uint64_t descriptors, used, available; /* in the front-end's address space */
    uint64_t log_address;                  /* of the used ring, in the guest's */
};

struct wire_region {
    uint64_t guest_address, size, user_address, mmap_offset;
};

enum { WIRE_REGIONS_MAX = (VHOST_USER_PAYLOAD_MAX - 8) / 32 };

struct wire_memory_table {
    uint32_t count;
    uint32_t padding;
    struct wire_region regions[WIRE_REGIONS_MAX];
};

struct wire_memory_region {
    uint64_t padding;
    struct wire_region region;
};

struct wire_log {
    uint64_t size, offset;
};

struct wire_inflight {
    uint64_t mmap_size, mmap_offset;
    uint16_t queues, queue_size;
};

struct wire_device_state {
    uint32_t direction; /* 0: save, 1: load */
    uint32_t phase;     /* 0: stopped */
};

_Static_assert(sizeof(struct wire_header) == 12, "on the wire");
_Static_assert(sizeof(struct wire_ring_state) == 8, "on the wire");
_Static_assert(sizeof(struct wire_ring_addresses) == 40, "on the wire");
_Static_assert(sizeof(struct wire_region) == 32, "on the wire");
_Static_assert(sizeof(struct wire_memory_table) <= VHOST_USER_PAYLOAD_MAX, "on the wire");
_Static_assert(sizeof(struct wire_memory_region) == 40, "on the wire");
_Static_assert(sizeof(struct wire_log) == 16, "on the wire");
_Static_assert(sizeof(struct wire_device_state) == 8, "on the wire");
enum { WIRE_INFLIGHT_SIZE = 20 }; /* some send the structure's padding as well */
_Static_assert(sizeof(struct wire_inflight) == 24, "20 on the wire, and padding");

struct message {
    struct wire_header header;
    unsigned descriptor_count;
    int descriptors[VHOST_USER_DESCRIPTORS_MAX]; /* -1 where one was taken */
    union {
        uint8_t bytes[VHOST_USER_PAYLOAD_MAX];
        uint64_t number;
        struct wire_ring_state ring;
        struct wire_ring_addresses addresses;
        struct wire_memory_table table;
        struct wire_memory_region region;
        struct wire_log log;
        struct wire_inflight inflight;
        struct wire_device_state device_state;
    } payload;
};

/* What a message may look like. A message that is not in the table was never offered, and is refused.
 * MESSAGE(id, name and handler, payload from, to, descriptors from, to, has an answer of its own) */
#define VHOST_USER_MESSAGES(MESSAGE)                                                                         \
    MESSAGE(1, GET_FEATURES, get_features, 0, 0, 0, 0, true)                                                 \
    MESSAGE(2, SET_FEATURES, set_features, 8, 8, 0, 0, false)                                                \
    MESSAGE(3, SET_OWNER, set_owner, 0, 8, 0, 0, false)                                                      \
    MESSAGE(4, RESET_OWNER, reset_owner, 0, 8, 0, 0, false)                                                  \
    MESSAGE(5, SET_MEM_TABLE, set_mem_table, 8, VHOST_USER_PAYLOAD_MAX, 0, VHOST_USER_DESCRIPTORS_MAX,       \
            false)                                                                                           \
    MESSAGE(6, SET_LOG_BASE, set_log_base, 16, 16, 1, 1, true)                                               \
    MESSAGE(7, SET_LOG_FD, set_log_fd, 0, 8, 1, 1, false)                                                    \
    MESSAGE(8, SET_VRING_NUM, set_vring_num, 8, 8, 0, 0, false)                                              \
    MESSAGE(9, SET_VRING_ADDR, set_vring_addr, 40, 40, 0, 0, false)                                          \
    MESSAGE(10, SET_VRING_BASE, set_vring_base, 8, 8, 0, 0, false)                                           \
    MESSAGE(11, GET_VRING_BASE, get_vring_base, 8, 8, 0, 0, true)                                            \
    MESSAGE(12, SET_VRING_KICK, set_vring_kick, 8, 8, 0, 1, false)                                           \
    MESSAGE(13, SET_VRING_CALL, set_vring_call, 8, 8, 0, 1, false)                                           \
    MESSAGE(14, SET_VRING_ERR, set_vring_err, 8, 8, 0, 1, false)                                             \
    MESSAGE(15, GET_PROTOCOL_FEATURES, get_protocol_features, 0, 0, 0, 0, true)                              \
    MESSAGE(16, SET_PROTOCOL_FEATURES, set_protocol_features, 8, 8, 0, 0, false)                             \
    MESSAGE(17, GET_QUEUE_NUM, get_queue_num, 0, 0, 0, 0, true)                                              \
    MESSAGE(18, SET_VRING_ENABLE, set_vring_enable, 8, 8, 0, 0, false)                                       \
    MESSAGE(19, SEND_RARP, send_rarp, 8, 8, 0, 0, false)                                                     \
    MESSAGE(20, NET_SET_MTU, net_set_mtu, 8, 8, 0, 0, false)                                                 \
    MESSAGE(21, SET_BACKEND_REQ_FD, set_backend_req_fd, 0, 8, 1, 1, false)                                   \
    MESSAGE(22, IOTLB_MSG, iotlb_msg, 0, 64, 0, 0, true)                                                     \
    MESSAGE(24, GET_CONFIG, get_config, 0, VHOST_USER_PAYLOAD_MAX, 0, 0, true)                               \
    MESSAGE(31, GET_INFLIGHT_FD, get_inflight_fd, WIRE_INFLIGHT_SIZE, 24, 0, 0, true)                        \
    MESSAGE(32, SET_INFLIGHT_FD, set_inflight_fd, WIRE_INFLIGHT_SIZE, 24, 1, 1, false)                       \
    MESSAGE(34, RESET_DEVICE, reset_device, 0, 0, 0, 0, false)                                               \
    MESSAGE(36, GET_MAX_MEM_SLOTS, get_max_mem_slots, 0, 0, 0, 0, true)                                      \
    MESSAGE(37, ADD_MEM_REG, add_mem_reg, 40, 40, 1, 1, false)                                               \
    MESSAGE(38, REM_MEM_REG, rem_mem_reg, 40, 40, 0, 1, false)                                               \
    MESSAGE(39, SET_STATUS, set_status, 8, 8, 0, 0, false)                                                   \
    MESSAGE(40, GET_STATUS, get_status, 0, 0, 0, 0, true)                                                    \
    MESSAGE(42, SET_DEVICE_STATE_FD, set_device_state_fd, 8, 8, 1, 1, true)                                  \
    MESSAGE(43, CHECK_DEVICE_STATE, check_device_state, 0, 0, 0, 0, true)

#endif
