/* chan-dataplane as a process: everything that runs in it, from start to end. */
#ifndef CHAN_DATAPLANE_PROCESS_H
#define CHAN_DATAPLANE_PROCESS_H

#include "base/error.h"
#include "base/log.h"
#include "dataplane/options.h"

/* Runs until SIGTERM or SIGINT. `software` is its name and version, for clients and the log. Both must
 * outlive it, and this is to be called on the main thread while there is no other. */
int process_run(const struct options *options, const struct log *log, const char *software,
                struct error *err);

#endif
