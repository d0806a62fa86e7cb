/* A guest's memory: one shared region, of which pieces are handed out for good. */
#ifndef CHAN_BENCH_FRONTEND_GUEST_H
#define CHAN_BENCH_FRONTEND_GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Where the guest and its VMM believe the region to be; neither is an address of ours. */
static const uint64_t GUEST_ADDRESS = UINT64_C(0x100000000);
static const uint64_t GUEST_USER_ADDRESS = UINT64_C(0x7e0000000000);

struct guest {
    uint8_t *memory;
    size_t size, used;
    int fd;
};

/* size is rounded up to 2 MiB. huge_pages: of hugetlbfs, which must have that many free. */
int guest_open(struct guest *guest, size_t size, bool huge_pages, struct error *err);
void guest_close(struct guest *guest);

/* An offset in the region, aligned to a power of two; SIZE_MAX when there is no room. Zeroed. */
size_t guest_take(struct guest *guest, size_t size, size_t alignment);

#endif
