/* Descriptors of processes; glibc 2.36 has pidfd_open, older ones have not. */
#ifndef CHAN_DAEMON_RECLAIM_PIDFD_H
#define CHAN_DAEMON_RECLAIM_PIDFD_H

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* A descriptor (O_CLOEXEC, as all pidfds) or a negative errno. */
static inline int pidfd_open_process(pid_t pid)
{
    long fd = syscall(SYS_pidfd_open, pid, 0);
    return fd < 0 ? -errno : (int)fd;
}

/* Has the process, with all its threads, ended? A zombie has. */
static inline bool pidfd_has_ended(int pidfd)
{
    struct pollfd ready = {.fd = pidfd, .events = POLLIN};
    return poll(&ready, 1, 0) > 0;
}

#endif
