#include "base/cleanup.h"
#include "cli/output.h"
#include "cli/text.h"
#include "tests/unit/cli/suites.h"

START_TEST(control_characters_do_not_reach_the_terminal)
{
    auto_free char *text = NULL;
    CAPTURE(text, text_print(out, "a\x1b[31mb\nc\td\x7f e\xc2\x9b f\xe2\x80\xa8 ä€😀"));
    ck_assert_str_eq(text, "a?[31mb?c?d? e? f? ä€😀");
    ck_assert_uint_eq(text_width("a\x1b[31mb\xc2\x9b ä€😀"), 12);
}
END_TEST

START_TEST(broken_utf8_ends_where_the_text_ends)
{
    static const char *const broken[] = {"\xf0", "\xf0\x9f", "\xe2\x82", "\xc3", "\x80\x80", "\xff"};
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        auto_free char *copy = strdup(broken[i]); /* so that a byte too far is an error of the sanitizer */
        ck_assert_uint_le(text_width(copy), strlen(copy));
    }
}
END_TEST

static const struct {
    const char *word, *quoted;
} words[] = {
    {"-device", "-device"},
    {"ivshmem-plain,memdev=a,id=b", "ivshmem-plain,memdev=a,id=b"},
    {"", "''"},
    {"a b", "'a b'"},
    {"$HOME", "'$HOME'"},
    {"it's", "'it'\\''s'"},
    {"*", "'*'"},
    {"~x", "'~x'"},
    {"a\nb", "'a\nb'"},
};

START_TEST(shell_words)
{
    auto_free char *text = NULL;
    CAPTURE(text, text_print_shell(out, words[_i].word));
    ck_assert_str_eq(text, words[_i].quoted);
}
END_TEST

START_TEST(shell_words_of_an_array)
{
    auto_free char *text = NULL;
    auto_json json_t *array = json_pack("[s, s, s]", "-object", "size=1M", "a b");
    CAPTURE(text, text_print_shell_words(out, array));
    ck_assert_str_eq(text, "-object size=1M 'a b'");
}
END_TEST

Suite *text_suite(void)
{
    Suite *suite = suite_create("text");
    TCase *tests = tcase_create("text");
    tcase_add_test(tests, control_characters_do_not_reach_the_terminal);
    tcase_add_test(tests, broken_utf8_ends_where_the_text_ends);
    tcase_add_loop_test(tests, shell_words, 0, sizeof words / sizeof words[0]);
    tcase_add_test(tests, shell_words_of_an_array);
    suite_add_tcase(suite, tests);
    return suite;
}
