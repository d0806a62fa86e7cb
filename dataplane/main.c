/* chan-dataplane: moves the frames of cables. This is the only place that logs failures and exits. */
#include <stdio.h>
#include <unistd.h>

#include "dataplane/options.h"
#include "dataplane/process.h"

static const char software[] = "chan-dataplane " CHAN_VERSION;

static int run(const struct options *options)
{
    const struct log log = {.level = options->log_level, .fd = STDERR_FILENO};
    struct error err = ERROR_INIT;
    if (process_run(options, &log, software, &err) == 0)
        return EXIT_CODE_OK;
    (void)fprintf(stderr, "chan-dataplane: %s\n", err.detail);
    return EXIT_CODE_FAILED;
}

int main(int argc, char **argv)
{
    struct options options;
    enum action action = ACTION_RUN;
    struct error err = ERROR_INIT;
    int code = EXIT_CODE_OK;
    if (options_parse(argc, argv, &action, &options, &err) != 0) {
        (void)fprintf(stderr, "chan-dataplane: %s\n", err.detail);
        return EXIT_CODE_USAGE;
    }
    switch (action) {
    case ACTION_HELP:
        options_help(stdout);
        break;
    case ACTION_VERSION:
        (void)printf("%s\n", software);
        break;
    case ACTION_RUN:
        code = run(&options);
        break;
    }
    options_clear(&options);
    return code;
}
