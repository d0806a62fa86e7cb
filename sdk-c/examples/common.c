#include "common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool example_number(const char *text, unsigned long most, unsigned long *out)
{
    char *end = NULL;
    if (text[0] < '0' || text[0] > '9')
        return false;
    unsigned long value = strtoul(text, &end, 10);
    if (*end != '\0' || value > most)
        return false;
    *out = value;
    return true;
}

static bool take_ids(const char *text, struct chan_region_options *region)
{
    char *end = NULL;
    unsigned long vendor = strtoul(text, &end, 16);
    if (end == text || *end != ':' || vendor > UINT16_MAX)
        return false;
    const char *second = end + 1;
    unsigned long device = strtoul(second, &end, 16);
    if (end == second || *end != '\0' || device > UINT16_MAX)
        return false;
    region->vendor = (uint16_t)vendor;
    region->device = (uint16_t)device;
    return true;
}

/* Returns the index of `text` among the two words, or -1. */
static int one_of(const char *text, const char *first, const char *second)
{
    if (strcmp(text, first) == 0)
        return 0;
    return strcmp(text, second) == 0 ? 1 : -1;
}

static bool take_timeout(const char *text, struct example_options *options)
{
    unsigned long seconds = 0;
    if (!example_number(text, 1000000, &seconds))
        return false;
    options->timeout_ms = seconds == 0 ? -1 : (int)(seconds * 1000);
    return true;
}

bool example_take_option(struct example_options *options, int option, const char *argument)
{
    int choice = 0;
    bool good = true;
    switch (option) {
    case 'p':
        options->path = argument;
        break;
    case 'P':
        options->pci = argument;
        break;
    case 'f':
        options->find = true;
        break;
    case 'i':
        good = take_ids(argument, &options->region);
        break;
    case 'm':
        choice = one_of(argument, "wc", "uc");
        options->region.mapping = choice == 0 ? CHAN_MAPPING_WRITE_COMBINING : CHAN_MAPPING_UNCACHED;
        break;
    case 's':
        choice = one_of(argument, "host", "guest");
        options->channel.side = choice == 0 ? CHAN_SIDE_HOST : CHAN_SIDE_GUEST;
        break;
    case 't':
        good = take_timeout(argument, options);
        break;
    default: /* getopt_long has said what is wrong */
        (void)fprintf(stderr, "try --help\n");
        return false;
    }
    if (good && choice >= 0)
        return true;
    (void)fprintf(stderr, "'%s' is not understood here; try --help\n", argument);
    return false;
}

struct chan_region *example_open_region(const struct example_options *options)
{
    if ((options->path != NULL) + (options->pci != NULL) + options->find != 1) {
        (void)fprintf(stderr, "give one of --path, --pci and --find; try --help\n");
        return NULL;
    }
    struct chan_region *region = NULL;
    struct chan_error error;
    int r = 0;
    if (options->path != NULL)
        r = chan_region_open_path(options->path, options->region.flags, &region, &error);
    else if (options->pci != NULL)
        r = chan_region_open_pci(options->pci, &options->region, &region, &error);
    else
        r = chan_region_find_pci(&options->region, &region, &error);
    if (r < 0) {
        (void)fprintf(stderr, "%s\n", error.text);
        return NULL;
    }
    return region;
}

struct chan_channel *example_open_channel(const struct example_options *options, bool connect)
{
    struct chan_region *region = example_open_region(options);
    if (region == NULL)
        return NULL;
    struct chan_channel *channel = NULL;
    struct chan_error error;
    int r = chan_open(region, &options->channel, &channel, &error);
    chan_region_close(region); /* the channel keeps it mapped */
    if (r < 0) {
        (void)fprintf(stderr, "%s\n", error.text);
        return NULL;
    }
    r = connect ? chan_connect(channel, options->timeout_ms) : 0;
    if (r < 0) {
        (void)example_fail("connecting", r);
        chan_close(channel);
        return NULL;
    }
    return channel;
}

int example_fail(const char *what, int result)
{
    (void)fprintf(stderr, "%s: %s\n", what, chan_error_text(result));
    return EXIT_FAILED;
}
