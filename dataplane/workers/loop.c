/* What a worker's thread does. */
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <sys/epoll.h>
#include <time.h>

#include "base/clock.h"
#include "dataplane/workers/internal.h"

enum {
    EVENTS = 64,
    /* While some tasks are busy, the others' descriptors are looked at this often. */
    LOOK_NS = 50 * 1000
};

static void run_command(struct worker *worker)
{
    struct command *command = atomic_load_explicit(&worker->command, memory_order_acquire);
    if (command == NULL)
        return;
    command->fn(command->argument);
    atomic_store_explicit(&worker->command, NULL, memory_order_relaxed);
    (void)sem_post(&worker->done);
}

static int wait_events(const struct worker *worker, struct epoll_event *events, int64_t timeout_ns)
{
    if (timeout_ns == 0)
        return epoll_wait(worker->epoll_fd, events, EVENTS, 0);
    if (timeout_ns < 0)
        return epoll_wait(worker->epoll_fd, events, EVENTS, -1);
    const struct timespec timeout = {.tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000};
    const int count = epoll_pwait2(worker->epoll_fd, events, EVENTS, &timeout, NULL);
    if (count >= 0 || errno != ENOSYS)
        return count;
    const int64_t milliseconds = (timeout_ns + 999999) / 1000000; /* a kernel before 5.11 */
    return epoll_wait(worker->epoll_fd, events, EVENTS, milliseconds > INT_MAX ? INT_MAX : (int)milliseconds);
}

/* Makes the tasks active whose descriptors became readable. A timeout below 0 is none. */
static void look(struct worker *worker, int64_t timeout_ns)
{
    struct epoll_event events[EVENTS];
    const int count = wait_events(worker, events, timeout_ns);
    const int64_t now = clock_monotonic_ns();
    worker->last_look = now;
    for (int i = 0; i < count; i++) {
        struct worker_task *task = events[i].data.ptr;
        if (task != NULL) /* NULL is the control thread's wake */
            task_activate(worker, task, now);
    }
    tasks_wake_due(worker, now);
}

/* Nothing is active: sleeps until a descriptor, a deadline or the control thread has something. */
static void sleep_until_needed(struct worker *worker)
{
    const int64_t deadline = tasks_deadline(worker);
    int64_t timeout_ns = -1;
    if (deadline != 0) {
        const int64_t left = deadline - clock_monotonic_ns();
        timeout_ns = left > 0 ? left : 0;
    }
    /* The control thread stores its command, then looks at `blocked`; here it is the other way round, so that
     * one of the two sees the other. */
    atomic_store_explicit(&worker->blocked, true, memory_order_seq_cst);
    if (atomic_load_explicit(&worker->command, memory_order_seq_cst) == NULL &&
        !atomic_load_explicit(&worker->stopping, memory_order_seq_cst))
        look(worker, timeout_ns);
    atomic_store_explicit(&worker->blocked, false, memory_order_relaxed);
}

static void visit_active(struct worker *worker)
{
    const int64_t now = clock_monotonic_ns();
    /* From the end, since a task that goes to sleep puts the last one into its place. */
    for (unsigned i = worker->active.count; i-- > 0;) {
        struct worker_task *task = worker->active.tasks[i];
        if (task->visit(task, now))
            task->last_work = now;
        else if (now - task->last_work >= worker->poll_ns) {
            task->deadline = 0;
            if (task->sleep(task)) {
                task->deadline = 0;
                task->last_work = now;
            } else {
                task_put_to_sleep(worker, task);
            }
        }
    }
    if (worker->sleeping.count > 0 && now - worker->last_look >= LOOK_NS)
        look(worker, 0);
}

void *worker_loop(void *argument)
{
    struct worker *worker = argument;
    while (!atomic_load_explicit(&worker->stopping, memory_order_relaxed)) {
        run_command(worker);
        if (worker->active.count > 0)
            visit_active(worker);
        else
            sleep_until_needed(worker);
    }
    return NULL;
}
