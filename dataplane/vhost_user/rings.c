/* How the control thread shows rings to the worker and takes them back. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/cleanup.h"
#include "dataplane/vhost_user/internal.h"

const char *ring_fault_text(uint8_t fault)
{
    if (fault == RING_FAULT_CALL_BLOCKS)
        return "its call descriptor blocks whoever writes to it";
    return virtqueue_fault_text((enum virtqueue_fault)fault);
}

static const struct dirty_log *active_log(const struct session *session)
{
    return (session->features & FEATURE(FEATURE_LOG_ALL)) != 0 ? session->log : NULL;
}

/* ---- on the worker's thread, within worker_run ---- */

struct change {
    struct vhost_user_end *end;
    unsigned index;
    struct ring *ring;
    /* starting */
    struct virtqueue_setup setup;
    const struct guest_memory *memory;
    const struct dirty_log *log;
    int fd; /* another descriptor */
    /* results */
    uint32_t base;
    uint8_t fault;
    int result;
    struct error *err;
};

static void set_log_on_worker(struct virtqueue *queue, const struct ring *ring, const struct dirty_log *log)
{
    virtqueue_set_log(queue, log, ring->log_used, ring->log_address);
}

static int watch(struct vhost_user_end *end, unsigned index, int kick_fd, struct error *err)
{
    if (kick_fd < 0) {
        end->path.polled |= bit(index);
        return 0;
    }
    end->path.polled &= ~bit(index);
    return worker_watch(end->end.task, kick_fd, err);
}

static void start_on_worker(void *argument)
{
    struct change *change = argument;
    struct vhost_user_end *end = change->end;
    struct datapath *path = &end->path;
    struct virtqueue *queue = path->queues[change->index];
    change->result = virtqueue_start(queue, &change->setup, change->memory, change->err);
    if (change->result != 0)
        return;
    change->result = watch(end, change->index, change->ring->kick_fd, change->err);
    if (change->result != 0) {
        virtqueue_stop(queue);
        return;
    }
    virtqueue_set_call(queue, change->ring->call_fd);
    set_log_on_worker(queue, change->ring, change->log);
    virtqueue_disable_kicks(queue);
    path->memory = change->memory;
    path->log = change->log;
    path->running |= bit(change->index);
    const bool packed = (change->setup.features & FEATURE(VIRTIO_F_RING_PACKED)) != 0;
    const uint32_t fresh = packed ? UINT32_C(0x80008000) : 0;
    if (virtqueue_base(queue) != fresh)
        path->nudge |= bit(change->index);
    datapath_refresh(path);
    datapath_nudge(end, change->index);
    worker_wake(end->end.task);
}

static void stop_on_worker(void *argument)
{
    struct change *change = argument;
    struct datapath *path = &change->end->path;
    const uint32_t ring = bit(change->index);
    virtqueue_stop(path->queues[change->index]);
    change->base = virtqueue_base(path->queues[change->index]);
    if (change->ring->kick_fd >= 0)
        worker_unwatch(change->end->end.task, change->ring->kick_fd);
    path->running &= ~ring;
    path->nudge &= ~ring;
    datapath_refresh(path);
    if ((atomic_fetch_and_explicit(&path->faulted, ~ring, memory_order_acquire) & ring) != 0)
        change->fault = atomic_load_explicit(&path->fault[change->index], memory_order_relaxed);
}

static void call_on_worker(void *argument)
{
    const struct change *change = argument;
    struct datapath *path = &change->end->path;
    path->call_fds[change->index] = change->fd;
    if ((path->running & bit(change->index)) == 0)
        return;
    virtqueue_set_call(path->queues[change->index], change->fd);
    datapath_nudge(change->end, change->index);
}

static void error_on_worker(void *argument)
{
    const struct change *change = argument;
    change->end->path.error_fds[change->index] = change->fd;
}

static void log_on_worker(void *argument)
{
    const struct change *change = argument;
    struct datapath *path = &change->end->path;
    path->log = change->log;
    for (unsigned i = 0; i < RINGS; i++) {
        if (path->queues[i] != NULL && virtqueue_is_started(path->queues[i]))
            set_log_on_worker(path->queues[i], &change->end->session.rings[i], change->log);
    }
}

struct memory_change {
    struct vhost_user_end *end;
    const struct guest_memory *memory;
    uint32_t stopped; /* rings that do not lie in it */
    struct error *err;
};

static void memory_on_worker(void *argument)
{
    struct memory_change *change = argument;
    struct datapath *path = &change->end->path;
    for (unsigned i = 0; i < RINGS; i++) {
        if (path->queues[i] == NULL || !virtqueue_is_started(path->queues[i]))
            continue;
        if ((path->running & bit(i)) == 0) /* given up; it must let go of the memory, too */
            virtqueue_stop(path->queues[i]);
        else if (virtqueue_remap(path->queues[i], change->memory,
                                 change->stopped == 0 ? change->err : NULL) != 0)
            change->stopped |= bit(i);
    }
    path->memory = change->memory;
    worker_wake(change->end->end.task);
}

struct enable_change {
    struct vhost_user_end *end;
    uint32_t enabled;
};

static void enable_on_worker(void *argument)
{
    const struct enable_change *change = argument;
    change->end->path.enabled = change->enabled;
    datapath_refresh(&change->end->path);
    worker_wake(change->end->end.task);
}

/* ---- on the control thread ---- */

static void run(struct vhost_user_end *end, void (*fn)(void *argument), void *argument)
{
    worker_run(end->end.task->worker, fn, argument);
}

int ring_start(struct vhost_user_end *end, unsigned index, struct error *err)
{
    struct session *session = &end->session;
    struct ring *ring = &session->rings[index];
    if (!ring->started || !ring->addressed || ring->size == 0 || session->memory == NULL ||
        !session->features_acked)
        return 0;
    if (end->path.queues[index] == NULL) {
        struct virtqueue *queue = NULL;
        if (virtqueue_new(&queue, err) != 0)
            return -1;
        end->path.queues[index] = queue; /* the worker does not look at it before it runs */
    }
    const bool packed = (session->features & FEATURE(VIRTIO_F_RING_PACKED)) != 0;
    if (!ring->based)
        ring->base = packed ? UINT32_C(0x80008000) : 0;
    struct change change = {.end = end,
                            .index = index,
                            .ring = ring,
                            .setup = {.size = ring->size,
                                      .features = session->features,
                                      .descriptors = ring->descriptors,
                                      .driver = ring->driver,
                                      .device = ring->device,
                                      .base = ring->base},
                            .memory = session->memory,
                            .log = active_log(session),
                            .err = err};
    run(end, start_on_worker, &change);
    if (change.result != 0) {
        ring->started = false;
        return error_wrap(err, "queue %u: ", index);
    }
    ring->running = true;
    ring->fault = 0;
    return 0;
}

void ring_stop(struct vhost_user_end *end, unsigned index)
{
    struct ring *ring = &end->session.rings[index];
    if (!ring->running)
        return;
    struct change change = {.end = end, .index = index, .ring = ring};
    run(end, stop_on_worker, &change);
    ring->running = false;
    ring->based = true;
    ring->base = change.base;
    if (change.fault != 0) {
        ring->fault = change.fault;
        ring->started = false;
        end->fault_count++;
    }
}

void ring_set_call(struct vhost_user_end *end, unsigned index, int fd)
{
    struct ring *ring = &end->session.rings[index];
    struct change change = {.end = end, .index = index, .ring = ring, .fd = fd};
    run(end, call_on_worker, &change);
    cleanup_close(&ring->call_fd);
    ring->call_fd = fd;
}

void ring_set_error(struct vhost_user_end *end, unsigned index, int fd)
{
    struct ring *ring = &end->session.rings[index];
    struct change change = {.end = end, .index = index, .ring = ring, .fd = fd};
    run(end, error_on_worker, &change);
    cleanup_close(&ring->error_fd);
    ring->error_fd = fd;
}

void rings_set_enabled(struct vhost_user_end *end, uint32_t mask, bool enabled)
{
    struct enable_change change = {.end = end,
                                   .enabled = enabled ? end->path.enabled | mask : end->path.enabled & ~mask};
    run(end, enable_on_worker, &change);
}

void rings_set_log(struct vhost_user_end *end, struct dirty_log *log)
{
    struct session *session = &end->session;
    struct dirty_log *before = session->log;
    session->log = log;
    struct change change = {.end = end, .log = active_log(session)};
    run(end, log_on_worker, &change);
    if (before != log)
        dirty_log_free(before);
}

int rings_set_memory(struct vhost_user_end *end, struct guest_memory *memory, struct error *err)
{
    struct session *session = &end->session;
    struct memory_change change = {.end = end, .memory = memory, .err = err};
    run(end, memory_on_worker, &change);
    guest_memory_free(session->memory);
    session->memory = memory;
    int result = 0;
    for (unsigned i = 0; i < RINGS; i++) {
        struct ring *ring = &session->rings[i];
        if ((change.stopped & bit(i)) != 0) {
            ring_stop(end, i); /* the worker lets go of what else it has of the ring */
            ring->started = false;
            if (result == 0)
                result = error_wrap(err, "queue %u: ", i);
        } else if (!ring->running && result == 0) {
            result = ring_start(end, i, err);
        }
    }
    return result;
}

void rings_stop_all(struct vhost_user_end *end)
{
    for (unsigned i = 0; i < RINGS; i++)
        ring_stop(end, i);
}

bool rings_collect_faults(struct vhost_user_end *end)
{
    if (atomic_load_explicit(&end->path.memory_lost, memory_order_acquire))
        return false;
    const uint32_t faulted = atomic_load_explicit(&end->path.faulted, memory_order_acquire);
    for (uint32_t rings = faulted; rings != 0; rings &= rings - 1)
        ring_stop(end, (unsigned)__builtin_ctz(rings));
    return true;
}
