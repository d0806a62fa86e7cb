/* The description of the rings, their descriptors, their start and stop. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "dataplane/vhost_user/dispatch.h"

/* The one place where a number of a front-end becomes the index of a ring. */
static struct ring *find_ring(struct vhost_user_end *end, uint64_t index, struct error *err)
{
    if (index >= RINGS) {
        (void)error_set(err, REASON_INVALID_REQUEST, "queue %llu: there are only %d",
                        (unsigned long long)index, RINGS);
        return NULL;
    }
    return &end->session.rings[index];
}

int handle_set_vring_num(struct vhost_user_end *end, struct message *message, struct error *err)
{
    const struct wire_ring_state state = message->payload.ring;
    struct ring *ring = find_ring(end, state.index, err);
    if (ring == NULL)
        return -1;
    const bool packed = (end->session.features & FEATURE(VIRTIO_F_RING_PACKED)) != 0;
    if (!virtqueue_size_valid(state.value, packed))
        return error_set(err, REASON_INVALID_REQUEST, "queue %u cannot have %u entries", state.index,
                         state.value);
    if (ring->size == state.value)
        return 0;
    ring_stop(end, state.index);
    ring->size = state.value;
    return ring_start(end, state.index, err);
}

int handle_set_vring_addr(struct vhost_user_end *end, struct message *message, struct error *err)
{
    const struct wire_ring_addresses *addresses = &message->payload.addresses;
    struct ring *ring = find_ring(end, addresses->index, err);
    if (ring == NULL)
        return -1;
    ring->log_used = (addresses->flags & VHOST_USER_RING_LOGGED) != 0;
    ring->log_address = addresses->log_address;
    /* QEMU sends the same addresses again to switch the log of a running ring. */
    if (ring->running && ring->descriptors == addresses->descriptors && ring->device == addresses->used &&
        ring->driver == addresses->available) {
        rings_set_log(end, end->session.log);
        return 0;
    }
    ring_stop(end, addresses->index);
    ring->descriptors = addresses->descriptors;
    ring->device = addresses->used;
    ring->driver = addresses->available;
    ring->addressed = true;
    return ring_start(end, addresses->index, err);
}

int handle_set_vring_base(struct vhost_user_end *end, struct message *message, struct error *err)
{
    const struct wire_ring_state state = message->payload.ring;
    struct ring *ring = find_ring(end, state.index, err);
    if (ring == NULL)
        return -1;
    ring_stop(end, state.index);
    ring->base = state.value;
    ring->based = true;
    return ring_start(end, state.index, err);
}

int handle_get_vring_base(struct vhost_user_end *end, struct message *message, struct error *err)
{
    const struct wire_ring_state state = message->payload.ring;
    struct ring *ring = find_ring(end, state.index, err);
    if (ring == NULL)
        return -1;
    ring_stop(end, state.index);
    ring->started = false;
    close_descriptor(&ring->kick_fd);
    ring_set_call(end, state.index, -1);
    const struct wire_ring_state answer = {.index = state.index, .value = ring->base};
    return reply(end, &answer, sizeof answer, err);
}

int handle_set_vring_enable(struct vhost_user_end *end, struct message *message, struct error *err)
{
    const struct wire_ring_state state = message->payload.ring;
    if (find_ring(end, state.index, err) == NULL)
        return -1;
    if (state.value > 1)
        return error_set(err, REASON_INVALID_REQUEST, "a queue cannot be enabled by %u", state.value);
    rings_set_enabled(end, bit(state.index), state.value == 1);
    return 0;
}

/* ---- descriptors ---- */

/* Takes the message's descriptor, if it says that there is one. Only an eventfd and the like will do: what a
 * front-end may do to others through a pipe, a socket or a file that we write to cannot be bounded. It is
 * made not to block; a front-end can undo that, for which there is worker_watchdog. */
static int take_descriptor(struct vhost_user_end *end, struct message *message, unsigned *index, int *ret,
                           struct error *err)
{
    const uint64_t number = message->payload.number;
    if (find_ring(end, number & ~(uint64_t)VHOST_USER_NO_DESCRIPTOR, err) == NULL)
        return -1;
    *index = (unsigned)(number & VHOST_USER_INDEX_MASK);
    const bool none = (number & VHOST_USER_NO_DESCRIPTOR) != 0;
    if (none != (message->descriptor_count == 0))
        return error_set(err, REASON_INVALID_REQUEST,
                         none ? "a descriptor came although it says that there is none"
                              : "a descriptor is missing");
    if (none) {
        *ret = -1;
        return 0;
    }
    const int fd = message->descriptors[0];
    struct stat status;
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fstat(fd, &status) != 0)
        return error_set_errno(err, REASON_INVALID_REQUEST, errno, "the descriptor cannot be examined");
    if ((status.st_mode & S_IFMT) != 0 || (flags & O_ACCMODE) != O_RDWR)
        return error_set(err, REASON_INVALID_REQUEST, "the descriptor is no eventfd");
    if (fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return error_set_errno(err, REASON_INVALID_REQUEST, errno,
                               "the descriptor cannot be made not to block");
    *ret = take_fd(&message->descriptors[0]);
    return 0;
}

/* Starts the ring, or starts it again with another descriptor. */
int handle_set_vring_kick(struct vhost_user_end *end, struct message *message, struct error *err)
{
    unsigned index = 0;
    int fd = -1;
    if (take_descriptor(end, message, &index, &fd, err) != 0)
        return -1;
    struct ring *ring = &end->session.rings[index];
    ring_stop(end, index);
    cleanup_close(&ring->kick_fd);
    ring->kick_fd = fd;
    ring->started = true;
    return ring_start(end, index, err);
}

int handle_set_vring_call(struct vhost_user_end *end, struct message *message, struct error *err)
{
    unsigned index = 0;
    int fd = -1;
    if (take_descriptor(end, message, &index, &fd, err) != 0)
        return -1;
    ring_set_call(end, index, fd);
    return 0;
}

int handle_set_vring_err(struct vhost_user_end *end, struct message *message, struct error *err)
{
    unsigned index = 0;
    int fd = -1;
    if (take_descriptor(end, message, &index, &fd, err) != 0)
        return -1;
    ring_set_error(end, index, fd);
    return 0;
}
