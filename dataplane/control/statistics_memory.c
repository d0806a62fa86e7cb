#include "dataplane/control/statistics_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"

struct statistics_memory {
    int fd;
    size_t size;
    struct statistics_header *header; /* the mapping */
    struct statistics_slot *slots;
    uint32_t slot_count;
    bool taken[]; /* by slot */
};

static int map_and_seal(struct statistics_memory *memory, struct error *err)
{
    static const char what[] = "making the statistics memory";
    memory->fd = memfd_create("chan-statistics", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memory->fd < 0 || ftruncate(memory->fd, (off_t)memory->size) != 0)
        return error_set_errno(err, REASON_RESOURCE_LIMIT, errno, what);
    void *mapping = mmap(NULL, memory->size, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd, 0);
    if (mapping == MAP_FAILED)
        return error_set_errno(err, REASON_RESOURCE_LIMIT, errno, what);
    memory->header = mapping;
    memory->slots = (struct statistics_slot *)(memory->header + 1);
    /* This mapping stays writable; no other one can be made so. */
    if (fcntl(memory->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0)
        return error_set_errno(err, REASON_INTERNAL, errno, "sealing the statistics memory");
    return 0;
}

int statistics_memory_new(uint32_t slot_count, struct statistics_memory **ret, struct error *err)
{
    struct statistics_memory *memory = calloc(1, sizeof *memory + slot_count * sizeof memory->taken[0]);
    if (memory == NULL)
        return error_set(err, REASON_RESOURCE_LIMIT, "making the statistics memory: out of memory");
    memory->slot_count = slot_count;
    memory->size = sizeof(struct statistics_header) + slot_count * sizeof(struct statistics_slot);
    if (map_and_seal(memory, err) != 0) {
        statistics_memory_free(memory);
        return -1;
    }
    *memory->header = (struct statistics_header){.magic = STATISTICS_MAGIC,
                                                 .version = STATISTICS_VERSION,
                                                 .slot_size = sizeof(struct statistics_slot),
                                                 .slot_count = slot_count,
                                                 .slots_offset = sizeof(struct statistics_header)};
    *ret = memory;
    return 0;
}

void statistics_memory_free(struct statistics_memory *memory)
{
    if (memory == NULL)
        return;
    if (memory->header != NULL)
        (void)munmap(memory->header, memory->size);
    cleanup_close(&memory->fd);
    free(memory);
}

int statistics_memory_fd(const struct statistics_memory *memory)
{
    return memory->fd;
}

int statistics_memory_take(struct statistics_memory *memory, const char *id, uint32_t *ret, struct error *err)
{
    uint32_t number = 0;
    while (number < memory->slot_count && memory->taken[number])
        number++;
    if (number == memory->slot_count)
        return error_set(err, REASON_QUOTA_EXCEEDED,
                         "there are %u links already, and no more are allowed (--max-links)", number);
    struct statistics_slot *slot = &memory->slots[number];
    memset(slot, 0, sizeof *slot);
    /* The id appears whole and after the zeros: all of it but its first byte, then that one. */
    memcpy(slot->id + 1, id + 1, strnlen(id + 1, STATISTICS_ID_SIZE - 2));
    __atomic_store_n(&slot->id[0], id[0], __ATOMIC_RELEASE);
    memory->taken[number] = true;
    *ret = number;
    return 0;
}

struct statistics_slot *statistics_memory_slot(const struct statistics_memory *memory, uint32_t slot)
{
    return &memory->slots[slot];
}

void statistics_memory_withdraw(struct statistics_memory *memory, uint32_t slot)
{
    __atomic_store_n(&memory->slots[slot].id[0], '\0', __ATOMIC_SEQ_CST);
}

void statistics_memory_give_back(struct statistics_memory *memory, uint32_t slot)
{
    memory->taken[slot] = false;
}
