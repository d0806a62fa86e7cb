/* A front-end and its guest, as far as tests need them: the socket protocol, one memory region, split rings
 * of one pair. */
#ifndef CHAN_TESTS_UNIT_VHOST_USER_FRONT_END_H
#define CHAN_TESTS_UNIT_VHOST_USER_FRONT_END_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/un.h>

#include "dataplane/vhost_user/features.h"
#include "dataplane/vhost_user/messages.h"

/* Message numbers by name: ID_GET_FEATURES, ... */
enum {
#define MESSAGE(id, name, ...) ID_##name = (id),
    VHOST_USER_MESSAGES(MESSAGE)
#undef MESSAGE
};

enum {
    GUEST_MEMORY = 1 << 20,
    GUEST_RING_SIZE = 64,
    GUEST_RINGS = 2,
    GUEST_BUFFER = 2048,
    ACKNOWLEDGED = 0,
    REFUSED = 1,
    CLOSED = -1,
    SILENT = -2
};
#define GUEST_ADDRESS UINT64_C(0x100000)
#define GUEST_USER    UINT64_C(0x7f0000000000)
#define PLAIN_FEATURES                                                                                       \
    (FEATURE(VIRTIO_F_VERSION_1) | FEATURE(FEATURE_PROTOCOL) | FEATURE(VIRTIO_NET_F_MRG_RXBUF))

struct guest_ring {
    int kick_fd, call_fd, error_fd;
    uint32_t descriptors, available, used; /* offsets in the memory */
    uint16_t added, taken;
};

struct front_end {
    int fd;
    int memory_fd;
    uint8_t *memory;
    struct guest_ring rings[GUEST_RINGS];
};

struct sockaddr_un unix_address(const char *path);

/* Connects, and tries again while it is turned away (what was there before may not be gone yet). */
void front_end_connect(struct front_end *front_end, const char *path);
/* As if it had connected. */
void front_end_attach(struct front_end *front_end, int fd);
void front_end_close(struct front_end *front_end);

void front_end_send(const struct front_end *front_end, uint32_t id, uint32_t flags, const void *payload,
                    size_t size, const int *fds, unsigned fd_count);
/* Reads an answer: the size of its payload, or CLOSED, or SILENT after `wait_ms`. */
int front_end_read(const struct front_end *front_end, uint32_t id, void *payload, size_t room, int wait_ms);
/* With need_reply: ACKNOWLEDGED, REFUSED, CLOSED or SILENT. */
int front_end_tell(const struct front_end *front_end, uint32_t id, const void *payload, size_t size,
                   const int *fds, unsigned fd_count);
int front_end_tell_number(const struct front_end *front_end, uint32_t id, uint64_t number);
int front_end_tell_ring(const struct front_end *front_end, uint32_t id, uint32_t index, uint32_t value);
/* SET_VRING_KICK and the like; fd -1: none. */
int front_end_tell_fd(const struct front_end *front_end, uint32_t id, uint64_t index, int fd);
uint64_t front_end_ask_number(const struct front_end *front_end, uint32_t id);
uint32_t front_end_get_base(const struct front_end *front_end, uint32_t index);
bool front_end_is_closed(const struct front_end *front_end);

void front_end_negotiate(const struct front_end *front_end, uint64_t features);
void front_end_share_memory(const struct front_end *front_end);
void front_end_describe_ring(const struct front_end *front_end, unsigned index, uint32_t base);
/* All of that, with rings started and enabled, and buffers to receive into. */
void front_end_start(struct front_end *front_end, uint64_t features);

/* The guest: sends and waits for frames. */
void guest_send(struct front_end *front_end, const void *frame, uint32_t length);
/* Puts a raw descriptor into the send ring. */
void guest_send_descriptor(struct front_end *front_end, uint64_t address, uint32_t length, uint16_t flags);
/* False: the device did not use what was sent within FIXTURE_WAIT_MS. */
bool guest_wait_sent(struct front_end *front_end);
/* The length of the next frame, which is copied to `frame`; -1: none came within `wait_ms`. */
int guest_receive(struct front_end *front_end, void *frame, uint32_t room, int wait_ms);

#endif
