/* chan-conformance-sweep: a frame of every length from 14 to 65550 bytes, in both directions at once,
 * compared byte by byte.
 *
 * usage: chan-conformance-sweep LAYOUT STEP A.sock B.sock [indirect] [mergeable] [packed]
 *
 * LAYOUT is how a frame is laid out in transmit descriptors: "header" alone and the rest, all in "one", or
 * over "twelve". STEP is the distance between two lengths. */
#include <inttypes.h>
#include <linux/virtio_config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/bench/cable/frontend/frames.h"

enum {
    QUEUE = 1024,
    QUEUE_WHOLE = 256,       /* where a receive buffer holds any frame */
    MERGEABLE_BUFFER = 1526, /* 43 of them for the longest frame */
    WINDOW = 16,             /* frames on their way; their buffers are all there */
    PIECES = 12
};

static const int64_t PATIENCE_NS = INT64_C(20000000000);

struct options {
    const char *layout;
    uint32_t step;
    bool indirect, mergeable, packed;
};

__attribute__((noreturn)) static void fail(const char *what, const char *detail)
{
    (void)fprintf(stderr, "chan-conformance-sweep: %s%s\n", what, detail);
    exit(1);
}

/* The cuts of a chain of that length. */
static void lay_out(const struct options *options, uint32_t length, uint32_t cuts[RING_PIECES_MAX])
{
    memset(cuts, 0, RING_PIECES_MAX * sizeof cuts[0]);
    if (strcmp(options->layout, "header") == 0)
        cuts[0] = FRAME_HEADER;
    else if (strcmp(options->layout, "twelve") == 0)
        for (unsigned i = 0; i + 1 < PIECES; i++)
            cuts[i] = length / PIECES;
    else if (strcmp(options->layout, "one") != 0)
        fail("no such layout: ", options->layout);
}

static void start(struct frontend *frontend, const char *path, const struct options *options)
{
    struct error err = ERROR_INIT;
    struct frontend_settings settings = {
        .path = path,
        .queue_size = options->mergeable ? QUEUE : QUEUE_WHOLE,
        .indirect = options->indirect,
        .features = UINT64_C(1) << VIRTIO_F_VERSION_1,
        .receive.length = options->mergeable ? MERGEABLE_BUFFER : FRAME_HEADER + FRAME_LENGTH_MAX,
        .transmit.length = FRAME_HEADER + FRAME_LENGTH_MAX,
    };
    lay_out(options, settings.transmit.length, settings.transmit.cuts);
    if (options->indirect)
        settings.features |= UINT64_C(1) << VIRTIO_RING_F_INDIRECT_DESC;
    if (options->mergeable)
        settings.features |= UINT64_C(1) << VIRTIO_NET_F_MRG_RXBUF;
    if (options->packed)
        settings.features |= UINT64_C(1) << VIRTIO_F_RING_PACKED;
    if (!options->mergeable) {
        /* Receive chains of three pieces, the header alone in the first. */
        settings.receive.cuts[0] = FRAME_HEADER;
        settings.receive.cuts[1] = 4096;
    }
    if (frontend_open(frontend, &settings, &err) != 0)
        fail("", err.detail);
}

/* ---- one window ---- */

/* What frame of that length this direction sends. */
static uint64_t number_of(uint32_t length, unsigned direction)
{
    return (uint64_t)length * 2 + direction;
}

static void send_window(struct frontend *from, const struct options *options, uint32_t first, uint16_t count,
                        unsigned direction)
{
    uint32_t cuts[RING_PIECES_MAX];
    for (uint16_t chain = 0; chain < count; chain++) {
        const uint32_t length = first + chain * options->step;
        lay_out(options, length + FRAME_HEADER, cuts);
        frontend_describe(from, chain, length + FRAME_HEADER, cuts);
        frame_fill(frontend_sent(from, chain) + FRAME_HEADER, length, number_of(length, direction));
        ring_give(&from->transmit, chain);
    }
    ring_publish(&from->transmit);
    ring_kick(&from->transmit);
}

__attribute__((noreturn)) static void fail_at(unsigned direction, uint32_t length, const char *what)
{
    (void)fprintf(stderr, "chan-conformance-sweep: %s, a frame of %" PRIu32 " bytes: %s\n",
                  direction == 0 ? "A to B" : "B to A", length, what);
    exit(1);
}

static void compare(const struct options *options, const struct virtio_net_hdr_v1 *header, int64_t length,
                    const uint8_t *frame, uint32_t wanted, unsigned direction)
{
    const unsigned buffers =
        options->mergeable ? (wanted + FRAME_HEADER + MERGEABLE_BUFFER - 1) / MERGEABLE_BUFFER : 1;
    if (length == FRAME_BROKEN)
        fail_at(direction, wanted, "its buffers do not fit num_buffers");
    if (length != (int64_t)wanted)
        fail_at(direction, wanted, "it has another length");
    if (!frame_is(frame, wanted, number_of(wanted, direction)))
        fail_at(direction, wanted, "it has other bytes");
    if (header->num_buffers != buffers || header->flags != 0 || header->gso_type != 0 ||
        header->hdr_len != 0 || header->gso_size != 0 || header->csum_start != 0 || header->csum_offset != 0)
        fail_at(direction, wanted, "it has another header");
}

static void receive_window(struct frontend *to, const struct options *options, uint32_t first, unsigned count,
                           unsigned direction)
{
    static uint8_t frame[FRAME_LENGTH_MAX];
    const int64_t end = clock_monotonic_ns() + PATIENCE_NS;
    for (unsigned i = 0; i < count; i++) {
        const uint32_t wanted = first + i * options->step;
        struct virtio_net_hdr_v1 header;
        int64_t length = frame_receive(to, &header, frame);
        while (length == FRAME_NONE) {
            if (clock_monotonic_ns() > end)
                fail_at(direction, wanted, "it does not arrive");
            length = frame_receive(to, &header, frame);
        }
        compare(options, &header, length, frame, wanted, direction);
    }
    ring_publish(&to->receive);
    ring_kick(&to->receive);
}

/* Every chain comes back exactly once. */
static void collect_window(struct frontend *from, unsigned count, unsigned direction, uint32_t first)
{
    const int64_t end = clock_monotonic_ns() + PATIENCE_NS;
    bool seen[WINDOW] = {false};
    for (unsigned i = 0; i < count;) {
        uint16_t chain = 0;
        int64_t length = 0;
        if (!ring_take(&from->transmit, &chain, &length)) {
            if (clock_monotonic_ns() > end)
                fail_at(direction, first, "its transmit buffer is not given back");
            continue;
        }
        if (chain >= count || seen[chain])
            fail_at(direction, first, "another transmit buffer is given back");
        seen[chain] = true;
        i++;
    }
}

static void sweep(struct frontend ends[2], const struct options *options)
{
    for (uint32_t first = FRAME_LENGTH_MIN; first <= FRAME_LENGTH_MAX; first += WINDOW * options->step) {
        const uint32_t left = (FRAME_LENGTH_MAX - first) / options->step + 1;
        const uint16_t count = (uint16_t)(left < WINDOW ? left : WINDOW);
        for (unsigned direction = 0; direction < 2; direction++)
            send_window(&ends[direction], options, first, count, direction);
        for (unsigned direction = 0; direction < 2; direction++)
            receive_window(&ends[1 - direction], options, first, count, direction);
        for (unsigned direction = 0; direction < 2; direction++)
            collect_window(&ends[direction], count, direction, first);
    }
}

int main(int argc, char **argv)
{
    static struct frontend ends[2];
    if (argc < 5)
        fail("usage: chan-conformance-sweep LAYOUT STEP A.sock B.sock [indirect] [mergeable] [packed]", "");
    struct options options = {.layout = argv[1], .step = (uint32_t)strtoul(argv[2], NULL, 10)};
    if (options.step == 0)
        fail("a step is at least 1, not ", argv[2]);
    for (int i = 5; i < argc; i++) {
        options.indirect |= strcmp(argv[i], "indirect") == 0;
        options.mergeable |= strcmp(argv[i], "mergeable") == 0;
        options.packed |= strcmp(argv[i], "packed") == 0;
    }
    start(&ends[0], argv[3], &options);
    start(&ends[1], argv[4], &options);
    sweep(ends, &options);
    frontend_close(&ends[0]);
    frontend_close(&ends[1]);
    return 0;
}
