#include "cli/args.h"
#include "tests/unit/cli/suites.h"

static const struct option own[] = {
    {"size", 's', VALUE_TEXT, "SIZE", "", NULL}, {"force", 'f', VALUE_NONE, NULL, "", NULL}, {0}};
static const struct option global[] = {{"output", 'o', VALUE_FORMAT, "FORMAT", "", NULL}, {0}};
static const struct option *const tables[] = {global, own};

static struct arguments arguments;
static struct error err;

/* Reads words, which end with NULL, up to the end (or the first positional). */
static int read_words(const char *const words[], bool stop)
{
    int argc = 1;
    while (words[argc - 1] != NULL)
        argc++;
    static const char *argv[16];
    argv[0] = "chanctl";
    for (int i = 1; i < argc; i++)
        argv[i] = words[i - 1];
    if (arguments.options == NULL)
        ck_assert_int_eq(arguments_init(&arguments, argc, &err), 0);
    return arguments_read(&arguments, argc, argv, tables, 2, stop, &err);
}
#define READ(...) read_words((const char *const[]){__VA_ARGS__, NULL}, false)

static void set_up(void)
{
    err = ERROR_INIT;
}

static void tear_down(void)
{
    arguments_clear(&arguments);
}

START_TEST(values_in_every_spelling)
{
    ck_assert_int_eq(READ("--size", "1", "--size=2", "-s", "3", "-s4", "a", "-o", "json"), 0);
    ck_assert_uint_eq(arguments.option_count, 5);
    static const char *const expected[] = {"1", "2", "3", "4", "json"};
    for (size_t i = 0; i < 5; i++)
        ck_assert_str_eq(arguments.options[i].value, expected[i]);
    ck_assert_str_eq(arguments_value(&arguments, "size"), "4"); /* the last one wins */
    ck_assert_str_eq(arguments_value(&arguments, "output"), "json");
    ck_assert_uint_eq(arguments.positional_count, 1);
    ck_assert_str_eq(arguments.positionals[0], "a");
}
END_TEST

START_TEST(an_empty_value_is_a_value)
{
    ck_assert_int_eq(READ("--size=", "--size", ""), 0);
    ck_assert_str_eq(arguments.options[0].value, "");
    ck_assert_str_eq(arguments.options[1].value, "");
}
END_TEST

START_TEST(flags)
{
    ck_assert_int_eq(READ("-f"), 0);
    ck_assert(arguments_has(&arguments, "force"));
    ck_assert_ptr_null(arguments_value(&arguments, "force"));
    ck_assert(!arguments_has(&arguments, "size"));
}
END_TEST

START_TEST(dashes_end_the_options)
{
    ck_assert_int_eq(READ("-f", "--", "--size", "-x", "--"), 0);
    ck_assert_uint_eq(arguments.option_count, 1);
    ck_assert_uint_eq(arguments.positional_count, 3);
    ck_assert_str_eq(arguments.positionals[0], "--size");
    ck_assert_str_eq(arguments.positionals[2], "--");
}
END_TEST

START_TEST(one_dash_is_a_word)
{
    ck_assert_int_eq(READ("-"), 0);
    ck_assert_str_eq(arguments.positionals[0], "-");
}
END_TEST

START_TEST(stops_behind_the_first_word)
{
    static const char *const words[] = {"-f", "noun", "--size", "1", "verb", NULL};
    ck_assert_int_eq(read_words(words, true), 0);
    ck_assert_uint_eq(arguments.positional_count, 1);
    ck_assert_int_eq(arguments.next, 3);
    ck_assert_int_eq(read_words(words, true), 0);
    ck_assert_str_eq(arguments.positionals[1], "verb");
    ck_assert_str_eq(arguments_value(&arguments, "size"), "1");
}
END_TEST

START_TEST(wrong_lines_are_explained)
{
    ck_assert_int_eq(READ("--sizes", "1"), -1);
    ck_assert_str_eq(err.detail, "there is no option --sizes here");
    arguments_clear(&arguments);
    ck_assert_int_eq(READ("--siz=1"), -1); /* no abbreviations: a new option must not change old scripts */
    arguments_clear(&arguments);
    ck_assert_int_eq(READ("--size"), -1);
    ck_assert_str_eq(err.detail, "--size needs a value (SIZE)");
    arguments_clear(&arguments);
    ck_assert_int_eq(READ("--force=1"), -1);
    ck_assert_str_eq(err.detail, "--force=1: --force takes no value");
    arguments_clear(&arguments);
    ck_assert_int_eq(READ("-x"), -1);
}
END_TEST

Suite *args_suite(void)
{
    Suite *suite = suite_create("args");
    TCase *tests = tcase_create("args");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, values_in_every_spelling);
    tcase_add_test(tests, an_empty_value_is_a_value);
    tcase_add_test(tests, flags);
    tcase_add_test(tests, dashes_end_the_options);
    tcase_add_test(tests, one_dash_is_a_word);
    tcase_add_test(tests, stops_behind_the_first_word);
    tcase_add_test(tests, wrong_lines_are_explained);
    suite_add_tcase(suite, tests);
    return suite;
}
