#include "cli/report.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "cli/text.h"

/* What to do about each reason of base/reasons.def, where there is something to do that the detail does not
 * say. */
static const char *const next_steps[REASON_COUNT] = {
    [REASON_INTERNAL] = "look for the request id in chand's log",
    [REASON_STORE_FAILED] = "look for the request id in chand's log",
    [REASON_TEMPLATE_NOT_FOUND] = "try: chanctl template ls",
    [REASON_SANDBOX_NOT_FOUND] = "try: chanctl sandbox ls",
    [REASON_TEMPLATE_IN_USE] = "try: chanctl sandbox ls, and remove the sandboxes of this template first",
    [REASON_SANDBOX_EXISTS] = "try: chanctl sandbox show ID; remove it, or take another id",
    [REASON_SANDBOX_BUSY] = "try again in a moment",
    [REASON_LINK_NOT_FOUND] = "try: chanctl link ls",
    [REASON_LINK_EXISTS] = "try: chanctl link show ID; remove it, or take another id",
    [REASON_LINK_BUSY] = "try again in a moment",
    [REASON_SOCKET_FAILED] = "see who has a file at that path, or may not make one; then try again",
    [REASON_DATAPLANE_UNAVAILABLE] = "try: chanctl node show, which says why; then try again",
    [REASON_FILE_EXISTS] =
        "move the file away (chand never touches one that it did not make), then try again",
    [REASON_REGION_LOST] = "its content is gone: remove the sandbox and create it again",
    [REASON_OWNER_GONE] = "name an owner that is alive: --owner-pid PID or --lease 60s",
    [REASON_OWNER_UNKNOWN] = "chand must be able to see the process in /proc; or use --lease 60s",
    [REASON_NOT_LEASED] = "only a sandbox created or resumed with --lease can be renewed",
    [REASON_UID_NOT_PERMITTED] = "leave out --uid and --gid, or let chand run as root",
    [REASON_REVISION_STALE] = "look at the object again, then repeat with its revision in --if-match",
    [REASON_IDEMPOTENCY_MISMATCH] = "take a new --idempotency-key for a new request",
    [REASON_REVISION_COMPACTED] = "repeat with the revision that is named: chanctl event ls --since REVISION",
    [REASON_QUOTA_EXCEEDED] =
        "try: chanctl node show, for what is in use; remove sandboxes, or raise the quota",
    [REASON_NO_SPACE] =
        "try: chanctl node show, for what is free; remove sandboxes, or enlarge the file system",
    [REASON_STORE_FULL] = "make room in chand's state directory",
    [REASON_RESOURCE_LIMIT] = "try again in a moment; if it stays so, raise chand's limits (LimitNOFILE)",
    [REASON_NOT_READY] = "try again in a moment; chand's log says what it is repairing",
    [REASON_ROUTE_NOT_FOUND] =
        "chand may be older than this chanctl; compare: chanctl version, chanctl node show",
};

/* A reason that this chanctl does not know yet is judged by its status. */
static int exit_code_by_status(int status)
{
    switch (status) {
    case 404:
    case 410:
        return EXIT_CODE_NOT_FOUND;
    case 409:
    case 412:
        return EXIT_CODE_CONFLICT;
    case 401:
    case 403:
        return EXIT_CODE_DENIED;
    case 429:
    case 507:
        return EXIT_CODE_EXHAUSTED;
    case 502:
    case 503:
    case 504:
        return EXIT_CODE_UNAVAILABLE;
    default:
        return status < 500 ? EXIT_CODE_INVALID : EXIT_CODE_FAILED;
    }
}

static void print_step(const char *step)
{
    (void)fprintf(stderr, "  %s\n", step);
}

/* The daemon refused. */
static int explain_refusal(const struct context *context, const struct chan_reply *reply)
{
    for (size_t i = 0; i < reply->field_count; i++) {
        const struct chan_reply_field *field = &reply->fields[i];
        if (strstr(reply->detail, field->detail) != NULL && strstr(reply->detail, field->field) != NULL)
            continue; /* said already */
        (void)fputs("  ", stderr);
        text_print(stderr, field->field);
        (void)fputs(": ", stderr);
        text_print(stderr, field->detail);
        (void)fputc('\n', stderr);
    }
    enum reason reason = reason_by_word(reply->reason);
    int code =
        reason == REASON_NONE ? exit_code_by_status(reply->status) : (int)reason_info(reason)->exit_code;
    if (code == EXIT_CODE_FAILED && reply->request_id[0] != '\0') {
        (void)fputs("  request id: ", stderr);
        text_print(stderr, reply->request_id);
        (void)fputc('\n', stderr);
    }
    if (reason != REASON_NONE && next_steps[reason] != NULL)
        print_step(next_steps[reason]);
    else if (code == EXIT_CODE_INVALID && context->command != NULL && context->command->verb != NULL)
        (void)fprintf(stderr, "  try: chanctl %s %s --help\n", context->command->noun,
                      context->command->verb);
    return code;
}

/* There was no usable answer. */
static int explain_silence(const struct context *context, int result)
{
    const char *path = context->socket_path;
    switch (-result) {
    case ENOENT:
        (void)fprintf(
            stderr, "  is chand running, and is %s its socket? Name another one by --socket or CHAN_SOCKET\n",
            path);
        return EXIT_CODE_UNAVAILABLE;
    case ECONNREFUSED:
        print_step("chand made this socket and has ended: start it again");
        return EXIT_CODE_UNAVAILABLE;
    case EACCES:
    case EPERM:
        (void)fprintf(stderr, "  you are uid %ld: run as root, or become a member of the socket's group\n",
                      (long)getuid());
        return EXIT_CODE_UNAVAILABLE;
    case ETIMEDOUT:
        print_step("whether it was done is not known; look, or do the same again; --timeout waits longer");
        return EXIT_CODE_UNAVAILABLE;
    case ECONNRESET:
        print_step("whether it was done is not known; see that chand runs, then do the same again");
        return EXIT_CODE_UNAVAILABLE;
    case EAGAIN:
        print_step("chand has too many connections waiting; try again in a moment");
        return EXIT_CODE_UNAVAILABLE;
    case EPROTO:
    case EMSGSIZE:
        (void)fprintf(stderr, "  is it chand that listens on %s?\n", path);
        return EXIT_CODE_FAILED;
    case EINVAL:
        return EXIT_CODE_USAGE;
    default:
        return EXIT_CODE_FAILED;
    }
}

int report_call(const struct context *context, int result, const struct chan_reply *reply, const char *format,
                ...)
{
    va_list args;
    (void)fputs("chanctl: ", stderr);
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fputs(": ", stderr);
    text_print(stderr, reply->detail);
    if (reply->reason[0] != '\0') {
        (void)fputs(" (", stderr);
        text_print(stderr, reply->reason);
        (void)fputc(')', stderr);
    }
    (void)fputc('\n', stderr);
    return result == -EREMOTEIO ? explain_refusal(context, reply) : explain_silence(context, result);
}

int report_usage(const struct noun *noun, const struct command *command, const struct error *err)
{
    (void)fprintf(stderr, "chanctl: %s\n  try: chanctl", err->detail);
    if (noun != NULL)
        (void)fprintf(stderr, " %s", noun->name);
    if (command != NULL && command->verb != NULL)
        (void)fprintf(stderr, " %s", command->verb);
    (void)fputs(" --help\n", stderr);
    return EXIT_CODE_USAGE;
}

int report_local(const char *format, ...)
{
    va_list args;
    (void)fputs("chanctl: ", stderr);
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fputc('\n', stderr);
    return EXIT_CODE_FAILED;
}
