/* What the files of workers/ share. */
#ifndef CHAN_DATAPLANE_WORKERS_INTERNAL_H
#define CHAN_DATAPLANE_WORKERS_INTERNAL_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "dataplane/workers/worker.h"

enum { CACHE_LINE = 64 };

/* Tasks in an array, each of which knows its index: adding and removing costs the same for any number. */
struct task_list {
    struct worker_task **tasks;
    unsigned count;
};

struct command {
    void (*fn)(void *argument);
    void *argument;
};

struct worker {
    /* the worker's own */
    struct task_list active, sleeping;
    unsigned capacity; /* of both lists */
    unsigned timed;    /* sleeping tasks with a deadline */
    int epoll_fd, wake_fd;
    int64_t poll_ns;
    int64_t last_look; /* when epoll was asked last */
    unsigned cpu;
    bool pin;
    pthread_t thread;

    /* written by the control thread, read in every pass */
    _Alignas(CACHE_LINE) _Atomic(struct command *) command;
    atomic_bool stopping;
    uint32_t watched_write; /* the control thread's: what `writing` was at the last look of the watchdog */

    /* written by the worker */
    _Alignas(CACHE_LINE) atomic_bool blocked; /* it sleeps in epoll, or is about to */
    atomic_uint writing;                      /* odd: within a write to a peer's descriptor */
    atomic_bool interrupted;                  /* by the watchdog */
    atomic_size_t task_count;

    _Alignas(CACHE_LINE) sem_t done; /* a command has run */
};

/* tasks.c */
bool tasks_reserve(struct worker *worker, unsigned capacity);
void task_activate(struct worker *worker, struct worker_task *task, int64_t now);
void task_put_to_sleep(struct worker *worker, struct worker_task *task);
void task_take_out(struct worker *worker, struct worker_task *task);
/* The earliest deadline of the sleeping tasks; 0: there is none. */
int64_t tasks_deadline(const struct worker *worker);
/* Wakes the sleeping tasks whose deadline has come. */
void tasks_wake_due(struct worker *worker, int64_t now);

/* loop.c: the thread's function; its argument is the worker. */
void *worker_loop(void *argument);

#endif
