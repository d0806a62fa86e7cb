#include "dataplane/options.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { CPU_NUMBER_MAX = 65535 };

typedef int (*option_fn)(struct options *options, const char *value, struct error *err);

/* ---- values ---- */

/* A decimal number at *at, which moves behind it. */
static int take_number(const char **at, uint64_t minimum, uint64_t maximum, uint64_t *ret, struct error *err)
{
    char *end = NULL;
    errno = 0;
    const unsigned long long value = strtoull(*at, &end, 10);
    if ((*at)[0] < '0' || (*at)[0] > '9')
        return error_set(err, REASON_INVALID_FIELD, "\"%.64s\" is not a number", *at);
    if (errno != 0 || value < minimum || value > maximum)
        return error_set(err, REASON_INVALID_FIELD, "\"%.64s\" is out of range: %llu to %llu", *at,
                         (unsigned long long)minimum, (unsigned long long)maximum);
    *at = end;
    *ret = value;
    return 0;
}

static int parse_number(const char *value, uint64_t minimum, uint64_t maximum, uint64_t *ret,
                        struct error *err)
{
    const char *at = value;
    if (take_number(&at, minimum, maximum, ret, err) != 0)
        return -1;
    return *at == '\0' ? 0 : error_set(err, REASON_INVALID_FIELD, "\"%.64s\" is not a number", value);
}

static int add_cpu(struct options *options, unsigned cpu, struct error *err)
{
    for (unsigned i = 0; i < options->cpu_count; i++)
        if (options->cpus[i] == cpu)
            return error_set(err, REASON_INVALID_FIELD, "CPU %u is listed twice", cpu);
    if (options->cpu_count == OPTIONS_CPUS_MAX)
        return error_set(err, REASON_INVALID_FIELD, "more than %d CPUs are listed", OPTIONS_CPUS_MAX);
    options->cpus[options->cpu_count++] = cpu;
    return 0;
}

static int set_cpus(struct options *options, const char *value, struct error *err)
{
    options->cpu_count = 0;
    for (const char *at = value;; at++) {
        uint64_t first = 0;
        if (take_number(&at, 0, CPU_NUMBER_MAX, &first, err) != 0)
            return -1;
        uint64_t last = first;
        if (*at == '-') {
            at++;
            if (take_number(&at, first, CPU_NUMBER_MAX, &last, err) != 0)
                return -1;
        }
        for (uint64_t cpu = first; cpu <= last; cpu++)
            if (add_cpu(options, (unsigned)cpu, err) != 0)
                return -1;
        if (*at == '\0')
            return 0;
        if (*at != ',')
            return error_set(err, REASON_INVALID_FIELD, "\"%.64s\" is not a list of CPUs such as 0,2-3",
                             value);
    }
}

static int set_control(struct options *options, const char *value, struct error *err)
{
    (void)err;
    options->control_path = value;
    return 0;
}

static int copy_path(char out[CABLE_PATH_SIZE], const char *path, size_t length, struct error *err)
{
    if (length == 0 || length >= CABLE_PATH_SIZE)
        return error_set(err, REASON_INVALID_FIELD, "the path of a socket has 1 to %d bytes, not %zu",
                         CABLE_PATH_SIZE - 1, length);
    memcpy(out, path, length);
    out[length] = '\0';
    return 0;
}

static int add_cable(struct options *options, const char *value, struct error *err)
{
    const char *comma = strchr(value, ',');
    if (comma == NULL || strchr(comma + 1, ',') != NULL)
        return error_set(err, REASON_INVALID_FIELD, "\"%.64s\" is not two paths with a comma between them",
                         value);
    struct cable *cable = &options->cables[options->cable_count++];
    if (copy_path(cable->paths[0], value, (size_t)(comma - value), err) != 0)
        return -1;
    return copy_path(cable->paths[1], comma + 1, strlen(comma + 1), err);
}

static int set_poll(struct options *options, const char *value, struct error *err)
{
    return parse_number(value, 0, 1000000, &options->poll_us, err);
}

static int set_patience(struct options *options, const char *value, struct error *err)
{
    return parse_number(value, 1, 60000, &options->patience_ms, err);
}

static int set_max_links(struct options *options, const char *value, struct error *err)
{
    return parse_number(value, 1, 65536, &options->max_links, err);
}

static int set_log_level(struct options *options, const char *value, struct error *err)
{
    static const char *const words[] = {"error", "warning", "info", "debug"};
    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(words[i], value) == 0) {
            options->log_level = (enum log_level)i;
            return 0;
        }
    }
    return error_set(err, REASON_INVALID_FIELD, "\"%.64s\" is none of error, warning, info and debug", value);
}

/* ---- the command line ---- */

static const struct {
    const char *key, *value;
    option_fn set;
    const char *help;
} table[] = {
    {"cpus", "LIST", set_cpus, "the CPUs of the workers, such as 1 or 0,2-3; each gets one"},
    {"control", "SOCKET", set_control, "where chand, or another program, creates and deletes links"},
    {"cable", "A,B", add_cable, "join the front-ends that connect to the sockets A and B; may be repeated"},
    {"poll-us", "N", set_poll, "poll a link that has no work for N microseconds before it sleeps (100)"},
    {"patience-ms", "N", set_patience,
     "let frames wait N milliseconds for a receiver without buffers before they are dropped (50)"},
    {"max-links", "N", set_max_links, "the number of links there may be (4096)"},
    {"log-level", "LEVEL", set_log_level, "error, warning, info or debug (info)"},
};
enum { OPTIONS = sizeof table / sizeof table[0] };

/* Applies "--key VALUE" or "--key=VALUE" at argv[*at], which moves behind it. */
static int take_option(struct options *options, int argc, char **argv, int *at, struct error *err)
{
    const char *word = argv[(*at)++];
    const char *equals = strchr(word, '=');
    const size_t length = equals != NULL ? (size_t)(equals - word) : strlen(word);
    for (int i = 0; i < OPTIONS; i++) {
        if (strncmp(word, "--", 2) != 0 || length - 2 != strlen(table[i].key) ||
            strncmp(word + 2, table[i].key, length - 2) != 0)
            continue;
        if (equals == NULL && *at == argc)
            return error_set(err, REASON_INVALID_FIELD, "--%s needs a value", table[i].key);
        const char *value = equals != NULL ? equals + 1 : argv[(*at)++];
        if (table[i].set(options, value, err) != 0)
            return error_wrap(err, "--%s: ", table[i].key);
        return 0;
    }
    return error_set(err, REASON_INVALID_FIELD,
                     "\"%.64s\" is not an option; chan-dataplane --help lists them", word);
}

static int check(const struct options *options, struct error *err)
{
    if (options->cpu_count == 0)
        return error_set(err, REASON_INVALID_FIELD, "--cpus is needed: the CPUs of the workers");
    if (options->control_path == NULL && options->cable_count == 0)
        return error_set(err, REASON_INVALID_FIELD, "--control or --cable is needed: there is nothing to do");
    if (options->cable_count > options->max_links)
        return error_set(err, REASON_INVALID_FIELD, "there are more cables than --max-links allows");
    return 0;
}

int options_parse(int argc, char **argv, enum action *action, struct options *options, struct error *err)
{
    *options =
        (struct options){.poll_us = 100, .patience_ms = 50, .max_links = 4096, .log_level = LOG_LEVEL_INFO};
    *action = ACTION_RUN;
    for (int at = 1; at < argc && *action == ACTION_RUN; at++) {
        if (strcmp(argv[at], "--help") == 0)
            *action = ACTION_HELP;
        else if (strcmp(argv[at], "--version") == 0)
            *action = ACTION_VERSION;
    }
    if (*action != ACTION_RUN)
        return 0;
    options->cables = calloc((size_t)argc, sizeof *options->cables);
    bool good = options->cables != NULL || error_set(err, REASON_RESOURCE_LIMIT, "out of memory") == 0;
    for (int at = 1; good && at < argc;)
        good = take_option(options, argc, argv, &at, err) == 0;
    if (good && check(options, err) == 0)
        return 0;
    options_clear(options);
    return -1;
}

void options_clear(struct options *options)
{
    free(options->cables);
    options->cables = NULL;
    options->cable_count = 0;
}

void options_help(FILE *out)
{
    (void)fprintf(
        out, "usage: chan-dataplane --cpus LIST --control SOCKET [--KEY VALUE]...\n"
             "       chan-dataplane --cpus LIST --cable A.sock,B.sock [--KEY VALUE]...\n\n"
             "Joins the network cards of virtual machines by cables (vhost-user), on CPUs of its own. It\n"
             "stays in the foreground, logs to standard error, and ends at SIGTERM or SIGINT.\n\n");
    for (int i = 0; i < OPTIONS; i++)
        (void)fprintf(out, "  --%s %s\n        %s\n", table[i].key, table[i].value, table[i].help);
    (void)fprintf(out, "  --help\n        print this and exit\n"
                       "  --version\n        print the version and exit\n\n"
                       "Exit status: 0 after a clean end, 1 when it failed, 2 when an option is wrong.\n");
}
