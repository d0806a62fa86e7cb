#include "cli/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/report.h"
#include "cli/request.h"
#include "cli/values.h"

enum { INTERVAL_MAX_SECONDS = 3600 };

/* What stands between two looks. JSON has a line for each, YAML a document. */
static const char *separator(const struct context *context, bool first)
{
    if (context->format == FORMAT_JSON)
        return "";
    if (context->format == FORMAT_YAML)
        return "---\n";
    if (isatty(fileno(context->stream)))
        return "\033[H\033[2J"; /* clears the terminal */
    return first ? "" : "\n";
}

static int look_once(struct context *context, look_fn look, void *state, bool first)
{
    auto_free char *text = NULL;
    size_t length = 0;
    FILE *memory = open_memstream(&text, &length);
    if (memory == NULL)
        return report_local("out of memory");
    FILE *saved = context->out;
    context->out = memory;
    (void)fputs(separator(context, first), memory);
    int code = look(context, state);
    context->out = saved;
    if (fclose(memory) != 0)
        return report_local("cannot hold the output: out of memory");
    if (code != EXIT_CODE_OK)
        return code;
    errno = 0;
    if (fwrite(text, 1, length, context->stream) != length || fflush(context->stream) != 0)
        return report_local("cannot write the output: %s", strerror(errno));
    return EXIT_CODE_OK;
}

static void sleep_seconds(int64_t seconds)
{
    struct timespec left = {.tv_sec = (time_t)seconds};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

int watch(struct context *context, look_fn look, void *state)
{
    int64_t seconds = 1;
    struct error err = ERROR_INIT;
    const char *interval = arguments_value(&context->arguments, "interval");
    if (interval != NULL && parse_duration("--interval", interval, &seconds, &err) != 0)
        return request_usage(context, &err);
    if (seconds > INTERVAL_MAX_SECONDS) {
        (void)error_set(&err, REASON_INVALID_REQUEST, "--interval: an hour (1h) is the longest");
        return request_usage(context, &err);
    }
    if (!arguments_has(&context->arguments, "watch"))
        return look(context, state);
    for (bool first = true;; first = false) {
        int code = look_once(context, look, state, first);
        if (code != EXIT_CODE_OK)
            return code;
        sleep_seconds(seconds);
    }
}
