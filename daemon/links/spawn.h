/* Starting chan-dataplane: a process of its own session that outlives chand, with none of its descriptors. */
#ifndef CHAN_DAEMON_LINKS_SPAWN_H
#define CHAN_DAEMON_LINKS_SPAWN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct spawn {
    pid_t pid; /* 0: none runs, that we have started */
    int pidfd; /* readable when it has ended; -1: none */
    int64_t started_ns;
    bool served;           /* it has been connected to; for whoever connects to say */
    unsigned quick_ends;   /* in a row */
    int64_t not_before_ns; /* when the next one may be started */
    char ended[200];       /* how the last one has ended, or why it was not started; "" */
};

#define SPAWN_INIT ((struct spawn){.pidfd = -1})

struct spawn_config {
    const char *program;     /* a path, or a name to be looked for in PATH */
    const char *cpus;        /* NULL: the last one that this process may use */
    const char *socket_path; /* where it is to listen */
    const char *log_path;    /* what it writes to its standard output and error is appended there */
};

int spawn_start(struct spawn *spawn, const struct spawn_config *config, struct error *err);
/* Takes note of its end, if it has ended: true. One that ends soon after its start makes the next one wait,
 * longer each time. */
bool spawn_reap(struct spawn *spawn);
/* It goes on; its end is no more of interest. */
void spawn_forget(struct spawn *spawn);

#endif
