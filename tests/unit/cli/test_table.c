#include "base/cleanup.h"
#include "cli/table.h"
#include "tests/unit/cli/suites.h"

static const char *const headings[] = {"ID", "STATE", NULL};

START_TEST(columns_are_aligned)
{
    auto_free char *text = NULL;
    auto_table struct table table;
    table_init(&table, headings);
    table_add(&table, "%s-%d", "sandbox", 1);
    table_add(&table, "running");
    table_add(&table, "b");
    table_add(&table, "paused");
    CAPTURE(text, ck_assert_int_eq(table_print(&table, out), 0));
    ck_assert_str_eq(text, "ID         STATE\n"
                           "sandbox-1  running\n"
                           "b          paused\n");
}
END_TEST

START_TEST(width_counts_characters_not_bytes)
{
    auto_free char *text = NULL;
    auto_table struct table table;
    table_init(&table, headings);
    table_add(&table, "äöü");
    table_add(&table, "x");
    CAPTURE(text, ck_assert_int_eq(table_print(&table, out), 0));
    ck_assert_str_eq(text, "ID   STATE\näöü  x\n");
}
END_TEST

START_TEST(no_rows)
{
    auto_free char *text = NULL;
    auto_table struct table table;
    table_init(&table, headings);
    CAPTURE(text, ck_assert_int_eq(table_print(&table, out), 0));
    ck_assert_str_eq(text, "ID  STATE\n");
}
END_TEST

START_TEST(many_rows)
{
    auto_free char *text = NULL;
    auto_table struct table table;
    table_init(&table, headings);
    for (int i = 0; i < 10000; i++) {
        table_add(&table, "%d", i);
        table_add(&table, "x");
    }
    CAPTURE(text, ck_assert_int_eq(table_print(&table, out), 0));
    ck_assert_uint_eq(strlen(text), strlen("ID    STATE\n") + 10000 * strlen("0000  x\n"));
}
END_TEST

Suite *table_suite(void)
{
    Suite *suite = suite_create("table");
    TCase *tests = tcase_create("table");
    tcase_add_test(tests, columns_are_aligned);
    tcase_add_test(tests, width_counts_characters_not_bytes);
    tcase_add_test(tests, no_rows);
    tcase_add_test(tests, many_rows);
    suite_add_tcase(suite, tests);
    return suite;
}
