/* Clocks. */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "tests/unit/base/cases.h"

START_TEST(test_format)
{
    char text[TIMESTAMP_SIZE];
    clock_format(0, text);
    ck_assert_str_eq(text, "1970-01-01T00:00:00.000Z");
    clock_format(1767323045678, text);
    ck_assert_str_eq(text, "2026-01-02T03:04:05.678Z");
    clock_format(1709164799999, text);
    ck_assert_str_eq(text, "2024-02-28T23:59:59.999Z");
    clock_format(1709164800000, text);
    ck_assert_str_eq(text, "2024-02-29T00:00:00.000Z");
}
END_TEST

START_TEST(test_format_of_nonsense)
{
    char text[TIMESTAMP_SIZE];
    clock_format(-1, text);
    ck_assert_str_eq(text, "1970-01-01T00:00:00.000Z");
    clock_format(INT64_MIN, text);
    ck_assert_str_eq(text, "1970-01-01T00:00:00.000Z");
    clock_format(INT64_MAX, text);
    ck_assert_str_eq(text, "9999-12-31T23:59:59.999Z");
}
END_TEST

START_TEST(test_clocks_run)
{
    int64_t monotonic = clock_monotonic_ns();
    int64_t boot = clock_boot_ms();
    int64_t real = clock_real_ms();
    ck_assert_int_gt(real, 1700000000000);
    ck_assert_int_gt(boot, 0);
    /* All three in the units they promise: a sleep of 20 ms is seen by each. */
    ck_assert_int_eq(nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL), 0);
    ck_assert_int_ge(clock_monotonic_ns() - monotonic, 20000000);
    ck_assert_int_ge(clock_boot_ms() - boot, 19);
    ck_assert_int_lt(clock_boot_ms() - boot, 4000);
    ck_assert_int_lt(clock_monotonic_ns() - monotonic, 4000000000);
}
END_TEST

START_TEST(test_boot_id)
{
    struct error err = ERROR_INIT;
    char first[BOOT_ID_SIZE], second[BOOT_ID_SIZE];
    ck_assert_int_eq(clock_boot_id(first, &err), 0);
    ck_assert_int_eq(clock_boot_id(second, &err), 0);
    ck_assert_uint_eq(strlen(first), BOOT_ID_SIZE - 1);
    ck_assert_uint_eq(strspn(first, "0123456789abcdef-"), BOOT_ID_SIZE - 1);
    ck_assert_str_eq(first, second);
}
END_TEST

TCase *clock_case(void)
{
    TCase *tcase = tcase_create("clock");
    tcase_add_test(tcase, test_format);
    tcase_add_test(tcase, test_format_of_nonsense);
    tcase_add_test(tcase, test_clocks_run);
    tcase_add_test(tcase, test_boot_id);
    return tcase;
}
