/* Failures, told on standard error: what failed, why, and what to do next. Each returns the exit code. */
#ifndef CHAN_CLI_REPORT_H
#define CHAN_CLI_REPORT_H

#include "cli/command.h"

/* A call of the client that returned `result` < 0. The format says what was tried: "cannot create sandbox
 * %s". */
int report_call(const struct context *context, int result, const struct chan_reply *reply, const char *format,
                ...) __attribute__((format(printf, 4, 5)));

/* The command line is wrong. command and noun (or NULL) say which help to point to. */
int report_usage(const struct noun *noun, const struct command *command, const struct error *err);

/* Something on this side failed, such as memory. */
int report_local(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
