/* One run of chanctl, from the command line to the exit code. */
#ifndef CHAN_CLI_RUN_H
#define CHAN_CLI_RUN_H

#include <stdio.h>

/* Reads the command line, does it, and writes what it has to say to out in one piece. Returns the exit code;
 * failures have been told on standard error. */
int chanctl_run(int argc, const char *const argv[], FILE *out);

#endif
