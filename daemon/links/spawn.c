#include "daemon/links/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

enum {
    QUICK_MS = 1000, /* one that ends sooner has failed to start, or fails again and again */
    BACK_OFF_MIN_MS = 100,
    BACK_OFF_MAX_MS = 30000,
    BACK_OFF_SERVED_MAX_MS = 500, /* of one that has served: VMs wait for the next */
    LOG_MAX_BYTES = 1024 * 1024   /* at a start; a longer one begins anew */
};

static const int64_t ms_ns = 1000000;

static int last_cpu(char out[16], struct error *err)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return error_set_errno(err, REASON_DATAPLANE_UNAVAILABLE, errno,
                               "cannot read which CPUs may be used; set dataplane-cpus");
    unsigned last = 0;
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &set))
            last = cpu;
    (void)snprintf(out, 16, "%u", last);
    return 0;
}

static int open_log(const char *path, struct error *err)
{
    struct stat status;
    auto_close int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0640);
    if (fd < 0 || fstat(fd, &status) != 0 || (status.st_size > LOG_MAX_BYTES && ftruncate(fd, 0) != 0))
        return error_set_errno(err, REASON_DATAPLANE_UNAVAILABLE, errno, "cannot open %s", path);
    return take_fd(&fd);
}

/* As of a shell: no signal blocked or ignored. */
static int set_attributes(posix_spawnattr_t *attributes)
{
    sigset_t none;
    sigset_t all;
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    int failed = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
                                                          POSIX_SPAWN_SETSIGDEF);
    if (failed == 0)
        failed = posix_spawnattr_setsigmask(attributes, &none);
    return failed != 0 ? failed : posix_spawnattr_setsigdefault(attributes, &all);
}

static int set_descriptors(posix_spawn_file_actions_t *actions, int log)
{
    int failed = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (failed == 0)
        failed = posix_spawn_file_actions_adddup2(actions, log, STDOUT_FILENO);
    if (failed == 0)
        failed = posix_spawn_file_actions_adddup2(actions, log, STDERR_FILENO);
    return failed != 0 ? failed : posix_spawn_file_actions_addclosefrom_np(actions, STDERR_FILENO + 1);
}

static int run(const char *program, char *const *arguments, int log, pid_t *pid)
{
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    int failed = posix_spawnattr_init(&attributes);
    if (failed != 0)
        return failed;
    failed = posix_spawn_file_actions_init(&actions);
    if (failed != 0) {
        (void)posix_spawnattr_destroy(&attributes);
        return failed;
    }
    failed = set_attributes(&attributes);
    if (failed == 0)
        failed = set_descriptors(&actions, log);
    if (failed == 0)
        failed = posix_spawnp(pid, program, &actions, &attributes, arguments, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attributes);
    return failed;
}

/* The first time the next one may follow at once. */
static void back_off(struct spawn *spawn)
{
    const int64_t max_ms = spawn->served ? BACK_OFF_SERVED_MAX_MS : BACK_OFF_MAX_MS;
    int64_t wait_ms = spawn->quick_ends == 0 ? 0 : BACK_OFF_MIN_MS;
    for (unsigned i = 1; i < spawn->quick_ends && wait_ms < max_ms; i++)
        wait_ms *= 2;
    if (wait_ms > max_ms)
        wait_ms = max_ms;
    spawn->quick_ends++;
    spawn->not_before_ns = clock_monotonic_ns() + wait_ms * ms_ns;
}

static int start(struct spawn *spawn, const struct spawn_config *config, struct error *err)
{
    char cpu[16];
    if (config->cpus == NULL && last_cpu(cpu, err) != 0)
        return -1;
    auto_close int log = open_log(config->log_path, err);
    if (log < 0)
        return -1;
    const char *const words[] = {
        config->program,     "--cpus", config->cpus != NULL ? config->cpus : cpu, "--control",
        config->socket_path, NULL};
    char *arguments[sizeof words / sizeof words[0]];
    memcpy(arguments, words, sizeof arguments); /* exec takes them as if it would change them */
    pid_t pid = 0;
    const int failed = run(config->program, arguments, log, &pid);
    if (failed != 0)
        return error_set_errno(err, REASON_DATAPLANE_UNAVAILABLE, failed, "cannot start %s", config->program);
    spawn->pid = pid;
    spawn->pidfd = pidfd_open(pid, 0); /* close-on-exec; without one its end is noticed a little later */
    spawn->started_ns = clock_monotonic_ns();
    spawn->served = false;
    return 0;
}

int spawn_start(struct spawn *spawn, const struct spawn_config *config, struct error *err)
{
    struct error failure = ERROR_INIT;
    if (start(spawn, config, &failure) == 0)
        return 0;
    (void)snprintf(spawn->ended, sizeof spawn->ended, "%.*s", (int)sizeof spawn->ended - 1, failure.detail);
    back_off(spawn);
    if (err != NULL)
        *err = failure;
    return -1;
}

bool spawn_reap(struct spawn *spawn)
{
    static const char look[] = "see dataplane.log in the runtime directory";
    int status = 0;
    if (spawn->pid == 0 || waitpid(spawn->pid, &status, WNOHANG) != spawn->pid)
        return false;
    if (WIFSIGNALED(status))
        (void)snprintf(spawn->ended, sizeof spawn->ended, "the dataplane was ended by SIG%s; %s",
                       sigabbrev_np(WTERMSIG(status)), look);
    else
        (void)snprintf(spawn->ended, sizeof spawn->ended, "the dataplane has ended with status %d; %s",
                       WEXITSTATUS(status), look);
    if (clock_monotonic_ns() - spawn->started_ns < QUICK_MS * ms_ns)
        back_off(spawn);
    else
        spawn->quick_ends = 0;
    spawn_forget(spawn);
    return true;
}

void spawn_forget(struct spawn *spawn)
{
    cleanup_close(&spawn->pidfd);
    spawn->pidfd = -1;
    spawn->pid = 0;
}
