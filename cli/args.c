#include "cli/args.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int arguments_init(struct arguments *arguments, int argc, struct error *err)
{
    size_t count = argc > 0 ? (size_t)argc : 1;
    *arguments = (struct arguments){.next = 1};
    arguments->options = calloc(count, sizeof *arguments->options);
    arguments->positionals = calloc(count, sizeof *arguments->positionals);
    if (arguments->options != NULL && arguments->positionals != NULL)
        return 0;
    arguments_clear(arguments);
    return error_set_errno(err, REASON_INTERNAL, ENOMEM, "cannot hold the command line");
}

void arguments_clear(struct arguments *arguments)
{
    free(arguments->options);
    free(arguments->positionals);
    *arguments = (struct arguments){0};
}

static const struct option *find_long(const char *name, size_t length, const struct option *const tables[],
                                      size_t table_count)
{
    for (size_t i = 0; i < table_count; i++)
        for (const struct option *option = tables[i]; option != NULL && option->name != NULL; option++)
            if (strlen(option->name) == length && memcmp(option->name, name, length) == 0)
                return option;
    return NULL;
}

static const struct option *find_letter(char letter, const struct option *const tables[], size_t table_count)
{
    for (size_t i = 0; i < table_count; i++)
        for (const struct option *option = tables[i]; option != NULL && option->name != NULL; option++)
            if (option->letter == letter)
                return option;
    return NULL;
}

const struct option *option_of_word(const char *word, const struct option *const tables[], size_t table_count,
                                    const char **value)
{
    *value = NULL;
    if (word[0] != '-' || word[1] == '\0')
        return NULL;
    if (word[1] != '-') {
        if (word[2] != '\0')
            *value = word + 2;
        return find_letter(word[1], tables, table_count);
    }
    size_t length = strcspn(word + 2, "=");
    if (word[2 + length] == '=')
        *value = word + 2 + length + 1;
    return find_long(word + 2, length, tables, table_count);
}

static int read_option(struct arguments *arguments, int argc, const char *const argv[],
                       const struct option *const tables[], size_t table_count, struct error *err)
{
    const char *word = argv[arguments->next++];
    const char *value = NULL;
    const struct option *option = option_of_word(word, tables, table_count, &value);
    if (option == NULL)
        return error_set(err, REASON_INVALID_REQUEST, "there is no option %s here", word);
    if (option->kind == VALUE_NONE && value != NULL)
        return error_set(err, REASON_INVALID_REQUEST, "%s: --%s takes no value", word, option->name);
    if (option->kind != VALUE_NONE && value == NULL) {
        if (arguments->next >= argc)
            return error_set(err, REASON_INVALID_REQUEST, "--%s needs a value (%s)", option->name,
                             option->metavar);
        value = argv[arguments->next++];
    }
    arguments->options[arguments->option_count++] = (struct given_option){option, value};
    return 0;
}

int arguments_read(struct arguments *arguments, int argc, const char *const argv[],
                   const struct option *const tables[], size_t table_count, bool stop, struct error *err)
{
    bool options = true;
    while (arguments->next < argc) {
        const char *word = argv[arguments->next];
        if (options && word[0] == '-' && word[1] != '\0') {
            if (strcmp(word, "--") == 0) {
                options = false;
                arguments->next++;
                continue;
            }
            if (read_option(arguments, argc, argv, tables, table_count, err) != 0)
                return -1;
            continue;
        }
        arguments->positionals[arguments->positional_count++] = word;
        arguments->next++;
        if (stop)
            return 0;
    }
    return 0;
}

const char *arguments_value(const struct arguments *arguments, const char *name)
{
    for (size_t i = arguments->option_count; i > 0; i--)
        if (strcmp(arguments->options[i - 1].option->name, name) == 0)
            return arguments->options[i - 1].value;
    return NULL;
}

bool arguments_has(const struct arguments *arguments, const char *name)
{
    for (size_t i = 0; i < arguments->option_count; i++)
        if (strcmp(arguments->options[i].option->name, name) == 0)
            return true;
    return false;
}
