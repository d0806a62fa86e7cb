#include "daemon/links/statistics.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

_Static_assert(STATISTICS_DROP_COUNT <= sizeof((struct link_counters *)0)->dropped / sizeof(uint64_t),
               "every cause of a drop has its place");
_Static_assert((int)ID_SIZE <= (int)STATISTICS_ID_SIZE, "every id fits into a slot");

static int check_header(const struct statistics_header *header, size_t size, struct error *err)
{
    if (header->magic != STATISTICS_MAGIC || header->version != STATISTICS_VERSION ||
        header->slot_size != sizeof(struct statistics_slot))
        return error_set(err, REASON_DATAPLANE_UNAVAILABLE, "the statistics have another layout");
    const uint64_t end =
        (uint64_t)header->slots_offset + (uint64_t)header->slot_count * sizeof(struct statistics_slot);
    if (header->slots_offset % _Alignof(struct statistics_slot) != 0 || end > size)
        return error_set(err, REASON_DATAPLANE_UNAVAILABLE, "the statistics are shorter than they say");
    return 0;
}

int statistics_map(int fd, struct statistics *ret, struct error *err)
{
    struct stat status;
    const int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
        return error_set(err, REASON_DATAPLANE_UNAVAILABLE,
                         "the statistics are not sealed against shrinking");
    if (fstat(fd, &status) != 0 || status.st_size < (off_t)sizeof(struct statistics_header))
        return error_set(err, REASON_DATAPLANE_UNAVAILABLE, "the statistics have no header");
    const size_t size = (size_t)status.st_size;
    void *memory = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return error_set_errno(err, REASON_DATAPLANE_UNAVAILABLE, errno, "cannot map the statistics");
    struct statistics_header header; /* what was checked is what is used */
    memcpy(&header, memory, sizeof header);
    if (check_header(&header, size, err) != 0) {
        (void)munmap(memory, size);
        return -1;
    }
    *ret = (struct statistics){
        .memory = memory,
        .size = size,
        .slots = (const struct statistics_slot *)((const char *)memory + header.slots_offset),
        .slot_count = header.slot_count};
    return 0;
}

void statistics_unmap(struct statistics *statistics)
{
    if (statistics->memory != NULL)
        (void)munmap((void *)(uintptr_t)statistics->memory, statistics->size);
    *statistics = (struct statistics){.memory = NULL};
}

static uint64_t load(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void read_direction(const struct statistics_direction *direction, struct link_counters *ret)
{
    *ret = (struct link_counters){.frames = load(&direction->frames),
                                  .bytes = load(&direction->bytes),
                                  .checksummed = load(&direction->checksummed),
                                  .segmented = load(&direction->segmented),
                                  .segments = load(&direction->segments),
                                  .interrupts = load(&direction->interrupts),
                                  .stalls = load(&direction->stalls)};
    for (size_t i = 0; i < STATISTICS_DROP_COUNT; i++)
        ret->dropped[i] = load(&direction->dropped[i]);
}

/* The dataplane may be writing it: bytes are read one by one, as other threads' memory. */
static void copy_id(const struct statistics_slot *slot, char id[ID_SIZE])
{
    const volatile char *from = slot->id;
    size_t length = 0;
    while (length < ID_SIZE - 1 && (id[length] = from[length]) != '\0')
        length++;
    id[length] = '\0';
}

bool statistics_id(const struct statistics *statistics, uint32_t slot, char id[ID_SIZE])
{
    if (slot >= statistics->slot_count)
        return false;
    copy_id(&statistics->slots[slot], id);
    return id[0] != '\0';
}

bool statistics_read(const struct statistics *statistics, uint32_t slot, const char *id,
                     struct link_counters ret[2])
{
    char seen[ID_SIZE];
    if (!statistics_id(statistics, slot, seen) || strcmp(seen, id) != 0)
        return false;
    atomic_thread_fence(memory_order_acquire);
    struct link_counters counters[2];
    read_direction(&statistics->slots[slot].directions[0], &counters[0]);
    read_direction(&statistics->slots[slot].directions[1], &counters[1]);
    atomic_thread_fence(memory_order_acquire);
    if (!statistics_id(statistics, slot, seen) || strcmp(seen, id) != 0)
        return false;
    memcpy(ret, counters, sizeof counters);
    return true;
}
