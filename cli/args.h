/* Command lines: options from tables, and what else stands on the line. */
#ifndef CHAN_CLI_ARGS_H
#define CHAN_CLI_ARGS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* What stands in a place of the command line; completion offers values accordingly. */
enum value_kind {
    VALUE_NONE, /* an option without a value */
    VALUE_TEXT, /* anything */
    VALUE_FILE,
    VALUE_WORDS, /* one of option.words */
    VALUE_FORMAT,
    VALUE_TEMPLATE_ID,
    VALUE_SANDBOX_ID,
    VALUE_LINK_ID
};

/* A row of an option table; a row without a name ends the table. */
struct option {
    const char *name; /* without its dashes */
    char letter;      /* for -o, or 0 */
    enum value_kind kind;
    const char *metavar; /* "PID"; NULL for VALUE_NONE */
    const char *help;
    const char *words; /* VALUE_WORDS: separated by spaces */
};

struct given_option {
    const struct option *option;
    const char *value; /* NULL for VALUE_NONE; points into argv */
};

struct arguments {
    struct given_option *options;
    size_t option_count;
    const char **positionals; /* point into argv */
    size_t positional_count;
    int next; /* index in argv of what was not read yet */
};

/* Makes room for everything that argv can hold. -1: out of memory. */
int arguments_init(struct arguments *arguments, int argc, struct error *err);
void arguments_clear(struct arguments *arguments);

/* Reads on from arguments->next with the options of the tables that are not NULL. With stop it returns behind
 * the first positional, else it reads to the end. "--" ends the options. A failure says what is wrong with
 * the line. */
int arguments_read(struct arguments *arguments, int argc, const char *const argv[],
                   const struct option *const tables[], size_t table_count, bool stop, struct error *err);

/* The last value given for that option, or NULL. */
const char *arguments_value(const struct arguments *arguments, const char *name);
bool arguments_has(const struct arguments *arguments, const char *name);

/* The option that a word such as "--size", "--size=1M" or "-o" names in the tables; *value is what follows in
 * the same word, or NULL. NULL when there is none. */
const struct option *option_of_word(const char *word, const struct option *const tables[], size_t table_count,
                                    const char **value);

#endif
