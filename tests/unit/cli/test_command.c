#include "base/cleanup.h"
#include "cli/command.h"
#include "cli/run.h"
#include "tests/unit/cli/suites.h"

static void check_options(const struct option *options)
{
    for (const struct option *option = options; option != NULL && option->name != NULL; option++) {
        ck_assert_ptr_nonnull(option->help);
        ck_assert_msg((option->kind == VALUE_NONE) == (option->metavar == NULL), "--%s", option->name);
        ck_assert_msg((option->kind == VALUE_WORDS) == (option->words != NULL), "--%s", option->name);
        if (options == global_options)
            continue;
        for (const struct option *other = global_options; other->name != NULL; other++)
            ck_assert_msg(strcmp(option->name, other->name) != 0, "--%s hides a global option", option->name);
    }
}

START_TEST(the_table_is_consistent)
{
    check_options(global_options);
    for (size_t i = 0; i < NOUN_COUNT; i++) {
        ck_assert_ptr_eq(noun_find(nouns[i]->name), nouns[i]);
        for (size_t j = 0; j < nouns[i]->command_count; j++) {
            const struct command *command = &nouns[i]->commands[j];
            ck_assert_str_eq(command->noun, nouns[i]->name);
            ck_assert_ptr_eq(command_find(nouns[i], command->verb), command);
            if (command->alias != NULL)
                ck_assert_ptr_eq(command_find(nouns[i], command->alias), command);
            ck_assert_int_eq(command->positionals[0] == '\0', command->positionals_max == 0);
            ck_assert((command->formats & (1u << FORMAT_TABLE)) != 0);
            check_options(command->options);
        }
    }
}
END_TEST

START_TEST(formats_have_words)
{
    for (int i = 0; i < FORMAT_COUNT; i++)
        ck_assert_int_eq(format_by_word(format_word((enum format)i)), i);
    ck_assert_int_eq(format_by_word("xml"), FORMAT_COUNT);
}
END_TEST

/* Runs a line that needs no daemon, and returns its exit code; *text is what it printed. */
static int run(char **text, const char *const words[])
{
    int argc = 0;
    while (words[argc] != NULL)
        argc++;
    int code = -1;
    CAPTURE(*text, code = chanctl_run(argc, words, out));
    return code;
}
#define RUN(text, ...) run(text, (const char *const[]){"chanctl", __VA_ARGS__, NULL})

START_TEST(help_at_every_level)
{
    auto_free char *top = NULL, *noun = NULL, *command = NULL, *before = NULL, *alias = NULL;
    ck_assert_int_eq(RUN(&top, "--help"), 0);
    ck_assert_ptr_nonnull(strstr(top, "Exit codes:"));
    ck_assert_ptr_nonnull(strstr(top, "sandbox create ID"));
    ck_assert_int_eq(RUN(&noun, "sandbox", "-h"), 0);
    ck_assert_ptr_nonnull(strstr(noun, "sandbox renew ID"));
    ck_assert_ptr_null(strstr(noun, "template put"));
    ck_assert_int_eq(RUN(&command, "sandbox", "create", "--help"), 0);
    ck_assert_ptr_nonnull(strstr(command, "--owner-pid PID"));
    ck_assert_ptr_nonnull(strstr(command, "qemu-args"));
    ck_assert_int_eq(RUN(&before, "--help", "sandbox", "create"), 0);
    ck_assert_str_eq(before, command);
    ck_assert_int_eq(RUN(&alias, "sandbox", "put", "--help"), 0);
    ck_assert_str_eq(alias, command);
}
END_TEST

START_TEST(version)
{
    auto_free char *text = NULL;
    ck_assert_int_eq(RUN(&text, "version"), 0);
    ck_assert_int_eq(strncmp(text, "chanctl ", 8), 0);
}
END_TEST

static const char *const wrong_lines[][10] = {
    {"chanctl"},
    {"chanctl", "nothing"},
    {"chanctl", "sandbox"},
    {"chanctl", "sandbox", "dance"},
    {"chanctl", "sandbox", "show"},
    {"chanctl", "sandbox", "show", "a", "b"},
    {"chanctl", "sandbox", "show", ""},
    {"chanctl", "sandbox", "create", "a"},
    {"chanctl", "sandbox", "create", "a", "--template", "t", "--lease=0"},
    {"chanctl", "sandbox", "create", "a", "--template", "t", "--owner-pid=0"},
    {"chanctl", "sandbox", "create", "a", "--template=t", "--lease=5", "--owner-pid=1"},
    {"chanctl", "sandbox", "create", "a", "--template=t", "--uid=-1"},
    {"chanctl", "sandbox", "create", "a", "--template=\xff"},
    {"chanctl", "sandbox", "ls", "-o", "path"},
    {"chanctl", "sandbox", "ls", "-o", "xml"},
    {"chanctl", "sandbox", "ls", "--limit", "0"},
    {"chanctl", "sandbox", "rm", "a", "--if-match", "x"},
    {"chanctl", "template", "put", "a", "--size", "1MB"},
    {"chanctl", "template", "put", "a", "--annotation", "noequals"},
    {"chanctl", "template", "put", "a", "--annotation", "=v"},
    {"chanctl", "link", "create", "a"},
    {"chanctl", "link", "create", "a", "--end", "b"},
    {"chanctl", "link", "create", "a", "--end=b", "--end=c", "--end=d"},
    {"chanctl", "link", "create", "a", "--end", "b", "--end", ""},
    {"chanctl", "link", "create", "a", "--end", "b", "--end=colour=red"},
    {"chanctl", "link", "create", "a", "--end", "b", "--end=c", "--mtu=67"},
    {"chanctl", "link", "show", "a", "-o", "qemu-args"},
    {"chanctl", "link", "show", "a", "--end", "2"},
    {"chanctl", "link", "show", "a", "--watch", "--interval", "0"},
    {"chanctl", "link", "stats", "a", "-w", "--interval", "2h"},
    {"chanctl", "link", "stats"},
    {"chanctl", "event", "ls", "--since", "-1"},
    {"chanctl", "node", "show", "--timeout", "2d"},
    {"chanctl", "node", "show", "--socket", ""},
};

/* A wrong line is exit code 2, without a word on standard output, and before anything is asked of the daemon.
 */
START_TEST(wrong_lines_exit_2)
{
    auto_free char *text = NULL;
    ck_assert_int_eq(setenv("CHAN_SOCKET", "/nonexistent/chand.sock", 1), 0);
    ck_assert_int_eq(run(&text, wrong_lines[_i]), EXIT_CODE_USAGE);
    ck_assert_str_eq(text, "");
}
END_TEST

START_TEST(an_absent_daemon_exits_7)
{
    auto_free char *text = NULL;
    ck_assert_int_eq(RUN(&text, "--socket", "/nonexistent/chand.sock", "sandbox", "ls", "-o", "json"),
                     EXIT_CODE_UNAVAILABLE);
    ck_assert_str_eq(text, "");
}
END_TEST

START_TEST(a_full_disk_is_told)
{
    FILE *full = fopen("/dev/full", "we");
    ck_assert_ptr_nonnull(full);
    static const char *const words[] = {"chanctl", "--help", NULL};
    ck_assert_int_eq(chanctl_run(2, words, full), EXIT_CODE_FAILED);
    (void)fclose(full);
}
END_TEST

Suite *command_suite(void)
{
    Suite *suite = suite_create("command");
    TCase *tests = tcase_create("command");
    tcase_add_test(tests, the_table_is_consistent);
    tcase_add_test(tests, formats_have_words);
    tcase_add_test(tests, help_at_every_level);
    tcase_add_test(tests, version);
    tcase_add_loop_test(tests, wrong_lines_exit_2, 0, sizeof wrong_lines / sizeof wrong_lines[0]);
    tcase_add_test(tests, an_absent_daemon_exits_7);
    tcase_add_test(tests, a_full_disk_is_told);
    suite_add_tcase(suite, tests);
    return suite;
}
