/* The command line of chan-dataplane. */
#ifndef CHAN_DATAPLANE_OPTIONS_H
#define CHAN_DATAPLANE_OPTIONS_H

#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "base/log.h"

enum { OPTIONS_CPUS_MAX = 256, CABLE_PATH_SIZE = 108 /* as a unix socket has it */ };

enum action { ACTION_RUN, ACTION_HELP, ACTION_VERSION };

/* Two paths of sockets that are to be joined. */
struct cable {
    char paths[2][CABLE_PATH_SIZE];
};

struct options {
    unsigned cpus[OPTIONS_CPUS_MAX]; /* each once, as listed */
    unsigned cpu_count;
    const char *control_path; /* NULL: no control socket */
    struct cable *cables;
    unsigned cable_count;
    uint64_t poll_us, patience_ms, max_links;
    enum log_level log_level;
};

/* Reads argv, which must outlive the options. --help and --version need nothing else. On success what it
 * holds is to be released by options_clear, on failure that has been done. */
int options_parse(int argc, char **argv, enum action *action, struct options *options, struct error *err);
void options_clear(struct options *options);

void options_help(FILE *out);

#endif
