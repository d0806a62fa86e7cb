/* Sending and receiving: the rings, plus waiting, plus what ends a session. */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "channel.h"
#include "copy.h"
#include "ring_hot.h"
#include "shared.h"
#include "wait.h"

enum {
    RECORDS_PER_CHECK = 64, /* a sender that never waits looks after its peer this often */
    BATCHES_PER_CHECK = 8,
    IDLE_POLLS_PER_CHECK = 16, /* on device mappings every look is a slow read */
};

static enum chan_session_end session_end(const struct chan_channel *channel)
{
    /* Acquire: what was seen before the end was recorded, by whichever thread, is seen by the peek that
     * follows. */
    return (enum chan_session_end)atomic_load_explicit(&channel->session.end, memory_order_acquire);
}

static void look_after_peer(struct chan_channel *channel)
{
    chan_session_beat(&channel->session);
    (void)chan_session_check(&channel->session);
}

/* A value that cannot be right: the peer's fault, unless the whole region was replaced under us. */
static int protocol_error(struct chan_channel *channel)
{
    if (chan_session_check(&channel->session) == CHAN_SESSION_REPLACED)
        return chan_session_result(CHAN_SESSION_REPLACED);
    return chan_session_result(chan_session_finish(&channel->session, CHAN_SESSION_POISONED));
}

/* Waits until the ring takes what is to be sent: a reservation of `length` bytes, or, if buffer is NULL, the
 * batch. */
static int wait_for_room(struct chan_channel *channel, size_t length, void **buffer, int timeout_ms)
{
    chan_count(&channel->tx.stats.waits, 1);
    struct chan_wait wait;
    chan_wait_begin(&wait, timeout_ms, channel->spin_us);
    int r = 0;
    for (;;) {
        r = chan_wait_step(&wait);
        if (r < 0 || wait.slow) {
            look_after_peer(channel);
            enum chan_session_end end = session_end(channel);
            if (end != CHAN_SESSION_UP)
                r = chan_session_result(end);
        }
        if (r < 0)
            break;
        r = buffer != NULL ? chan_producer_reserve(&channel->tx.ring, length, buffer)
                           : chan_producer_flush(&channel->tx.ring);
        if (r != -EAGAIN)
            break;
    }
    chan_count(&channel->tx.stats.sleeps, wait.sleeps);
    return r == -EPROTO ? protocol_error(channel) : r;
}

static int flush(struct chan_channel *channel, int timeout_ms)
{
    if (channel->tx.ring.staged == 0)
        return 0;
    int r = chan_producer_flush(&channel->tx.ring);
    if (r == -EAGAIN)
        r = wait_for_room(channel, 0, NULL, timeout_ms);
    else if (r < 0)
        r = protocol_error(channel);
    if (r < 0)
        return r;
    chan_count(&channel->tx.batches, 1);
    if (atomic_load_explicit(&channel->tx.batches, memory_order_relaxed) % BATCHES_PER_CHECK == 0)
        look_after_peer(channel);
    return 0;
}

int chan_flush(struct chan_channel *channel, int timeout_ms)
{
    enum chan_session_end end = session_end(channel);
    return end == CHAN_SESSION_UP ? flush(channel, timeout_ms) : chan_session_result(end);
}

/* Finds the place in the ring for a message of up to `length` bytes. */
static int reserve(struct chan_channel *channel, size_t length, void **buffer, int timeout_ms)
{
    enum chan_session_end end = session_end(channel);
    if (end != CHAN_SESSION_UP)
        return chan_session_result(end);
    if (length > channel->max_message)
        return -EMSGSIZE;
    int r = flush(channel, timeout_ms); /* what was sent first is seen first */
    if (r < 0)
        return r;
    r = chan_producer_reserve(&channel->tx.ring, length, buffer);
    if (r == 0)
        return 0;
    return r == -EAGAIN ? wait_for_room(channel, length, buffer, timeout_ms) : protocol_error(channel);
}

static void commit(struct chan_channel *channel, size_t length)
{
    chan_producer_commit(&channel->tx.ring, length);
    chan_count(&channel->tx.stats.messages, 1);
    chan_count(&channel->tx.stats.bytes, length);
    if (channel->tx.ring.sequence % RECORDS_PER_CHECK == 0)
        look_after_peer(channel);
}

int chan_send(struct chan_channel *channel, const void *message, size_t length, int timeout_ms)
{
    if (channel->tx.ring.reserved)
        return -EBUSY;
    void *place = NULL;
    int r = reserve(channel, length, &place, timeout_ms);
    if (r < 0)
        return r;
    chan_copy_out(channel->mapping, place, message, length);
    commit(channel, length);
    return 0;
}

int chan_send_more(struct chan_channel *channel, const void *message, size_t length, int timeout_ms)
{
    struct chan_producer *ring = &channel->tx.ring;
    if (ring->reserved)
        return -EBUSY;
    enum chan_session_end end = session_end(channel);
    if (end != CHAN_SESSION_UP)
        return chan_session_result(end);
    if (!chan_producer_stage(ring, message, length)) {
        int r = flush(channel, timeout_ms);
        if (r < 0)
            return r;
        /* One that is too large for any batch goes by itself. */
        if (!chan_producer_stage(ring, message, length))
            return chan_send(channel, message, length, timeout_ms);
    }
    chan_count(&channel->tx.stats.messages, 1);
    chan_count(&channel->tx.stats.bytes, length);
    return 0;
}

int chan_sendv(struct chan_channel *channel, const struct iovec *pieces, int count, int timeout_ms)
{
    if (channel->tx.ring.reserved)
        return -EBUSY;
    size_t length = 0;
    for (int i = 0; i < count; i++) {
        if (__builtin_add_overflow(length, pieces[i].iov_len, &length))
            return -EINVAL;
    }
    void *place = NULL;
    int r = count < 0 ? -EINVAL : chan_reserve(channel, length, &place, timeout_ms);
    if (r < 0)
        return r;
    unsigned char *to = place;
    for (int i = 0; i < count; i++) {
        if (pieces[i].iov_len > 0)
            memcpy(to, pieces[i].iov_base, pieces[i].iov_len);
        to += pieces[i].iov_len;
    }
    return chan_commit(channel, length);
}

int chan_reserve(struct chan_channel *channel, size_t length, void **buffer, int timeout_ms)
{
    chan_abort(channel);
    int r = reserve(channel, length, &channel->tx.reserved, timeout_ms);
    if (r < 0)
        return r;
    *buffer = channel->tx.bounce != NULL ? channel->tx.bounce : channel->tx.reserved;
    return 0;
}

int chan_commit(struct chan_channel *channel, size_t length)
{
    if (!channel->tx.ring.reserved || length > channel->tx.ring.reserved_length)
        return -EINVAL;
    enum chan_session_end end = session_end(channel);
    if (end != CHAN_SESSION_UP) {
        chan_abort(channel);
        return chan_session_result(end);
    }
    if (channel->tx.bounce != NULL)
        chan_copy_out(channel->mapping, channel->tx.reserved, channel->tx.bounce, length);
    commit(channel, length);
    return 0;
}

void chan_abort(struct chan_channel *channel)
{
    channel->tx.ring.reserved = false;
}

/* One look for the next message. -EAGAIN: none yet; or why there will be none. */
static int look(struct chan_channel *channel, const void **place, uint64_t *length)
{
    enum chan_session_end end = session_end(channel);
    if (end == CHAN_SESSION_NONE || end >= CHAN_SESSION_REPLACED)
        return chan_session_result(end);
    int r = chan_consumer_peek(&channel->rx.ring, place, length);
    if (r == 0)
        return 0;
    if (r == -EPROTO)
        return protocol_error(channel);
    return end == CHAN_SESSION_UP ? -EAGAIN : chan_session_result(end); /* drained */
}

static int wait_for_message(struct chan_channel *channel, const void **place, uint64_t *length,
                            int timeout_ms)
{
    chan_count(&channel->rx.stats.waits, 1);
    /* All that was released, or a peer that needs the room would wait for us while we wait for it. */
    (void)chan_consumer_publish(&channel->rx.ring);
    struct chan_wait wait;
    chan_wait_begin(&wait, timeout_ms, channel->spin_us);
    int r = 0;
    for (;;) {
        int step = chan_wait_step(&wait);
        bool due = wait.slow;
        if (wait.immediate)
            due = !chan_is_device(channel->mapping) || ++channel->rx.idle_polls % IDLE_POLLS_PER_CHECK == 0;
        if (due)
            look_after_peer(channel);
        r = look(channel, place, length);
        if (r != -EAGAIN)
            break;
        r = step;
        if (r < 0)
            break;
    }
    chan_count(&channel->rx.stats.sleeps, wait.sleeps);
    return r;
}

/* Finds the next message, in the ring. */
static int next_message(struct chan_channel *channel, const void **place, uint64_t *length, int timeout_ms)
{
    int r = look(channel, place, length);
    return r == -EAGAIN ? wait_for_message(channel, place, length, timeout_ms) : r;
}

static void release(struct chan_channel *channel)
{
    chan_count(&channel->rx.stats.messages, 1);
    chan_count(&channel->rx.stats.bytes, channel->rx.ring.length);
    channel->rx.bounced = false;
    if (chan_consumer_release(&channel->rx.ring))
        chan_session_beat(&channel->session);
}

int chan_recv(struct chan_channel *channel, void *buffer, size_t capacity, size_t *length, int timeout_ms)
{
    const void *place = NULL;
    uint64_t bytes = 0;
    int r = next_message(channel, &place, &bytes, timeout_ms);
    if (r < 0)
        return r;
    *length = bytes;
    if (bytes > capacity)
        return -EMSGSIZE;
    chan_copy_in(channel->mapping, buffer, place, bytes);
    release(channel);
    return 0;
}

int chan_peek(struct chan_channel *channel, const void **buffer, size_t *length, int timeout_ms)
{
    const void *place = NULL;
    uint64_t bytes = 0;
    int r = next_message(channel, &place, &bytes, timeout_ms);
    if (r < 0)
        return r;
    if (channel->rx.bounce != NULL) {
        if (!channel->rx.bounced)
            chan_copy_in(channel->mapping, channel->rx.bounce, place, bytes);
        channel->rx.bounced = true;
        place = channel->rx.bounce;
    }
    *buffer = place;
    *length = bytes;
    return 0;
}

int chan_release(struct chan_channel *channel)
{
    if (!channel->rx.ring.peeked)
        return -EINVAL;
    release(channel);
    return 0;
}
