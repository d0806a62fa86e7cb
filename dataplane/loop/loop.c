#include "dataplane/loop/loop.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "dataplane/loop/internal.h"

enum { FETCH_EVENTS = 64, NS_PER_MS = 1000000 };

struct control_loop {
    int epoll_fd;
    bool quit;
    struct loop_timer *timers; /* heap */
    uint64_t sequence;         /* of the timer that was set last */
    int64_t now;               /* when due timers were looked for last; no set timer is earlier */
    /* What epoll answered and what of it is still to be dispatched. */
    struct epoll_event fetched[FETCH_EVENTS];
    int fetched_count, fetched_next;
};

int loop_new(struct control_loop **ret, struct error *err)
{
    struct control_loop *loop = calloc(1, sizeof *loop);
    if (loop == NULL)
        return error_set(err, REASON_RESOURCE_LIMIT, "making an event loop: out of memory");
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll_fd < 0) {
        const int code = errno;
        free(loop);
        return error_set_errno(err, REASON_RESOURCE_LIMIT, code, "making an event loop");
    }
    *ret = loop;
    return 0;
}

void loop_free(struct control_loop *loop)
{
    if (loop == NULL)
        return;
    (void)close(loop->epoll_fd);
    free(loop);
}

/* The source's event that was fetched and not dispatched yet, or NULL. There is one at most. */
static struct epoll_event *pending_event(struct control_loop *loop, const struct loop_source *source)
{
    for (int i = loop->fetched_next; i < loop->fetched_count; i++)
        if (loop->fetched[i].data.ptr == source)
            return &loop->fetched[i];
    return NULL;
}

int loop_add(struct control_loop *loop, struct loop_source *source, uint32_t events, struct error *err)
{
    struct epoll_event event = {.events = events, .data.ptr = source};
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, source->fd, &event) != 0)
        return error_set_errno(err, REASON_RESOURCE_LIMIT, errno, "watching descriptor %d", source->fd);
    source->added = true;
    return 0;
}

int loop_change(struct control_loop *loop, struct loop_source *source, uint32_t events, struct error *err)
{
    struct epoll_event event = {.events = events, .data.ptr = source};
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, source->fd, &event) != 0)
        return error_set_errno(err, REASON_RESOURCE_LIMIT, errno, "watching descriptor %d for other events",
                               source->fd);
    struct epoll_event *pending = pending_event(loop, source);
    if (pending != NULL) {
        pending->events &= events | EPOLLHUP | EPOLLERR;
        if (pending->events == 0)
            pending->data.ptr = NULL;
    }
    return 0;
}

void loop_remove(struct control_loop *loop, struct loop_source *source)
{
    if (!source->added)
        return;
    (void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
    source->added = false;
    struct epoll_event *pending = pending_event(loop, source);
    if (pending != NULL)
        pending->data.ptr = NULL;
}

void loop_timer_set(struct control_loop *loop, struct loop_timer *timer, int64_t at)
{
    loop_timer_clear(loop, timer);
    timer->at = at > loop->now ? at : loop->now + 1;
    timer->sequence = ++loop->sequence;
    timer_heap_insert(&loop->timers, timer);
}

void loop_timer_clear(struct control_loop *loop, struct loop_timer *timer)
{
    if (timer->at == 0)
        return;
    timer_heap_remove(&loop->timers, timer);
    timer->at = 0;
}

/* Milliseconds until the first timer is due, for epoll_wait: rounded up, or it would spin for the rest. */
static int time_to_wait(const struct control_loop *loop)
{
    if (loop->timers == NULL)
        return -1;
    const int64_t left = loop->timers->at - clock_monotonic_ns();
    if (left <= 0)
        return 0;
    const int64_t ms = left / NS_PER_MS + (left % NS_PER_MS != 0);
    return ms < INT_MAX ? (int)ms : INT_MAX;
}

static void run_timers(struct control_loop *loop)
{
    if (loop->timers == NULL)
        return;
    /* Callbacks cannot set a timer that is due by this time, so this ends. */
    loop->now = clock_monotonic_ns();
    while (!loop->quit && loop->timers != NULL && loop->timers->at <= loop->now) {
        struct loop_timer *timer = loop->timers;
        loop_timer_clear(loop, timer);
        timer->expired(timer);
    }
}

static void dispatch(struct control_loop *loop)
{
    while (!loop->quit && loop->fetched_next < loop->fetched_count) {
        const struct epoll_event *event = &loop->fetched[loop->fetched_next++];
        struct loop_source *source = event->data.ptr;
        if (source != NULL) /* else it was removed meanwhile */
            source->ready(source, event->events);
    }
    loop->fetched_next = loop->fetched_count = 0; /* after a quit epoll answers the rest again */
}

int loop_run(struct control_loop *loop, struct error *err)
{
    while (!loop->quit) {
        const int count = epoll_wait(loop->epoll_fd, loop->fetched, FETCH_EVENTS, time_to_wait(loop));
        if (count < 0 && errno != EINTR)
            return error_set_errno(err, REASON_INTERNAL, errno, "waiting for events");
        loop->fetched_count = count < 0 ? 0 : count;
        dispatch(loop);
        run_timers(loop);
    }
    loop->quit = false;
    return 0;
}

void loop_quit(struct control_loop *loop)
{
    loop->quit = true;
}
