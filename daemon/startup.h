/* What a process needs before the daemon can be opened in it. */
#ifndef CHAN_DAEMON_STARTUP_H
#define CHAN_DAEMON_STARTUP_H

#include <sys/types.h>

#include "base/error.h"

/* Makes the directory with exactly that mode when it is missing; one that is there keeps its mode. */
int startup_directory(const char *path, mode_t mode, struct error *err);

/* Takes the lock of the state directory, so that no two daemons share one state. It is held while *ret is
 * open. */
int startup_lock(const char *state_directory, int *ret, struct error *err);

/* Raises the soft limit of open descriptors to the hard one: idle connections and watched owners cost one
 * each. */
int startup_descriptor_limit(struct error *err);

#endif
