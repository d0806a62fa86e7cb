/* What chanctl shows of links. */
#ifndef CHAN_CLI_LINK_REPORT_H
#define CHAN_CLI_LINK_REPORT_H

#include <jansson.h>
#include <stdio.h>

/* A link for people: both ends, each with its state and why, and what its VMM needs. */
void link_report(FILE *out, const json_t *link, int64_t now_ms);

/* "3 (noReceiver 2, tooLarge 1)", "0": the frames of an end's counters that were dropped, and why; for
 * free(). NULL: out of memory. */
char *link_drops(const json_t *counters);

/* All of them together. */
int64_t link_dropped(const json_t *counters);

#endif
