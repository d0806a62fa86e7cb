#include "base/cleanup.h"
#include "cli/completion.h"
#include "tests/unit/cli/suites.h"

static const char *asked_socket;

static void ids(FILE *out, const char *socket_path, enum value_kind kind)
{
    asked_socket = socket_path;
    (void)fputs(kind == VALUE_TEMPLATE_ID ? "tpl-1\ntpl-2\n"
                : kind == VALUE_LINK_ID   ? "net-1\n"
                                          : "sb-1\nother\n",
                out);
}

static const struct {
    const char *words[8];
    const char *answer;
} cases[] = {
    {{"te"}, "template\n"},
    {{""}, "template\nsandbox\nlink\nevent\nnode\ncompletion\nversion\n"},
    {{"template", ""}, "put\nshow\nls\nrm\n"},
    {{"template", "s"}, "show\n"},
    {{"sandbox", "re"}, "resume\nrenew\n"},
    {{"nothing", ""}, ""},
    {{"sandbox", "nothing", ""}, ""},
    {{"--so"}, "--socket\n"},
    {{"--socket", ""}, ":file\n"},
    {{"--socket", "/run"}, ":file\n"},
    {{"template", "put", "--la"}, "--layout\n"},
    {{"template", "put", "x", "--layout", ""}, "chan\nraw\n"},
    {{"template", "put", "x", "--layout", "="}, "chan\nraw\n"},
    {{"template", "put", "x", "--layout", "=", "r"}, "raw\n"},
    {{"template", "put", "x", "--layout", "=", "raw", "--on"}, "--on-rollback\n"},
    {{"sandbox", "show", "-o", "q"}, "qemu-args\n"},
    {{"sandbox", "ls", "-o", ""}, "table\njson\nyaml\nid\n"},
    {{"-o", "y"}, "yaml\n"},
    {{"template", "show", ""}, "tpl-1\ntpl-2\n"},
    {{"template", "show", "tpl-1", ""}, ""},
    {{"template", "rm", "tpl-1", ""}, "tpl-1\ntpl-2\n"},
    {{"sandbox", "show", "s"}, "sb-1\n"},
    {{"sandbox", "get", "s"}, "sb-1\n"},
    {{"sandbox", "create", ""}, ""},
    {{"sandbox", "create", "x", "--template", "tpl"}, "tpl-1\ntpl-2\n"},
    {{"sandbox", "rm", "--", "-"}, ""},
    {{"sandbox", "rm", "--", "s"}, "sb-1\n"},
    {{"link", ""}, "create\nshow\nls\nstats\nrm\n"},
    {{"link", "show", ""}, "net-1\n"},
    {{"link", "rm", "net-1", "n"}, "net-1\n"},
    {{"link", "show", "net-1", "--end", ""}, "0\n1\n"},
    {{"link", "create", ""}, ""},
    {{"link", "create", "x", "--end", "s"}, "sb-1\n"},
    {{"link", "ls", "--sandbox", "o"}, "other\n"},
    {{"link", "stats", "--w"}, "--watch\n"},
    {{"version", ""}, ""},
    {{"node", "show", "--lim"}, ""},
};

static size_t count_words(const char *const words[8])
{
    size_t count = 0;
    while (count < 8 && words[count] != NULL)
        count++;
    return count;
}

START_TEST(offers)
{
    auto_free char *text = NULL;
    CAPTURE(text, completion_print(out, cases[_i].words, count_words(cases[_i].words), ids));
    ck_assert_str_eq(text, cases[_i].answer);
}
END_TEST

static const char *const socket_lines[][8] = {
    {"--socket", "/a/b", "sandbox", "show", ""},
    {"--socket", "=", "/a/b", "sandbox", "show", ""},
    {"--socket=/a/b", "sandbox", "show", ""},
    {"sandbox", "show", "--socket", "/a/b", ""},
};

START_TEST(ids_come_from_the_socket_of_the_line)
{
    auto_free char *text = NULL;
    CAPTURE(text, completion_print(out, socket_lines[_i], count_words(socket_lines[_i]), ids));
    ck_assert_str_eq(text, "sb-1\nother\n");
    ck_assert_str_eq(asked_socket, "/a/b");
}
END_TEST

START_TEST(nothing_to_complete)
{
    auto_free char *text = NULL;
    CAPTURE(text, completion_print(out, NULL, 0, ids));
    ck_assert_str_eq(text, "");
}
END_TEST

Suite *completion_suite(void)
{
    Suite *suite = suite_create("completion");
    TCase *tests = tcase_create("completion");
    tcase_add_loop_test(tests, offers, 0, sizeof cases / sizeof cases[0]);
    tcase_add_loop_test(tests, ids_come_from_the_socket_of_the_line, 0,
                        sizeof socket_lines / sizeof socket_lines[0]);
    tcase_add_test(tests, nothing_to_complete);
    suite_add_tcase(suite, tests);
    return suite;
}
