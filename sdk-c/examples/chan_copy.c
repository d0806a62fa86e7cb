/* chan-copy: a file or a stream, from one side to the other.
 *
 * One side sends, the other receives, in messages of up to 64 KiB. The data is read straight into the ring
 * and written straight out of it: chan_reserve() and chan_peek() instead of a buffer and two copies. Every
 * message begins with a word of 8 bytes: its kind. The end of the data is a message of its own, with the
 * number of bytes and a checksum, so that the receiver knows that nothing is missing; it answers with what it
 * has got, so that the sender knows it too. Both print the same line; the exit status is 0 only if both
 * agree.
 *
 *   guest# chan-copy --find receive /tmp/image
 *   host$  chan-copy --path /dev/shm/ivshmem-sb-1 send image
 *
 * What is looked at in the ring is the peer's memory. Here a peer that changes a message while it is being
 * written to the file only spoils its own data; a program that believes what it has checked must copy first
 * (chan_recv()).
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

static const char help[] = "usage: chan-copy OPTIONS send FILE\n"
                           "       chan-copy OPTIONS receive FILE\n"
                           "Copies a file through a region. FILE - is standard input or output.\n"
                           "Both sides print the number of bytes and a checksum.\n\n" EXAMPLE_OPTIONS_HELP
                           "Without --timeout the other side has 60 seconds for each step.\n";

enum { CHUNK_BYTES = 65536, KIND_BYTES = 8, KIND_DATA = 1, KIND_END = 2 };

/* What was transferred so far. */
struct tally {
    uint64_t bytes;
    uint64_t checksum; /* FNV-1a, 64 bits */
    bool show_progress;
    time_t shown;
};

/* The last message of the sender, and the answer to it. */
struct end_message {
    uint64_t kind;
    uint64_t bytes;
    uint64_t checksum;
};

static struct tally tally_new(void)
{
    return (struct tally){
        .checksum = UINT64_C(0xcbf29ce484222325),
        .show_progress = isatty(STDERR_FILENO) == 1,
        .shown = time(NULL),
    };
}

static void tally_add(struct tally *tally, const unsigned char *data, size_t length)
{
    uint64_t checksum = tally->checksum;
    for (size_t i = 0; i < length; i++)
        checksum = (checksum ^ data[i]) * UINT64_C(0x100000001b3);
    tally->checksum = checksum;
    tally->bytes += length;
    if (!tally->show_progress)
        return;
    time_t now = time(NULL);
    if (now != tally->shown)
        (void)fprintf(stderr, "\r%" PRIu64 " MiB", tally->bytes >> 20);
    tally->shown = now;
}

static struct end_message end_of(const struct tally *tally)
{
    return (struct end_message){.kind = KIND_END, .bytes = tally->bytes, .checksum = tally->checksum};
}

/* Prints what both sides print; on stderr if the data goes to stdout. */
static void tally_print(const struct tally *tally, FILE *to)
{
    if (tally->show_progress)
        (void)fputc('\r', stderr);
    (void)fprintf(to, "%" PRIu64 " bytes, fnv1a64 %016" PRIx64 "\n", tally->bytes, tally->checksum);
}

static int agree(const struct end_message *theirs, const struct tally *ours)
{
    if (theirs->kind == KIND_END && theirs->bytes == ours->bytes && theirs->checksum == ours->checksum)
        return EXIT_DONE;
    (void)fprintf(stderr,
                  "the other side has %" PRIu64 " bytes, fnv1a64 %016" PRIx64 ": the copy is damaged\n",
                  theirs->bytes, theirs->checksum);
    return EXIT_FAILED;
}

/* Reads until the buffer is full or the input ends. */
static ssize_t read_full(int fd, unsigned char *buffer, size_t capacity)
{
    size_t filled = 0;
    while (filled < capacity) {
        ssize_t got = read(fd, buffer + filled, capacity - filled);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        filled += (size_t)got;
    }
    return (ssize_t)filled;
}

static bool write_full(int fd, const unsigned char *data, size_t length)
{
    while (length > 0) {
        ssize_t put = write(fd, data, length);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return false;
        data += put;
        length -= (size_t)put;
    }
    return true;
}

static int send_data(struct chan_channel *channel, int fd, struct tally *tally, int timeout_ms)
{
    size_t most = chan_max_message(channel) / 4; /* so that several fit and both sides work at once */
    size_t room = most < CHUNK_BYTES ? most : CHUNK_BYTES;
    for (;;) {
        void *place = NULL;
        int r = chan_reserve(channel, room, &place, timeout_ms);
        if (r < 0)
            return example_fail("sending", r);
        unsigned char *data = (unsigned char *)place + KIND_BYTES;
        ssize_t got = read_full(fd, data, room - KIND_BYTES);
        if (got < 0) {
            (void)fprintf(stderr, "reading: %s\n", strerror(errno));
            return EXIT_FAILED;
        }
        if (got == 0) {
            chan_abort(channel);
            return EXIT_DONE;
        }
        *(uint64_t *)place = KIND_DATA;
        tally_add(tally, data, (size_t)got);
        r = chan_commit(channel, KIND_BYTES + (size_t)got);
        if (r < 0)
            return example_fail("sending", r);
    }
}

static int send_file(struct chan_channel *channel, int fd, int timeout_ms)
{
    struct tally tally = tally_new();
    int status = send_data(channel, fd, &tally, timeout_ms);
    if (status != EXIT_DONE)
        return status;
    struct end_message end = end_of(&tally);
    int r = chan_send(channel, &end, sizeof end, timeout_ms);
    struct end_message answer = {0};
    size_t length = 0;
    if (r == 0)
        r = chan_recv(channel, &answer, sizeof answer, &length, timeout_ms);
    if (r < 0)
        return example_fail("waiting for the receiver's confirmation", r);
    tally_print(&tally, stdout);
    return agree(&answer, &tally);
}

/* Takes one message. *end is filled in when it was the last. */
static int receive_one(struct chan_channel *channel, int fd, struct tally *tally, struct end_message *end,
                       int timeout_ms)
{
    const void *place = NULL;
    size_t length = 0;
    int r = chan_peek(channel, &place, &length, timeout_ms);
    if (r < 0)
        return example_fail("receiving", r);
    uint64_t kind = length >= KIND_BYTES ? *(const uint64_t *)place : 0;
    if (kind == KIND_END && length == sizeof *end) {
        memcpy(end, place, sizeof *end);
        end->kind = KIND_END;
    } else if (kind == KIND_DATA) {
        const unsigned char *data = (const unsigned char *)place + KIND_BYTES;
        tally_add(tally, data, length - KIND_BYTES);
        if (!write_full(fd, data, length - KIND_BYTES)) {
            (void)fprintf(stderr, "writing: %s\n", strerror(errno));
            return EXIT_FAILED;
        }
    } else {
        (void)fprintf(stderr, "the other side does not run chan-copy send\n");
        return EXIT_FAILED;
    }
    (void)chan_release(channel);
    return EXIT_DONE;
}

static int receive_file(struct chan_channel *channel, int fd, int timeout_ms)
{
    struct tally tally = tally_new();
    struct end_message end = {0};
    while (end.kind != KIND_END) {
        int status = receive_one(channel, fd, &tally, &end, timeout_ms);
        if (status != EXIT_DONE)
            return status;
    }
    tally_print(&tally, fd == STDOUT_FILENO ? stderr : stdout);
    struct end_message answer = end_of(&tally);
    int r = chan_send(channel, &answer, sizeof answer, timeout_ms);
    if (r < 0)
        return example_fail("confirming", r);
    return agree(&end, &tally);
}

/* Opens FILE for one direction; - is a standard stream. */
static int open_file(const char *name, bool sending)
{
    if (strcmp(name, "-") == 0)
        return sending ? STDIN_FILENO : STDOUT_FILENO;
    int fd = sending ? open(name, O_RDONLY | O_CLOEXEC)
                     : open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        (void)fprintf(stderr, "%s: %s\n", name, strerror(errno));
    return fd;
}

static int run(const struct example_options *options, bool sending, const char *name)
{
    int fd = open_file(name, sending);
    if (fd < 0)
        return EXIT_FAILED;
    int status = EXIT_FAILED;
    struct chan_channel *channel = example_open_channel(options, true);
    if (channel != NULL)
        status = sending ? send_file(channel, fd, options->timeout_ms)
                         : receive_file(channel, fd, options->timeout_ms);
    chan_close(channel);
    /* A disk that is full may say so only now. */
    if (close(fd) < 0 && status == EXIT_DONE) {
        (void)fprintf(stderr, "%s: %s\n", name, strerror(errno));
        status = EXIT_FAILED;
    }
    return status;
}

int main(int argc, char **argv)
{
    static const struct option long_options[] = {EXAMPLE_LONG_OPTIONS, {NULL, 0, NULL, 0}};
    struct example_options options = {.timeout_ms = 60000};
    int option = 0;
    while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        if (option == 'h') {
            (void)fputs(help, stdout);
            return EXIT_DONE;
        }
        if (!example_take_option(&options, option, optarg))
            return EXIT_USAGE;
    }
    if (argc - optind == 2 && strcmp(argv[optind], "send") == 0)
        return run(&options, true, argv[optind + 1]);
    if (argc - optind == 2 && strcmp(argv[optind], "receive") == 0)
        return run(&options, false, argv[optind + 1]);
    (void)fputs(help, stderr);
    return EXIT_USAGE;
}
