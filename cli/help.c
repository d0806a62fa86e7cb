/* Help, made from the tables. */
#include <string.h>

#include "cli/command.h"

static const struct {
    int number;
    const char *meaning;
} exit_codes[] = {
#define EXIT_CODE_ENTRY(name, number, meaning) {number, meaning},
#include "base/exit_codes.def"
#undef EXIT_CODE_ENTRY
};

static void print_options(FILE *out, const char *heading, const struct option *options)
{
    if (options == NULL)
        return;
    (void)fprintf(out, "\n%s:\n", heading);
    for (const struct option *option = options; option->name != NULL; option++) {
        char left[64];
        char letter[8] = "    ";
        if (option->letter != 0)
            (void)snprintf(letter, sizeof letter, "-%c, ", option->letter);
        (void)snprintf(left, sizeof left, "%s--%s%s%s", letter, option->name,
                       option->metavar == NULL ? "" : " ", option->metavar == NULL ? "" : option->metavar);
        (void)fprintf(out, "  %-28s  %s", left, option->help);
        if (option->words != NULL)
            (void)fprintf(out, " (%s)", option->words);
        (void)fputc('\n', out);
    }
}

static void print_commands(FILE *out, const struct noun *noun)
{
    for (size_t i = 0; i < noun->command_count; i++) {
        const struct command *command = &noun->commands[i];
        char left[64];
        (void)snprintf(left, sizeof left, "%s%s%s%s%s", noun->name, command->verb == NULL ? "" : " ",
                       command->verb == NULL ? "" : command->verb, command->positionals[0] == '\0' ? "" : " ",
                       command->positionals);
        (void)fprintf(out, "  %-24s  %s\n", left, command->summary);
    }
}

static void print_command_help(FILE *out, const struct command *command)
{
    (void)fprintf(out, "Usage: chanctl %s%s%s%s%s [OPTION...]\n\n%s.\n", command->noun,
                  command->verb == NULL ? "" : " ", command->verb == NULL ? "" : command->verb,
                  command->positionals[0] == '\0' ? "" : " ", command->positionals, command->summary);
    if (command->alias != NULL)
        (void)fprintf(out, "Also: chanctl %s %s\n", command->noun, command->alias);
    (void)fputs("\nOutput (-o):", out);
    for (int i = 0; i < FORMAT_COUNT; i++)
        if ((command->formats & (1u << i)) != 0)
            (void)fprintf(out, " %s", format_word((enum format)i));
    (void)fputc('\n', out);
    print_options(out, "Options", command->options);
    print_options(out, "Options of every command", global_options);
    if (command->example != NULL)
        (void)fprintf(out, "\nExample:\n  %s\n", command->example);
}

static void print_noun_help(FILE *out, const struct noun *noun)
{
    (void)fprintf(out, "Usage: chanctl %s VERB [ARGUMENT...] [OPTION...]\n\n%s.\n\nCommands:\n", noun->name,
                  noun->summary);
    print_commands(out, noun);
    print_options(out, "Options of every command", global_options);
    (void)fprintf(out, "\n'chanctl %s VERB --help' says more.\n", noun->name);
}

static void print_top_help(FILE *out)
{
    (void)fputs("Usage: chanctl [OPTION...] NOUN VERB [ARGUMENT...] [OPTION...]\n\n"
                "Manages the shared-memory channels and cables of microVM sandboxes through chand, the "
                "daemon of this host.\n\n"
                "Commands:\n",
                out);
    for (size_t i = 0; i < NOUN_COUNT; i++)
        print_commands(out, nouns[i]);
    print_options(out, "Options of every command", global_options);
    (void)fputs("\nExit codes:\n", out);
    for (size_t i = 0; i < sizeof exit_codes / sizeof exit_codes[0]; i++)
        (void)fprintf(out, "  %d  %s\n", exit_codes[i].number, exit_codes[i].meaning);
    (void)fputs("\nExamples:\n"
                "  chanctl template put tpl-1 --ivshmem --size 1M\n"
                "  chanctl sandbox create sb-1 --template tpl-1 --lease 60s -o qemu-args\n"
                "  chanctl sandbox ls\n"
                "  chanctl link create net-1 --end sb-1 --end sb-2\n"
                "  chanctl sandbox ls -o id | xargs chanctl sandbox rm\n"
                "\n'chanctl NOUN --help' and 'chanctl NOUN VERB --help' say more.\n",
                out);
}

void help_print(FILE *out, const struct noun *noun, const struct command *command)
{
    if (command != NULL)
        print_command_help(out, command);
    else if (noun != NULL)
        print_noun_help(out, noun);
    else
        print_top_help(out);
}
