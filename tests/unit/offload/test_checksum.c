/* The sum itself. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/offload/support.h"

/* As it is stored, which is as it is read from memory. */
static uint16_t stored(uint16_t big_endian)
{
    const uint8_t bytes[2] = {(uint8_t)(big_endian >> 8), (uint8_t)big_endian};
    uint16_t word = 0;
    memcpy(&word, bytes, sizeof word);
    return word;
}

START_TEST(test_known_sums)
{
    /* RFC 1071, section 3 */
    const uint8_t example[] = {0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};
    ck_assert_uint_eq(checksum_fold(checksum_add(0, example, sizeof example, false)), stored(0xddf2));
    ck_assert_uint_eq(slow_sum(example, sizeof example, 0), 0xddf2);
    /* an IPv4 header whose checksum, 0xb861, is in place */
    const uint8_t header[] = {0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11,
                              0xb8, 0x61, 0xc0, 0xa8, 0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7};
    ck_assert_uint_eq(checksum_fold(checksum_add(0, header, sizeof header, false)), 0xffff);
    ck_assert_uint_eq(checksum_fold(checksum_add(0, header, 0, false)), 0);
}
END_TEST

/* Every length around the loop's turns, every alignment, odd and even; each copy ends where its memory ends.
 */
START_TEST(test_every_length_and_alignment)
{
    const uint8_t *bytes = payload_of(400);
    for (size_t length = 0; length < 200; length++) {
        for (size_t alignment = 0; alignment < 33; alignment++) {
            uint8_t *memory = malloc(alignment + length > 0 ? alignment + length : 1);
            ck_assert_ptr_nonnull(memory);
            /* one zero byte before it makes it start at an odd offset */
            uint8_t shifted[256] = {0};
            memcpy(memory + alignment, bytes + alignment, length);
            memcpy(shifted + 1, memory + alignment, length);
            const uint16_t even = checksum_fold(checksum_add(0, memory + alignment, length, false));
            const uint16_t odd = checksum_fold(checksum_add(0, memory + alignment, length, true));
            const uint16_t expected = slow_sum(memory + alignment, length, 0);
            const uint16_t expected_odd = slow_sum(shifted, length + 1, 0);
            free(memory);
            ck_assert_msg(even == stored(expected), "%zu bytes at %zu: %#x, expected %#x", length, alignment,
                          even, stored(expected));
            ck_assert_msg(odd == stored(expected_odd), "%zu bytes at odd %zu: %#x, expected %#x", length,
                          alignment, odd, stored(expected_odd));
        }
    }
}
END_TEST

START_TEST(test_pieces_of_any_length)
{
    enum { LENGTH = 65535 };
    const uint8_t *bytes = payload_of(LENGTH);
    const uint16_t expected = stored(slow_sum(bytes, LENGTH, 0));
    ck_assert_uint_eq(checksum_fold(checksum_add(0, bytes, LENGTH, false)), expected);
    for (size_t step = 1; step < 70; step++) {
        uint64_t sum = 0;
        for (size_t at = 0; at < LENGTH; at += step)
            sum = checksum_add(sum, bytes + at, at + step < LENGTH ? step : LENGTH - at, at % 2 == 1);
        ck_assert_uint_eq(checksum_fold(sum), expected);
    }
}
END_TEST

START_TEST(test_no_carry_is_lost)
{
    enum { LENGTH = 1 << 20 };
    uint8_t *ones = malloc(LENGTH);
    ck_assert_ptr_nonnull(ones);
    memset(ones, 0xff, LENGTH);
    uint64_t sum = 1;
    for (unsigned i = 0; i < 256; i++)
        sum = checksum_add(sum, ones, LENGTH - 1 - i % 3, i % 2 == 1);
    free(ones);
    /* 0xffff counts as nothing; what an odd length leaves is half of it. */
    uint16_t expected = 1;
    for (unsigned i = 0; i < 256; i++) {
        if ((LENGTH - 1 - i % 3) % 2 == 1) {
            const uint8_t half[2] = {i % 2 == 1 ? 0 : 0xff, i % 2 == 1 ? 0xff : 0};
            uint16_t word = 0;
            memcpy(&word, half, sizeof word);
            const uint32_t both = (uint32_t)expected + word;
            expected = (uint16_t)(both > UINT16_MAX ? both - UINT16_MAX : both);
        }
    }
    ck_assert_uint_eq(checksum_fold(sum), expected);
    ck_assert_uint_eq(checksum_fold(UINT64_MAX), UINT16_MAX);
    ck_assert_uint_eq(checksum_fold(UINT64_C(0xfffffffffffffffe)), 0xfffe);
    ck_assert_uint_eq(checksum_fold(UINT64_C(0x0001000100010001)), 4);
}
END_TEST

TCase *checksum_tcase(void)
{
    TCase *tcase = tcase_create("checksum");
    tcase_add_test(tcase, test_known_sums);
    tcase_add_test(tcase, test_every_length_and_alignment);
    tcase_add_test(tcase, test_pieces_of_any_length);
    tcase_add_test(tcase, test_no_carry_is_lost);
    return tcase;
}
