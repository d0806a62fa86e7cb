/* The statistics memory (api/proto/statistics.h): made once, sealed so that whoever gets its descriptor can
 * map it for reading only, and can be sure that it never shrinks. Control thread; the counters of a slot that
 * was taken are its link's worker's. */
#ifndef CHAN_DATAPLANE_CONTROL_STATISTICS_MEMORY_H
#define CHAN_DATAPLANE_CONTROL_STATISTICS_MEMORY_H

#include "api/proto/statistics.h"
#include "base/error.h"

struct statistics_memory;

int statistics_memory_new(uint32_t slot_count, struct statistics_memory **ret, struct error *err);
void statistics_memory_free(struct statistics_memory *memory); /* NULL is fine */

/* To be handed out; stays the memory's. */
int statistics_memory_fd(const struct statistics_memory *memory);

/* Takes the lowest free slot: its counters are zero, its id is the given one (shorter than
 * STATISTICS_ID_SIZE). REASON_QUOTA_EXCEEDED when none is free. */
int statistics_memory_take(struct statistics_memory *memory, const char *id, uint32_t *ret,
                           struct error *err);
struct statistics_slot *statistics_memory_slot(const struct statistics_memory *memory, uint32_t slot);
/* Readers take the slot for free from here on; its link may still count in it. */
void statistics_memory_withdraw(struct statistics_memory *memory, uint32_t slot);
/* Nobody counts in it any more, and it was withdrawn. */
void statistics_memory_give_back(struct statistics_memory *memory, uint32_t slot);

#endif
