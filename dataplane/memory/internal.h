/* What the files of memory/ share: single mappings, and the guard that watches them. */
#ifndef CHAN_DATAPLANE_MEMORY_INTERNAL_H
#define CHAN_DATAPLANE_MEMORY_INTERNAL_H

#include "dataplane/memory/memory.h"

struct memory_mapping {
    uint8_t *start; /* page-aligned, of the file's kind of pages */
    size_t length;
    uint8_t *bytes;                 /* what was asked for; within */
    uint64_t device, inode, offset; /* of the file, and where in it */
    unsigned guard_entry;           /* in the guard's table */
    atomic_uint references;
};

/* Maps [offset, offset + size) of fd, which stays the caller's; with one reference. */
int mapping_new(int fd, uint64_t offset, uint64_t size, struct memory_mapping **ret, struct error *err);
/* Does it map that file from that offset on? */
bool mapping_is_of(const struct memory_mapping *mapping, int fd, uint64_t offset);
/* One more reference to it; returns it. Any thread. */
struct memory_mapping *mapping_share(struct memory_mapping *mapping);
/* The last reference unmaps it; nobody may access it any more. NULL is fine. */
void mapping_release(struct memory_mapping *mapping);

/* Puts [start, start + length), mapped before, under the guard. */
int guard_register(void *start, size_t length, unsigned *entry, struct error *err);
/* Before it is unmapped. */
void guard_unregister(unsigned entry);
bool guard_is_lost(unsigned entry);
/* Rises with every loss, after the entry was marked. */
unsigned guard_generation(void);

#endif
