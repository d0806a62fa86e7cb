/* The driver's side of a virtqueue in this process: just enough to keep a device's side busy. The guest's
 * memory is one memfd, whose guest, user and host addresses differ, as a real one's do. */
#ifndef CHAN_TESTS_BENCH_INSTRUCTIONS_DRIVER_H
#define CHAN_TESTS_BENCH_INSTRUCTIONS_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dataplane/memory/memory.h"
#include "dataplane/virtqueue/virtqueue.h"

enum { DRIVER_RING_SIZE = 256 };

struct driver {
    uint8_t *memory; /* the driver's own mapping */
    size_t memory_size;
    struct guest_memory *guest;
    struct virtqueue *queue;
    uint64_t features;
    bool device_writes; /* a receive queue */
    uint32_t buffer_size;
    unsigned pieces; /* descriptors of a chain */
    bool indirect;
    /* positions */
    uint16_t available, used;
    bool available_wrap;
};

/* buffer_size: of each of the ring's buffers; pieces: how many descriptors it is cut into (1, or more without
 * indirect tables only as many as fit). Ends the process when something fails: a benchmark has no use for
 * less. */
void driver_start(struct driver *driver, uint64_t features, bool device_writes, uint32_t buffer_size,
                  unsigned pieces, bool indirect);
void driver_stop(struct driver *driver);

/* The bytes of buffer `index` (below DRIVER_RING_SIZE / pieces). */
uint8_t *driver_buffer(const struct driver *driver, unsigned index);
/* Makes the next `count` buffers available, `length` bytes of each. */
void driver_supply(struct driver *driver, unsigned count, uint32_t length);
/* Takes back everything that was used; answers how many chains, and their bytes by *bytes. */
unsigned driver_collect(struct driver *driver, uint64_t *bytes);

#endif
