/* Copying between guests. What is written here is read by another core, so the store path decides; which one
 * is best depends on size and machine. copy_calibrate measures the candidates once, at start. */
#ifndef CHAN_DATAPLANE_MEMORY_COPY_H
#define CHAN_DATAPLANE_MEMORY_COPY_H

#include <stddef.h>

/* Chooses by measurement on this machine, in a few milliseconds; without it a sane default is used. Before
 * any worker runs. */
void copy_calibrate(void);
/* What was chosen, for people: "vector below 1024, rep movsb from there on". A static string. */
const char *copy_description(void);

/* As memcpy, for guest memory: the ranges never overlap, may change under the copy, and are of any alignment.
 */
void copy_bytes(void *to, const void *from, size_t length);

#endif
