#include "daemon/options.h"

#include <string.h>

/* A word on the command line that is not a setting. */
static const struct {
    const char *word;
    enum action action;
    const char *help;
} actions[] = {
    {"--check-config", ACTION_CHECK_CONFIG, "print the effective settings and exit"},
    {"--help", ACTION_HELP, "print this and exit"},
    {"--version", ACTION_VERSION, "print the version and exit"},
#ifdef CHAN_FAULT_POINTS
    {"--list-fault-points", ACTION_LIST_FAULT_POINTS, "print the fault points of this test build and exit"},
#endif
};
enum { ACTIONS = sizeof actions / sizeof actions[0] };

static const char config_key[] = "config"; /* the one option that is no setting and takes a value */

struct option {
    char key[64];
    const char *value;
};

static bool is_action(const char *word, enum action *action)
{
    for (int i = 0; i < ACTIONS; i++) {
        if (strcmp(actions[i].word, word) == 0) {
            *action = actions[i].action;
            return true;
        }
    }
    return false;
}

/* Takes "--key VALUE" or "--key=VALUE" at argv[*at], which moves behind it. */
static int take_option(int argc, char **argv, int *at, struct option *ret, struct error *err)
{
    const char *word = argv[*at];
    if (strncmp(word, "--", 2) != 0 || word[2] == '\0')
        return error_set(err, REASON_INVALID_FIELD, "\"%.64s\" is not an option; chand --help lists them",
                         word);
    const char *key = word + 2;
    const char *equals = strchr(key, '=');
    size_t length = equals != NULL ? (size_t)(equals - key) : strlen(key);
    if (length >= sizeof ret->key)
        length = sizeof ret->key - 1; /* longer than any that is known */
    memcpy(ret->key, key, length);
    ret->key[length] = '\0';
    (*at)++;
    if (equals != NULL)
        ret->value = equals + 1;
    else
        ret->value = *at < argc ? argv[(*at)++] : NULL;
    return 0;
}

/* Calls for each option of the command line; the actions are skipped. */
typedef int (*option_fn)(void *context, const struct option *option, struct error *err);

static int for_each_option(int argc, char **argv, option_fn fn, void *context, struct error *err)
{
    for (int at = 1; at < argc;) {
        enum action ignored;
        struct option option;
        if (is_action(argv[at], &ignored)) {
            at++;
            continue;
        }
        if (take_option(argc, argv, &at, &option, err) != 0 || fn(context, &option, err) != 0)
            return -1;
    }
    return 0;
}

static int load_config(void *context, const struct option *option, struct error *err)
{
    enum setting setting;
    if (strcmp(option->key, config_key) != 0 && settings_find(option->key, &setting, err) != 0)
        return error_wrap(err, "--%s: ", option->key);
    if (option->value == NULL)
        return error_set(err, REASON_INVALID_FIELD, "--%s needs a value", option->key);
    return strcmp(option->key, config_key) == 0 ? settings_load(context, option->value, err) : 0;
}

static int apply(void *context, const struct option *option, struct error *err)
{
    enum setting setting;
    if (strcmp(option->key, config_key) == 0)
        return 0;
    if (settings_find(option->key, &setting, err) != 0 ||
        settings_set(context, setting, option->value, err) != 0)
        return error_wrap(err, "--");
    return 0;
}

int options_parse(int argc, char **argv, enum action *action, struct settings *settings, struct error *err)
{
    *action = ACTION_RUN;
    for (int at = 1; at < argc; at++)
        if (is_action(argv[at], action) && *action != ACTION_CHECK_CONFIG)
            return 0;
    if (for_each_option(argc, argv, load_config, settings, err) != 0 ||
        for_each_option(argc, argv, apply, settings, err) != 0)
        return -1;
    return settings_check(settings, err);
}

void options_help(FILE *out)
{
    (void)fprintf(
        out,
        "usage: chand [--config FILE] [--KEY VALUE]...\n\n"
        "The daemon of Chan: shared-memory regions of microVM sandboxes, behind one API. It stays in the\n"
        "foreground, logs to standard error, and ends at SIGTERM or SIGINT.\n\n"
        "  --config FILE\n        read settings from FILE: lines \"key = value\"; options win\n");
    for (int i = 0; i < ACTIONS; i++)
        (void)fprintf(out, "  %s\n        %s\n", actions[i].word, actions[i].help);
    (void)fprintf(out, "\nSettings, as options or in the file:\n");
    settings_help(out);
    (void)fprintf(
        out, "\nSizes may end in K, M, G or T. Exit status: 0 after a clean end, 1 when the daemon failed,\n"
             "2 when an option or the configuration is wrong.\n");
}
