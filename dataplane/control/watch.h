/* Says in the log what becomes of the ends: one line when an end's state or its reason has changed. For
 * people, so it looks once a second and writes a bounded number of lines each time. Control thread. */
#ifndef CHAN_DATAPLANE_CONTROL_WATCH_H
#define CHAN_DATAPLANE_CONTROL_WATCH_H

#include "base/log.h"
#include "dataplane/control/link_table.h"

enum { WATCH_LINES_MAX = 64 };

struct watch {
    struct loop_timer timer;
    struct control_loop *loop;
    const struct link_table *table;
    const struct log *log;
    unsigned next; /* the link to begin with, so that none waits for ever */
};

/* Looks for the first time, and goes on until watch_stop. What it is given outlives it. */
void watch_start(struct watch *watch, struct control_loop *loop, const struct link_table *table,
                 const struct log *log);
void watch_stop(struct watch *watch);
/* Looks now. Returns how many lines were written. */
unsigned watch_look(struct watch *watch);

/* "waiting", "connected", "running", "faulted": the words of the control protocol, too. */
const char *watch_state_word(enum end_state state);

#endif
