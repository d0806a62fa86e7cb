/* The statistics memory, as one sees it who got its descriptor. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/dataplane_control/fixture.h"

enum { SLOTS = 5 };

static struct statistics_memory *memory;
static const struct statistics_header *seen; /* mapped by the reader */
static struct error err;

static void setup(void)
{
    err = ERROR_INIT;
    ck_assert_msg(statistics_memory_new(SLOTS, &memory, &err) == 0, "%s", err.detail);
    struct stat status;
    ck_assert_int_eq(fstat(statistics_memory_fd(memory), &status), 0);
    ck_assert_int_eq(status.st_size, (off_t)(4096 + SLOTS * 512));
    seen = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, statistics_memory_fd(memory), 0);
    ck_assert_ptr_ne(seen, MAP_FAILED);
}

static void teardown(void)
{
    statistics_memory_free(memory);
}

static const struct statistics_slot *seen_slot(uint32_t slot)
{
    return (const struct statistics_slot *)((const char *)seen + seen->slots_offset +
                                            (size_t)slot * seen->slot_size);
}

START_TEST(its_header_says_how_it_is_laid_out)
{
    ck_assert_uint_eq(seen->magic, STATISTICS_MAGIC);
    ck_assert_uint_eq(seen->version, STATISTICS_VERSION);
    ck_assert_uint_eq(seen->slot_size, sizeof(struct statistics_slot));
    ck_assert_uint_eq(seen->slot_count, SLOTS);
    for (uint32_t i = 0; i < SLOTS; i++)
        ck_assert_str_eq(seen_slot(i)->id, "");
}
END_TEST

START_TEST(nobody_else_can_write_to_it)
{
    const int fd = statistics_memory_fd(memory);
    ck_assert_ptr_eq(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    ck_assert_int_eq(errno, EPERM);
    ck_assert_int_eq((int)pwrite(fd, "x", 1, 0), -1);
    ck_assert_int_eq(ftruncate(fd, 0), -1);
    ck_assert_int_eq(ftruncate(fd, 1 << 20), -1);
}
END_TEST

START_TEST(slots_are_taken_and_given_back)
{
    uint32_t slot = 99;
    for (uint32_t i = 0; i < SLOTS; i++) {
        const char id[] = {(char)('a' + i), 'x', '\0'};
        ck_assert_int_eq(statistics_memory_take(memory, id, &slot, &err), 0);
        ck_assert_uint_eq(slot, i);
        ck_assert_str_eq(seen_slot(i)->id, id);
    }
    ck_assert_int_eq(statistics_memory_take(memory, "more", &slot, &err), -1);
    ck_assert_int_eq(err.reason, REASON_QUOTA_EXCEEDED);

    struct statistics_slot *counted = statistics_memory_slot(memory, 3);
    statistics_add(&counted->directions[1].frames, 7);
    ck_assert_uint_eq(seen_slot(3)->directions[1].frames, 7);
    statistics_memory_withdraw(memory, 3);
    ck_assert_str_eq(seen_slot(3)->id, "");
    statistics_add(&counted->directions[1].frames, 1); /* its link may still do this */
    ck_assert_int_eq(statistics_memory_take(memory, "more", &slot, &err), -1);
    statistics_memory_give_back(memory, 3);
    ck_assert_int_eq(statistics_memory_take(memory, "again", &slot, &err), 0);
    ck_assert_uint_eq(slot, 3);
    ck_assert_str_eq(seen_slot(3)->id, "again");
    ck_assert_uint_eq(seen_slot(3)->directions[1].frames, 0);
}
END_TEST

START_TEST(the_longest_id)
{
    char id[STATISTICS_ID_SIZE];
    memset(id, 'l', sizeof id - 1);
    id[sizeof id - 1] = '\0';
    uint32_t slot = 99;
    ck_assert_int_eq(statistics_memory_take(memory, id, &slot, &err), 0);
    ck_assert_str_eq(seen_slot(slot)->id, id);
    statistics_memory_withdraw(memory, slot);
    statistics_memory_give_back(memory, slot);
    ck_assert_int_eq(statistics_memory_take(memory, "s", &slot, &err), 0);
    ck_assert_str_eq(seen_slot(slot)->id, "s");
}
END_TEST

TCase *statistics_memory_tcase(void)
{
    TCase *tcase = tcase_create("statistics memory");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, its_header_says_how_it_is_laid_out);
    tcase_add_test(tcase, nobody_else_can_write_to_it);
    tcase_add_test(tcase, slots_are_taken_and_given_back);
    tcase_add_test(tcase, the_longest_id);
    return tcase;
}
