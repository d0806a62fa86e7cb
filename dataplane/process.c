#include "dataplane/process.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/descriptors.h"
#include "dataplane/confine.h"
#include "dataplane/control/server.h"
#include "dataplane/control/socket.h"
#include "dataplane/control/watch.h"
#include "dataplane/memory/copy.h"
#include "dataplane/memory/memory.h"

enum { NS_PER_US = 1000, NS_PER_MS = 1000000 };

/* Everything that runs, in the order in which it is opened. */
struct process {
    struct loop_source signals; /* first: the source is the process */
    struct loop_timer watchdog;
    const struct options *options;
    const struct log *log;
    const char *software;
    struct control_socket socket;
    struct statistics_memory *statistics;
    struct worker *workers[OPTIONS_CPUS_MAX];
    unsigned worker_count;
    struct control_loop *loop;
    struct link_table *table;
    struct requests *requests;
    struct control_server *server;
    struct watch watch;
};

/* ---- signals ---- */

/* Before there are threads, so that none of them ever takes one. */
static int open_signals(struct process *process, struct error *err)
{
    sigset_t signals;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    process->signals.fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (process->signals.fd < 0)
        return error_set_errno(err, REASON_RESOURCE_LIMIT, errno, "waiting for signals");
    return 0;
}

static void on_signal(struct loop_source *source, uint32_t events)
{
    (void)events;
    const struct process *process = (const struct process *)source;
    struct signalfd_siginfo info;
    if (read(source->fd, &info, sizeof info) != sizeof info)
        return;
    (void)sd_notify(0, "STOPPING=1");
    log_write(process->log, LOG_LEVEL_INFO, "stopping", "signal", sigabbrev_np((int)info.ssi_signo), NULL);
    loop_quit(process->loop);
}

/* ---- workers ---- */

static int check_cpus(const struct options *options, struct error *err)
{
    cpu_set_t cpus;
    if (sched_getaffinity(0, sizeof cpus, &cpus) != 0)
        return error_set_errno(err, REASON_INTERNAL, errno, "asking which CPUs may be used");
    for (unsigned i = 0; i < options->cpu_count; i++) {
        const unsigned cpu = options->cpus[i];
        if (cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, &cpus))
            return error_set(err, REASON_INVALID_REQUEST,
                             "--cpus: this process may not use CPU %u, or there is none; it may use %d CPUs "
                             "(see taskset -p %d)",
                             cpu, CPU_COUNT(&cpus), (int)getpid());
    }
    return 0;
}

static void do_nothing(void *argument)
{
    (void)argument;
}

static int start_workers(struct process *process, struct error *err)
{
    const struct options *options = process->options;
    for (; process->worker_count < options->cpu_count; process->worker_count++) {
        const struct worker_config config = {.cpu = options->cpus[process->worker_count],
                                             .poll_ns = (int64_t)options->poll_us * NS_PER_US,
                                             .pin = true};
        if (worker_start(&config, &process->workers[process->worker_count], err) != 0)
            return -1;
    }
    /* Each has come so far that it runs commands: the system calls of a thread's beginning are behind it. */
    for (unsigned i = 0; i < process->worker_count; i++)
        worker_run(process->workers[i], do_nothing, NULL);
    return 0;
}

static void on_watchdog(struct loop_timer *timer)
{
    struct process *process = (struct process *)(void *)((char *)timer - offsetof(struct process, watchdog));
    for (unsigned i = 0; i < process->worker_count; i++)
        worker_watchdog(process->workers[i]);
    loop_timer_set(process->loop, timer, clock_monotonic_ns() + (int64_t)WORKER_WATCHDOG_MS * NS_PER_MS);
}

/* ---- links and their control ---- */

static int open_table(struct process *process, struct error *err)
{
    const struct options *options = process->options;
    if (loop_new(&process->loop, err) != 0)
        return -1;
    const struct link_table_config config = {.loop = process->loop,
                                             .workers = process->workers,
                                             .worker_count = process->worker_count,
                                             .statistics = process->statistics,
                                             .max_links = (unsigned)options->max_links,
                                             .patience_ns = (int64_t)options->patience_ms * NS_PER_MS,
                                             .make_end = end_types_make};
    return link_table_new(&config, &process->table, err);
}

static int make_cables(const struct process *process, struct error *err)
{
    for (unsigned i = 0; i < process->options->cable_count; i++) {
        struct link_specification specification = {.id = ""};
        (void)snprintf(specification.id, sizeof specification.id, "cable%u", i);
        for (unsigned end = 0; end < 2; end++) {
            struct end_specification *to = &specification.ends[end];
            (void)snprintf(to->type, sizeof to->type, "vhost-user");
            (void)snprintf(to->socket_path, sizeof to->socket_path, "%s",
                           process->options->cables[i].paths[end]);
        }
        const int no_listeners[2] = {-1, -1};
        const struct link_entry *entry = NULL;
        bool created = false;
        if (link_table_create(process->table, &specification, no_listeners, &entry, &created, err) != 0)
            return -1;
    }
    return 0;
}

static int random_instance(char instance[CONTROL_INSTANCE_SIZE], struct error *err)
{
    uint64_t bits[2];
    if (getrandom(bits, sizeof bits, 0) != sizeof bits)
        return error_set_errno(err, REASON_INTERNAL, errno, "drawing random bits");
    (void)snprintf(instance, CONTROL_INSTANCE_SIZE, "%016llx%016llx", (unsigned long long)bits[0],
                   (unsigned long long)bits[1]);
    return 0;
}

static int serve(struct process *process, struct error *err)
{
    if (process->socket.fd < 0)
        return 0;
    struct requests_config config = {.table = process->table,
                                     .statistics = process->statistics,
                                     .log = process->log,
                                     .software = process->software,
                                     .cpus = process->options->cpus,
                                     .cpu_count = process->options->cpu_count,
                                     .max_links = (unsigned)process->options->max_links};
    if (random_instance(config.instance, err) != 0 || requests_new(&config, &process->requests, err) != 0)
        return -1;
    return control_server_new(process->socket.fd, process->loop, process->requests, process->log,
                              &process->server, err);
}

/* ---- start and end ---- */

/* What is put right before anything is opened. */
static int prepare(struct process *process, struct error *err)
{
    uint64_t descriptors = 0;
    if (descriptors_standard(err) != 0 || descriptors_limit(&descriptors, err) != 0 ||
        check_cpus(process->options, err) != 0 || open_signals(process, err) != 0 ||
        memory_guard_install(err) != 0)
        return -1;
    (void)umask(0077); /* what others may use is opened to them by name */
    copy_calibrate();
    return 0;
}

static int start(struct process *process, struct error *err)
{
    const struct options *options = process->options;
    if (prepare(process, err) != 0)
        return -1;
    if (options->control_path != NULL &&
        control_socket_open(options->control_path, &process->socket, err) != 0)
        return -1;
    if (statistics_memory_new((uint32_t)options->max_links, &process->statistics, err) != 0 ||
        confine_privileges(err) != 0 || start_workers(process, err) != 0 || open_table(process, err) != 0)
        return -1;
    process->signals.ready = on_signal;
    if (loop_add(process->loop, &process->signals, EPOLLIN, err) != 0 || make_cables(process, err) != 0 ||
        serve(process, err) != 0)
        return -1;
    process->watchdog.expired = on_watchdog;
    on_watchdog(&process->watchdog);
    return 0;
}

/* The first line of the log comes before the filter: the C library reads the time zone's file for it. */
static int confine_and_run(struct process *process, struct error *err)
{
    const struct options *options = process->options;
    char workers[16];
    (void)snprintf(workers, sizeof workers, "%u", process->worker_count);
    log_write(process->log, LOG_LEVEL_INFO, "starting", "software", process->software, "workers", workers,
              "copy", copy_description(), NULL);
    if (confine_system_calls(err) != 0)
        return -1;
    watch_start(&process->watch, process->loop, process->table, process->log);
    log_write(process->log, LOG_LEVEL_INFO, "ready", options->control_path != NULL ? "control" : NULL,
              options->control_path, NULL);
    (void)sd_notify(0, "READY=1");
    return loop_run(process->loop, err);
}

/* In reverse, whatever was opened. */
static void stop(struct process *process)
{
    watch_stop(&process->watch);
    control_server_free(process->server);
    requests_free(process->requests);
    link_table_free(process->table);
    for (unsigned i = 0; i < process->worker_count; i++)
        worker_stop(process->workers[i]);
    loop_free(process->loop);
    statistics_memory_free(process->statistics);
    control_socket_close(&process->socket);
    cleanup_close(&process->signals.fd);
}

int process_run(const struct options *options, const struct log *log, const char *software, struct error *err)
{
    struct process *process = calloc(1, sizeof *process);
    if (process == NULL)
        return error_set(err, REASON_RESOURCE_LIMIT, "out of memory");
    process->options = options;
    process->log = log;
    process->software = software;
    process->socket = CONTROL_SOCKET_NONE;
    process->signals.fd = -1;
    const int result = start(process, err) == 0 ? confine_and_run(process, err) : -1;
    stop(process);
    free(process);
    return result;
}
