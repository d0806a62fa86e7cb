#include <string.h>

#include "cli/command.h"

static const char *const format_words[FORMAT_COUNT] = {
    [FORMAT_TABLE] = "table",         [FORMAT_JSON] = "json",
    [FORMAT_YAML] = "yaml",           [FORMAT_ID] = "id",
    [FORMAT_QEMU_ARGS] = "qemu-args", [FORMAT_CLOUD_HYPERVISOR_ARGS] = "cloud-hypervisor-args",
    [FORMAT_PATH] = "path",
};

const struct noun *const nouns[NOUN_COUNT] = {&noun_template, &noun_sandbox,    &noun_link,   &noun_event,
                                              &noun_node,     &noun_completion, &noun_version};

const struct option global_options[] = {
    {"socket", 0, VALUE_FILE, "PATH",
     "chand's socket (default: CHAN_SOCKET, or " CHAN_CLIENT_DEFAULT_SOCKET ")", NULL},
    {"output", 'o', VALUE_FORMAT, "FORMAT", "form of the output (default: table)", NULL},
    {"timeout", 0, VALUE_TEXT, "TIME", "how long a call may take (default: 30s)", NULL},
    {"help", 'h', VALUE_NONE, NULL, "show help and do nothing else", NULL},
    {0},
};

const char *format_word(enum format format)
{
    return format_words[format];
}

enum format format_by_word(const char *word)
{
    for (int i = 0; i < FORMAT_COUNT; i++)
        if (strcmp(format_words[i], word) == 0)
            return (enum format)i;
    return FORMAT_COUNT;
}

const struct noun *noun_find(const char *name)
{
    for (size_t i = 0; i < NOUN_COUNT; i++)
        if (strcmp(nouns[i]->name, name) == 0)
            return nouns[i];
    return NULL;
}

const struct command *command_find(const struct noun *noun, const char *verb)
{
    for (size_t i = 0; i < noun->command_count; i++) {
        const struct command *command = &noun->commands[i];
        if (verb == NULL || command->verb == NULL) {
            if (verb == NULL && command->verb == NULL)
                return command;
            continue;
        }
        if (strcmp(command->verb, verb) == 0 || (command->alias != NULL && strcmp(command->alias, verb) == 0))
            return command;
    }
    return NULL;
}
