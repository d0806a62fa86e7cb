#include "cli/values.h"
#include "tests/unit/cli/suites.h"

static const struct {
    const char *text;
    int64_t bytes; /* -1: refused */
} sizes[] = {
    {"0", 0},
    {"4096", 4096},
    {"4096B", 4096},
    {"4K", 4096},
    {"4KiB", 4096},
    {"1M", 1048576},
    {"1MiB", 1 << 20},
    {"2G", INT64_C(2) << 30},
    {"1TiB", INT64_C(1) << 40},
    {"8388607T", INT64_C(8388607) << 40},
    {"8388608T", -1},
    {"9223372036854775807", INT64_MAX},
    {"9223372036854775808", -1},
    {"", -1},
    {"M", -1},
    {"1 M", -1},
    {" 1", -1},
    {"-1", -1},
    {"+1", -1},
    {"1MB", -1},
    {"1m", -1},
    {"1.5G", -1},
    {"0x10", -1},
};

START_TEST(size)
{
    struct error err = ERROR_INIT;
    int64_t bytes = -7;
    int result = parse_size("--size", sizes[_i].text, &bytes, &err);
    if (sizes[_i].bytes >= 0) {
        ck_assert_msg(result == 0 && bytes == sizes[_i].bytes, "'%s' is %lld, expected %lld", sizes[_i].text,
                      (long long)bytes, (long long)sizes[_i].bytes);
    } else {
        ck_assert_msg(result == -1, "'%s' was taken", sizes[_i].text);
        ck_assert_ptr_nonnull(strstr(err.detail, "--size: "));
    }
}
END_TEST

static const struct {
    const char *text;
    int64_t seconds; /* -1: refused */
} durations[] = {
    {"1", 1},      {"90", 90},  {"90s", 90},   {"5m", 300},  {"2h", 7200},
    {"1d", 86400}, {"0", -1},   {"0s", -1},    {"", -1},     {"s", -1},
    {"1w", -1},    {"-5s", -1}, {"1h30m", -1}, {"1.5h", -1}, {"106751991167301d", -1},
};

START_TEST(duration)
{
    struct error err = ERROR_INIT;
    int64_t seconds = -7;
    int result = parse_duration("--lease", durations[_i].text, &seconds, &err);
    if (durations[_i].seconds >= 0)
        ck_assert_msg(result == 0 && seconds == durations[_i].seconds, "'%s' is %lld, expected %lld",
                      durations[_i].text, (long long)seconds, (long long)durations[_i].seconds);
    else
        ck_assert_msg(result == -1, "'%s' was taken as %lld s", durations[_i].text, (long long)seconds);
}
END_TEST

START_TEST(number_in_range)
{
    struct error err = ERROR_INIT;
    int64_t number = -7;
    ck_assert_int_eq(parse_number("--uid", "5", 5, 6, &number, &err), 0);
    ck_assert_int_eq(number, 5);
    ck_assert_int_eq(parse_number("--uid", "4", 5, 6, &number, &err), -1);
    ck_assert_int_eq(parse_number("--uid", "7", 5, 6, &number, &err), -1);
    ck_assert_int_eq(parse_number("--uid", "5x", 5, 6, &number, &err), -1);
    ck_assert_int_eq(parse_number("--uid", "", 0, 6, &number, &err), -1);
    ck_assert_int_eq(number, 5); /* untouched by failures */
    ck_assert_str_eq(err.detail, "--uid: '' is not a whole number from 0 to 6");
}
END_TEST

START_TEST(timestamp)
{
    ck_assert_int_eq(parse_timestamp("1970-01-01T00:00:01.500Z"), 1500);
    ck_assert_int_eq(parse_timestamp("2026-01-02T03:04:05Z"), INT64_C(1767323045000));
    ck_assert_int_eq(parse_timestamp("2026-01-02T03:04:05.678Z"), INT64_C(1767323045678));
    ck_assert_int_eq(parse_timestamp("2026-01-02T03:04:05.678912345Z"), INT64_C(1767323045678));
    ck_assert_int_eq(parse_timestamp("2026-01-02T03:04:05"), -1);
    ck_assert_int_eq(parse_timestamp("2026-01-02T03:04:05.Z"), -1);
    ck_assert_int_eq(parse_timestamp("2026-01-02T03:04:05+01:00"), -1);
    ck_assert_int_eq(parse_timestamp("yesterday"), -1);
    ck_assert_int_eq(parse_timestamp(""), -1);
}
END_TEST

static const struct {
    int64_t bytes;
    const char *text;
} shown_sizes[] = {
    {0, "0 B"},         {1023, "1023 B"},        {1024, "1 KiB"},       {1536, "1.5 KiB"},
    {1048576, "1 MiB"}, {1048575, "1023.9 KiB"}, {1073741824, "1 GiB"}, {INT64_MAX, "7.9 EiB"},
};

START_TEST(shown_size)
{
    char text[VALUE_TEXT_SIZE];
    format_size(shown_sizes[_i].bytes, text);
    ck_assert_str_eq(text, shown_sizes[_i].text);
}
END_TEST

static const struct {
    int64_t seconds;
    const char *text;
} shown_durations[] = {
    {-3, "0s"},     {0, "0s"},    {119, "119s"},   {120, "2m"},
    {7199, "119m"}, {7200, "2h"}, {172799, "47h"}, {172800, "2d"},
};

START_TEST(shown_duration)
{
    char text[VALUE_TEXT_SIZE];
    format_duration(shown_durations[_i].seconds, text);
    ck_assert_str_eq(text, shown_durations[_i].text);
}
END_TEST

static const struct {
    double rate;
    const char *text;
} shown_rates[] = {
    {0, "0"},       {0.5, "0.5"}, {0.04, "0"},      {12.5, "12.5"},   {999.94, "999.9"}, {999.96, "1k"},
    {1234, "1.2k"}, {1e6, "1M"},  {9.41e9, "9.4G"}, {2.5e12, "2.5T"}, {7e18, "7000P"},
};

START_TEST(shown_rate)
{
    char text[VALUE_TEXT_SIZE];
    format_rate(shown_rates[_i].rate, text);
    ck_assert_str_eq(text, shown_rates[_i].text);
}
END_TEST

Suite *values_suite(void)
{
    Suite *suite = suite_create("values");
    TCase *tests = tcase_create("values");
    tcase_add_loop_test(tests, size, 0, sizeof sizes / sizeof sizes[0]);
    tcase_add_loop_test(tests, duration, 0, sizeof durations / sizeof durations[0]);
    tcase_add_test(tests, number_in_range);
    tcase_add_test(tests, timestamp);
    tcase_add_loop_test(tests, shown_size, 0, sizeof shown_sizes / sizeof shown_sizes[0]);
    tcase_add_loop_test(tests, shown_duration, 0, sizeof shown_durations / sizeof shown_durations[0]);
    tcase_add_loop_test(tests, shown_rate, 0, sizeof shown_rates / sizeof shown_rates[0]);
    suite_add_tcase(suite, tests);
    return suite;
}
