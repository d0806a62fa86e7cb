/* Tables of regions: what is mapped where, what is refused, adding and removing. */
#include <fcntl.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/unit/memory/support.h"

START_TEST(test_regions_are_mapped_and_sorted)
{
    auto_close int low = make_memory(8 * PAGE);
    auto_close int high = make_memory(MIB);
    /* as QEMU sends them: any order, guest and user addresses unrelated, offsets into one file */
    const struct guest_region_spec specs[] = {
        {.guest_address = 0x100000000, .size = 2 * PAGE, .user_address = 0x7f0000000000, .mmap_offset = PAGE},
        {.guest_address = 0, .size = 2 * PAGE, .user_address = 0x7f1000000000, .mmap_offset = 5 * PAGE},
        {.guest_address = 0xc0000, .size = MIB, .user_address = 0x7e0000000000, .mmap_offset = 0},
    };
    const int fds[] = {low, low, high};
    struct guest_memory *memory = make_table(specs, fds, 3);
    ck_assert_uint_eq(memory->regions[0].guest_address, 0);
    ck_assert_uint_eq(memory->regions[1].guest_address, 0xc0000);
    ck_assert_uint_eq(memory->regions[2].guest_address, 0x100000000);
    ck_assert_uint_eq(number_at(memory->regions[0].host), 6);
    ck_assert_uint_eq(number_at(memory->regions[1].host), 1);
    ck_assert_uint_eq(number_at(memory->regions[2].host), 2);
    ck_assert_uint_eq(memory->regions[2].user_address, 0x7f0000000000);
    /* it is the guest's memory, not a copy */
    memory->regions[1].host[77] = 5;
    char byte = 0;
    ck_assert_int_eq(pread(high, &byte, 1, 77), 1);
    ck_assert_int_eq(byte, 5);
    ck_assert(!guest_memory_lost(memory));
    guest_memory_free(memory);
    guest_memory_free(NULL);
    ck_assert_uint_eq(count_mappings(), 0);
}
END_TEST

START_TEST(test_an_offset_need_not_be_on_a_page)
{
    auto_close int fd = make_memory(4 * PAGE);
    const uint64_t number = 4711;
    ck_assert_int_eq(pwrite(fd, &number, sizeof number, PAGE + 1000), (ssize_t)sizeof number);
    const struct guest_region_spec spec = {.size = 3 * PAGE - 1000, .mmap_offset = PAGE + 1000};
    struct guest_memory *memory = make_table(&spec, &fd, 1);
    ck_assert_uint_eq(number_at(memory->regions[0].host), 4711);
    ck_assert_uint_eq(number_at(memory->regions[0].host + PAGE - 1000), 3);
    guest_memory_free(memory);
    ck_assert_uint_eq(count_mappings(), 0);
}
END_TEST

START_TEST(test_large_regions_fit_huge_pages)
{
    auto_close int fd = make_memory(16 * MIB);
    for (uint64_t offset = 0; offset < 4 * MIB; offset += 5 * PAGE * 16) {
        const struct guest_region_spec spec = {.size = 8 * MIB, .mmap_offset = offset};
        struct guest_memory *memory = make_table(&spec, &fd, 1);
        const uint8_t *host = memory->regions[0].host;
        ck_assert_uint_eq(((uintptr_t)host - offset) % (2 * MIB), 0);
        ck_assert_uint_eq(number_at(host), offset / PAGE + 1);
        ck_assert_uint_eq(number_at(host + 8 * MIB - PAGE), (offset + 8 * MIB) / PAGE);
        guest_memory_free(memory);
    }
    ck_assert_uint_eq(count_mappings(), 0);
}
END_TEST

START_TEST(test_huge_pages_are_mapped_as_such)
{
    auto_close int fd = memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB | MFD_HUGE_2MB);
    if (fd < 0 || ftruncate(fd, 4 * MIB) != 0)
        return; /* the kernel has none */
    /* Mapping reserves huge pages; without any it is refused, which is right too. */
    const struct guest_region_spec spec = {.size = 2 * MIB + PAGE, .mmap_offset = MIB};
    struct guest_memory *memory = NULL;
    struct error err = ERROR_INIT;
    if (guest_memory_new(&spec, &fd, 1, &memory, &err) != 0) {
        ck_assert_msg(err.reason == REASON_RESOURCE_LIMIT, "%s", err.detail);
        return;
    }
    ck_assert_uint_eq((uintptr_t)memory->regions[0].host % (2 * MIB), MIB);
    memory->regions[0].host[0] = 1;
    memory->regions[0].host[2 * MIB] = 2;
    guest_memory_free(memory);
    ck_assert_uint_eq(count_mappings(), 0);
}
END_TEST

START_TEST(test_what_cannot_be_is_refused)
{
    auto_close int fd = make_memory(4 * PAGE);
    const struct {
        struct guest_region_spec spec;
        const char *text;
    } cases[] = {
        {{.size = 0}, "size is 0"},
        {{.size = 5 * PAGE}, "too few"},
        {{.size = 4 * PAGE, .mmap_offset = 1}, "too few"},
        {{.size = PAGE, .mmap_offset = UINT64_MAX - 100}, "too few"},
        {{.size = UINT64_MAX, .mmap_offset = UINT64_MAX}, "more than 0x40000000000"},
        {{.size = UINT64_MAX}, "more than 0x40000000000"},
        {{.size = PAGE, .guest_address = UINT64_MAX - PAGE + 2}, "wrap"},
        {{.size = PAGE, .user_address = UINT64_MAX - PAGE + 2}, "wrap"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_refused(&cases[i].spec, &fd, 1, REASON_INVALID_REQUEST, cases[i].text);
    /* the very last bytes of the address space are fine */
    const struct guest_region_spec last = {
        .size = PAGE, .guest_address = UINT64_MAX - PAGE + 1, .user_address = UINT64_MAX - PAGE + 1};
    struct guest_memory *memory = make_table(&last, &fd, 1);
    ck_assert_ptr_eq(guest_memory_at_user(memory, UINT64_MAX, 1), memory->regions[0].host + PAGE - 1);
    guest_memory_free(memory);
}
END_TEST

START_TEST(test_descriptors_that_are_no_memory_are_refused)
{
    const struct guest_region_spec spec = {.size = PAGE};
    int pair[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    check_refused(&spec, &pair[0], 1, REASON_INVALID_REQUEST, "no regular file");
    (void)close(pair[0]);
    (void)close(pair[1]);
    check_refused(&spec, &pair[0], 1, REASON_INVALID_REQUEST, "examining");
    auto_close int folder = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    check_refused(&spec, &folder, 1, REASON_INVALID_REQUEST, "no regular file");
    auto_close int device = open("/dev/zero", O_RDWR | O_CLOEXEC);
    check_refused(&spec, &device, 1, REASON_INVALID_REQUEST, "no regular file");
    /* a regular file, but not of a file system that has memory: its pages come from wherever */
    auto_close int proc = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    check_refused(&spec, &proc, 1, REASON_INVALID_REQUEST, "file system");
    /* not to be written */
    auto_close int sealed = memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ck_assert_int_eq(ftruncate(sealed, PAGE), 0);
    ck_assert_int_eq(fcntl(sealed, F_ADD_SEALS, F_SEAL_WRITE), 0);
    check_refused(&spec, &sealed, 1, REASON_INVALID_REQUEST, "mapping its file");
}
END_TEST

START_TEST(test_overlaps_are_refused)
{
    auto_close int fd = make_memory(4 * PAGE);
    const int fds[] = {fd, fd};
    for (unsigned swap = 0; swap < 2; swap++) {
        const struct guest_region_spec guest[] = {
            {.guest_address = PAGE, .size = 2 * PAGE, .user_address = 16 * PAGE * swap},
            {.guest_address = 3 * PAGE - 1, .size = PAGE, .user_address = 16 * PAGE * (1 - swap)}};
        const struct guest_region_spec swapped[] = {guest[1], guest[0]};
        check_refused(swap ? swapped : guest, fds, 2, REASON_INVALID_REQUEST, "overlaps with");
        const struct guest_region_spec user[] = {
            {.user_address = PAGE, .size = 2 * PAGE, .guest_address = 16 * PAGE * swap},
            {.user_address = 3 * PAGE - 1, .size = PAGE, .guest_address = 16 * PAGE * (1 - swap)}};
        const struct guest_region_spec user_swapped[] = {user[1], user[0]};
        check_refused(swap ? user_swapped : user, fds, 2, REASON_INVALID_REQUEST, "overlaps with");
    }
    /* side by side is fine, and so is guest address = user address, as DPDK has it */
    const struct guest_region_spec beside[] = {
        {.guest_address = PAGE, .size = 2 * PAGE, .user_address = PAGE},
        {.guest_address = 3 * PAGE, .size = PAGE, .user_address = 3 * PAGE, .mmap_offset = 2 * PAGE}};
    guest_memory_free(make_table(beside, fds, 2));
}
END_TEST

START_TEST(test_a_guest_has_a_bounded_size_and_count)
{
    auto_close int fd = memfd_create("sparse", MFD_CLOEXEC);
    ck_assert_int_eq(ftruncate(fd, INT64_C(5) << 40), 0);
    const int pair[] = {fd, fd};
    const struct guest_region_spec large[] = {
        {.size = PAGE}, {.guest_address = PAGE, .size = GUEST_BYTES_MAX, .user_address = PAGE}};
    check_refused(large, pair, 2, REASON_INVALID_REQUEST, "more than");

    struct guest_region_spec specs[GUEST_REGIONS_MAX + 1];
    int fds[GUEST_REGIONS_MAX + 1];
    for (unsigned i = 0; i <= GUEST_REGIONS_MAX; i++) {
        /* from the last to the first, each after a hole */
        const uint64_t address = (uint64_t)(GUEST_REGIONS_MAX - i) * 2 * PAGE;
        specs[i] = (struct guest_region_spec){
            .guest_address = address, .size = PAGE, .user_address = address, .mmap_offset = address};
        fds[i] = fd;
    }
    check_refused(specs, fds, GUEST_REGIONS_MAX + 1, REASON_INVALID_REQUEST, "510 memory regions");
    struct guest_memory *memory = make_table(specs, fds, GUEST_REGIONS_MAX);
    for (unsigned i = 1; i < memory->count; i++)
        ck_assert_uint_gt(memory->regions[i].guest_address, memory->regions[i - 1].guest_address);
    struct guest_memory *larger = NULL;
    struct error err = ERROR_INIT;
    ck_assert_int_eq(guest_memory_add(memory, &specs[GUEST_REGIONS_MAX], fd, &larger, &err), -1);
    guest_memory_free(memory);
    ck_assert_uint_eq(count_mappings(), 0);
}
END_TEST

START_TEST(test_adding_and_removing_share_what_stays)
{
    auto_close int fd = make_memory(4 * PAGE);
    const struct guest_region_spec first = {.guest_address = 8 * PAGE, .size = PAGE, .user_address = MIB};
    const struct guest_region_spec second = {.size = 2 * PAGE, .user_address = 2 * MIB, .mmap_offset = PAGE};
    struct error err = ERROR_INIT;
    struct guest_memory *one = make_table(&first, &fd, 1);
    struct guest_memory *two = NULL;
    struct guest_memory *without_first = NULL;
    ck_assert_msg(guest_memory_add(one, &second, fd, &two, &err) == 0, "%s", err.detail);
    ck_assert_uint_eq(one->count, 1);
    ck_assert_uint_eq(two->count, 2);
    ck_assert_ptr_eq(two->regions[1].host, one->regions[0].host);
    guest_memory_free(one);
    ck_assert_uint_eq(number_at(two->regions[1].host), 1);
    ck_assert_uint_eq(number_at(two->regions[0].host), 2);

    /* every one of the three must be right; the offset is of no meaning */
    struct guest_region_spec wrong[] = {first, first, first};
    wrong[0].guest_address++;
    wrong[1].size++;
    wrong[2].user_address++;
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(guest_memory_remove(two, &wrong[i], &without_first, &err), -1);
        ck_assert_uint_eq(err.reason, REASON_INVALID_REQUEST);
    }
    struct guest_region_spec right = first;
    right.mmap_offset = 12345;
    ck_assert_msg(guest_memory_remove(two, &right, &without_first, &err) == 0, "%s", err.detail);
    ck_assert_uint_eq(without_first->count, 1);
    guest_memory_free(two);
    ck_assert_uint_eq(count_mappings(), 1);
    ck_assert_uint_eq(number_at(without_first->regions[0].host), 2);

    struct guest_memory *nothing = NULL;
    ck_assert_msg(guest_memory_remove(without_first, &second, &nothing, &err) == 0, "%s", err.detail);
    guest_memory_free(without_first);
    ck_assert_uint_eq(nothing->count, 0);
    ck_assert_uint_eq(count_mappings(), 0);
    ck_assert(!guest_memory_lost(nothing));
    /* and from nothing up again, as a front-end with memory slots does it */
    ck_assert_msg(guest_memory_add(nothing, &first, fd, &one, &err) == 0, "%s", err.detail);
    guest_memory_free(nothing);
    guest_memory_free(one);
}
END_TEST

START_TEST(test_a_region_that_is_added_twice_is_removed_twice)
{
    auto_close int fd = make_memory(4 * MIB);
    auto_close int other_fd = make_memory(4 * MIB);
    const struct guest_region_spec region = {
        .guest_address = 0x40000000, .size = MIB, .user_address = 0x7000000};
    const struct guest_region_spec moved = {
        .guest_address = 0x40000000, .size = MIB, .user_address = 0x7000000, .mmap_offset = MIB};
    struct error err = ERROR_INIT;
    struct guest_memory *one = NULL, *two = NULL, *refused = NULL, *less = NULL, *none = NULL;
    ck_assert_msg(guest_memory_new(&region, &fd, 1, &one, &err) == 0, "%s", err.detail);
    ck_assert_msg(guest_memory_add(one, &region, fd, &two, &err) == 0, "%s", err.detail);
    ck_assert_uint_eq(two->count, 1);
    /* what only looks like it is not the same */
    ck_assert_int_eq(guest_memory_add(two, &region, other_fd, &refused, &err), -1);
    ck_assert_int_eq(guest_memory_add(two, &moved, fd, &refused, &err), -1);
    ck_assert_msg(guest_memory_remove(two, &region, &less, &err) == 0, "%s", err.detail);
    ck_assert_uint_eq(less->count, 1);
    ck_assert_ptr_nonnull(guest_memory_at_user(less, 0x7000000, MIB));
    ck_assert_msg(guest_memory_remove(less, &region, &none, &err) == 0, "%s", err.detail);
    ck_assert_uint_eq(none->count, 0);
    guest_memory_free(one);
    guest_memory_free(two);
    guest_memory_free(less);
    guest_memory_free(none);
    ck_assert_uint_eq(count_mappings(), 0);
}
END_TEST

START_TEST(test_a_guest_is_not_in_core_dumps)
{
    auto_close int fd = make_memory(4 * MIB);
    const struct guest_region_spec spec = {.size = 4 * MIB};
    struct guest_memory *memory = make_table(&spec, &fd, 1);
    auto_fclose FILE *maps = fopen("/proc/self/smaps", "re");
    ck_assert_ptr_nonnull(maps);
    char line[4096], start[32];
    (void)snprintf(start, sizeof start, "%zx-", (size_t)(uintptr_t)memory->regions[0].host);
    bool found = false;
    while (fgets(line, sizeof line, maps) != NULL) {
        found = found || strncmp(line, start, strlen(start)) == 0;
        if (found && strncmp(line, "VmFlags:", 8) == 0)
            break;
    }
    ck_assert_msg(strstr(line, " dd") != NULL && strstr(line, " dc") != NULL, "%s", line);
    guest_memory_free(memory);
}
END_TEST

TCase *tables_tcase(void)
{
    TCase *tcase = tcase_create("tables");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, test_regions_are_mapped_and_sorted);
    tcase_add_test(tcase, test_an_offset_need_not_be_on_a_page);
    tcase_add_test(tcase, test_large_regions_fit_huge_pages);
    tcase_add_test(tcase, test_huge_pages_are_mapped_as_such);
    tcase_add_test(tcase, test_what_cannot_be_is_refused);
    tcase_add_test(tcase, test_descriptors_that_are_no_memory_are_refused);
    tcase_add_test(tcase, test_overlaps_are_refused);
    tcase_add_test(tcase, test_a_guest_has_a_bounded_size_and_count);
    tcase_add_test(tcase, test_adding_and_removing_share_what_stays);
    tcase_add_test(tcase, test_a_region_that_is_added_twice_is_removed_twice);
    tcase_add_test(tcase, test_a_guest_is_not_in_core_dumps);
    return tcase;
}
