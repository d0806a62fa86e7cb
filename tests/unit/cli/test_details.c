#include "base/cleanup.h"
#include "cli/output.h"
#include "tests/unit/cli/suites.h"

START_TEST(everything_is_shown_and_readable)
{
    static const char json[] =
        "{\"sandboxID\":\"sb\",\"reason\":\"\",\"owner\":null,\"revision\":7,\"ok\":true,"
        "\"createdAt\":\"2026-01-02T03:04:05.678Z\","
        "\"ivshmem\":{\"sizeBytes\":1048576,\"vmm\":{\"qemu\":[\"-device\",\"a b\"]},\"epoch\":1},"
        "\"list\":[{\"a\":1},{\"a\":2}]}";
    auto_free char *text = NULL;
    auto_json json_t *value = json_loads(json, 0, NULL);
    CAPTURE(text, details_print(out, value, INT64_C(1767323045678) + 300000));
    ck_assert_str_eq(text, "sandboxID:  sb\n"
                           "reason:     -\n"
                           "owner:      -\n"
                           "revision:   7\n"
                           "ok:         yes\n"
                           "createdAt:  2026-01-02T03:04:05.678Z (5m ago)\n"
                           "ivshmem:\n"
                           "  sizeBytes:  1048576 (1 MiB)\n"
                           "  vmm:\n"
                           "    qemu:  -device 'a b'\n"
                           "  epoch:      1\n"
                           "list:\n"
                           "  a:  1\n"
                           "  a:  2\n");
}
END_TEST

START_TEST(ages)
{
    char age[48];
    auto_json json_t *value = json_pack("{s:s, s:s}", "createdAt", "1970-01-01T00:00:10Z", "other", "x");
    json_age(value, "createdAt", 70000, age);
    ck_assert_str_eq(age, "60s");
    json_age(value, "createdAt", 5000, age); /* the clock was set back */
    ck_assert_str_eq(age, "0s");
    json_age(value, "other", 5000, age);
    ck_assert_str_eq(age, "-");
    json_age(value, "missing", 5000, age);
    ck_assert_str_eq(age, "-");
}
END_TEST

Suite *details_suite(void)
{
    Suite *suite = suite_create("details");
    TCase *tests = tcase_create("details");
    tcase_add_test(tests, everything_is_shown_and_readable);
    tcase_add_test(tests, ages);
    suite_add_tcase(suite, tests);
    return suite;
}
