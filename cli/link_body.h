/* The request of "chanctl link create", from its options. */
#ifndef CHAN_CLI_LINK_BODY_H
#define CHAN_CLI_LINK_BODY_H

#include <jansson.h>

#include "cli/args.h"

/* One end as it stands on the command line: a sandbox's id, "-" for an end of no sandbox, or
 * "sandbox=ID,role=client,socket=PATH,mtu=NUMBER,type=TYPE", where ",," stands for a comma in a value. Sets
 * members of `end`. */
int link_end_parse(const char *text, json_t *end, struct error *err);

/* The request as JSON text, for free(); NULL with err. */
char *link_body(const struct arguments *arguments, struct error *err);

#endif
