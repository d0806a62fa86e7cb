/* The event loop of the control thread: epoll with callbacks and timers. Nothing in it may block, and all of
 * it is used on one thread. A callback may call any function here but loop_run and loop_free. */
#ifndef CHAN_DATAPLANE_LOOP_LOOP_H
#define CHAN_DATAPLANE_LOOP_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct control_loop;

/* A descriptor that the loop watches. Embedded in its owner's structure; must not move while it is added. */
struct loop_source {
    void (*ready)(struct loop_source *source, uint32_t events); /* EPOLLIN, EPOLLOUT, EPOLLHUP, EPOLLERR */
    int fd;
    bool added;
};

/* A moment to be called at, once. Embedded likewise; starts as zeros but for `expired`. */
struct loop_timer {
    void (*expired)(struct loop_timer *timer);
    int64_t at; /* monotonic ns; 0: not set */

    /* the loop's own: a node of its heap */
    uint64_t sequence;
    struct loop_timer *child, *next, *previous;
};

int loop_new(struct control_loop **ret, struct error *err);
/* Sources and timers that are still there are forgotten; descriptors stay their owners'. NULL is fine. */
void loop_free(struct control_loop *loop);

/* Level-triggered. A source that is removed is not called again, not even for events already fetched; its
 * owner may free it at once, also from within its own callback. Remove it before its descriptor is closed. */
int loop_add(struct control_loop *loop, struct loop_source *source, uint32_t events, struct error *err);
int loop_change(struct control_loop *loop, struct loop_source *source, uint32_t events, struct error *err);
/* A source that is not added is fine. */
void loop_remove(struct control_loop *loop, struct loop_source *source);

/* Sets it, or sets it anew. A time that is past counts as now, so that a timer which sets itself again and
 * again leaves room for everything else. Due timers are called in the order of their times, those of one time
 * in the order in which they were set; a millisecond late at most while the loop is idle. */
void loop_timer_set(struct control_loop *loop, struct loop_timer *timer, int64_t at);
/* A timer that is not set is fine. */
void loop_timer_clear(struct control_loop *loop, struct loop_timer *timer);

/* Runs until loop_quit. */
int loop_run(struct control_loop *loop, struct error *err);
/* Ends loop_run as soon as the callback that is running returns; if none is, the next loop_run returns at
 * once. */
void loop_quit(struct control_loop *loop);

#endif
