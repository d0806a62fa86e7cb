/* --watch: the same again and again, until a signal ends chanctl. */
#ifndef CHAN_CLI_WATCH_H
#define CHAN_CLI_WATCH_H

#include "cli/command.h"

#define OPTION_WATCH                                                                                         \
    {                                                                                                        \
        "watch", 'w', VALUE_NONE, NULL, "show it again and again, until Ctrl-C", NULL                        \
    }
#define OPTION_INTERVAL                                                                                      \
    {                                                                                                        \
        "interval", 0, VALUE_TEXT, "TIME", "time between two looks of --watch (default: 1s; at most 1h)",    \
            NULL                                                                                             \
    }

/* One look: writes to context->out and returns an exit code. */
typedef int (*look_fn)(struct context *context, void *state);

/* One look, or with --watch one after the other, each written in one piece: on a terminal in the place of the
 * one before, elsewhere below it. Ends with the first look that fails, or when nobody reads. */
int watch(struct context *context, look_fn look, void *state);

#endif
