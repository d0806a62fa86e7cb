#include "tests/unit/vhost_user/front_end.h"

#include <check.h>
#include <errno.h>
#include <linux/virtio_net.h>
#include <linux/virtio_ring.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "tests/unit/vhost_user/fixture.h"

enum {
    RECEIVE = 0,
    SEND = 1,
    RING_SPACE = 0x4000,
    BUFFERS = 0x20000,
    HEADER = sizeof(struct virtio_net_hdr_v1)
};

static int64_t deadline_after(int ms)
{
    return clock_monotonic_ns() + INT64_C(1000000) * ms;
}

/* ---- the socket ---- */

void front_end_attach(struct front_end *front_end, int fd)
{
    *front_end = (struct front_end){.fd = fd, .memory_fd = memfd_create("guest", MFD_CLOEXEC)};
    ck_assert_int_ge(front_end->memory_fd, 0);
    ck_assert_int_eq(ftruncate(front_end->memory_fd, GUEST_MEMORY), 0);
    front_end->memory = mmap(NULL, GUEST_MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, front_end->memory_fd, 0);
    ck_assert_ptr_ne(front_end->memory, MAP_FAILED);
    for (unsigned i = 0; i < GUEST_RINGS; i++) {
        struct guest_ring *ring = &front_end->rings[i];
        ring->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        ring->call_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        ring->error_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        ring->descriptors = i * RING_SPACE;
        ring->available = i * RING_SPACE + 0x1000;
        ring->used = i * RING_SPACE + 0x2000;
    }
}

struct sockaddr_un unix_address(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    ck_assert_uint_lt(strlen(path), sizeof address.sun_path);
    memcpy(address.sun_path, path, strlen(path) + 1);
    return address;
}

void front_end_connect(struct front_end *front_end, const char *path)
{
    const struct sockaddr_un address = unix_address(path);
    const int64_t end = deadline_after(FIXTURE_WAIT_MS);
    for (;;) {
        const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ck_assert_int_ge(fd, 0);
        const struct front_end trial = {.fd = fd};
        if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0) {
            uint64_t features = 0;
            front_end_send(&trial, ID_GET_FEATURES, VHOST_USER_VERSION, NULL, 0, NULL, 0);
            if (front_end_read(&trial, ID_GET_FEATURES, &features, sizeof features, FIXTURE_WAIT_MS) > 0) {
                front_end_attach(front_end, fd);
                return;
            }
        }
        (void)close(fd);
        ck_assert_msg(clock_monotonic_ns() < end, "nobody serves %s", path);
        (void)usleep(2000);
    }
}

void front_end_close(struct front_end *front_end)
{
    (void)close(front_end->fd);
    (void)munmap(front_end->memory, GUEST_MEMORY);
    (void)close(front_end->memory_fd);
    for (unsigned i = 0; i < GUEST_RINGS; i++) {
        (void)close(front_end->rings[i].kick_fd);
        (void)close(front_end->rings[i].call_fd);
        (void)close(front_end->rings[i].error_fd);
    }
}

void front_end_send(const struct front_end *front_end, uint32_t id, uint32_t flags, const void *payload,
                    size_t size, const int *fds, unsigned fd_count)
{
    const struct wire_header header = {.id = id, .flags = flags, .size = (uint32_t)size};
    uint8_t empty = 0;
    union {
        const void *in;
        void *out;
    } bytes = {.in = payload != NULL ? payload : &empty};
    struct wire_header copy = header;
    struct iovec pieces[2] = {{.iov_base = &copy, .iov_len = sizeof copy},
                              {.iov_base = bytes.out, .iov_len = size}};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(VHOST_USER_DESCRIPTORS_MAX * sizeof(int))];
    memset(control, 0, sizeof control);
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
    if (fd_count > 0) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *first = CMSG_FIRSTHDR(&message);
        first->cmsg_level = SOL_SOCKET;
        first->cmsg_type = SCM_RIGHTS;
        first->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(first), fds, fd_count * sizeof(int));
    }
    const ssize_t sent = sendmsg(front_end->fd, &message, MSG_NOSIGNAL);
    ck_assert_msg(sent == (ssize_t)(sizeof header + size) || errno == EPIPE || errno == ECONNRESET,
                  "sending message %u: %s", id, strerror(errno));
}

static int read_all(int fd, void *to, size_t size, int64_t end)
{
    for (size_t have = 0; have < size;) {
        const int64_t left_ms = (end - clock_monotonic_ns()) / 1000000;
        struct pollfd readable = {.fd = fd, .events = POLLIN};
        if (left_ms < 0 || poll(&readable, 1, (int)left_ms) == 0)
            return SILENT;
        const ssize_t count = recv(fd, (uint8_t *)to + have, size - have, 0);
        if (count <= 0)
            return CLOSED;
        have += (size_t)count;
    }
    return 0;
}

int front_end_read(const struct front_end *front_end, uint32_t id, void *payload, size_t room, int wait_ms)
{
    struct wire_header header;
    const int64_t end = deadline_after(wait_ms);
    int result = read_all(front_end->fd, &header, sizeof header, end);
    if (result != 0)
        return result;
    ck_assert_uint_eq(header.id, id);
    ck_assert_uint_eq(header.flags, VHOST_USER_VERSION | VHOST_USER_REPLY);
    ck_assert_uint_le(header.size, room);
    result = read_all(front_end->fd, payload, header.size, end);
    return result != 0 ? result : (int)header.size;
}

int front_end_tell(const struct front_end *front_end, uint32_t id, const void *payload, size_t size,
                   const int *fds, unsigned fd_count)
{
    uint64_t answer = 0;
    front_end_send(front_end, id, VHOST_USER_VERSION | VHOST_USER_NEED_REPLY, payload, size, fds, fd_count);
    const int result = front_end_read(front_end, id, &answer, sizeof answer, FIXTURE_WAIT_MS);
    if (result < 0)
        return result;
    ck_assert_int_eq(result, sizeof answer);
    return answer == 0 ? ACKNOWLEDGED : REFUSED;
}

int front_end_tell_number(const struct front_end *front_end, uint32_t id, uint64_t number)
{
    return front_end_tell(front_end, id, &number, sizeof number, NULL, 0);
}

int front_end_tell_ring(const struct front_end *front_end, uint32_t id, uint32_t index, uint32_t value)
{
    const struct wire_ring_state state = {.index = index, .value = value};
    return front_end_tell(front_end, id, &state, sizeof state, NULL, 0);
}

int front_end_tell_fd(const struct front_end *front_end, uint32_t id, uint64_t index, int fd)
{
    const uint64_t number = index | (fd < 0 ? VHOST_USER_NO_DESCRIPTOR : 0);
    return front_end_tell(front_end, id, &number, sizeof number, &fd, fd < 0 ? 0 : 1);
}

uint64_t front_end_ask_number(const struct front_end *front_end, uint32_t id)
{
    uint64_t number = 0;
    front_end_send(front_end, id, VHOST_USER_VERSION, NULL, 0, NULL, 0);
    ck_assert_int_eq(front_end_read(front_end, id, &number, sizeof number, FIXTURE_WAIT_MS), sizeof number);
    return number;
}

uint32_t front_end_get_base(const struct front_end *front_end, uint32_t index)
{
    struct wire_ring_state state = {.index = index};
    front_end_send(front_end, ID_GET_VRING_BASE, VHOST_USER_VERSION, &state, sizeof state, NULL, 0);
    ck_assert_int_eq(front_end_read(front_end, ID_GET_VRING_BASE, &state, sizeof state, FIXTURE_WAIT_MS),
                     sizeof state);
    ck_assert_uint_eq(state.index, index);
    return state.value;
}

bool front_end_is_closed(const struct front_end *front_end)
{
    uint8_t byte;
    return read_all(front_end->fd, &byte, 1, deadline_after(FIXTURE_WAIT_MS)) == CLOSED;
}

/* ---- starting ---- */

void front_end_negotiate(const struct front_end *front_end, uint64_t features)
{
    ck_assert_int_eq(front_end_tell(front_end, ID_SET_OWNER, NULL, 0, NULL, 0), ACKNOWLEDGED);
    ck_assert_int_eq(front_end_tell_number(front_end, ID_SET_PROTOCOL_FEATURES,
                                           FEATURE(PROTOCOL_REPLY_ACK) | FEATURE(PROTOCOL_MQ)),
                     ACKNOWLEDGED);
    ck_assert_int_eq(front_end_tell_number(front_end, ID_SET_FEATURES, features), ACKNOWLEDGED);
}

void front_end_share_memory(const struct front_end *front_end)
{
    const struct {
        uint32_t count, padding;
        struct wire_region region;
    } table = {.count = 1,
               .region = {.guest_address = GUEST_ADDRESS, .size = GUEST_MEMORY, .user_address = GUEST_USER}};
    ck_assert_int_eq(
        front_end_tell(front_end, ID_SET_MEM_TABLE, &table, sizeof table, &front_end->memory_fd, 1),
        ACKNOWLEDGED);
}

void front_end_describe_ring(const struct front_end *front_end, unsigned index, uint32_t base)
{
    const struct guest_ring *ring = &front_end->rings[index];
    const struct wire_ring_addresses addresses = {.index = index,
                                                  .descriptors = GUEST_USER + ring->descriptors,
                                                  .used = GUEST_USER + ring->used,
                                                  .available = GUEST_USER + ring->available};
    ck_assert_int_eq(front_end_tell_ring(front_end, ID_SET_VRING_NUM, index, GUEST_RING_SIZE), ACKNOWLEDGED);
    ck_assert_int_eq(front_end_tell_ring(front_end, ID_SET_VRING_BASE, index, base), ACKNOWLEDGED);
    ck_assert_int_eq(front_end_tell(front_end, ID_SET_VRING_ADDR, &addresses, sizeof addresses, NULL, 0),
                     ACKNOWLEDGED);
}

/* ---- the guest ---- */

static struct vring_desc *descriptor(struct front_end *front_end, const struct guest_ring *ring,
                                     unsigned slot)
{
    return (struct vring_desc *)(void *)(front_end->memory + ring->descriptors) + slot;
}

static struct vring_used_elem *used_element(struct front_end *front_end, const struct guest_ring *ring,
                                            unsigned slot)
{
    return (struct vring_used_elem *)(void *)(front_end->memory + ring->used + 4) + slot;
}

static uint16_t load_index(struct front_end *front_end, uint32_t offset)
{
    return atomic_load_explicit((_Atomic uint16_t *)(void *)(front_end->memory + offset),
                                memory_order_acquire);
}

static void add(struct front_end *front_end, struct guest_ring *ring, const struct vring_desc *what)
{
    const unsigned slot = ring->added % GUEST_RING_SIZE;
    *descriptor(front_end, ring, slot) = *what;
    ((uint16_t *)(void *)(front_end->memory + ring->available + 4))[slot] = (uint16_t)slot;
    ring->added++;
    atomic_store_explicit((_Atomic uint16_t *)(void *)(front_end->memory + ring->available + 2), ring->added,
                          memory_order_release);
    const uint64_t one = 1;
    (void)!write(ring->kick_fd, &one, sizeof one);
}

static uint32_t buffer(unsigned ring, unsigned slot)
{
    return BUFFERS + (ring * GUEST_RING_SIZE + slot % GUEST_RING_SIZE) * GUEST_BUFFER;
}

static void add_receive_buffer(struct front_end *front_end)
{
    struct guest_ring *ring = &front_end->rings[RECEIVE];
    const struct vring_desc what = {.addr = GUEST_ADDRESS + buffer(RECEIVE, ring->added),
                                    .len = GUEST_BUFFER,
                                    .flags = VRING_DESC_F_WRITE};
    add(front_end, ring, &what);
}

void front_end_start(struct front_end *front_end, uint64_t features)
{
    front_end_negotiate(front_end, features);
    front_end_share_memory(front_end);
    for (unsigned i = 0; i < GUEST_RING_SIZE / 2; i++)
        add_receive_buffer(front_end);
    for (unsigned i = 0; i < GUEST_RINGS; i++) {
        const struct guest_ring *ring = &front_end->rings[i];
        front_end_describe_ring(front_end, i, 0);
        ck_assert_int_eq(front_end_tell_fd(front_end, ID_SET_VRING_ERR, i, ring->error_fd), ACKNOWLEDGED);
        ck_assert_int_eq(front_end_tell_fd(front_end, ID_SET_VRING_KICK, i, ring->kick_fd), ACKNOWLEDGED);
        ck_assert_int_eq(front_end_tell_fd(front_end, ID_SET_VRING_CALL, i, ring->call_fd), ACKNOWLEDGED);
    }
    for (unsigned i = 0; i < GUEST_RINGS; i++)
        ck_assert_int_eq(front_end_tell_ring(front_end, ID_SET_VRING_ENABLE, i, 1), ACKNOWLEDGED);
}

void guest_send_descriptor(struct front_end *front_end, uint64_t address, uint32_t length, uint16_t flags)
{
    const struct vring_desc what = {.addr = address, .len = length, .flags = flags};
    add(front_end, &front_end->rings[SEND], &what);
}

void guest_send(struct front_end *front_end, const void *frame, uint32_t length)
{
    const uint32_t at = buffer(SEND, front_end->rings[SEND].added);
    memset(front_end->memory + at, 0, HEADER);
    memcpy(front_end->memory + at + HEADER, frame, length);
    guest_send_descriptor(front_end, GUEST_ADDRESS + at, HEADER + length, 0);
}

bool guest_wait_sent(struct front_end *front_end)
{
    const struct guest_ring *ring = &front_end->rings[SEND];
    const int64_t end = deadline_after(FIXTURE_WAIT_MS);
    while (load_index(front_end, ring->used + 2) != ring->added) {
        if (clock_monotonic_ns() > end)
            return false;
        (void)usleep(500);
    }
    return true;
}

int guest_receive(struct front_end *front_end, void *frame, uint32_t room, int wait_ms)
{
    struct guest_ring *ring = &front_end->rings[RECEIVE];
    const int64_t end = deadline_after(wait_ms);
    while (load_index(front_end, ring->used + 2) == ring->taken) {
        if (clock_monotonic_ns() > end)
            return -1;
        (void)usleep(500);
    }
    const struct vring_used_elem used = *used_element(front_end, ring, ring->taken % GUEST_RING_SIZE);
    ck_assert_uint_lt(used.id, GUEST_RING_SIZE);
    ck_assert_uint_ge(used.len, HEADER);
    ck_assert_uint_le(used.len - HEADER, room);
    memcpy(frame, front_end->memory + buffer(RECEIVE, used.id) + HEADER, used.len - HEADER);
    ring->taken++;
    add_receive_buffer(front_end);
    return (int)(used.len - HEADER);
}
