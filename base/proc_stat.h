/* /proc/PID/stat: what is needed to tell a process from its successor of the same number, and what it uses.
 */
#ifndef CHAN_BASE_PROC_STAT_H
#define CHAN_BASE_PROC_STAT_H

#include <stdint.h>
#include <sys/types.h>

struct proc_stat {
    char state;            /* 'R', 'S', 'Z', ... of the main thread */
    uint64_t user_ticks;   /* CPU time, in ticks of sysconf(_SC_CLK_TCK) */
    uint64_t system_ticks; /* likewise */
    uint64_t threads;      /* a zombie main thread counts as one */
    uint64_t start_ticks;  /* start time, in ticks since boot */
    uint64_t virtual_bytes;
    uint64_t resident_pages;
};

/* Reads it; pid 0 is this process. Returns 0 or a negative errno: -ENOENT or -ESRCH when there is no such
 * process or /proc hides it, -EPROTO when the text is not understood. *ret is untouched on failure. Any
 * thread. */
int proc_stat_read(pid_t pid, struct proc_stat *ret);

#endif
