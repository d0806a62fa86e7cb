#include "tests/unit/memory/support.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"

int make_memory(uint64_t size)
{
    const int fd = memfd_create("guest", MFD_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
    for (uint64_t at = 0; at + sizeof at <= size && at < 64 * MIB; at += PAGE) {
        const uint64_t number = at / PAGE + 1;
        ck_assert_int_eq(pwrite(fd, &number, sizeof number, (off_t)at), (ssize_t)sizeof number);
    }
    return fd;
}

struct guest_memory *make_table(const struct guest_region_spec *specs, const int *fds, unsigned count)
{
    struct guest_memory *memory = NULL;
    struct error err = ERROR_INIT;
    ck_assert_msg(guest_memory_new(specs, fds, count, &memory, &err) == 0, "%s", err.detail);
    ck_assert_ptr_nonnull(memory);
    ck_assert_uint_eq(memory->count, count);
    return memory;
}

void check_refused(const struct guest_region_spec *specs, const int *fds, unsigned count, enum reason reason,
                   const char *text)
{
    struct guest_memory *memory = NULL;
    struct error err = ERROR_INIT;
    const unsigned before = count_mappings();
    ck_assert_msg(guest_memory_new(specs, fds, count, &memory, &err) == -1, "not refused: %s", text);
    ck_assert_ptr_null(memory);
    ck_assert_msg(strstr(err.detail, text) != NULL, "expected \"%s\" in \"%s\"", text, err.detail);
    ck_assert_msg(err.reason == reason, "%s: %s", reason_info(err.reason)->word, err.detail);
    ck_assert_uint_le(count_mappings(), before);
}

uint64_t number_at(const uint8_t *place)
{
    uint64_t number;
    memcpy(&number, place, sizeof number);
    return number;
}

unsigned count_mappings(void)
{
    auto_fclose FILE *maps = fopen("/proc/self/maps", "re");
    ck_assert_ptr_nonnull(maps);
    char line[4096];
    unsigned count = 0;
    while (fgets(line, sizeof line, maps) != NULL)
        count += strstr(line, "/memfd:") != NULL;
    return count;
}
