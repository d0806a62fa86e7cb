/* What a process needs before the daemon can be opened in it. */
#ifndef CHAN_DAEMON_STARTUP_H
#define CHAN_DAEMON_STARTUP_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

/* Makes the directory with exactly that mode when it is missing; one that is there keeps its mode.
 * `is_private`: one that everybody may write to is refused, since what is in it could be anybody's. */
int startup_directory(const char *path, mode_t mode, bool is_private, struct error *err);

/* Takes the lock of the state directory, so that no two daemons share one state. It is held while *ret is
 * open. */
int startup_lock(const char *state_directory, int *ret, struct error *err);

/* The program of that name beside our own executable, or just the name, to be looked for in PATH, when there
 * is none. *ret is malloc'ed. */
int startup_program(const char *name, char **ret, struct error *err);

/* The path as others may use it, whose working directory is another one. *ret is malloc'ed. */
int startup_absolute(const char *path, char **ret, struct error *err);

#endif
