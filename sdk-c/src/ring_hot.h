/* The hot half of a ring, inline: what every message passes through. ring.c begins with how it works. */
#ifndef CHAN_SRC_RING_HOT_H
#define CHAN_SRC_RING_HOT_H

#include <errno.h>
#include <string.h>

#include "ring.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "headers are packed as little-endian words");

static inline uint64_t chan_record_bytes(uint64_t length)
{
    const uint64_t mask = CHAN_RECORD_ALIGN - 1;
    return CHAN_RECORD_HEADER_BYTES + ((length + mask) & ~mask);
}

static inline uint64_t chan_ring_advance(uint64_t offset, uint64_t bytes, uint64_t ring_bytes)
{
    offset += bytes;
    return offset >= ring_bytes ? offset - ring_bytes : offset;
}

static inline uint64_t chan_pack_header(uint64_t length, uint16_t sequence)
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

/* memcpy, without its call for what is short. */
static inline void chan_copy_small(unsigned char *to, const unsigned char *from, size_t length)
{
    if (length > 64) {
        memcpy(to, from, length);
        return;
    }
    if (length >= 16) {
        for (size_t at = 0; at + 16 < length; at += 16)
            memcpy(to + at, from + at, 16);
        memcpy(to + length - 16, from + length - 16, 16);
        return;
    }
    if (length >= 8) {
        memcpy(to, from, 8);
        memcpy(to + length - 8, from + length - 8, 8);
        return;
    }
    for (size_t at = 0; at < length; at++)
        to[at] = from[at];
}

/* Adds a message to those that wait; false when it does not fit behind them. It is visible after the flush.
 */
static inline bool chan_producer_stage(struct chan_producer *producer, const void *message, uint64_t length)
{
    const uint64_t record = chan_record_bytes(length);
    if (record > producer->stage_bytes - producer->staged)
        return false;
    unsigned char *to = producer->stage + producer->staged;
    const uint64_t header = chan_pack_header(length, producer->sequence);
    memcpy(to, &header, sizeof header);
    if (length > 0) {
        const uint64_t zero = 0; /* the padding, under the message's last bytes */
        memcpy(to + record - sizeof zero, &zero, sizeof zero);
        chan_copy_small(to + sizeof header, message, length);
    }
    producer->sequence++;
    producer->staged += record;
    return true;
}

/* The one place where a record's header is believed. */
static inline int chan_check_header(const struct chan_consumer *consumer, uint64_t word, uint64_t *length)
{
    struct chan_record_header header;
    memcpy(&header, &word, sizeof header);
    if (header.type != CHAN_RECORD_MESSAGE || header.flags != 0 || header.sequence != consumer->sequence)
        return -EPROTO;
    /* A correct producer has written no further than a ring behind the head that we published. */
    uint64_t available = consumer->place.bytes - (consumer->head - consumer->published);
    if (chan_record_bytes(header.length) + CHAN_RECORD_HEADER_BYTES > available)
        return -EPROTO;
    *length = header.length;
    return 0;
}

/* Loads and checks the next record, once; *buffer and *length become its content. -EAGAIN: empty; -EPROTO:
 * not a record that a correct producer writes. */
static inline int chan_consumer_peek(struct chan_consumer *consumer, const void **buffer, uint64_t *length)
{
    const unsigned char *record = consumer->place.data + consumer->offset;
    if (!consumer->peeked) {
        uint64_t word = chan_load_acquire(chan_as_const_word(record), consumer->place.mapping);
        if (word == 0)
            return -EAGAIN;
        int r = chan_check_header(consumer, word, &consumer->length);
        if (r < 0)
            return r;
        consumer->peeked = true;
    }
    *buffer = record + CHAN_RECORD_HEADER_BYTES;
    *length = consumer->length;
    return 0;
}

/* Passes the record that was peeked at. Returns true when it published the head. */
static inline bool chan_consumer_release(struct chan_consumer *consumer)
{
    uint64_t record = chan_record_bytes(consumer->length);
    consumer->head += record;
    consumer->offset = chan_ring_advance(consumer->offset, record, consumer->place.bytes);
    consumer->sequence++;
    consumer->peeked = false;
    if (consumer->head - consumer->published < consumer->place.bytes / 8)
        return false;
    return chan_consumer_publish(consumer);
}

#endif
