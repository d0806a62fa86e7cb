/* chan-bench-holder: the front-ends of many cables, whose guests are idle, or of one whose guest is hostile,
 * or that sends a frame now and then and measures how long it takes.
 *
 *   chan-bench-holder idle PREFIX FROM COUNT        cables FROM.. of PREFIX{n}a.sock and PREFIX{n}b.sock;
 * prints "ready" and holds them until its standard input ends chan-bench-holder hostile PREFIX FROM floods A
 * to B, kicks without end, B gives one buffer in a while; prints "ready" and goes on until its standard input
 * ends chan-bench-holder latency PREFIX FROM FRAMES    one frame, a pause in which the link falls asleep, and
 * so on; prints JSON: nanoseconds from kick to arrival, p50, p99
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/bench/cable/frontend/frames.h"
#include "tests/bench/cable/frontend/frontend.h"

enum { RING = 64, FRAME = 64, PAUSE_NS = 3 * 1000 * 1000 };

static struct frontend (*cables)[2];

static void die(const struct error *err)
{
    (void)fprintf(stderr, "chan-bench-holder: %s\n", err->detail);
    exit(1);
}

static void open_cable(const char *prefix, unsigned number, struct frontend ends[2])
{
    for (unsigned side = 0; side < 2; side++) {
        char path[108];
        (void)snprintf(path, sizeof path, "%.80s%u%c.sock", prefix, number, side == 0 ? 'a' : 'b');
        const struct frontend_settings settings = {.path = path,
                                                   .features = UINT64_C(1) << VIRTIO_F_VERSION_1 |
                                                               UINT64_C(1) << VIRTIO_NET_F_MRG_RXBUF,
                                                   .queue_size = RING,
                                                   .receive = {.length = 256},
                                                   .transmit = {.length = FRAME_HEADER + FRAME}};
        struct error err = ERROR_INIT;
        if (frontend_open(&ends[side], &settings, &err) != 0)
            die(&err);
    }
}

static bool input_ended(int timeout_ms)
{
    struct pollfd input = {.fd = 0, .events = POLLIN};
    char byte = 0;
    return poll(&input, 1, timeout_ms) == 1 && read(0, &byte, 1) <= 0;
}

static void say_ready(void)
{
    (void)puts("ready");
    (void)fflush(stdout);
}

static void hold(void)
{
    say_ready();
    while (!input_ended(-1))
        ;
}

static void be_hostile(struct frontend ends[2])
{
    struct ring *transmit = &ends[0].transmit;
    for (uint16_t chain = 0; chain < transmit->chains; chain++)
        ring_give(transmit, chain);
    ring_publish(transmit);
    say_ready();
    const uint64_t one = 1;
    for (uint64_t turn = 0; turn % 4096 != 0 || !input_ended(0); turn++) {
        uint16_t chain = 0;
        int64_t length = 0;
        while (ring_take(transmit, &chain, &length))
            ring_give(transmit, chain);
        ring_publish(transmit);
        (void)!write(transmit->kick_fd, &one, sizeof one);
        (void)!write(ends[1].receive.kick_fd, &one, sizeof one);
        if (turn % 1024 == 0 && ring_take(&ends[1].receive, &chain, &length)) {
            ring_give(&ends[1].receive, chain);
            ring_publish(&ends[1].receive);
        }
    }
}

static int compare(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a;
    const int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static void measure_latency(struct frontend ends[2], unsigned frames)
{
    int64_t *taken = calloc(frames, sizeof *taken);
    if (taken == NULL)
        exit(1);
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    for (unsigned i = 0; i < frames; i++) {
        (void)nanosleep(&pause, NULL);
        ring_give(&ends[0].transmit, 0);
        ring_publish(&ends[0].transmit);
        const int64_t begun = clock_monotonic_ns();
        ring_kick(&ends[0].transmit);
        uint16_t chain = 0;
        int64_t length = 0;
        while (!ring_take(&ends[1].receive, &chain, &length)) {
            if (clock_monotonic_ns() - begun > INT64_C(2000000000)) {
                (void)fprintf(stderr, "chan-bench-holder: frame %u did not arrive within 2 s\n", i);
                exit(1);
            }
        }
        taken[i] = clock_monotonic_ns() - begun;
        ring_give(&ends[1].receive, chain);
        ring_publish(&ends[1].receive);
        while (!ring_take(&ends[0].transmit, &chain, &length))
            ;
    }
    qsort(taken, frames, sizeof *taken, compare);
    (void)printf("{\"p50\": %" PRId64 ", \"p99\": %" PRId64 "}\n", taken[frames / 2],
                 taken[frames - 1 - frames / 100]);
    free(taken);
}

int main(int argc, char **argv)
{
    const bool many = argc == 5 && strcmp(argv[1], "idle") == 0;
    const bool hostile = argc == 4 && strcmp(argv[1], "hostile") == 0;
    const bool latency = argc == 5 && strcmp(argv[1], "latency") == 0;
    if (!many && !hostile && !latency) {
        (void)fprintf(stderr, "usage: chan-bench-holder idle PREFIX FROM COUNT | hostile PREFIX FROM |"
                              " latency PREFIX FROM FRAMES\n");
        return 2;
    }
    const unsigned from = (unsigned)strtoul(argv[3], NULL, 10);
    const unsigned last = argc == 5 ? (unsigned)strtoul(argv[4], NULL, 10) : 0;
    const unsigned count = many ? last : 1;
    cables = calloc(count > 0 ? count : 1, sizeof *cables);
    if (cables == NULL)
        return 1;
    for (unsigned i = 0; i < count; i++)
        open_cable(argv[2], from + i, cables[i]);
    if (many)
        hold();
    else if (hostile)
        be_hostile(cables[0]);
    else
        measure_latency(cables[0], last > 0 ? last : 1);
    for (unsigned i = 0; i < count; i++) {
        frontend_close(&cables[i][0]);
        frontend_close(&cables[i][1]);
    }
    free(cables);
    return 0;
}
