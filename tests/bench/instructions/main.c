/* What a frame costs, from one guest's transmit ring into another's receive ring, on one thread: to be run
 * under callgrind, which counts instructions (repeatable on any machine), or alone, where it prints
 * nanoseconds.
 *
 *   chan-bench-instructions CASE [ROUNDS]     one line of JSON
 *   chan-bench-instructions --list            the cases
 */
#include <linux/virtio_config.h>
#include <linux/virtio_ring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dataplane/virtio_net/virtio_net.h"
#include "tests/bench/instructions/driver.h"

#define BIT(feature) (UINT64_C(1) << (feature))
#define BASE         (BIT(VIRTIO_F_VERSION_1) | BIT(VIRTIO_NET_F_MRG_RXBUF))
#define LINUX                                                                                                \
    (BASE | BIT(VIRTIO_RING_F_INDIRECT_DESC) | BIT(VIRTIO_RING_F_EVENT_IDX) | BIT(VIRTIO_NET_F_CSUM) |       \
     BIT(VIRTIO_NET_F_GUEST_CSUM) | BIT(VIRTIO_NET_F_HOST_TSO4) | BIT(VIRTIO_NET_F_GUEST_TSO4))

enum traffic { PLAIN, PARTIAL_CHECKSUM, TSO };

struct test_case {
    const char *name;
    uint64_t sender, receiver; /* features */
    uint32_t length;           /* of a frame */
    unsigned frames;           /* in a burst */
    uint32_t buffer;           /* of the receiver, with the header */
    unsigned buffers;          /* supplied for each burst */
    unsigned pieces;           /* of a chain of the sender */
    bool indirect;
    enum traffic traffic;
};

static const struct test_case cases[] = {
    {"split-64", BASE, BASE, 64, 64, 2048, 64, 1, false, PLAIN},
    {"split-1518", BASE, BASE, 1518, 64, 2048, 64, 1, false, PLAIN},
    {"split-64-single", BASE, BASE, 64, 1, 2048, 1, 1, false, PLAIN},
    {"split-64-no-mrg", BIT(VIRTIO_F_VERSION_1), BIT(VIRTIO_F_VERSION_1), 64, 64, 2048, 64, 1, false, PLAIN},
    {"split-64-two-pieces", BASE, BASE, 64, 64, 2048, 64, 2, false, PLAIN},
    {"split-64-indirect", LINUX, LINUX, 64, 64, 2048, 64, 2, true, PLAIN},
    {"split-64-in-order", BASE | BIT(VIRTIO_F_IN_ORDER), BASE | BIT(VIRTIO_F_IN_ORDER), 64, 64, 2048, 64, 1,
     false, PLAIN},
    {"packed-64", BASE | BIT(VIRTIO_F_RING_PACKED), BASE | BIT(VIRTIO_F_RING_PACKED), 64, 64, 2048, 64, 1,
     false, PLAIN},
    {"packed-1518", BASE | BIT(VIRTIO_F_RING_PACKED), BASE | BIT(VIRTIO_F_RING_PACKED), 1518, 64, 2048, 64, 1,
     false, PLAIN},
    {"tso-64k-passed", LINUX, LINUX, 65226, 8, 65562, 8, 18, true, TSO},
    {"tso-64k-mergeable", LINUX, LINUX, 65226, 4, 1536, 172, 18, true, TSO},
    {"checksum-1514", LINUX, BASE, 1514, 64, 2048, 64, 2, true, PARTIAL_CHECKSUM},
    {"tso-64k-segmented", LINUX, BASE, 65226, 4, 2048, 184, 18, true, TSO},
};

static struct burst burst;
static struct statistics_direction counters;

/* Not static: callgrind finds it by its name. */
unsigned measured(struct virtqueue *from, struct virtqueue *to);

/* The one function whose instructions are counted (callgrind's --toggle-collect). Answers how many frames
 * moved. */
__attribute__((noinline)) unsigned measured(struct virtqueue *from, struct virtqueue *to)
{
    const unsigned count = net_pull(from, &burst);
    const unsigned done = net_push(to, &burst, 0, &counters);
    net_release(from, done);
    (void)virtqueue_notify(from);
    (void)virtqueue_notify(to);
    return done < count ? done : count;
}

/* A TCP segment from 10.0.0.1 to 10.0.0.2 behind a virtio header that asks for what the case is about. */
static void write_frame(uint8_t *at, const struct test_case *test)
{
    static const uint8_t headers[54] = {
        2,    0,    0,    0,    0, 2, 2,    0, 0,  0, 0, 1, 8,    0, /* Ethernet */
        0x45, 0,    0,    0,    0, 1, 0x40, 0, 64, 6, 0, 0, 10,   0,    0,    1,    10, 0, 0, 2, /* IPv4 */
        0x12, 0x34, 0x56, 0x78, 0, 0, 0,    1, 0,  0, 0, 1, 0x50, 0x10, 0xff, 0xff, 0,  0, 0, 0, /* TCP */
    };
    struct virtio_net_hdr_v1 header = {.flags = 0};
    uint8_t *frame = at + sizeof header;
    memset(frame, 0x5a, test->length);
    memcpy(frame, headers, sizeof headers);
    const uint32_t ip_length = test->length - 14;
    frame[16] = (uint8_t)(ip_length >> 8);
    frame[17] = (uint8_t)ip_length;
    if (test->traffic != PLAIN) {
        header.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
        header.csum_start = 34;
        header.csum_offset = 16;
    }
    if (test->traffic == TSO) {
        header.gso_type = VIRTIO_NET_HDR_GSO_TCPV4;
        header.gso_size = 1448;
        header.hdr_len = sizeof headers;
    }
    memcpy(at, &header, sizeof header);
}

static int run(const struct test_case *test, unsigned long rounds)
{
    const uint32_t header = sizeof(struct virtio_net_hdr_v1);
    struct driver sender, receiver;
    driver_start(&sender, test->sender, false, test->length + header, test->pieces, test->indirect);
    driver_start(&receiver, test->receiver, true, test->buffer, 1, false);
    for (unsigned i = 0; i < test->frames; i++)
        write_frame(driver_buffer(&sender, i), test);
    unsigned long moved = 0;
    uint64_t nanoseconds = 0, bytes = 0;
    unsigned chains = 0;
    for (unsigned long round = 0; round < rounds; round++) {
        driver_supply(&receiver, test->buffers, test->buffer);
        driver_supply(&sender, test->frames, test->length + header);
        struct timespec begin, end;
        (void)clock_gettime(CLOCK_MONOTONIC, &begin);
        moved += measured(sender.queue, receiver.queue);
        (void)clock_gettime(CLOCK_MONOTONIC, &end);
        nanoseconds += (uint64_t)(end.tv_sec - begin.tv_sec) * 1000000000 + (uint64_t)end.tv_nsec -
                       (uint64_t)begin.tv_nsec;
        uint64_t ignored = 0;
        (void)driver_collect(&sender, &ignored);
        chains += driver_collect(&receiver, &bytes);
        if (chains % test->buffers != 0) {
            (void)fprintf(stderr, "%s: %u buffers were used after %lu rounds of %u\n", test->name, chains,
                          round + 1, test->buffers);
            return 1;
        }
    }
    const bool complete = moved == rounds * test->frames && bytes >= (uint64_t)moved * test->length;
    driver_stop(&sender);
    driver_stop(&receiver);
    if (!complete) {
        (void)fprintf(stderr, "%s: %lu frames and %llu bytes arrived, %lu were sent\n", test->name, moved,
                      (unsigned long long)bytes, rounds * test->frames);
        return 1;
    }
    (void)printf("{\"case\": \"%s\", \"frames\": %lu, \"nanosecondsPerFrame\": %.1f}\n", test->name, moved,
                 (double)nanoseconds / (double)moved);
    return 0;
}

int main(int argc, char **argv)
{
    const size_t count = sizeof cases / sizeof cases[0];
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (size_t i = 0; i < count; i++)
            (void)puts(cases[i].name);
        return 0;
    }
    for (size_t i = 0; argc >= 2 && i < count; i++) {
        if (strcmp(argv[1], cases[i].name) == 0)
            return run(&cases[i], argc > 2 ? strtoul(argv[2], NULL, 10) : 20000);
    }
    (void)fprintf(stderr, "usage: chan-bench-instructions CASE [ROUNDS] | --list\n");
    return 2;
}
