#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/ring/bench.h"

void die(const char *what)
{
    (void)fprintf(stderr, "chan-bench-ring: %s: %s\n", what, strerror(errno));
    exit(1);
}

void *allocate(size_t size)
{
    void *memory = calloc(1, size);
    if (memory == NULL)
        die("calloc");
    return memory;
}

int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void *shared_alloc(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED)
        die("mmap");
    return memory;
}

void shared_free(void *memory, size_t size)
{
    (void)munmap(memory, size);
}

static void pin(size_t cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) < 0)
        die("pinning to a CPU (two are needed)");
}

double run_pair(double (*parent)(void *), void (*child)(void *), void *argument)
{
    pin(1); /* the child begins where it stays, even if the parent never leaves its CPU again */
    pid_t pid = fork();
    if (pid < 0)
        die("fork");
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        child(argument);
        _exit(0);
    }
    pin(0);
    double result = parent(argument);
    int status = 0;
    if (waitpid(pid, &status, 0) != pid || status != 0) {
        errno = ECHILD;
        die("the other process failed");
    }
    return result;
}
