/* The worker's side of the end: frames in and out of its rings, notifications, and what it does when a ring
 * turns out to be broken. */
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "base/clock.h"
#include "dataplane/vhost_user/internal.h"
#include "dataplane/virtio_net/virtio_net.h"

enum { POLLED_VISIT_NS = 500 * 1000 }; /* how often a sleeping end is visited whose driver never kicks */

void datapath_refresh(struct datapath *path)
{
    path->ready_count = 0;
    path->sending = 0;
    for (unsigned pair = 0; pair < END_QUEUE_PAIRS; pair++) {
        const unsigned receive = 2 * pair;
        if ((path->running & path->enabled & bit(receive)) != 0)
            path->ready[path->ready_count++] = (uint8_t)receive;
        if ((path->running & bit(receive + 1)) != 0)
            path->sending |= bit(pair);
    }
    path->armed &= path->running;
    path->owed &= path->running;
}

/* ---- writing to the front-end's descriptors ---- */

/* A front-end can make its eventfd block, and then full. The watchdog gets us out of the write; whether it
 * was for that reason is seen here. */
static bool is_blocked(int fd)
{
    struct pollfd writable = {.fd = fd, .events = POLLOUT};
    return poll(&writable, 1, 0) == 0;
}

static bool signal_descriptor(struct vhost_user_end *end, int fd)
{
    const uint64_t one = 1;
    worker_write_begin(end->end.task);
    (void)!write(fd, &one, sizeof one);
    return !worker_write_end(end->end.task) || !is_blocked(fd);
}

static void tell_control_thread(const struct datapath *path)
{
    const uint64_t one = 1;
    if (path->fault_event >= 0)
        (void)!write(path->fault_event, &one, sizeof one); /* ours, and it never blocks */
}

/* Stops to use the ring, until it is started anew. */
static void give_up(struct vhost_user_end *end, unsigned index, uint8_t fault)
{
    struct datapath *path = &end->path;
    path->running &= ~bit(index);
    datapath_refresh(path);
    atomic_store_explicit(&path->fault[index], fault, memory_order_relaxed);
    (void)atomic_fetch_or_explicit(&path->faulted, bit(index), memory_order_release);
    if (path->error_fds[index] >= 0)
        (void)signal_descriptor(end, path->error_fds[index]);
    tell_control_thread(path);
}

static void give_up_memory(struct datapath *path)
{
    path->running = 0;
    datapath_refresh(path);
    atomic_store_explicit(&path->memory_lost, true, memory_order_release);
    tell_control_thread(path);
}

/* After each use of a ring: true if it is still good. */
static bool is_fine(struct vhost_user_end *end, unsigned index)
{
    struct datapath *path = &end->path;
    const enum virtqueue_fault fault = virtqueue_fault(path->queues[index]);
    if (__builtin_expect(guest_memory_lost(path->memory) || fault == VIRTQUEUE_FAULT_MEMORY_LOST ||
                             (path->log != NULL && dirty_log_lost(path->log)),
                         0)) {
        give_up_memory(path);
        return false;
    }
    if (__builtin_expect(fault != VIRTQUEUE_FINE, 0)) {
        give_up(end, index, (uint8_t)fault);
        return false;
    }
    return true;
}

static bool notify(struct vhost_user_end *end, unsigned index)
{
    struct datapath *path = &end->path;
    worker_write_begin(end->end.task);
    const bool sent = virtqueue_notify(path->queues[index]);
    if (__builtin_expect(worker_write_end(end->end.task), 0) && path->call_fds[index] >= 0 &&
        is_blocked(path->call_fds[index]))
        give_up(end, index, RING_FAULT_CALL_BLOCKS);
    return sent;
}

void datapath_nudge(struct vhost_user_end *end, unsigned index)
{
    struct datapath *path = &end->path;
    if ((path->nudge & path->running & bit(index)) == 0 || path->call_fds[index] < 0)
        return;
    path->nudge &= ~bit(index);
    if (!signal_descriptor(end, path->call_fds[index]))
        give_up(end, index, RING_FAULT_CALL_BLOCKS);
}

/* ---- from the guest ---- */

/* Whose rings the link sees. */
static struct vhost_user_end *live_end(struct end *base)
{
    return vhost_user_end_of(base)->live;
}

static uint32_t sending_pairs(const struct end *end)
{
    const struct datapath *path = &((const struct vhost_user_end *)end)->live->path;
    return path->sending | (path->announcement_count > 0 ? 1 : 0);
}

static unsigned pull_announcements(struct datapath *path, struct burst *burst)
{
    for (unsigned i = 0; i < path->announcement_count; i++) {
        burst->frames[i] = (struct frame){.length = ANNOUNCEMENT_SIZE, .first = i, .segment_count = 1};
        burst->segments[i] = (struct iovec){.iov_base = path->announcements[i], .iov_len = ANNOUNCEMENT_SIZE};
    }
    burst->count = burst->segment_count = path->announcement_count;
    path->announcing = true;
    return burst->count;
}

static void release_announcements(struct datapath *path, unsigned count)
{
    for (unsigned i = count; i < path->announcement_count; i++)
        __builtin_memcpy(path->announcements[i - count], path->announcements[i], ANNOUNCEMENT_SIZE);
    path->announcement_count -= count;
    path->announcing = false;
}

/* A disabled ring's frames are taken and thrown away. They are no work of the link, so the ring is notified
 * at once. */
static void discard(struct vhost_user_end *end, unsigned index, struct burst *burst)
{
    const unsigned count = net_pull(end->path.queues[index], burst);
    if (count > 0) {
        net_release(end->path.queues[index], count);
        if (end->end.sent != NULL)
            statistics_add(&end->end.sent->dropped[STATISTICS_DROP_DISABLED], count);
    }
    if (is_fine(end, index) && count > 0)
        (void)notify(end, index);
}

static unsigned pull(struct end *base, unsigned pair, struct burst *burst)
{
    struct vhost_user_end *end = live_end(base);
    struct datapath *path = &end->path;
    if (__builtin_expect(path->announcement_count > 0, 0) && pair == 0)
        return pull_announcements(path, burst);
    const unsigned index = 2 * pair + 1;
    if ((path->running & bit(index)) == 0)
        return 0;
    if (__builtin_expect((path->enabled & bit(index)) == 0, 0)) {
        discard(end, index, burst);
        return 0;
    }
    const unsigned count = net_pull(path->queues[index], burst);
    (void)is_fine(end, index); /* the frames before a fault are good */
    return count;
}

static void release(struct end *base, unsigned pair, unsigned count)
{
    struct datapath *path = &live_end(base)->path;
    if (__builtin_expect(path->announcing, 0) && pair == 0) {
        release_announcements(path, count);
        return;
    }
    const unsigned index = 2 * pair + 1;
    net_release(path->queues[index], count);
    path->owed |= path->running & bit(index);
}

/* ---- to the guest ---- */

static unsigned push(struct end *base, unsigned pair, const struct burst *burst, unsigned from,
                     struct statistics_direction *counters)
{
    struct vhost_user_end *end = live_end(base);
    struct datapath *path = &end->path;
    const unsigned count = burst->count - from;
    unsigned done = 0;
    while (done < count && path->ready_count > 0) {
        const unsigned index = path->ready[pair % path->ready_count];
        done += net_push(path->queues[index], burst, from + done, counters);
        path->owed |= bit(index);
        if (__builtin_expect(is_fine(end, index), 1))
            return done;
    }
    if (done < count)
        statistics_add(&counters->dropped[STATISTICS_DROP_NO_RECEIVER], count - done);
    return count;
}

/* ---- notifications ---- */

static unsigned flush(struct end *base)
{
    struct vhost_user_end *end = live_end(base);
    unsigned sent = 0;
    for (uint32_t rings = end->path.owed; rings != 0; rings &= rings - 1)
        sent += notify(end, (unsigned)__builtin_ctz(rings));
    end->path.owed = 0;
    return sent;
}

/* The send rings of a mask of pairs. */
static uint32_t send_rings(uint32_t pairs)
{
    uint32_t rings = 0;
    for (uint32_t left = pairs & (bit(END_QUEUE_PAIRS) - 1); left != 0; left &= left - 1)
        rings |= bit(2 * (unsigned)__builtin_ctz(left) + 1);
    return rings;
}

static void ask_for_visit(struct worker_task *task)
{
    const int64_t at = clock_monotonic_ns() + POLLED_VISIT_NS;
    if (task->deadline == 0 || at < task->deadline)
        task->deadline = at;
}

static bool arm(struct end *base, uint32_t sending, bool refill)
{
    struct vhost_user_end *end = live_end(base);
    struct datapath *path = &end->path;
    uint32_t wanted = path->running & send_rings(sending);
    if (refill)
        wanted |= path->running & path->enabled & RECEIVE_RINGS;
    bool work = path->announcement_count > 0 && (sending & 1) != 0;
    for (uint32_t rings = wanted; rings != 0; rings &= rings - 1) {
        const unsigned index = (unsigned)__builtin_ctz(rings);
        work |= virtqueue_enable_kicks(path->queues[index]);
        path->armed |= bit(index);
        (void)is_fine(end, index);
    }
    if ((wanted & path->polled) != 0)
        ask_for_visit(base->task);
    return work;
}

static void disarm(struct end *base)
{
    struct datapath *path = &live_end(base)->path;
    for (uint32_t rings = path->armed; rings != 0; rings &= rings - 1)
        virtqueue_disable_kicks(path->queues[__builtin_ctz(rings)]);
    path->armed = 0;
}

const struct end_operations vhost_user_end_operations = {
    .type = "vhost-user",
    .pull = pull,
    .release = release,
    .push = push,
    .flush = flush,
    .sending_pairs = sending_pairs,
    .arm = arm,
    .disarm = disarm,
    .status = vhost_user_end_status,
    .set_offloads = vhost_user_end_set_offloads,
    .destroy = vhost_user_end_destroy,
};
