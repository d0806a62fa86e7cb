#include "tests/bench/cable/frontend/connection.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"

enum {
    GET_FEATURES = 1,
    SET_FEATURES = 2,
    SET_OWNER = 3,
    SET_MEM_TABLE = 5,
    SET_VRING_NUM = 8,
    SET_VRING_ADDR = 9,
    SET_VRING_BASE = 10,
    SET_VRING_KICK = 12,
    SET_VRING_CALL = 13,
    GET_PROTOCOL_FEATURES = 15,
    SET_PROTOCOL_FEATURES = 16,
    SET_VRING_ENABLE = 18,

    VERSION = 1,
    NO_DESCRIPTOR = -1,
    PATIENCE_S = 10
};

static const uint64_t FEATURE_PROTOCOL = UINT64_C(1) << 30;
static const uint32_t PACKED_BASE = UINT32_C(0x80008000); /* slot 0, wrapped once, for both positions */

struct message {
    uint32_t id, flags, size;
    union {
        uint64_t number;
        struct {
            uint32_t index, value;
        } state;
        struct {
            uint32_t index, flags;
            uint64_t descriptors, used, available, log;
        } addresses;
        struct {
            uint32_t count, padding;
            uint64_t guest_address, size, user_address, offset;
        } memory;
    } payload;
} __attribute__((packed));

enum { HEADER = 12 };

static int send_message(const struct connection *connection, const struct message *message, int fd,
                        struct error *err)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    memset(&control, 0, sizeof control);
    struct iovec piece = {.iov_base = (void *)(uintptr_t)message, .iov_len = HEADER + (size_t)message->size};
    struct msghdr out = {.msg_iov = &piece, .msg_iovlen = 1};
    if (fd >= 0) {
        out.msg_control = &control;
        out.msg_controllen = sizeof control;
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    }
    if (sendmsg(connection->fd, &out, MSG_NOSIGNAL) != (ssize_t)piece.iov_len)
        return error_set_errno(err, REASON_INTERNAL, errno, "sending message %" PRIu32, message->id);
    return 0;
}

static int ask(const struct connection *connection, uint32_t id, uint64_t *number, struct error *err)
{
    const struct message question = {.id = id, .flags = VERSION};
    struct message answer = {.id = 0};
    if (send_message(connection, &question, NO_DESCRIPTOR, err) != 0)
        return -1;
    const size_t length = HEADER + sizeof answer.payload.number;
    const ssize_t got = recv(connection->fd, &answer, length, MSG_WAITALL);
    if (got != (ssize_t)length || answer.id != id)
        return error_set(err, REASON_INTERNAL, "the back-end does not answer message %" PRIu32, id);
    *number = answer.payload.number;
    return 0;
}

static int tell_number(const struct connection *connection, uint32_t id, uint64_t number, int fd,
                       struct error *err)
{
    const struct message message = {
        .id = id, .flags = VERSION, .size = sizeof number, .payload.number = number};
    return send_message(connection, &message, fd, err);
}

static int tell_state(const struct connection *connection, uint32_t id, uint32_t index, uint32_t value,
                      struct error *err)
{
    const struct message message = {
        .id = id, .flags = VERSION, .size = 8, .payload.state = {.index = index, .value = value}};
    return send_message(connection, &message, NO_DESCRIPTOR, err);
}

/* ---- connecting ---- */

static int connect_to(struct connection *connection, const char *path, struct error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return error_set(err, REASON_INVALID_FIELD, "\"%s\" is too long for a socket's path", path);
    memcpy(address.sun_path, path, strlen(path) + 1);
    const int64_t end = clock_monotonic_ns() + INT64_C(1000000000) * PATIENCE_S;
    for (;;) {
        auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const struct timeval limit = {.tv_sec = PATIENCE_S};
        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0)
            return error_set_errno(err, REASON_INTERNAL, errno, "making a socket");
        if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0) {
            connection->fd = take_fd(&fd);
            return 0;
        }
        if (clock_monotonic_ns() > end)
            return error_set_errno(err, REASON_INTERNAL, errno, "connecting to %s", path);
        (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
}

int connection_open(struct connection *connection, const char *path, struct error *err)
{
    *connection = (struct connection){.fd = -1};
    if (connect_to(connection, path, err) != 0)
        return -1;
    if (ask(connection, GET_FEATURES, &connection->offered, err) == 0)
        return 0;
    connection_close(connection);
    return -1;
}

void connection_close(struct connection *connection)
{
    cleanup_close(&connection->fd);
    connection->fd = -1;
}

/* ---- starting ---- */

int connection_begin(struct connection *connection, const struct guest *guest, uint64_t features,
                     struct error *err)
{
    const uint64_t wanted = features | FEATURE_PROTOCOL;
    uint64_t protocol = 0;
    if ((wanted & ~connection->offered) != 0)
        return error_set(err, REASON_INVALID_FIELD, "the features %#" PRIx64 " are not offered",
                         wanted & ~connection->offered);
    const struct message owner = {.id = SET_OWNER, .flags = VERSION};
    const struct message memory = {
        .id = SET_MEM_TABLE,
        .flags = VERSION,
        .size = sizeof memory.payload.memory,
        .payload.memory = {.count = 1,
                           .guest_address = GUEST_ADDRESS,
                           .size = guest->size,
                           .user_address = GUEST_USER_ADDRESS},
    };
    if (ask(connection, GET_PROTOCOL_FEATURES, &protocol, err) != 0 ||
        tell_number(connection, SET_PROTOCOL_FEATURES, 0, NO_DESCRIPTOR, err) != 0 ||
        send_message(connection, &owner, NO_DESCRIPTOR, err) != 0 ||
        tell_number(connection, SET_FEATURES, wanted, NO_DESCRIPTOR, err) != 0)
        return -1;
    return send_message(connection, &memory, guest->fd, err);
}

static int start_ring(const struct connection *connection, const struct ring *ring, uint32_t index,
                      struct error *err)
{
    const struct message addresses = {
        .id = SET_VRING_ADDR,
        .flags = VERSION,
        .size = sizeof addresses.payload.addresses,
        .payload.addresses = {.index = index,
                              .descriptors = GUEST_USER_ADDRESS + ring->descriptors_at,
                              .used = GUEST_USER_ADDRESS + ring->device_at,
                              .available = GUEST_USER_ADDRESS + ring->driver_at},
    };
    if (tell_state(connection, SET_VRING_NUM, index, ring->shape.size, err) != 0 ||
        tell_state(connection, SET_VRING_BASE, index, ring->shape.packed ? PACKED_BASE : 0, err) != 0 ||
        send_message(connection, &addresses, NO_DESCRIPTOR, err) != 0 ||
        tell_number(connection, SET_VRING_CALL, index, ring->call_fd, err) != 0 ||
        tell_number(connection, SET_VRING_KICK, index, ring->kick_fd, err) != 0)
        return -1;
    return 0;
}

int connection_start(struct connection *connection, struct ring *const *rings, unsigned count,
                     struct error *err)
{
    for (unsigned i = 0; i < count; i++)
        if (start_ring(connection, rings[i], i, err) != 0)
            return -1;
    for (unsigned i = 0; i < count; i++)
        if (tell_state(connection, SET_VRING_ENABLE, i, 1, err) != 0)
            return -1;
    return ask(connection, GET_FEATURES, &connection->offered, err);
}
