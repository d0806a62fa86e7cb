#include "cli/run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/command.h"
#include "cli/completion.h"
#include "cli/report.h"
#include "cli/values.h"

static void context_clear(struct context *context)
{
    arguments_clear(&context->arguments);
    chan_client_free(context->client);
}
#define auto_context __attribute__((cleanup(context_clear)))

/* Options may stand anywhere; noun and verb are the first two words that are none. */
static int read_line(struct context *context, int argc, const char *const argv[], const struct noun **noun,
                     struct error *err)
{
    struct arguments *arguments = &context->arguments;
    const struct option *const global[] = {global_options};
    if (arguments_read(arguments, argc, argv, global, 1, true, err) != 0)
        return -1;
    if (arguments->positional_count == 0)
        return arguments_has(arguments, "help")
                   ? 0
                   : error_set(err, REASON_INVALID_REQUEST, "a command is missing");
    const char *word = arguments->positionals[0];
    *noun = noun_find(word);
    if (*noun == NULL)
        return error_set(err, REASON_INVALID_REQUEST, "there is no command '%s'", word);
    arguments->positional_count = 0;
    context->command = command_find(*noun, NULL);
    if (context->command == NULL) {
        if (arguments_read(arguments, argc, argv, global, 1, true, err) != 0)
            return -1;
        if (arguments->positional_count == 0)
            return arguments_has(arguments, "help")
                       ? 0
                       : error_set(err, REASON_INVALID_REQUEST, "what to do with a %s is missing", word);
        context->command = command_find(*noun, arguments->positionals[0]);
        if (context->command == NULL)
            return error_set(err, REASON_INVALID_REQUEST, "there is no command '%s %s'", word,
                             arguments->positionals[0]);
        arguments->positional_count = 0;
    }
    const struct option *const all[] = {global_options, context->command->options};
    return arguments_read(arguments, argc, argv, all, 2, false, err);
}

static int check_positionals(const struct context *context, struct error *err)
{
    const struct command *command = context->command;
    size_t count = context->arguments.positional_count;
    if (count < command->positionals_min)
        return error_set(err, REASON_INVALID_REQUEST, "%s %s needs %s", command->noun, command->verb,
                         command->positionals);
    if (count > command->positionals_max)
        return error_set(err, REASON_INVALID_REQUEST, "'%s' is too much",
                         context->arguments.positionals[command->positionals_max]);
    for (size_t i = 0; i < count; i++)
        if (context->arguments.positionals[i][0] == '\0')
            return error_set(err, REASON_INVALID_REQUEST, "an id is empty");
    return 0;
}

static int read_global_options(struct context *context, struct error *err)
{
    const char *format = arguments_value(&context->arguments, "output");
    if (format != NULL)
        context->format = format_by_word(format);
    if (context->format == FORMAT_COUNT || (context->command->formats & (1u << context->format)) == 0)
        return error_set(err, REASON_INVALID_REQUEST, "this command has no output form '%s'", format);

    const char *timeout = arguments_value(&context->arguments, "timeout");
    int64_t seconds = 0;
    if (timeout != NULL && parse_duration("--timeout", timeout, &seconds, err) != 0)
        return -1;
    if (seconds > 86400)
        return error_set(err, REASON_INVALID_REQUEST, "--timeout: a day (1d) is the longest");
    context->timeout_ms = (unsigned int)(seconds * 1000);

    const char *from_environment = getenv("CHAN_SOCKET");
    context->socket_path = arguments_value(&context->arguments, "socket");
    if (context->socket_path == NULL)
        context->socket_path = from_environment != NULL && from_environment[0] != '\0'
                                   ? from_environment
                                   : CHAN_CLIENT_DEFAULT_SOCKET;
    return 0;
}

static int open_client(struct context *context)
{
    int result = chan_client_new(context->socket_path, &context->client);
    if (result == -ENOMEM)
        return report_local("out of memory");
    if (result != 0) {
        struct error err = ERROR_INIT;
        (void)error_set_errno(&err, REASON_INVALID_REQUEST, -result, "the socket's path '%s' is not usable",
                              context->socket_path);
        return report_usage(NULL, NULL, &err);
    }
    chan_client_set_timeouts(context->client, context->timeout_ms, context->timeout_ms);
    return EXIT_CODE_OK;
}

static int run_line(struct context *context, int argc, const char *const argv[])
{
    struct error err = ERROR_INIT;
    const struct noun *noun = NULL;
    if (arguments_init(&context->arguments, argc, &err) != 0)
        return report_local("%s", err.detail);
    if (read_line(context, argc, argv, &noun, &err) != 0)
        return report_usage(noun, context->command, &err);
    if (arguments_has(&context->arguments, "help")) {
        help_print(context->out, noun, context->command);
        return EXIT_CODE_OK;
    }
    if (check_positionals(context, &err) != 0 || read_global_options(context, &err) != 0)
        return report_usage(noun, context->command, &err);
    if (!context->command->local) {
        int code = open_client(context);
        if (code != EXIT_CODE_OK)
            return code;
    }
    return context->command->run(context);
}

int chanctl_run(int argc, const char *const argv[], FILE *out)
{
    auto_free char *text = NULL;
    size_t length = 0;
    FILE *memory = open_memstream(&text, &length);
    if (memory == NULL)
        return report_local("out of memory");
    auto_context struct context context = {.out = memory, .stream = out};
    int code = EXIT_CODE_OK;
    if (argc > 1 && strcmp(argv[1], COMPLETION_COMMAND) == 0)
        code = completion_run(memory, argv + 2, (size_t)argc - 2);
    else
        code = run_line(&context, argc, argv);
    if (fclose(memory) != 0)
        return report_local("cannot hold the output: out of memory");
    errno = 0;
    if (fwrite(text, 1, length, out) != length || fflush(out) != 0)
        return report_local("cannot write the output: %s", strerror(errno));
    return code;
}
