/* chan-info: what a region is, and what its two sides say about themselves. It looks only, and takes no side.
 *
 *   host$ chan-info --path /dev/shm/ivshmem-sb-1
 */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "common.h"

static const char help[] =
    "usage: chan-info OPTIONS\n"
    "Shows a region: mapping, superblock, and the state of both sides.\n\n" EXAMPLE_OPTIONS_HELP;

enum { WATCH_US = 200 * 1000 };

static const char *state_name(uint64_t state)
{
    static const char *const names[] = {"reset", "init", "ready", "run", "closed"};
    return state < sizeof names / sizeof *names ? names[state] : "not a state";
}

static void print_side(const struct chan_region *region, enum chan_side side)
{
    struct chan_side_info before = {0};
    struct chan_side_info now = {0};
    (void)chan_inspect(region, side, &before);
    (void)usleep(WATCH_US);
    (void)chan_inspect(region, side, &now);
    (void)printf("%-9s %s, epoch %016" PRIx64 ", acknowledged %016" PRIx64 ", received %" PRIu64
                 " ring bytes, %s\n",
                 side == CHAN_SIDE_HOST ? "host:" : "guest:", state_name(now.state), now.epoch,
                 now.acknowledged, now.head, before.heartbeat != now.heartbeat ? "alive" : "no sign of life");
}

int main(int argc, char **argv)
{
    static const struct option long_options[] = {EXAMPLE_LONG_OPTIONS, {NULL, 0, NULL, 0}};
    struct example_options options = {.region.flags = CHAN_REGION_READ_ONLY};
    int option = 0;
    while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        if (option == 'h') {
            (void)fputs(help, stdout);
            return EXIT_DONE;
        }
        if (!example_take_option(&options, option, optarg))
            return EXIT_USAGE;
    }
    if (optind != argc) {
        (void)fputs(help, stderr);
        return EXIT_USAGE;
    }

    struct chan_region *region = example_open_region(&options);
    if (region == NULL)
        return EXIT_FAILED;
    (void)printf("region:   %s\nsize:     %zu bytes\nmapping:  %s\n", chan_region_path(region),
                 chan_region_size(region), chan_mapping_name(chan_region_mapping(region)));
    const struct chan_superblock *superblock = chan_region_superblock(region);
    if (superblock == NULL) {
        (void)printf("layout:   raw\n");
    } else {
        (void)printf("layout:   chan, version %u\nepoch:    %" PRIu64 "\nhalves:   %" PRIu64 " bytes each\n",
                     superblock->version, superblock->epoch, superblock->half_bytes);
        print_side(region, CHAN_SIDE_HOST);
        print_side(region, CHAN_SIDE_GUEST);
    }
    chan_region_close(region);
    return EXIT_DONE;
}
