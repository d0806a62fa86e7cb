/* Frames into a receive queue: the ones that need nothing but to be copied into one buffer each, which are
 * most. */
#include "dataplane/memory/copy.h"
#include "dataplane/offload/offload.h"
#include "dataplane/virtio_net/internal.h"

enum { SEGMENTS_PER_PUSH = 4096 }; /* made in software; after that it is another link's turn */

static always_inline bool asks_for_offload(const struct frame *frame)
{
    return (frame->header.flags | frame->header.gso_type) != 0;
}

/* It needs nothing but to be copied. */
static always_inline bool is_plain(const struct virtqueue *queue, const struct frame *frame)
{
    return likely(!asks_for_offload(frame)) ? likely(!frame->malformed)
                                            : offload_plan(frame, queue->features) == OFFLOAD_PASS;
}

static always_inline void write_header(const struct virtqueue *queue, const struct frame *frame, uint8_t *to,
                                       uint32_t header)
{
    struct virtio_net_hdr_v1 written = {.num_buffers = 1};
    if (unlikely(asks_for_offload(frame)))
        offload_passed_header(frame, queue->features, &written);
    if (likely(header == sizeof written))
        __builtin_memcpy(to, &written, sizeof written);
    else
        __builtin_memcpy(to, &written, LEGACY_HEADER_LENGTH);
}

static always_inline void copy_frame(uint8_t *to, const struct frame *frame, const struct iovec *segments)
{
    if (likely(frame->segment_count == 1)) {
        copy_bytes(to, segments->iov_base, segments->iov_len);
        return;
    }
    for (unsigned i = 0; i < frame->segment_count; i++) {
        copy_bytes(to, segments[i].iov_base, segments[i].iov_len);
        to += segments[i].iov_len;
    }
}

/* Each of these frames into the chain of the same index. Returns how many; fewer: the next one is not plain,
 * or does not fit into its chain. */
static always_inline unsigned push_simple(struct virtqueue *queue, const struct burst *burst,
                                          const struct frame *frames, const struct ring_chain *chains,
                                          unsigned count, uint32_t header, struct tally *tally,
                                          const bool packed)
{
    struct ring_at at = ring_position(queue);
    uint64_t bytes = 0;
    unsigned done = 0;
    for (; done < count; done++) {
        const struct frame *frame = &frames[done];
        const struct ring_chain *chain = &chains[done];
        const uint32_t length = header + frame->length;
        if (unlikely(!is_plain(queue, frame) || length > chain->length))
            break;
        write_header(queue, frame, chain->host, header);
        copy_frame(chain->host + header, frame, &burst->segments[frame->first]);
        if (unlikely(queue->log != NULL))
            dirty_log_mark(queue->log, chain->address, length);
        ring_use(queue, packed, &at, chain->id, 1, length);
        bytes += frame->length;
    }
    ring_set_position(queue, at);
    tally->frames += done;
    tally->bytes += bytes;
    return done;
}

static always_inline unsigned push(struct virtqueue *queue, const struct burst *burst, unsigned from,
                                   struct tally *tally, const bool packed)
{
    const uint32_t header = header_length(queue->features);
    struct ring_chain chains[BURST_FRAMES];
    unsigned next = from;
    /* How many to look at: few after one that is not simple, whose followers are likely like it. */
    unsigned ahead = BURST_FRAMES;
    while (next < burst->count && tally->segments < SEGMENTS_PER_PUSH) {
        const struct frame *frame = &burst->frames[next];
        if (is_plain(queue, frame) && frame->length + header <= queue->buffer_length) {
            const unsigned left = burst->count - next;
            const unsigned wanted = left < ahead ? left : ahead;
            bool end = false;
            const unsigned found = ring_look(queue, packed, ring_position(queue), wanted, true, chains, &end);
            const unsigned done = push_simple(queue, burst, frame, chains, found, header, tally, packed);
            next += done;
            if (done == wanted) {
                ahead = 2 * wanted;
                continue;
            }
            if (done == found && end) {
                ring_wait_from(queue, ring_position(queue));
                break;
            }
            frame = &burst->frames[next];
        }
        ahead = 1;
        if (deliver(queue, frame, burst->segments + frame->first, tally) != DELIVERED)
            break;
        next++;
    }
    ring_publish(queue, packed);
    return next - from;
}

static void add_rare(struct statistics_direction *counters, const struct tally *tally)
{
    for (unsigned i = 0; i < STATISTICS_DROP_COUNT; i++) {
        if (tally->dropped[i] != 0)
            statistics_add(&counters->dropped[i], tally->dropped[i]);
    }
    if (tally->checksummed != 0)
        statistics_add(&counters->checksummed, tally->checksummed);
    if (tally->segmented != 0)
        statistics_add(&counters->segmented, tally->segmented);
    if (tally->segments != 0)
        statistics_add(&counters->segments, tally->segments);
}

unsigned net_push(struct virtqueue *queue, const struct burst *burst, unsigned from,
                  struct statistics_direction *counters)
{
    if (unlikely(queue->memory == NULL || queue->fault != VIRTQUEUE_FINE))
        return 0;
    queue->waiting = false;
    struct tally tally = {.frames = 0};
    const unsigned done =
        queue->packed ? push(queue, burst, from, &tally, true) : push(queue, burst, from, &tally, false);
    if (likely(tally.frames > 0)) {
        statistics_add(&counters->frames, tally.frames);
        statistics_add(&counters->bytes, tally.bytes);
    }
    if (unlikely(tally.frames < done || tally.checksummed + tally.segmented > 0))
        add_rare(counters, &tally);
    return done;
}
