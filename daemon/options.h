/* The command line of chand. */
#ifndef CHAN_DAEMON_OPTIONS_H
#define CHAN_DAEMON_OPTIONS_H

#include <stdio.h>

#include "base/error.h"
#include "daemon/settings.h"

enum action { ACTION_RUN, ACTION_HELP, ACTION_VERSION, ACTION_CHECK_CONFIG, ACTION_LIST_FAULT_POINTS };

/* Reads the options into *action and *settings (initialised, and checked on success): first the file that
 * --config names, then the options, which win. --help, --version and --list-fault-points stop there. */
int options_parse(int argc, char **argv, enum action *action, struct settings *settings, struct error *err);

void options_help(FILE *out);

#endif
