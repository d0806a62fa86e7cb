/* Completion: what may stand next on a command line. */
#ifndef CHAN_CLI_COMPLETION_H
#define CHAN_CLI_COMPLETION_H

#include <stddef.h>
#include <stdio.h>

#include "cli/args.h"

/* The first word of the line that the shell's function calls chanctl with, followed by the words it
 * completes. */
#define COMPLETION_COMMAND "__complete"

/* Writes the ids of that kind that the daemon at the socket knows, one a line, as far as it can. */
typedef void (*completion_ids_fn)(FILE *out, const char *socket_path, enum value_kind kind);

/* Writes every word that may stand where the last of the words is and starts with what is there, one a line;
 * or a line
 * ":file" when a file name may stand there. words are those after "chanctl", as bash cuts them (at "=" too).
 */
void completion_print(FILE *out, const char *const words[], size_t word_count, completion_ids_fn ids);

/* completion_print with the real daemon's ids; returns the exit code. */
int completion_run(FILE *out, const char *const words[], size_t word_count);

#endif
