/* One direction of a channel: a ring of records with one producer and one consumer, in the half of the
 * producer's side. ring.c begins with how it works. Nothing here waits, and nothing here knows of sessions.
 */
#ifndef CHAN_SRC_RING_H
#define CHAN_SRC_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "shared.h"

/* Where a ring lies. The data is mapped twice in a row, so that a record which begins before the end goes on
 * behind it. */
struct chan_ring_place {
    enum chan_mapping mapping;
    unsigned char *data;
    uint64_t bytes;
    chan_word *head; /* the consumer's control word */
};

struct chan_producer {
    struct chan_ring_place place;
    uint64_t tail;   /* bytes written in this session; private, the consumer sees headers only */
    uint64_t offset; /* tail's place in the ring */
    uint64_t head;   /* what the consumer was last seen to be done with */
    uint16_t sequence;
    bool reserved;
    uint64_t reserved_length;
    /* Records that wait to be published together: as they will lie in the ring, in private memory. */
    unsigned char *stage;
    uint64_t staged, stage_bytes;
};

struct chan_consumer {
    struct chan_ring_place place;
    uint64_t head; /* bytes done with in this session */
    uint64_t offset;
    uint64_t published; /* the head that the producer may see */
    uint16_t sequence;
    bool peeked; /* the record at offset was loaded and checked, and has this length */
    uint64_t length;
};

/* The longest message a ring can carry: a record, and the empty header behind it, fill the ring. */
uint64_t chan_ring_max_message(uint64_t ring_bytes);

/* Empties the ring, for a new session of the producer. Only while the consumer does not use it. */
void chan_producer_reset(struct chan_producer *producer, uint16_t first_sequence);

/* Finds room for a message; *buffer becomes its place. -EAGAIN: full; -EPROTO: the consumer's head cannot be
 * right. */
int chan_producer_reserve(struct chan_producer *producer, uint64_t length, void **buffer);

/* Makes the reserved message visible. `length` is at most what was reserved. */
void chan_producer_commit(struct chan_producer *producer, uint64_t length);

/* Publishes all that was staged, by one store. Nothing may be reserved. -EAGAIN: full; -EPROTO as above; the
 * records then go on waiting. */
int chan_producer_flush(struct chan_producer *producer);

/* Begins to read a new session of the producer. */
void chan_consumer_reset(struct chan_consumer *consumer, uint16_t first_sequence);

/* Tells the producer about all that was released. To be called before waiting. Returns true when there was
 * news. */
bool chan_consumer_publish(struct chan_consumer *consumer);

#endif
