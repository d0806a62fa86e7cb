/* The memory of a guest, as its front-end shares it: regions mapped from descriptors, and the one place where
 * a guest's address becomes a pointer.
 *
 * A table is immutable. A change (SET_MEM_TABLE, ADD_MEM_REG, REM_MEM_REG) makes a new one, which shares the
 * mappings that stay; workers are switched over, then the old one is released.
 *
 * Memory can vanish under a mapping: a front-end truncates its file. The SIGBUS handler of this module maps
 * anonymous memory over the whole mapping and marks it lost; whoever reads or writes goes on with zeros, and
 * the end is dropped at the next look at guest_memory_lost. (So when a ring's content makes no sense, look
 * there first.) A SIGBUS anywhere else ends the process as it should. A system call that is given such memory
 * fails with EFAULT instead, and nothing is marked.
 */
#ifndef CHAN_DATAPLANE_MEMORY_MEMORY_H
#define CHAN_DATAPLANE_MEMORY_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { GUEST_REGIONS_MAX = 509 };
/* Bytes of all regions of one guest, so that none can use up the address space that all share. */
#define GUEST_BYTES_MAX (UINT64_C(4) << 40)

struct memory_mapping; /* one mmap, counted */

struct guest_region {
    uint64_t guest_address;
    uint64_t size;
    uint64_t user_address; /* the front-end's own, in which it gives ring addresses */
    uint8_t *host;
    struct memory_mapping *mapping;
    unsigned times; /* that it was added and not removed */
};

struct guest_memory {
    unsigned count;
    /* The generation of losses (of any guest) up to which this table is known to be whole. */
    atomic_uint *looked_at;
    struct guest_region regions[]; /* ascending by guest address, never overlapping */
};

/* As a message describes a region. */
struct guest_region_spec {
    uint64_t guest_address, size, user_address, mmap_offset;
};

/* Installs the SIGBUS handler. Before any region is mapped; from main or a test. */
int memory_guard_install(struct error *err);

/* Maps every region of specs from the descriptor of the same index, which stay the caller's. Refused, with
 * the region and the reason named: size 0 or wrapping, overlap (guest or user addresses), a descriptor that
 * is no regular file, is shorter than offset + size, or lies on a file system whose pages come from another
 * process or machine (a worker that touches one could wait for ever). Offsets need not be on a page. Files on
 * hugetlbfs are mapped by their page size, others aligned so that transparent huge pages fit.
 * REASON_RESOURCE_LIMIT: this process can map no more; any other reason: the front-end is to blame. */
int guest_memory_new(const struct guest_region_spec *specs, const int *fds, unsigned count,
                     struct guest_memory **ret, struct error *err);
/* A table with one region more, and with one less (found by guest address, size and user address). The same
 * region of the same file may be added again: it is there until it was removed as often. (QEMU 7 adds and
 * removes every region once for each queue pair.) */
int guest_memory_add(const struct guest_memory *memory, const struct guest_region_spec *spec, int fd,
                     struct guest_memory **ret, struct error *err);
int guest_memory_remove(const struct guest_memory *memory, const struct guest_region_spec *spec,
                        struct guest_memory **ret, struct error *err);
void guest_memory_free(struct guest_memory *memory); /* NULL is fine */

/* Some of it vanished. Cheap enough for every burst: one load while nothing was lost anywhere. Any thread. */
bool guest_memory_lost(const struct guest_memory *memory);

/* Where [address, address + length) of the guest lies. *contiguous gets how much of it lies in one piece from
 * there on (at most length; 1 or more). NULL when not even the first byte is mapped. A length of 0 is NULL.
 * `hint` remembers the region that was right last; any value is allowed in it. */
static inline uint8_t *guest_translate(const struct guest_memory *memory, unsigned *hint, uint64_t address,
                                       uint64_t length, uint64_t *contiguous)
{
    unsigned index = *hint;
    if (__builtin_expect(index >= memory->count ||
                             address - memory->regions[index].guest_address >= memory->regions[index].size,
                         0)) {
        /* the last region that starts at or below the address */
        unsigned low = 0, high = memory->count;
        while (low < high) {
            unsigned middle = (low + high) / 2;
            if (memory->regions[middle].guest_address <= address)
                low = middle + 1;
            else
                high = middle;
        }
        if (low == 0 || address - memory->regions[low - 1].guest_address >= memory->regions[low - 1].size)
            return NULL;
        index = low - 1;
        *hint = index;
    }
    const struct guest_region *region = &memory->regions[index];
    const uint64_t offset = address - region->guest_address;
    const uint64_t left = region->size - offset;
    *contiguous = length < left ? length : left;
    return length == 0 ? NULL : region->host + offset;
}

/* The same for what is expected to lie in this one region, whole; NULL: it does not, or length is 0. For
 * loops that keep the last region at hand. */
static inline uint8_t *guest_region_translate(const struct guest_region *region, uint64_t address,
                                              uint64_t length)
{
    const uint64_t offset = address - region->guest_address;
    if (__builtin_expect(offset >= region->size || length - 1 >= region->size - offset, 0))
        return NULL;
    return region->host + offset;
}

/* The pointer to [user_address, user_address + length), which must lie in one region; else NULL. */
uint8_t *guest_memory_at_user(const struct guest_memory *memory, uint64_t user_address, uint64_t length);

#endif
