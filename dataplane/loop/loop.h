/* The event loop of the control thread: epoll with callbacks and timers. Nothing in it may block. */
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

struct loop_timer {
    void (*expired)(struct loop_timer *timer);
    int64_t at; /* monotonic ns; 0: not set */
    struct loop_timer *next;
};

int loop_new(struct control_loop **ret, struct error *err);
void loop_free(struct control_loop *loop);
/* Level-triggered. A source that is removed is not called again, not even for events already fetched. */
int loop_add(struct control_loop *loop, struct loop_source *source, uint32_t events, struct error *err);
int loop_change(struct control_loop *loop, struct loop_source *source, uint32_t events, struct error *err);
void loop_remove(struct control_loop *loop, struct loop_source *source);
void loop_timer_set(struct control_loop *loop, struct loop_timer *timer, int64_t at);
void loop_timer_clear(struct control_loop *loop, struct loop_timer *timer);
/* Runs until loop_quit. */
int loop_run(struct control_loop *loop, struct error *err);
void loop_quit(struct control_loop *loop);

#endif
