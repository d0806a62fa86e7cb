/* The log of dirty pages that a front-end shares during a migration: one bit for each 4 KiB of guest memory.
 * Several workers and back-ends may set bits at once, so bits are set by atomic OR. */
#ifndef CHAN_DATAPLANE_MEMORY_DIRTY_LOG_H
#define CHAN_DATAPLANE_MEMORY_DIRTY_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "dataplane/memory/memory.h"

enum { DIRTY_LOG_PAGE = 4096 };

struct dirty_log {
    _Atomic uint8_t *bits;
    uint64_t size; /* bytes */
    struct memory_mapping *mapping;
};

/* Maps [offset, offset + size) of fd, which stays the caller's. The range must lie within the file. */
int dirty_log_new(int fd, uint64_t size, uint64_t offset, struct dirty_log **ret, struct error *err);
void dirty_log_free(struct dirty_log *log); /* NULL is fine */
bool dirty_log_lost(const struct dirty_log *log);

/* Marks the pages of [guest_address, guest_address + length), which were written before. What lies beyond the
 * log is left out: nothing is written outside of it. log may be NULL. */
void dirty_log_mark(const struct dirty_log *log, uint64_t guest_address, uint64_t length);

#endif
