#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "tests/bench/control/bench.h"

enum { MAX_DAEMONS = 4, READY_SECONDS = 60 };

static struct daemon *started[MAX_DAEMONS]; /* so that die() leaves nothing behind */

static void make_directory(char *path, size_t size, const char *parent)
{
    (void)snprintf(path, size, "%s/chan-bench-XXXXXX", parent);
    if (mkdtemp(path) == NULL) {
        die("cannot make %s: %s", path, strerror(errno));
    }
}

static int64_t wait_ready(const struct daemon *daemon)
{
    int64_t begin = clock_monotonic_ns();
    for (;;) {
        struct http http;
        int status = 0;
        if (http_try_open(&http, daemon->socket_path) == 0) {
            status = http_call(&http, "GET", "/readyz", NULL);
            http_close(&http);
        }
        int64_t passed = clock_monotonic_ns() - begin;
        if (status == 200) {
            return passed;
        }
        if (waitpid(daemon->pid, NULL, WNOHANG) != 0) {
            die("%s ended; see %s/log", daemon->program, daemon->directory);
        }
        if (passed > (int64_t)READY_SECONDS * 1000000000) {
            die("%s is not ready after %d s", daemon->program, READY_SECONDS);
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    }
}

static int64_t spawn(struct daemon *daemon)
{
    char state[300], log[300];
    (void)snprintf(state, sizeof state, "%s/state", daemon->directory);
    (void)snprintf(log, sizeof log, "%s/log", daemon->directory);
    const char *arguments[] = {daemon->program,   "--state-dir", state,       "--runtime-dir",
                               daemon->directory, "--shm-dir",   daemon->shm, "--log-level",
                               "error",           NULL};
    posix_spawn_file_actions_t actions;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    char *argv[sizeof arguments / sizeof arguments[0]];
    memcpy(argv, arguments, sizeof argv); /* posix_spawn's type lacks a const */
    int code = posix_spawn(&daemon->pid, daemon->program, &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    if (code != 0) {
        die("cannot start %s: %s", daemon->program, strerror(code));
    }
    return wait_ready(daemon);
}

void daemon_start(struct daemon *daemon, const char *program, const char *directory, const char *shm)
{
    *daemon = (struct daemon){.program = program};
    make_directory(daemon->directory, sizeof daemon->directory, directory);
    make_directory(daemon->shm, sizeof daemon->shm, shm);
    (void)snprintf(daemon->socket_path, sizeof daemon->socket_path, "%s/chand.sock", daemon->directory);
    char state[300];
    (void)snprintf(state, sizeof state, "%s/state", daemon->directory);
    if (mkdir(state, 0700) < 0) {
        die("cannot make %s: %s", state, strerror(errno));
    }
    for (size_t i = 0; i < MAX_DAEMONS; i++) {
        if (started[i] == NULL) {
            started[i] = daemon;
            break;
        }
    }
    (void)spawn(daemon);
}

static void end_process(struct daemon *daemon, int signal)
{
    if (daemon->pid > 0 && kill(daemon->pid, signal) == 0) {
        (void)waitpid(daemon->pid, NULL, 0);
    }
    daemon->pid = 0;
}

int64_t daemon_restart(struct daemon *daemon, int signal)
{
    end_process(daemon, signal);
    return spawn(daemon);
}

uint64_t daemon_resident_kib(const struct daemon *daemon)
{
    char path[64], line[256];
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)daemon->pid);
    auto_fclose FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "VmRSS:", 6) == 0) {
            return strtoull(line + 6, NULL, 10);
        }
    }
    die("cannot read the resident memory of process %d", (int)daemon->pid);
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *position)
{
    (void)status;
    (void)type;
    (void)position;
    (void)remove(path);
    return 0;
}

void daemon_end(struct daemon *daemon)
{
    end_process(daemon, SIGTERM);
    (void)nftw(daemon->shm, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    (void)nftw(daemon->directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    for (size_t i = 0; i < MAX_DAEMONS; i++) {
        if (started[i] == daemon) {
            started[i] = NULL;
        }
    }
}

void daemon_end_all(void)
{
    for (size_t i = 0; i < MAX_DAEMONS; i++) {
        if (started[i] != NULL) {
            daemon_end(started[i]);
        }
    }
}
