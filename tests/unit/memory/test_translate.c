/* From a guest's addresses to pointers. */
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/unit/memory/support.h"

/* Guest: [PAGE, 3 PAGE), [3 PAGE, 4 PAGE), hole, [8 PAGE, 9 PAGE). */
static struct guest_memory *three_regions(void)
{
    auto_close int fd = make_memory(4 * PAGE);
    const int fds[] = {fd, fd, fd};
    const struct guest_region_spec specs[] = {
        {.guest_address = PAGE, .size = 2 * PAGE, .user_address = 100 * PAGE},
        {.guest_address = 3 * PAGE, .size = PAGE, .user_address = 102 * PAGE, .mmap_offset = 2 * PAGE},
        {.guest_address = 8 * PAGE, .size = PAGE, .user_address = 50 * PAGE, .mmap_offset = 3 * PAGE},
    };
    return make_table(specs, fds, 3);
}

START_TEST(test_guest_addresses)
{
    struct guest_memory *memory = three_regions();
    /* page of the file (from 1) that a guest page is, or 0 */
    static const unsigned pages[] = {0, 1, 2, 3, 0, 0, 0, 0, 4, 0};
    static const unsigned left[] = {0, 2, 1, 1, 0, 0, 0, 0, 1, 0};
    /* whatever the hint says, the answer is the same */
    for (unsigned first_hint = 0; first_hint < 6; first_hint++) {
        for (uint64_t page = 0; page < sizeof pages / sizeof pages[0]; page++) {
            unsigned hint = first_hint == 5 ? UINT32_MAX : first_hint;
            uint64_t contiguous = 0;
            const uint8_t *host = guest_translate(memory, &hint, page * PAGE, 100 * PAGE, &contiguous);
            if (pages[page] == 0) {
                ck_assert_msg(host == NULL, "page %u", (unsigned)page);
                continue;
            }
            ck_assert_ptr_nonnull(host);
            ck_assert_uint_eq(number_at(host), pages[page]);
            ck_assert_uint_eq(contiguous, (uint64_t)left[page] * PAGE);
            /* the last byte, and less than there is */
            host = guest_translate(memory, &hint, page * PAGE + PAGE - 1, 1, &contiguous);
            ck_assert_ptr_nonnull(host);
            ck_assert_uint_eq(contiguous, 1);
            host = guest_translate(memory, &hint, page * PAGE + 5, UINT64_MAX, &contiguous);
            ck_assert_ptr_nonnull(host);
            ck_assert_uint_eq(contiguous, (uint64_t)left[page] * PAGE - 5);
            ck_assert_ptr_null(guest_translate(memory, &hint, page * PAGE, 0, &contiguous));
        }
    }
    unsigned hint = 0;
    uint64_t contiguous = 0;
    ck_assert_ptr_null(guest_translate(memory, &hint, UINT64_MAX, UINT64_MAX, &contiguous));
    ck_assert_ptr_null(guest_translate(memory, &hint, PAGE - 1, 2, &contiguous));
    guest_memory_free(memory);
    memory = make_table(NULL, NULL, 0);
    ck_assert_ptr_null(guest_translate(memory, &hint, 0, 1, &contiguous));
    guest_memory_free(memory);
}
END_TEST

START_TEST(test_user_addresses)
{
    struct guest_memory *memory = three_regions();
    const uint8_t *first = memory->regions[0].host;
    ck_assert_ptr_eq(guest_memory_at_user(memory, 100 * PAGE, 2 * PAGE), first);
    ck_assert_ptr_eq(guest_memory_at_user(memory, 100 * PAGE + 7, 2 * PAGE - 7), first + 7);
    ck_assert_ptr_eq(guest_memory_at_user(memory, 50 * PAGE + PAGE - 1, 1),
                     memory->regions[2].host + PAGE - 1);
    /* the whole range, not the start alone; and never from one region into the next */
    ck_assert_ptr_null(guest_memory_at_user(memory, 100 * PAGE + 7, 2 * PAGE - 6));
    ck_assert_ptr_null(guest_memory_at_user(memory, 101 * PAGE, UINT64_MAX));
    ck_assert_ptr_null(guest_memory_at_user(memory, 101 * PAGE, UINT64_MAX - 101 * PAGE + 2));
    ck_assert_ptr_null(guest_memory_at_user(memory, 100 * PAGE, 0));
    ck_assert_ptr_null(guest_memory_at_user(memory, 99 * PAGE, 2 * PAGE));
    ck_assert_ptr_null(guest_memory_at_user(memory, 103 * PAGE, 1));
    ck_assert_ptr_null(guest_memory_at_user(memory, 0, 1));
    ck_assert_ptr_null(guest_memory_at_user(memory, UINT64_MAX, 1));
    guest_memory_free(memory);
}
END_TEST

TCase *translate_tcase(void)
{
    TCase *tcase = tcase_create("translate");
    tcase_add_test(tcase, test_guest_addresses);
    tcase_add_test(tcase, test_user_addresses);
    return tcase;
}
