/* An end for tests of links: frames are numbers in queues. The test's thread fills and looks, the worker
 * moves. */
#ifndef CHAN_TESTS_UNIT_LINKS_FAKE_END_H
#define CHAN_TESTS_UNIT_LINKS_FAKE_END_H

#include <stdatomic.h>

#include "dataplane/ends/end.h"

enum { FAKE_FRAMES = 4096 };

struct fake_end {
    struct end end;
    int kick_fd; /* watched: wakes the link */
    atomic_uint pairs;
    atomic_bool armed, refill_armed;

    /* to send, by pair: numbers from `sent` to `queued` wait */
    atomic_uint queued[END_QUEUE_PAIRS], sent[END_QUEUE_PAIRS];
    /* received, with the pair they came from, and how many more it has buffers for */
    uint32_t received[FAKE_FRAMES];
    atomic_uint received_count, room;
    atomic_uint unwanted; /* the number of a frame that it never has a buffer for; 0: none */
    atomic_uint interrupts, destroyed;
};

void fake_end_init(struct fake_end *fake, struct worker_task *task);
void fake_end_clear(struct fake_end *fake);
/* Queues numbers to send on a pair and kicks when it was asked to. */
void fake_end_send(struct fake_end *fake, unsigned pair, unsigned count);
/* Gives buffers and kicks when it was asked to. */
void fake_end_refill(struct fake_end *fake, unsigned count);

#endif
