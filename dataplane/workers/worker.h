/* Workers: pinned threads that run tasks. A task that has work is visited again and again (busy polling); one
 * that had none for the polling time is put to sleep, which turns its notifications on, and is visited again
 * when a descriptor it watches becomes readable, or when its deadline has come. While every task is busy
 * there is no system call; when all sleep the worker sleeps in epoll.
 *
 * The control thread changes what a worker uses by worker_run only: the function runs on the worker's thread,
 * between two visits. So a task needs neither locks nor atomics for what its worker reads.
 */
#ifndef CHAN_DATAPLANE_WORKERS_WORKER_H
#define CHAN_DATAPLANE_WORKERS_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct worker;

struct worker_task {
    /* Does a bounded amount of work; true if there was any. `now` is the monotonic clock in ns, a little old.
     */
    bool (*visit)(struct worker_task *task, int64_t now);
    /* Turns notifications on and looks once more; true if there is work after all: then they are off again.
     */
    bool (*sleep)(struct worker_task *task);
    /* Turns notifications off. */
    void (*wake)(struct worker_task *task);
    /* 0, or the monotonic time in ns at which a sleeping task wants a visit. */
    int64_t deadline;

    struct worker *worker; /* whose task it is, or is to become; set by the task's owner */

    /* the worker's own */
    bool added, active;
    unsigned index; /* in the worker's list of active tasks, or of sleeping ones */
    int64_t last_work;
};

struct worker_config {
    unsigned cpu;
    int64_t poll_ns; /* how long a task without work is polled before it sleeps */
    bool pin;        /* to the CPU; tests may say no */
};

/* Starts the thread. The CPU must be one that this process may use. */
int worker_start(const struct worker_config *config, struct worker **ret, struct error *err);
/* Ends the thread; every task must have been removed. NULL is fine. */
void worker_stop(struct worker *worker);

unsigned worker_cpu(const struct worker *worker);
size_t worker_task_count(const struct worker *worker);

/* Runs fn(argument) on the worker's thread between two visits and returns when it has run. Only from the
 * control thread. Takes a few microseconds, a little more when the worker sleeps. */
void worker_run(struct worker *worker, void (*fn)(void *argument), void *argument);

/* These three only on the worker's own thread, that is within worker_run or a visit. */
int worker_add(struct worker *worker, struct worker_task *task, struct error *err);
void worker_remove(struct worker *worker, struct worker_task *task);
/* Makes a sleeping task active. */
void worker_wake(struct worker_task *task);

/* Around each call that writes to a peer's descriptor (an eventfd), from the worker's thread: such a write
 * blocks when the peer made it so. The watchdog then interrupts it (the write fails with EINTR) and
 * worker_write_end answers true: see with poll(2) whether the descriptor can be written to, and if not, give
 * it up. (A thread that merely had to wait for its CPU within the write is interrupted too.) Costs two plain
 * stores. */
void worker_write_begin(struct worker_task *task);
bool worker_write_end(struct worker_task *task);

/* Interrupts a write to a peer's descriptor that has lasted since the call before. The control thread calls
 * it every WORKER_WATCHDOG_MS. */
enum { WORKER_WATCHDOG_MS = 100 };
void worker_watchdog(struct worker *worker);

/* A descriptor whose becoming readable wakes the task. Edge-triggered: nothing is ever read from it, so that
 * a busy worker does no system call for it, and a peer's descriptor cannot block. A descriptor that epoll
 * does not take is an error (REASON_INVALID_REQUEST). From the worker's thread. */
int worker_watch(struct worker_task *task, int fd, struct error *err);
void worker_unwatch(struct worker_task *task, int fd);

#endif
