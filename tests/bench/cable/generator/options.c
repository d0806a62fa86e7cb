#include "tests/bench/cable/generator/options.h"

#include <linux/virtio_config.h>
#include <linux/virtio_net.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/cable/frontend/frames.h"

static const struct {
    const char *name;
    size_t at;
    uint32_t minimum, maximum;
    const char *help;
} numbers[] = {
    {"--size", offsetof(struct options, size), FRAME_LENGTH_MIN, FRAME_LENGTH_MAX, "bytes of a frame (64)"},
    {"--seconds", offsetof(struct options, seconds), 1, 3600, "how long (2)"},
    {"--cpu", offsetof(struct options, cpu), 0, CPU_ANY - 1, "run there"},
    {"--burst", offsetof(struct options, burst), 1, 1024, "frames between two looks at the other ring (64)"},
    {"--frames", offsetof(struct options, frames), 1, RING_SIZE_MAX,
     "on their way at most (as many as the ring holds)"},
    {"--queue-size", offsetof(struct options, queue_size), 2, RING_SIZE_MAX, "descriptors of a ring (1024)"},
    {"--receive-buffer", offsetof(struct options, receive_buffer), 1, 1 << 20,
     "bytes of a receive buffer, header included (what the frame needs, with --mergeable at most 4096)"},
    {"--pieces", offsetof(struct options, pieces), 1, RING_PIECES_MAX, "descriptors of a sent frame (1)"},
};

static const struct {
    const char *name;
    size_t at;
    const char *help;
} flags[] = {
    {"--both", offsetof(struct options, both), "B sends to A as well"},
    {"--packed", offsetof(struct options, packed), "packed rings"},
    {"--mergeable", offsetof(struct options, mergeable), "mergeable receive buffers"},
    {"--in-order", offsetof(struct options, in_order), "VIRTIO_F_IN_ORDER"},
    {"--event-idx", offsetof(struct options, event_idx), "VIRTIO_F_EVENT_IDX"},
    {"--indirect", offsetof(struct options, indirect), "indirect descriptors"},
    {"--tcp", offsetof(struct options, tcp), "frames ask for segmentation, and both ends take them whole"},
    {"--huge-pages", offsetof(struct options, huge_pages), "guest memory of hugetlbfs"},
    {"--check", offsetof(struct options, check), "every frame is filled anew and compared; slow"},
    {"--memcpy", offsetof(struct options, memcpy), "no back-end: the same buffers are copied by memcpy"},
};

enum { NUMBERS = sizeof numbers / sizeof numbers[0], FLAGS = sizeof flags / sizeof flags[0] };

static void help(void)
{
    (void)printf(
        "usage: chan-bench-generator [OPTIONS] A.sock B.sock\n\n"
        "Sends frames from the front-end at A to the one at B, as fast as the back-end takes them, and\n"
        "prints as JSON what arrived.\n\n");
    for (unsigned i = 0; i < NUMBERS; i++)
        (void)printf("  %s N\n        %s\n", numbers[i].name, numbers[i].help);
    for (unsigned i = 0; i < FLAGS; i++)
        (void)printf("  %s\n        %s\n", flags[i].name, flags[i].help);
    exit(0);
}

__attribute__((noreturn)) static void wrong(const char *word)
{
    (void)fprintf(stderr, "chan-bench-generator: \"%s\" is wrong or lacks a value; see --help\n", word);
    exit(2);
}

static bool take_number(struct options *options, const char *word, const char *value)
{
    for (unsigned i = 0; i < NUMBERS; i++) {
        if (strcmp(word, numbers[i].name) != 0)
            continue;
        char *end = NULL;
        const unsigned long long number = value != NULL ? strtoull(value, &end, 10) : 0;
        if (value == NULL || end == value || *end != '\0' || number < numbers[i].minimum ||
            number > numbers[i].maximum)
            wrong(word);
        const uint32_t checked = (uint32_t)number;
        memcpy((char *)options + numbers[i].at, &checked, sizeof checked);
        return true;
    }
    return false;
}

static bool take_flag(struct options *options, const char *word)
{
    for (unsigned i = 0; i < FLAGS; i++) {
        if (strcmp(word, flags[i].name) == 0) {
            *(bool *)((char *)options + flags[i].at) = true;
            return true;
        }
    }
    return false;
}

void options_read(int argc, char **argv, struct options *options)
{
    *options = (struct options){.size = 64,
                                .pieces = 1,
                                .burst = 64,
                                .queue_size = 1024,
                                .frames = RING_SIZE_MAX,
                                .cpu = CPU_ANY,
                                .seconds = 2};
    unsigned paths = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0)
            help();
        if (take_flag(options, argv[i]))
            continue;
        if (take_number(options, argv[i], argv[i + 1]))
            i++;
        else if (argv[i][0] == '-' || paths == 2)
            wrong(argv[i]);
        else
            options->paths[paths++] = argv[i];
    }
    if (paths != 2 && !options->memcpy)
        wrong("A.sock B.sock");
    if (options->check && options->in_order)
        wrong("--check"); /* the device need not tell all lengths then */
    const uint32_t whole = options->size + FRAME_HEADER;
    if (options->receive_buffer == 0)
        options->receive_buffer = options->mergeable && whole > 4096 ? 4096 : whole;
}

static uint64_t feature(unsigned bit, bool wanted)
{
    return wanted ? UINT64_C(1) << bit : 0;
}

void options_settings(const struct options *options, unsigned end, struct frontend_settings *settings)
{
    *settings = (struct frontend_settings){
        .path = options->paths[end],
        .queue_size = options->queue_size,
        .receive.length = options->receive_buffer,
        .transmit.length = options->size + FRAME_HEADER,
        .indirect = options->indirect,
        .huge_pages = options->huge_pages,
        .features =
            feature(VIRTIO_F_VERSION_1, true) | feature(VIRTIO_F_RING_PACKED, options->packed) |
            feature(VIRTIO_F_IN_ORDER, options->in_order) |
            feature(VIRTIO_RING_F_EVENT_IDX, options->event_idx) |
            feature(VIRTIO_RING_F_INDIRECT_DESC, options->indirect) |
            feature(VIRTIO_NET_F_MRG_RXBUF, options->mergeable) | feature(VIRTIO_NET_F_CSUM, options->tcp) |
            feature(VIRTIO_NET_F_GUEST_CSUM, options->tcp) | feature(VIRTIO_NET_F_HOST_TSO4, options->tcp) |
            feature(VIRTIO_NET_F_GUEST_TSO4, options->tcp),
    };
    for (unsigned i = 0; i + 1 < options->pieces; i++)
        settings->transmit.cuts[i] = settings->transmit.length / options->pieces;
}
