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
#include "ring.h"

#include <errno.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "headers are packed as little-endian words");

static uint64_t record_bytes(uint64_t length)
{
    const uint64_t mask = CHAN_RECORD_ALIGN - 1;
    return CHAN_RECORD_HEADER_BYTES + ((length + mask) & ~mask);
}

static uint64_t advance(uint64_t offset, uint64_t bytes, uint64_t ring_bytes)
{
    offset += bytes;
    return offset >= ring_bytes ? offset - ring_bytes : offset;
}

static uint64_t pack_header(uint64_t length, uint16_t sequence)
{
    struct chan_record_header header = {
        .length = (uint32_t)length,
        .type = CHAN_RECORD_MESSAGE,
        .sequence = sequence,
    };
    uint64_t word;
    memcpy(&word, &header, sizeof word);
    return word;
}

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
    uint64_t record = record_bytes(length);
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
    uint64_t record = record_bytes(length);
    uint64_t next = advance(producer->offset, record, place->bytes);

    chan_store_relaxed(chan_as_word(place->data + next), 0);
    chan_store_release(chan_as_word(place->data + producer->offset), pack_header(length, producer->sequence),
                       place->mapping);
    producer->sequence++;
    producer->tail += record;
    producer->offset = next;
    producer->reserved = false;
}

void chan_consumer_reset(struct chan_consumer *consumer, uint16_t first_sequence)
{
    consumer->head = 0;
    consumer->offset = 0;
    consumer->published = 0;
    consumer->sequence = first_sequence;
    consumer->peeked = false;
}

/* The one place where a record's header is believed. */
static int check_header(const struct chan_consumer *consumer, uint64_t word, uint64_t *length)
{
    struct chan_record_header header;
    memcpy(&header, &word, sizeof header);
    if (header.type != CHAN_RECORD_MESSAGE || header.flags != 0 || header.sequence != consumer->sequence)
        return -EPROTO;
    /* A correct producer has written no further than a ring behind the head that we published. */
    uint64_t available = consumer->place.bytes - (consumer->head - consumer->published);
    if (record_bytes(header.length) + CHAN_RECORD_HEADER_BYTES > available)
        return -EPROTO;
    *length = header.length;
    return 0;
}

int chan_consumer_peek(struct chan_consumer *consumer, const void **buffer, uint64_t *length)
{
    const unsigned char *record = consumer->place.data + consumer->offset;
    if (!consumer->peeked) {
        uint64_t word = chan_load_acquire(chan_as_const_word(record), consumer->place.mapping);
        if (word == 0)
            return -EAGAIN;
        int r = check_header(consumer, word, &consumer->length);
        if (r < 0)
            return r;
        consumer->peeked = true;
    }
    *buffer = record + CHAN_RECORD_HEADER_BYTES;
    *length = consumer->length;
    return 0;
}

bool chan_consumer_release(struct chan_consumer *consumer)
{
    uint64_t record = record_bytes(consumer->length);
    consumer->head += record;
    consumer->offset = advance(consumer->offset, record, consumer->place.bytes);
    consumer->sequence++;
    consumer->peeked = false;
    if (consumer->head - consumer->published < consumer->place.bytes / 8)
        return false;
    return chan_consumer_publish(consumer);
}

bool chan_consumer_publish(struct chan_consumer *consumer)
{
    if (consumer->published == consumer->head)
        return false;
    chan_store_release(consumer->place.head, consumer->head, consumer->place.mapping);
    consumer->published = consumer->head;
    return true;
}
