#include "channel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shared.h"
#include "wait.h"

enum {
    DEFAULT_SPIN_US = 50,
    DEFAULT_SUSPECT_MS = 1000,
    /* A batch: longer ones gain nothing, and a quarter of the ring leaves the peer something to do meanwhile.
     */
    LARGEST_BATCH = 16 * 1024,
};

static void free_channel(struct chan_channel *channel)
{
    free(channel->tx.bounce);
    free(channel->tx.ring.stage);
    free(channel->rx.bounce);
    free(channel);
}

static struct chan_channel *new_channel(struct chan_region *region, unsigned half,
                                        const struct chan_options *options)
{
    size_t bytes = (sizeof(struct chan_channel) + CHAN_LINE_BYTES - 1) / CHAN_LINE_BYTES * CHAN_LINE_BYTES;
    struct chan_channel *channel = aligned_alloc(CHAN_LINE_BYTES, bytes);
    if (channel == NULL)
        return NULL;
    memset(channel, 0, bytes);

    const struct chan_half *own = &region->halves[half];
    const struct chan_half *peer = &region->halves[1 - half];
    int suspect_ms = options->suspect_ms > 0 ? options->suspect_ms : DEFAULT_SUSPECT_MS;
    channel->region = region;
    channel->half = half;
    channel->mapping = region->mapping;
    channel->spin_us = options->spin_us != 0 ? options->spin_us : DEFAULT_SPIN_US;
    channel->suspect_ns = (int64_t)suspect_ms * 1000000;
    channel->max_message = chan_ring_max_message(own->ring_bytes);
    channel->tx.ring.place = (struct chan_ring_place){
        .mapping = region->mapping,
        .data = own->ring,
        .bytes = own->ring_bytes,
        /* Only ever loaded: it is the peer's word. */
        .head = chan_as_word(&peer->control->head),
    };
    channel->rx.ring.place = (struct chan_ring_place){
        .mapping = region->mapping,
        .data = peer->ring,
        .bytes = peer->ring_bytes,
        .head = chan_as_word(&own->control->head),
    };
    channel->tx.ring.stage_bytes = own->ring_bytes / 4 < LARGEST_BATCH ? own->ring_bytes / 4 : LARGEST_BATCH;
    channel->tx.ring.stage = aligned_alloc(CHAN_LINE_BYTES, LARGEST_BATCH);
    if (channel->tx.ring.stage == NULL) {
        free_channel(channel);
        return NULL;
    }
    if (chan_is_device(region->mapping)) {
        channel->tx.bounce = malloc(channel->max_message);
        channel->rx.bounce = malloc(channel->max_message);
        if (channel->tx.bounce == NULL || channel->rx.bounce == NULL) {
            free_channel(channel);
            return NULL;
        }
    }
    return channel;
}

int chan_open(struct chan_region *region, const struct chan_options *options, struct chan_channel **channel,
              struct chan_error *error)
{
    static const struct chan_options defaults = {0};
    if (options == NULL)
        options = &defaults;
    enum chan_side side = options->side != CHAN_SIDE_AUTO ? options->side : region->natural_side;
    if (side != CHAN_SIDE_HOST && side != CHAN_SIDE_GUEST)
        return chan_error_set(error, -EINVAL, "the side is neither host nor guest");
    if (!region->has_superblock)
        return chan_error_set(
            error, -ENOMSG, "%s has no superblock: make the region with the layout \"chan\" to use channels",
            region->path);
    if (region->read_only)
        return chan_error_set(error, -EACCES, "%s is open read-only, a channel has to write", region->path);

    unsigned half = side == CHAN_SIDE_HOST ? 0 : 1;
    struct chan_channel *made = new_channel(region, half, options);
    if (made == NULL)
        return chan_error_set(error, -ENOMEM, "out of memory");
    int r = chan_region_take_side(region, half);
    if (r < 0) {
        free_channel(made);
        return chan_error_set(error, r, "the %s side of %s cannot be taken: %s", half == 0 ? "host" : "guest",
                              region->path, r == -EBUSY ? "another program here uses it" : strerror(-r));
    }
    chan_session_init(&made->session, region, half);
    r = chan_session_begin(&made->session);
    if (r < 0) {
        chan_region_drop_side(region, half);
        free_channel(made);
        return chan_error_set(error, r, "the superblock of %s changed: %s", region->path, chan_error_text(r));
    }
    chan_region_reference(region);
    *channel = made;
    return 0;
}

void chan_close(struct chan_channel *channel)
{
    if (channel == NULL)
        return;
    (void)chan_flush(channel, 0); /* as much as there is room for: nobody waits in a close */
    chan_session_close(&channel->session);
    chan_region_drop_side(channel->region, channel->half);
    chan_region_close(channel->region);
    free_channel(channel);
}

static uint64_t peer_heartbeat(const struct chan_channel *channel)
{
    return chan_load_acquire(chan_as_const_word(&channel->session.peer->heartbeat), channel->mapping);
}

int chan_connect(struct chan_channel *channel, int timeout_ms)
{
    if (atomic_load(&channel->session.end) == CHAN_SESSION_UP)
        return 0;
    struct chan_wait wait;
    chan_wait_begin(&wait, timeout_ms, channel->spin_us);
    int r = 0;
    while ((r = chan_session_step(&channel->session, &channel->tx.ring, &channel->rx.ring)) == -EAGAIN) {
        chan_session_beat(&channel->session);
        r = chan_wait_step(&wait);
        if (r < 0)
            break;
    }
    chan_count(&channel->connect_sleeps, wait.sleeps);
    if (r < 0)
        return r;
    chan_count(&channel->sessions, 1);
    channel->rx.bounced = false;
    channel->seen_heartbeat = peer_heartbeat(channel);
    channel->seen_ns = chan_now_ns();
    return 0;
}

int chan_reconnect(struct chan_channel *channel, int timeout_ms)
{
    int r = chan_session_begin(&channel->session);
    return r < 0 ? r : chan_connect(channel, timeout_ms);
}

size_t chan_max_message(const struct chan_channel *channel)
{
    return channel->max_message;
}

enum chan_peer chan_peer_state(struct chan_channel *channel)
{
    chan_session_beat(&channel->session);
    enum chan_session_end end = chan_session_check(&channel->session);
    if (end == CHAN_SESSION_CLOSED)
        return CHAN_PEER_CLOSED;
    if (end != CHAN_SESSION_UP)
        return CHAN_PEER_ABSENT;

    uint64_t heartbeat = peer_heartbeat(channel);
    int64_t now = chan_now_ns();
    if (heartbeat != channel->seen_heartbeat) {
        channel->seen_heartbeat = heartbeat;
        channel->seen_ns = now;
    }
    return now - channel->seen_ns > channel->suspect_ns ? CHAN_PEER_SUSPECT : CHAN_PEER_ALIVE;
}

static uint64_t counted(const chan_counter *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void chan_get_stats(const struct chan_channel *channel, struct chan_stats *stats)
{
    const struct chan_direction_stats *tx = &channel->tx.stats;
    const struct chan_direction_stats *rx = &channel->rx.stats;
    *stats = (struct chan_stats){
        .sent_messages = counted(&tx->messages),
        .sent_bytes = counted(&tx->bytes),
        .batches = counted(&channel->tx.batches),
        .received_messages = counted(&rx->messages),
        .received_bytes = counted(&rx->bytes),
        .send_waits = counted(&tx->waits),
        .receive_waits = counted(&rx->waits),
        .sleeps = counted(&tx->sleeps) + counted(&rx->sleeps) + counted(&channel->connect_sleeps),
        .sessions = counted(&channel->sessions),
        .mapping = channel->mapping,
    };
}

int chan_inspect(const struct chan_region *region, enum chan_side side, struct chan_side_info *info)
{
    if (side != CHAN_SIDE_HOST && side != CHAN_SIDE_GUEST)
        return -EINVAL;
    if (!region->has_superblock)
        return -ENOMSG;
    const struct chan_control *control = region->halves[side == CHAN_SIDE_HOST ? 0 : 1].control;
    *info = (struct chan_side_info){
        .state = chan_load_acquire(chan_as_const_word(&control->state), region->mapping),
        .epoch = chan_load_acquire(chan_as_const_word(&control->epoch), region->mapping),
        .acknowledged = chan_load_acquire(chan_as_const_word(&control->acknowledged), region->mapping),
        .heartbeat = chan_load_acquire(chan_as_const_word(&control->heartbeat), region->mapping),
        .head = chan_load_acquire(chan_as_const_word(&control->head), region->mapping),
    };
    return 0;
}
