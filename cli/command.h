/* The commands of chanctl: one table from which parsing, help and completion come. */
#ifndef CHAN_CLI_COMMAND_H
#define CHAN_CLI_COMMAND_H

#include <stdio.h>

#include "chan/client.h"
#include "cli/args.h"

/* Forms of output; a command's formats are a mask of 1u << format. */
enum format {
    FORMAT_TABLE,
    FORMAT_JSON,
    FORMAT_YAML,
    FORMAT_ID,
    FORMAT_QEMU_ARGS,
    FORMAT_CLOUD_HYPERVISOR_ARGS,
    FORMAT_PATH,
    FORMAT_COUNT
};

#define FORMATS_OBJECT ((1u << FORMAT_TABLE) | (1u << FORMAT_JSON) | (1u << FORMAT_YAML))
#define FORMATS_LIST   (FORMATS_OBJECT | (1u << FORMAT_ID))
#define FORMATS_REGION                                                                                       \
    (FORMATS_OBJECT | (1u << FORMAT_QEMU_ARGS) | (1u << FORMAT_CLOUD_HYPERVISOR_ARGS) | (1u << FORMAT_PATH))

/* "qemu-args"; a static string. */
const char *format_word(enum format format);
/* FORMAT_COUNT when there is none of that word. */
enum format format_by_word(const char *word);

/* One run of chanctl. */
struct context {
    const struct command *command;
    struct arguments arguments; /* the positionals are those behind noun and verb */
    enum format format;
    const char *socket_path;
    unsigned int timeout_ms;    /* 0: the client's default */
    struct chan_client *client; /* NULL for commands that do not ask the daemon */
    FILE *out;                  /* what goes to standard output, written there when the command has ended */
    FILE *stream;               /* standard output itself, for what goes on for long (cli/watch.h) */
};

/* Does it and returns an exit code of base/exit_codes.def. Failures have been reported. */
typedef int (*command_fn)(struct context *context);

struct command {
    const char *noun;
    const char *verb;  /* NULL: the noun alone is the command */
    const char *alias; /* another word for the verb, or NULL */
    command_fn run;
    const char *positionals; /* as help shows them: "ID", "ID...", or "" */
    size_t positionals_min, positionals_max;
    enum value_kind positional_kind;
    const struct option *options; /* of its own, or NULL */
    unsigned int formats;
    bool local; /* needs no daemon */
    const char *summary;
    const char *example; /* or NULL */
};

struct noun {
    const char *name;
    const char *summary;
    const struct command *commands;
    size_t command_count;
};

enum { NOUN_COUNT = 7 };
extern const struct noun *const nouns[NOUN_COUNT];
extern const struct noun noun_template, noun_sandbox, noun_link, noun_event, noun_node, noun_completion,
    noun_version;

/* Options that every command takes. */
extern const struct option global_options[];

/* NULL when there is none. */
const struct noun *noun_find(const char *name);
/* verb NULL finds the command that is the noun alone. */
const struct command *command_find(const struct noun *noun, const char *verb);

/* Help on standard output: of chanctl (both NULL), of a noun, or of a command. */
void help_print(FILE *out, const struct noun *noun, const struct command *command);

#endif
