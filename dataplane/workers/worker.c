/* The control thread's side of a worker, and what tasks ask of theirs. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "dataplane/workers/internal.h"

/* Interrupts a worker's system call. */
enum { WATCHDOG_SIGNAL = SIGUSR1, SPINS = 2000 };

static void on_watchdog_signal(int number)
{
    (void)number; /* to interrupt is all that it is for */
}

static int open_descriptors(struct worker *worker, struct error *err)
{
    worker->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    worker->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    /* Edge-triggered, as all here: it is never read. */
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = NULL};
    if (worker->epoll_fd < 0 || worker->wake_fd < 0 ||
        epoll_ctl(worker->epoll_fd, EPOLL_CTL_ADD, worker->wake_fd, &event) != 0)
        return error_set_errno(err, REASON_RESOURCE_LIMIT, errno, "starting a worker: cannot make its epoll");
    return 0;
}

static int start_thread(struct worker *worker, struct error *err)
{
    pthread_attr_t attributes;
    int code = pthread_attr_init(&attributes);
    if (code != 0)
        return error_set_errno(err, REASON_RESOURCE_LIMIT, code, "starting a worker");
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(worker->cpu, &cpus);
    if (worker->pin)
        code = pthread_attr_setaffinity_np(&attributes, sizeof cpus, &cpus);
    /* Signals are the control thread's, but for the watchdog's. */
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)sigdelset(&all, WATCHDOG_SIGNAL);
    (void)sigdelset(&all, SIGBUS);
    (void)sigdelset(&all, SIGSEGV);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    if (code == 0)
        code = pthread_create(&worker->thread, &attributes, worker_loop, worker);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    if (code != 0)
        return error_set_errno(err, code == EINVAL ? REASON_INVALID_REQUEST : REASON_RESOURCE_LIMIT, code,
                               "starting a worker on CPU %u", worker->cpu);
    (void)pthread_setname_np(worker->thread, "worker");
    return 0;
}

static void release(struct worker *worker)
{
    cleanup_close(&worker->epoll_fd);
    cleanup_close(&worker->wake_fd);
    free(worker->active.tasks);
    free(worker->sleeping.tasks);
    (void)sem_destroy(&worker->done);
    free(worker);
}

int worker_start(const struct worker_config *config, struct worker **ret, struct error *err)
{
    if (config->cpu >= CPU_SETSIZE)
        return error_set(err, REASON_INVALID_REQUEST, "there is no CPU %u", config->cpu);
    const struct sigaction action = {.sa_handler =
                                         on_watchdog_signal}; /* no SA_RESTART: it is to interrupt */
    if (sigaction(WATCHDOG_SIGNAL, &action, NULL) != 0)
        return error_set_errno(err, REASON_INTERNAL, errno,
                               "starting a worker: cannot set a signal's handler");
    struct worker *worker = aligned_alloc(CACHE_LINE, sizeof *worker);
    if (worker == NULL)
        return error_set(err, REASON_RESOURCE_LIMIT, "starting a worker: out of memory");
    memset(worker, 0, sizeof *worker);
    worker->epoll_fd = worker->wake_fd = -1;
    worker->cpu = config->cpu;
    worker->pin = config->pin;
    worker->poll_ns = config->poll_ns;
    (void)sem_init(&worker->done, 0, 0);
    if (open_descriptors(worker, err) != 0 || start_thread(worker, err) != 0) {
        release(worker);
        return -1;
    }
    *ret = worker;
    return 0;
}

static void wake_thread(const struct worker *worker)
{
    const uint64_t one = 1;
    if (atomic_load_explicit(&worker->blocked, memory_order_seq_cst))
        (void)!write(worker->wake_fd, &one, sizeof one);
}

void worker_stop(struct worker *worker)
{
    if (worker == NULL)
        return;
    atomic_store_explicit(&worker->stopping, true, memory_order_seq_cst);
    wake_thread(worker);
    (void)pthread_join(worker->thread, NULL);
    release(worker);
}

unsigned worker_cpu(const struct worker *worker)
{
    return worker->cpu;
}

size_t worker_task_count(const struct worker *worker)
{
    return atomic_load_explicit(&worker->task_count, memory_order_relaxed);
}

/* False after WORKER_WATCHDOG_MS. */
static bool wait_done(struct worker *worker)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)WORKER_WATCHDOG_MS * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (sem_timedwait(&worker->done, &until) != 0) {
        if (errno != EINTR)
            return false;
    }
    return true;
}

void worker_run(struct worker *worker, void (*fn)(void *argument), void *argument)
{
    struct command command = {.fn = fn, .argument = argument};
    atomic_store_explicit(&worker->command, &command, memory_order_seq_cst);
    wake_thread(worker);
    /* A busy worker is here within microseconds, so a short spin often saves the sleep. */
    for (unsigned i = 0; i < SPINS; i++) {
        if (sem_trywait(&worker->done) == 0)
            return;
    }
    /* The worker may be stuck in a write to a peer's descriptor, out of which only the watchdog gets it. */
    while (!wait_done(worker))
        worker_watchdog(worker);
}

int worker_add(struct worker *worker, struct worker_task *task, struct error *err)
{
    if (!tasks_reserve(worker, worker->active.count + worker->sleeping.count + 1))
        return error_set(err, REASON_RESOURCE_LIMIT, "adding a task to a worker: out of memory");
    task->worker = worker;
    task->added = true;
    task->active = true;
    task->deadline = 0;
    task->last_work = clock_monotonic_ns();
    task->index = worker->active.count;
    worker->active.tasks[worker->active.count++] = task;
    atomic_fetch_add_explicit(&worker->task_count, 1, memory_order_relaxed);
    return 0;
}

void worker_remove(struct worker *worker, struct worker_task *task)
{
    if (!task->added)
        return;
    task_take_out(worker, task);
    task->added = false;
    atomic_fetch_sub_explicit(&worker->task_count, 1, memory_order_relaxed);
}

void worker_wake(struct worker_task *task)
{
    if (task->added)
        task_activate(task->worker, task, clock_monotonic_ns());
}

int worker_watch(struct worker_task *task, int fd, struct error *err)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = task};
    if (epoll_ctl(task->worker->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        return error_set_errno(err, REASON_INVALID_REQUEST, errno, "the descriptor cannot be waited for");
    return 0;
}

void worker_unwatch(struct worker_task *task, int fd)
{
    (void)epoll_ctl(task->worker->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

void worker_write_begin(struct worker_task *task)
{
    struct worker *worker = task->worker;
    const unsigned writing = atomic_load_explicit(&worker->writing, memory_order_relaxed);
    atomic_store_explicit(&worker->writing, writing + 1, memory_order_relaxed);
}

bool worker_write_end(struct worker_task *task)
{
    struct worker *worker = task->worker;
    const unsigned writing = atomic_load_explicit(&worker->writing, memory_order_relaxed);
    atomic_store_explicit(&worker->writing, writing + 1, memory_order_relaxed);
    if (__builtin_expect(!atomic_load_explicit(&worker->interrupted, memory_order_relaxed), 1))
        return false;
    atomic_store_explicit(&worker->interrupted, false, memory_order_relaxed);
    return true;
}

void worker_watchdog(struct worker *worker)
{
    const unsigned writing = atomic_load_explicit(&worker->writing, memory_order_relaxed);
    if ((writing & 1) != 0 && writing == worker->watched_write) {
        atomic_store_explicit(&worker->interrupted, true, memory_order_relaxed);
        (void)pthread_kill(worker->thread, WATCHDOG_SIGNAL);
    }
    worker->watched_write = writing;
}
