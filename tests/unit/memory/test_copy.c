/* Copying: every byte of every length, by every method, and none beyond. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "dataplane/memory/copy.h"
#include "dataplane/memory/copy_methods.h"
#include "tests/unit/memory/support.h"

enum { ROOM = 256, LONGEST = 70016 /* whole lines */, GUARD_BYTE = 0xee };

static uint8_t *source, *target;

static void set_up(void)
{
    source = aligned_alloc(64, LONGEST + 2 * ROOM);
    target = aligned_alloc(64, LONGEST + 2 * ROOM);
    ck_assert(source != NULL && target != NULL);
    uint32_t random = 1;
    for (size_t i = 0; i < LONGEST + 2 * ROOM; i++) {
        random = random * 1664525 + 1013904223;
        source[i] = (uint8_t)(random >> 24);
    }
}

static void tear_down(void)
{
    free(source);
    free(target);
}

/* method -1: copy_bytes */
static void check_copy(int method, size_t length, size_t source_offset, size_t target_offset)
{
    const uint8_t *from = source + source_offset;
    uint8_t *to = target + ROOM + target_offset;
    memset(to - ROOM, GUARD_BYTE, length + 2 * (size_t)ROOM);
    if (method < 0)
        copy_bytes(to, from, length);
    else
        copy_with((enum copy_method)method, to, from, length);
    ck_assert_msg(memcmp(to, from, length) == 0, "method %d, %zu bytes, offsets %zu and %zu: differs", method,
                  length, source_offset, target_offset);
    for (size_t i = 1; i <= ROOM - 64; i++)
        ck_assert_msg(to[-(ptrdiff_t)i] == GUARD_BYTE && to[length + i - 1] == GUARD_BYTE,
                      "method %d, %zu bytes, offsets %zu and %zu: wrote beyond", method, length,
                      source_offset, target_offset);
}

START_TEST(test_every_short_length)
{
    for (size_t length = 0; length <= 1100; length++)
        for (size_t offset = 0; offset < 64; offset += 7)
            check_copy(-1, length, offset, (offset * 5) % 64);
}
END_TEST

START_TEST(test_every_method)
{
    static const size_t lengths[] = {257,  258,  320,  383,  384,  385,  511,   512,   1024,  1514,
                                     1518, 2047, 4095, 4096, 4097, 9000, 16384, 32767, 65536, 65550};
    for (int method = -1; method < COPY_METHOD_COUNT; method++) {
        if (method >= 0 && !copy_method_usable((enum copy_method)method))
            continue;
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
            for (size_t offset = 0; offset < 64; offset += lengths[i] < 3000 ? 1 : 9)
                check_copy(method, lengths[i], (offset * 3) % 64, offset);
        for (size_t length = 257; length < 700; length++)
            check_copy(method, length, length % 64, (length / 3) % 64);
    }
}
END_TEST

START_TEST(test_classes_of_lengths)
{
    ck_assert_uint_eq(copy_class(257), 0);
    ck_assert_uint_eq(copy_class(511), 0);
    ck_assert_uint_eq(copy_class(512), 1);
    ck_assert_uint_eq(copy_class(32768), COPY_CLASSES - 1);
    ck_assert_uint_eq(copy_class(65550), COPY_CLASSES - 1);
    ck_assert_uint_eq(copy_class(SIZE_MAX), COPY_CLASSES - 1);
}
END_TEST

START_TEST(test_calibrating_chooses_something_that_works)
{
    ck_assert_str_eq(copy_description(), "vector (not measured)");
    copy_calibrate();
    const char *description = copy_description();
    ck_assert_msg(strstr(description, "measured)") != NULL, "%s", description);
    for (size_t length = 200; length < LONGEST - 64; length += length / 7)
        check_copy(-1, length, 3, 12);
}
END_TEST

TCase *copy_tcase(void)
{
    TCase *tcase = tcase_create("copy");
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, test_every_short_length);
    tcase_add_test(tcase, test_every_method);
    tcase_add_test(tcase, test_classes_of_lengths);
    tcase_add_test(tcase, test_calibrating_chooses_something_that_works);
    return tcase;
}
