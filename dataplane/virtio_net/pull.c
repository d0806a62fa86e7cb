/* Frames out of a transmit queue. */
#include <string.h>

#include "dataplane/virtio_net/internal.h"

_Static_assert((int)VIRTQUEUE_BURST == (int)BURST_FRAMES, "a pulled burst is remembered by its queue");

/* Neither shorter nor longer than a frame behind its header may be: one comparison, since what is too short
 * wraps around. */
static always_inline bool is_frame(uint64_t chain_length, uint32_t header)
{
    return chain_length - header - FRAME_LENGTH_MIN <= FRAME_LENGTH_MAX - FRAME_LENGTH_MIN;
}

static void make_malformed(struct frame *frame)
{
    memset(frame, 0, sizeof *frame);
    frame->malformed = true;
}

/* A chain that is one piece. */
static always_inline void take_simple(struct burst *burst, unsigned index, unsigned first,
                                      const struct ring_chain *chain, uint32_t header)
{
    struct frame *frame = &burst->frames[index];
    struct iovec *segment = &burst->segments[first];
    if (unlikely(!is_frame(chain->length, header))) {
        make_malformed(frame);
        return;
    }
    *segment = (struct iovec){.iov_base = chain->host + header, .iov_len = chain->length - header};
    /* There are more bytes than those of the longer header. */
    memcpy(&frame->header, chain->host, sizeof frame->header);
    frame->length = chain->length - header;
    frame->first = first;
    frame->segment_count = 1;
    frame->malformed = false;
}

/* Takes the header off the front of a chain's pieces. */
static void strip_header(struct frame *frame, struct iovec *segments, unsigned *first, unsigned *count,
                         uint32_t header)
{
    uint8_t *to = (uint8_t *)&frame->header;
    memset(to, 0, sizeof frame->header);
    for (uint32_t left = header; left > 0;) {
        struct iovec *segment = &segments[*first];
        const size_t length = segment->iov_len < left ? segment->iov_len : left;
        memcpy(to, segment->iov_base, length);
        to += length;
        left -= (uint32_t)length;
        if (length == segment->iov_len) {
            (*first)++;
            (*count)--;
        } else {
            *segment = (struct iovec){.iov_base = (uint8_t *)segment->iov_base + length,
                                      .iov_len = segment->iov_len - length};
        }
    }
}

static void take_walked(struct burst *burst, unsigned index, unsigned first, const struct ring_walk *walk,
                        uint32_t header)
{
    struct frame *frame = &burst->frames[index];
    if (!is_frame(walk->length, header)) {
        make_malformed(frame);
        return;
    }
    unsigned count = walk->piece_count;
    strip_header(frame, burst->segments, &first, &count, header);
    frame->length = (uint32_t)walk->length - header;
    frame->first = first;
    frame->segment_count = (uint16_t)count;
    frame->malformed = false;
}

static always_inline unsigned pull(struct virtqueue *queue, struct burst *burst, const bool packed)
{
    const uint32_t header = header_length(queue->features);
    struct ring_chain chains[BURST_FRAMES];
    struct ring_at at = ring_position(queue);
    unsigned frames = 0, segments = 0, looked_at = 0;
    /* A driver that changes its descriptors meanwhile could make us go round the ring more than once. */
    unsigned slots_left = queue->size;
    /* How many to look at: all, but few after one that is not simple, whose followers are likely like it. */
    unsigned ahead = BURST_FRAMES;
    while (looked_at <= BURST_SEGMENTS - FRAME_SEGMENTS_MAX) {
        unsigned room = BURST_FRAMES - frames < slots_left ? BURST_FRAMES - frames : slots_left;
        if (room > ahead)
            room = ahead;
        bool end = false;
        const unsigned found = ring_look(queue, packed, at, room, false, chains, &end);
        for (unsigned i = 0; i < found; i++) {
            take_simple(burst, frames + i, segments + i, &chains[i], header);
            queue->pulled[frames + i] = (struct virtqueue_taken){.id = chains[i].id, .slots = 1};
        }
        frames += found;
        segments += found;
        looked_at += found;
        slots_left -= found;
        if (likely(end || frames == BURST_FRAMES || slots_left == 0))
            break;
        ring_advance(queue, packed, &at, found);
        if (found == room) {
            ahead *= 2;
            continue;
        }
        ahead = 1;
        /* One that is not simple. */
        if (segments > BURST_SEGMENTS - FRAME_SEGMENTS_MAX)
            break;
        struct ring_walk walk = {.pieces = &burst->segments[segments], .limit = FRAME_SEGMENTS_MAX};
        if (!ring_walk(queue, at, false, &walk) || walk.slots > slots_left)
            break;
        take_walked(burst, frames, segments, &walk, header);
        queue->pulled[frames] = (struct virtqueue_taken){.id = walk.id, .slots = walk.slots};
        frames++;
        segments += walk.piece_count;
        looked_at += walk.looked_at;
        slots_left -= walk.slots;
        ring_advance(queue, packed, &at, walk.slots);
    }
    burst->segment_count = segments;
    return frames;
}

unsigned net_pull(struct virtqueue *queue, struct burst *burst)
{
    burst->count = burst->segment_count = 0;
    queue->pulled_count = 0;
    if (unlikely(queue->memory == NULL || queue->fault != VIRTQUEUE_FINE))
        return 0;
    unsigned count = queue->packed ? pull(queue, burst, true) : pull(queue, burst, false);
    if (unlikely(count > 0 && guest_memory_lost(queue->memory))) {
        (void)virtqueue_set_fault(queue, VIRTQUEUE_FAULT_MEMORY_LOST);
        count = 0;
    }
    queue->pulled_count = count;
    burst->count = count;
    return count;
}

static always_inline void release(struct virtqueue *queue, unsigned count, const bool packed)
{
    struct ring_at at = ring_position(queue);
    if (queue->in_order) {
        /* The last one stands for all of them. */
        unsigned slots = 0;
        for (unsigned i = 0; i < count; i++)
            slots += queue->pulled[i].slots;
        ring_use(queue, packed, &at, queue->pulled[count - 1].id, slots, 0);
    } else {
        for (unsigned i = 0; i < count; i++)
            ring_use(queue, packed, &at, queue->pulled[i].id, packed ? queue->pulled[i].slots : 1, 0);
    }
    ring_set_position(queue, at);
    ring_publish(queue, packed);
}

void net_release(struct virtqueue *queue, unsigned count)
{
    if (count > queue->pulled_count) /* the queue was stopped meanwhile */
        count = queue->pulled_count;
    queue->pulled_count = 0;
    if (count == 0)
        return;
    if (queue->packed)
        release(queue, count, true);
    else
        release(queue, count, false);
}
