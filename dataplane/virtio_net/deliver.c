/* Frames into a receive queue, in general: several buffers for a frame, buffers of several pieces, offloads
 * done in software. */
#include <string.h>

#include "dataplane/memory/copy.h"
#include "dataplane/offload/offload.h"
#include "dataplane/virtio_net/internal.h"

enum { CHAINS_AT_A_TIME = 16 };

/* What is to be written: a frame as it is, or one made in software. */
struct outgoing {
    struct virtio_net_hdr_v1 header; /* but for num_buffers */
    const struct iovec *segments;
    unsigned segment_count;
    uint32_t length; /* of the segments */
};

struct buffer {
    uint16_t id, slots;
    uint32_t length;
};

/* The buffers that one frame goes to. Looking for them ends at FRAME_SEGMENTS_MAX pieces; the last chain may
 * go beyond. */
struct gathered {
    uint64_t length;
    unsigned piece_count, buffer_count;
    unsigned looked_at;
    unsigned descriptors; /* of the ring */
    struct ring_at end;   /* behind them */
    struct iovec pieces[2 * FRAME_SEGMENTS_MAX];
    uint64_t addresses[2 * FRAME_SEGMENTS_MAX];
    struct buffer buffers[FRAME_SEGMENTS_MAX + 1];
};

/* Too large for a stack frame, and needed by one frame of a thread at a time only. */
static _Thread_local struct gathered gathered;
static _Thread_local struct offload_output output;
static _Thread_local struct segmenter segmenter;

/* ---- finding buffers ---- */

enum gathering {
    ENOUGH,
    TOO_FEW,   /* at the moment */
    TOO_SMALL, /* for ever: all that the ring can hold does not suffice, or it needs too many pieces */
    BROKEN     /* the queue has a fault */
};

static void add_buffer(const struct virtqueue *queue, uint16_t id, uint16_t slots, uint64_t length)
{
    const uint32_t usable = length < UINT32_MAX ? (uint32_t)length : UINT32_MAX;
    gathered.buffers[gathered.buffer_count++] = (struct buffer){.id = id, .slots = slots, .length = usable};
    gathered.length += usable;
    ring_advance(queue, queue->packed, &gathered.end, slots);
}

static void add_simple(const struct virtqueue *queue, const struct ring_chain *chain)
{
    gathered.pieces[gathered.piece_count] = (struct iovec){.iov_base = chain->host, .iov_len = chain->length};
    gathered.addresses[gathered.piece_count++] = chain->address;
    gathered.looked_at++;
    gathered.descriptors++;
    add_buffer(queue, chain->id, 1, chain->length);
}

static enum gathering add_walked(struct virtqueue *queue)
{
    struct ring_walk walk = {.pieces = &gathered.pieces[gathered.piece_count],
                             .addresses = &gathered.addresses[gathered.piece_count],
                             .limit = FRAME_SEGMENTS_MAX};
    if (!ring_walk(queue, gathered.end, true, &walk))
        return queue->fault == VIRTQUEUE_FINE ? TOO_FEW : BROKEN;
    gathered.piece_count += walk.piece_count;
    gathered.looked_at += walk.looked_at;
    gathered.descriptors += walk.descriptors;
    add_buffer(queue, walk.id, walk.slots, walk.length);
    return ENOUGH;
}

/* As many buffers more as may be needed, or one that is not simple. ENOUGH: there was something. */
static enum gathering add_some(struct virtqueue *queue, uint64_t needed, unsigned most)
{
    struct ring_chain chains[CHAINS_AT_A_TIME];
    bool end = false;
    const unsigned found = ring_look(queue, queue->packed, gathered.end,
                                     most < CHAINS_AT_A_TIME ? most : CHAINS_AT_A_TIME, true, chains, &end);
    if (gathered.buffer_count == 0)
        queue->buffer_length = found > 0 ? chains[0].length : 0;
    for (unsigned i = 0; i < found && gathered.length < needed; i++)
        add_simple(queue, &chains[i]);
    if (found > 0)
        return ENOUGH;
    return end ? TOO_FEW : add_walked(queue);
}

static void start_gathering(const struct virtqueue *queue)
{
    gathered.length = 0;
    gathered.piece_count = gathered.buffer_count = gathered.looked_at = gathered.descriptors = 0;
    gathered.end = ring_position(queue);
}

static enum gathering gather(struct virtqueue *queue, uint64_t needed, uint32_t header)
{
    const bool mergeable = (queue->features & FEATURE(VIRTIO_NET_F_MRG_RXBUF)) != 0;
    start_gathering(queue);
    while (gathered.length < needed) {
        if (gathered.buffer_count > 0 && (!mergeable || gathered.buffers[0].length < header))
            return TOO_SMALL;
        if (gathered.looked_at >= FRAME_SEGMENTS_MAX || gathered.piece_count >= FRAME_SEGMENTS_MAX ||
            gathered.descriptors >= queue->size)
            return TOO_SMALL;
        /* The first one comes by itself: it tells how many it takes, and whether there may be more than one.
         */
        const uint64_t missing =
            gathered.buffer_count == 0 ? 1 : (needed - gathered.length) / gathered.buffers[0].length + 1;
        const unsigned left = queue->size - gathered.descriptors;
        const enum gathering result = add_some(queue, needed, missing < left ? (unsigned)missing : left);
        if (result != ENOUGH)
            return result;
    }
    return ENOUGH;
}

/* ---- filling them ---- */

struct filling {
    const struct dirty_log *log;
    unsigned piece;
    size_t offset; /* within it */
};

static void fill(struct filling *filling, const void *bytes, size_t length)
{
    const uint8_t *from = bytes;
    while (length > 0) {
        const struct iovec *piece = &gathered.pieces[filling->piece];
        const size_t room = piece->iov_len - filling->offset;
        const size_t part = length < room ? length : room;
        copy_bytes((uint8_t *)piece->iov_base + filling->offset, from, part);
        if (unlikely(filling->log != NULL))
            dirty_log_mark(filling->log, gathered.addresses[filling->piece] + filling->offset, part);
        from += part;
        length -= part;
        filling->offset += part;
        if (filling->offset == piece->iov_len) {
            filling->piece++;
            filling->offset = 0;
        }
    }
}

static void use_buffers(struct virtqueue *queue, uint32_t written)
{
    struct ring_at at = ring_position(queue);
    for (unsigned i = 0; i < gathered.buffer_count; i++) {
        const struct buffer *buffer = &gathered.buffers[i];
        const uint32_t length = written < buffer->length ? written : buffer->length;
        ring_use(queue, queue->packed, &at, buffer->id, buffer->slots, length);
        written -= length;
    }
    ring_set_position(queue, at);
}

static enum gathering write_out(struct virtqueue *queue, struct outgoing *outgoing)
{
    const uint32_t header = header_length(queue->features);
    const enum gathering result = gather(queue, (uint64_t)header + outgoing->length, header);
    if (result != ENOUGH)
        return result;
    outgoing->header.num_buffers = (uint16_t)gathered.buffer_count;
    struct filling filling = {.log = queue->log};
    fill(&filling, &outgoing->header, header);
    for (unsigned i = 0; i < outgoing->segment_count; i++)
        fill(&filling, outgoing->segments[i].iov_base, outgoing->segments[i].iov_len);
    use_buffers(queue, header + outgoing->length);
    return ENOUGH;
}

/* ---- what becomes of a frame ---- */

static enum delivery drop(struct tally *tally, enum statistics_drop cause)
{
    tally->dropped[cause]++;
    return DELIVERED;
}

/* A frame that was not written. */
static enum delivery give_up(struct virtqueue *queue, enum gathering result, struct tally *tally)
{
    switch (result) {
    case TOO_SMALL:
        return drop(tally, STATISTICS_DROP_TOO_LARGE);
    case TOO_FEW:
        ring_wait_from(queue, gathered.end);
        return NO_ROOM;
    default:
        return FAULTED;
    }
}

static enum delivery count_frame(struct tally *tally, const struct frame *frame)
{
    tally->frames++;
    tally->bytes += frame->length;
    return DELIVERED;
}

static enum delivery deliver_whole(struct virtqueue *queue, const struct frame *frame,
                                   struct outgoing *outgoing, struct tally *tally)
{
    const enum gathering result = write_out(queue, outgoing);
    return result == ENOUGH ? count_frame(tally, frame) : give_up(queue, result, tally);
}

static enum delivery deliver_checksummed(struct virtqueue *queue, const struct frame *frame,
                                         const struct iovec *segments, struct tally *tally)
{
    if (!offload_complete_checksum(frame, segments, &output))
        return drop(tally, STATISTICS_DROP_MALFORMED);
    struct outgoing outgoing = {
        .segments = output.segments, .segment_count = output.segment_count, .length = output.length};
    const uint64_t before = tally->frames;
    const enum delivery delivery = deliver_whole(queue, frame, &outgoing, tally);
    tally->checksummed += tally->frames - before;
    return delivery;
}

/* How many chains all segments of the frame will take, by the look of the first buffer; 0: there is none. */
static uint64_t chains_for_segments(struct virtqueue *queue, uint32_t header)
{
    start_gathering(queue);
    if (add_some(queue, 1, 1) != ENOUGH)
        return 0;
    const uint64_t segment = (uint64_t)header + segmenter.header_length + segmenter.payload_per_segment;
    const uint64_t buffer = gathered.length > 0 ? gathered.length : 1;
    const bool mergeable = (queue->features & FEATURE(VIRTIO_NET_F_MRG_RXBUF)) != 0;
    return segmenter.count * (mergeable ? (segment + buffer - 1) / buffer : 1);
}

/* Waits until there are buffers for all of it, if the ring can hold that many: the sender keeps the frame
 * meanwhile, and nothing arrives twice. Else what fits is delivered, and the rest is lost. */
static enum delivery deliver_segmented(struct virtqueue *queue, const struct frame *frame,
                                       const struct iovec *segments, struct tally *tally)
{
    if (!segmenter_start(&segmenter, frame, segments))
        return drop(tally, STATISTICS_DROP_MALFORMED);
    const uint64_t wanted = chains_for_segments(queue, header_length(queue->features));
    if (queue->fault != VIRTQUEUE_FINE)
        return FAULTED;
    if (wanted <= queue->size) {
        const unsigned ready = ring_count(queue, ring_position(queue), (unsigned)wanted);
        if (wanted == 0 || ready < wanted) {
            struct ring_at at = ring_position(queue);
            ring_advance(queue, queue->packed, &at, ready);
            ring_wait_from(queue, at);
            return queue->fault == VIRTQUEUE_FINE ? NO_ROOM : FAULTED;
        }
    }
    unsigned made = 0;
    enum gathering result = ENOUGH;
    while (result == ENOUGH && segmenter_next(&segmenter, &output)) {
        struct outgoing outgoing = {
            .segments = output.segments, .segment_count = output.segment_count, .length = output.length};
        result = write_out(queue, &outgoing);
        made += result == ENOUGH;
    }
    if (made == 0 && result != ENOUGH)
        return give_up(queue, result, tally);
    tally->segments += made;
    tally->segmented++;
    if (result == ENOUGH)
        return count_frame(tally, frame);
    if (result == BROKEN)
        return FAULTED;
    return drop(tally, result == TOO_SMALL ? STATISTICS_DROP_TOO_LARGE : STATISTICS_DROP_RECEIVER_FULL);
}

/* As it is; or cut, where the driver would take it whole but has only small buffers, which it may not merge.
 */
static enum delivery deliver_passed(struct virtqueue *queue, const struct frame *frame,
                                    const struct iovec *segments, struct tally *tally)
{
    struct outgoing outgoing = {
        .segments = segments, .segment_count = frame->segment_count, .length = frame->length};
    offload_passed_header(frame, queue->features, &outgoing.header);
    const enum gathering result = write_out(queue, &outgoing);
    if (result == ENOUGH)
        return count_frame(tally, frame);
    if (result == TOO_SMALL && frame->header.gso_type != VIRTIO_NET_HDR_GSO_NONE)
        return deliver_segmented(queue, frame, segments, tally);
    return give_up(queue, result, tally);
}

enum delivery deliver(struct virtqueue *queue, const struct frame *frame, const struct iovec *segments,
                      struct tally *tally)
{
    if (frame->malformed)
        return drop(tally, STATISTICS_DROP_MALFORMED);
    switch (offload_plan(frame, queue->features)) {
    case OFFLOAD_CHECKSUM:
        return deliver_checksummed(queue, frame, segments, tally);
    case OFFLOAD_SEGMENT:
        return deliver_segmented(queue, frame, segments, tally);
    case OFFLOAD_PASS:
        return deliver_passed(queue, frame, segments, tally);
    default:
        return drop(tally, STATISTICS_DROP_MALFORMED);
    }
}
