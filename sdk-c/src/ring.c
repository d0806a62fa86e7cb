/* Theory of operation: the ring
 *
 * A record is a header of 8 bytes, the message, and padding to 8. Records follow each other; after the newest
 * comes a header of 0. There is no shared tail: the consumer looks at the header where the next record will
 * be. So a small message costs the transfer of one cache line.
 *
 * Commit, in this order:
 *   1. the message is written behind the place of its header, which is still 0;
 *   2. the next header, the one behind this record, is cleared;
 *   3. this header is stored with release order.
 * The consumer loads the header with acquire order. If it sees the header of 3, it also sees 1 and 2. Hence
 * wherever a consumer looks for a header it finds 0 or a header of this session: bytes that lay there before,
 * from an earlier lap or session, or a message whose content resembles a header, are overwritten by 2 before
 * 3 makes anybody look there. A producer that dies anywhere before 3 leaves a 0.
 *
 * A batch is the same with more in step 1: several records, headers and all, are put together in private
 * memory and copied behind the place of the first one's header; 2 clears the header behind the last, 3 stores
 * the first. The consumer, which waits at the first header, sees none of them before 3 and every one after
 * it. The headers in between need no order of their own: they are written before 3 like the messages.
 *
 * Reuse: the consumer publishes its head (release) after it has read the message; the producer loads the head
 * (acquire) before it writes there. So the reads happen before the overwriting. The cleared header is part of
 * what needs room: record + 8 <= free. The consumer publishes an eighth of the ring at a time, as each
 * publication takes a line from the producer, and always before it waits: else a producer that needs more
 * room than is published would wait for ever.
 *
 * Mistrust: positions are private. The two words that come from the other side, header and head, are loaded
 * once per use and checked here and nowhere else. A message is bounded by what the consumer has not published
 * yet, so reading it stays inside the double mapping whatever the header says.
 */
#include "ring_hot.h"

#include "copy.h"

uint64_t chan_ring_max_message(uint64_t ring_bytes)
{
    /* The length of a record is 32 bits wide. */
    uint64_t most = ring_bytes - 2 * (uint64_t)CHAN_RECORD_HEADER_BYTES;
    return most < UINT32_MAX ? most : UINT32_MAX & ~(uint64_t)(CHAN_RECORD_ALIGN - 1);
}

void chan_producer_reset(struct chan_producer *producer, uint16_t first_sequence)
{
    producer->tail = 0;
    producer->offset = 0;
    producer->head = 0;
    producer->sequence = first_sequence;
    producer->reserved = false;
    producer->staged = 0;
    chan_store_release(chan_as_word(producer->place.data), 0, producer->place.mapping);
}

/* The one place where the consumer's head is believed: it only grows, by whole records, and not beyond what
 * was written. A consumer that lies within these bounds spoils its own messages only. */
static int load_head(struct chan_producer *producer)
{
    uint64_t head = chan_load_acquire(producer->place.head, producer->place.mapping);
    if (head < producer->head || head > producer->tail || head % CHAN_RECORD_ALIGN != 0)
        return -EPROTO;
    producer->head = head;
    return 0;
}

static bool has_room(const struct chan_producer *producer, uint64_t record)
{
    return record + CHAN_RECORD_HEADER_BYTES <= producer->place.bytes - (producer->tail - producer->head);
}

int chan_producer_reserve(struct chan_producer *producer, uint64_t length, void **buffer)
{
    uint64_t record = chan_record_bytes(length);
    if (!has_room(producer, record)) {
        int r = load_head(producer);
        if (r < 0)
            return r;
        if (!has_room(producer, record))
            return -EAGAIN;
    }
    producer->reserved = true;
    producer->reserved_length = length;
    *buffer = producer->place.data + producer->offset + CHAN_RECORD_HEADER_BYTES;
    return 0;
}

void chan_producer_commit(struct chan_producer *producer, uint64_t length)
{
    const struct chan_ring_place *place = &producer->place;
    uint64_t record = chan_record_bytes(length);
    uint64_t next = chan_ring_advance(producer->offset, record, place->bytes);

    chan_store_relaxed(chan_as_word(place->data + next), 0);
    chan_store_release(chan_as_word(place->data + producer->offset),
                       chan_pack_header(length, producer->sequence), place->mapping);
    producer->sequence++;
    producer->tail += record;
    producer->offset = next;
    producer->reserved = false;
}

int chan_producer_flush(struct chan_producer *producer)
{
    const struct chan_ring_place *place = &producer->place;
    const uint64_t bytes = producer->staged;
    if (bytes == 0)
        return 0;
    if (!has_room(producer, bytes)) {
        int r = load_head(producer);
        if (r < 0)
            return r;
        if (!has_room(producer, bytes))
            return -EAGAIN;
    }
    unsigned char *to = place->data + producer->offset;
    const uint64_t next = chan_ring_advance(producer->offset, bytes, place->bytes);
    uint64_t header;
    memcpy(&header, producer->stage, sizeof header);
    chan_copy_out(place->mapping, to + sizeof header, producer->stage + sizeof header, bytes - sizeof header);
    chan_store_relaxed(chan_as_word(place->data + next), 0);
    chan_store_release(chan_as_word(to), header, place->mapping);
    producer->tail += bytes;
    producer->offset = next;
    producer->staged = 0;
    return 0;
}

void chan_consumer_reset(struct chan_consumer *consumer, uint16_t first_sequence)
{
    consumer->head = 0;
    consumer->offset = 0;
    consumer->published = 0;
    consumer->sequence = first_sequence;
    consumer->peeked = false;
}

bool chan_consumer_publish(struct chan_consumer *consumer)
{
    if (consumer->published == consumer->head)
        return false;
    chan_store_release(consumer->place.head, consumer->head, consumer->place.mapping);
    consumer->published = consumer->head;
    return true;
}
