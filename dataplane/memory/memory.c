#include "dataplane/memory/memory.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "dataplane/memory/internal.h"

/* An empty table with room for `capacity` regions. */
static struct guest_memory *new_table(unsigned capacity, struct error *err)
{
    struct guest_memory *memory = calloc(1, sizeof *memory + capacity * sizeof memory->regions[0]);
    atomic_uint *looked_at = calloc(1, sizeof *looked_at);
    if (memory == NULL || looked_at == NULL) {
        free(memory);
        free(looked_at);
        (void)error_set(err, REASON_RESOURCE_LIMIT, "mapping a guest's memory: out of memory");
        return NULL;
    }
    /* 0, not the present generation: a mapping that is taken over may have been lost by now. */
    memory->looked_at = looked_at;
    return memory;
}

void guest_memory_free(struct guest_memory *memory)
{
    if (memory == NULL)
        return;
    for (unsigned i = 0; i < memory->count; i++)
        mapping_release(memory->regions[i].mapping);
    free(memory->looked_at);
    free(memory);
}

static bool wraps(uint64_t address, uint64_t size)
{
    return size > 0 && address > UINT64_MAX - (size - 1);
}

/* Neither wraps. */
static bool overlap(uint64_t one, uint64_t one_size, uint64_t other, uint64_t other_size)
{
    return one >= other ? one - other < other_size : other - one < one_size;
}

static int check_addresses(const struct guest_memory *memory, const struct guest_region_spec *spec,
                           struct error *err)
{
    if (wraps(spec->guest_address, spec->size) || wraps(spec->user_address, spec->size))
        return error_set(err, REASON_INVALID_REQUEST, "its addresses wrap around");
    uint64_t left = GUEST_BYTES_MAX;
    for (unsigned i = 0; i < memory->count; i++) {
        const struct guest_region *region = &memory->regions[i];
        if (overlap(region->guest_address, region->size, spec->guest_address, spec->size))
            return error_set(err, REASON_INVALID_REQUEST,
                             "it overlaps with the region at guest address 0x%" PRIx64,
                             region->guest_address);
        if (overlap(region->user_address, region->size, spec->user_address, spec->size))
            return error_set(err, REASON_INVALID_REQUEST,
                             "it overlaps with the region at user address 0x%" PRIx64, region->user_address);
        left -= region->size;
    }
    if (spec->size > left)
        return error_set(err, REASON_INVALID_REQUEST, "the guest has more than 0x%" PRIx64 " bytes",
                         GUEST_BYTES_MAX);
    return 0;
}

/* Checks, maps and inserts one region; the table has room for it. */
static int insert(struct guest_memory *memory, const struct guest_region_spec *spec, int fd,
                  struct error *err)
{
    struct memory_mapping *mapping = NULL;
    if (check_addresses(memory, spec, err) != 0 ||
        mapping_new(fd, spec->mmap_offset, spec->size, &mapping, err) != 0)
        return error_wrap(err, "memory region at guest address 0x%" PRIx64 " of size 0x%" PRIx64 ": ",
                          spec->guest_address, spec->size);
    unsigned at = memory->count;
    while (at > 0 && memory->regions[at - 1].guest_address > spec->guest_address) {
        memory->regions[at] = memory->regions[at - 1];
        at--;
    }
    memory->regions[at] = (struct guest_region){
        .guest_address = spec->guest_address,
        .size = spec->size,
        .user_address = spec->user_address,
        .host = mapping->bytes,
        .mapping = mapping,
        .times = 1,
    };
    memory->count++;
    return 0;
}

static int check_count(unsigned count, struct error *err)
{
    if (count > GUEST_REGIONS_MAX)
        return error_set(err, REASON_INVALID_REQUEST, "%u memory regions, more than %d", count,
                         GUEST_REGIONS_MAX);
    return 0;
}

int guest_memory_new(const struct guest_region_spec *specs, const int *fds, unsigned count,
                     struct guest_memory **ret, struct error *err)
{
    if (check_count(count, err) != 0)
        return -1;
    struct guest_memory *memory = new_table(count, err);
    if (memory == NULL)
        return -1;
    for (unsigned i = 0; i < count; i++) {
        if (insert(memory, &specs[i], fds[i], err) != 0) {
            guest_memory_free(memory);
            return -1;
        }
    }
    *ret = memory;
    return 0;
}

/* The regions of `from` but for the one of index `without`, in a new table with room for `capacity`. */
static struct guest_memory *copy_table(const struct guest_memory *from, unsigned without, unsigned capacity,
                                       struct error *err)
{
    struct guest_memory *memory = new_table(capacity, err);
    if (memory == NULL)
        return NULL;
    for (unsigned i = 0; i < from->count; i++) {
        if (i == without)
            continue;
        memory->regions[memory->count] = from->regions[i];
        (void)mapping_share(from->regions[i].mapping);
        memory->count++;
    }
    return memory;
}

/* The index of the region; memory->count: there is none. */
static unsigned find(const struct guest_memory *memory, const struct guest_region_spec *spec)
{
    unsigned i = 0;
    while (i < memory->count &&
           (memory->regions[i].guest_address != spec->guest_address ||
            memory->regions[i].size != spec->size || memory->regions[i].user_address != spec->user_address))
        i++;
    return i;
}

int guest_memory_add(const struct guest_memory *memory, const struct guest_region_spec *spec, int fd,
                     struct guest_memory **ret, struct error *err)
{
    const unsigned known = find(memory, spec);
    if (known < memory->count && memory->regions[known].times < UINT_MAX &&
        mapping_is_of(memory->regions[known].mapping, fd, spec->mmap_offset)) {
        *ret = copy_table(memory, memory->count, memory->count, err);
        if (*ret == NULL)
            return -1;
        (*ret)->regions[known].times++;
        return 0;
    }
    if (check_count(memory->count + 1, err) != 0)
        return -1;
    struct guest_memory *larger = copy_table(memory, memory->count, memory->count + 1, err);
    if (larger == NULL)
        return -1;
    if (insert(larger, spec, fd, err) != 0) {
        guest_memory_free(larger);
        return -1;
    }
    *ret = larger;
    return 0;
}

int guest_memory_remove(const struct guest_memory *memory, const struct guest_region_spec *spec,
                        struct guest_memory **ret, struct error *err)
{
    const unsigned known = find(memory, spec);
    if (known == memory->count)
        return error_set(err, REASON_INVALID_REQUEST,
                         "there is no memory region at guest address 0x%" PRIx64 " of size 0x%" PRIx64,
                         spec->guest_address, spec->size);
    const bool last = memory->regions[known].times == 1;
    struct guest_memory *smaller = copy_table(memory, last ? known : memory->count, memory->count, err);
    if (smaller == NULL)
        return -1;
    if (!last)
        smaller->regions[known].times--;
    *ret = smaller;
    return 0;
}

bool guest_memory_lost(const struct guest_memory *memory)
{
    const unsigned generation = guard_generation();
    if (generation == atomic_load_explicit(memory->looked_at, memory_order_relaxed))
        return false;
    for (unsigned i = 0; i < memory->count; i++)
        if (guard_is_lost(memory->regions[i].mapping->guard_entry))
            return true;
    /* Whole up to there; another thread that stores an earlier one merely looks again. */
    atomic_store_explicit(memory->looked_at, generation, memory_order_relaxed);
    return false;
}

uint8_t *guest_memory_at_user(const struct guest_memory *memory, uint64_t user_address, uint64_t length)
{
    for (unsigned i = 0; i < memory->count; i++) {
        const struct guest_region *region = &memory->regions[i];
        const uint64_t offset = user_address - region->user_address;
        if (offset < region->size)
            return length > 0 && length <= region->size - offset ? region->host + offset : NULL;
    }
    return NULL;
}
