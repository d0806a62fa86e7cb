/* What the examples share: the options that say which region to use, and opening it. */
#ifndef CHAN_EXAMPLES_COMMON_H
#define CHAN_EXAMPLES_COMMON_H

#include <getopt.h>
#include <stdbool.h>

#include "chan/channel.h"
#include "chan/region.h"

/* Exit statuses. */
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* How to find the region, and how long to wait for the peer. */
struct example_options {
    const char *path;
    const char *pci;
    bool find;
    struct chan_region_options region;
    struct chan_options channel;
    int timeout_ms; /* -1: for ever */
};

/* clang-format off */
#define EXAMPLE_LONG_OPTIONS                                                                                           \
    {"path", required_argument, NULL, 'p'},                                                                            \
    {"pci", required_argument, NULL, 'P'},                                                                             \
    {"find", no_argument, NULL, 'f'},                                                                                  \
    {"id", required_argument, NULL, 'i'},                                                                              \
    {"mapping", required_argument, NULL, 'm'},                                                                         \
    {"side", required_argument, NULL, 's'},                                                                            \
    {"timeout", required_argument, NULL, 't'},                                                                         \
    {"help", no_argument, NULL, 'h'}
/* clang-format on */

#define EXAMPLE_OPTIONS_HELP                                                                                 \
    "Which region:\n"                                                                                        \
    "  --path FILE          on the host: the file of the region\n"                                           \
    "  --pci ADDRESS        in the guest: the ivshmem device, such as 0000:00:04.0\n"                        \
    "  --find               in the guest: the only ivshmem device there is\n"                                \
    "  --id VENDOR:DEVICE   the device's ids, if they are not 1af4:1110\n"                                   \
    "  --mapping wc|uc      in the guest: write-combining (default if there) or uncached\n"                  \
    "How:\n"                                                                                                 \
    "  --side host|guest    default: host with --path, else guest\n"                                         \
    "  --timeout SECONDS    give up when the peer takes longer; 0: never\n"                                  \
    "  --help               this text\n"

/* Takes one of the options above. Returns false, with a message on stderr, when its argument is wrong. */
bool example_take_option(struct example_options *options, int option, const char *argument);

/* A decimal number of at most `most`. */
bool example_number(const char *text, unsigned long most, unsigned long *out);

/* Opens the region as the options say. Returns NULL after a message on stderr. */
struct chan_region *example_open_region(const struct example_options *options);

/* Opens region and channel; connects if asked to. Returns NULL after a message on stderr. */
struct chan_channel *example_open_channel(const struct example_options *options, bool connect);

/* Says what failed, and why. Returns EXIT_FAILED. */
int example_fail(const char *what, int result);

#endif
