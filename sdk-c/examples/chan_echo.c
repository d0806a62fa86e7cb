/* chan-echo: messages there and back.
 *
 * One side serves, on the host or in the guest; it answers every message with the same bytes. The other side
 * sends each TEXT as a message, waits for its echo, compares, and prints it. The server outlives its clients:
 * when one closes or is killed, it connects anew. This is the smallest complete use of chan_send(),
 * chan_recv() and chan_reconnect().
 *
 *   host$  chan-echo --path /dev/shm/ivshmem-sb-1 serve
 *   guest# chan-echo --find send hello "and again"
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

static const char help[] =
    "usage: chan-echo OPTIONS serve [--count N]\n"
    "       chan-echo OPTIONS send TEXT...\n"
    "Sends messages through a region and back.\n\n"
    "  serve                answer every message with the same bytes\n"
    "  send TEXT...         send each TEXT, print what comes back\n"
    "  --count N            end after N messages; default: never\n" EXAMPLE_OPTIONS_HELP
    "Without --timeout, send waits 10 seconds and serve for ever.\n";

/* Answers messages until `left` of them are done, or until the session ends. */
static int serve_session(struct chan_channel *channel, void *buffer, size_t capacity, unsigned long *left,
                         int timeout_ms)
{
    while (*left > 0) {
        size_t length = 0;
        int r = chan_recv(channel, buffer, capacity, &length, timeout_ms);
        if (r == 0)
            r = chan_send(channel, buffer, length, timeout_ms);
        if (r < 0)
            return r;
        if (*left != ULONG_MAX)
            (*left)--;
    }
    return 0;
}

static int serve(const struct example_options *options, unsigned long count)
{
    struct chan_channel *channel = example_open_channel(options, false);
    if (channel == NULL)
        return EXIT_FAILED;
    size_t capacity = chan_max_message(channel);
    void *buffer = malloc(capacity);
    int r = buffer != NULL ? 0 : -ENOMEM;
    if (r == 0) {
        r = chan_connect(channel, options->timeout_ms);
        while (r == 0 && count > 0) {
            r = serve_session(channel, buffer, capacity, &count, options->timeout_ms);
            /* The client closed, or was killed and started again: on to the next session. */
            if (r == -EPIPE || r == -ECONNRESET)
                r = chan_reconnect(channel, options->timeout_ms);
        }
    }
    free(buffer);
    chan_close(channel);
    return r == 0 ? EXIT_DONE : example_fail("serving", r);
}

static int send_one(struct chan_channel *channel, const char *text, char *buffer, size_t capacity,
                    int timeout_ms)
{
    size_t sent = strlen(text);
    size_t received = 0;
    int r = chan_send(channel, text, sent, timeout_ms);
    if (r < 0)
        return example_fail("sending", r);
    r = chan_recv(channel, buffer, capacity, &received, timeout_ms);
    if (r < 0)
        return example_fail("waiting for the echo", r);
    (void)printf("%.*s\n", (int)received, buffer);
    if (received != sent || memcmp(buffer, text, sent) != 0) {
        (void)fprintf(stderr, "this is not what was sent: %s\n", text);
        return EXIT_FAILED;
    }
    return EXIT_DONE;
}

static int send_all(const struct example_options *options, char **texts, int count)
{
    struct chan_channel *channel = example_open_channel(options, true);
    if (channel == NULL)
        return EXIT_FAILED;
    size_t capacity = chan_max_message(channel);
    char *buffer = malloc(capacity);
    int status = EXIT_DONE;
    if (buffer == NULL) {
        chan_close(channel);
        return example_fail("starting", -ENOMEM);
    }
    for (int i = 0; i < count && status == EXIT_DONE; i++)
        status = send_one(channel, texts[i], buffer, capacity, options->timeout_ms);
    free(buffer);
    chan_close(channel);
    return status;
}

int main(int argc, char **argv)
{
    static const struct option long_options[] = {
        EXAMPLE_LONG_OPTIONS, {"count", required_argument, NULL, 'c'}, {NULL, 0, NULL, 0}};
    enum { TIMEOUT_UNSET = 0, SEND_TIMEOUT_MS = 10000 };
    struct example_options options = {.timeout_ms = TIMEOUT_UNSET};
    unsigned long count = ULONG_MAX;
    int option = 0;
    while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        if (option == 'h') {
            (void)fputs(help, stdout);
            return EXIT_DONE;
        }
        if (option == 'c') {
            if (!example_number(optarg, ULONG_MAX - 1, &count)) {
                (void)fprintf(stderr, "--count takes a number, not '%s'\n", optarg);
                return EXIT_USAGE;
            }
        } else if (!example_take_option(&options, option, optarg)) {
            return EXIT_USAGE;
        }
    }

    const char *command = optind < argc ? argv[optind] : "";
    int arguments = argc - optind - 1;
    if (strcmp(command, "serve") == 0 && arguments == 0) {
        if (options.timeout_ms == TIMEOUT_UNSET)
            options.timeout_ms = -1;
        return serve(&options, count);
    }
    if (strcmp(command, "send") == 0 && arguments > 0) {
        if (options.timeout_ms == TIMEOUT_UNSET)
            options.timeout_ms = SEND_TIMEOUT_MS;
        return send_all(&options, argv + optind + 1, arguments);
    }
    (void)fputs(help, stderr);
    return EXIT_USAGE;
}
