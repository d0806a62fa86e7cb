/* What the files of loop/ share: the heap of timers. */
#ifndef CHAN_DATAPLANE_LOOP_INTERNAL_H
#define CHAN_DATAPLANE_LOOP_INTERNAL_H

#include "dataplane/loop/loop.h"

/* A pairing heap of the timers themselves: setting one allocates nothing, so it cannot fail. *heap is the
 * timer that is due first, NULL when there is none. */
void timer_heap_insert(struct loop_timer **heap, struct loop_timer *timer);
/* The timer must be in the heap. */
void timer_heap_remove(struct loop_timer **heap, struct loop_timer *timer);

#endif
