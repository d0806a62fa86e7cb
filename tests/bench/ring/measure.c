#include <string.h>

#include "tests/bench/ring/bench.h"

enum { ROUND_TRIPS = 20000, WARM_UP = 2000, LENGTH_NS = 150 * 1000 * 1000, BATCH = 64 };

struct run {
    const struct transport *transport;
    void *state;
    size_t size;
    struct latency latency;
};

/* The first byte of a message says whether it is the last: the receiver must not look at anything else. */
enum { MORE = 0, LAST = 1 };

static unsigned char message[LARGEST_MESSAGE];
static unsigned char buffer[LARGEST_MESSAGE];

static void flush(const struct run *run)
{
    if (run->transport->flush != NULL)
        run->transport->flush(run->state);
}

static double send_for_a_while(void *argument)
{
    struct run *run = argument;
    const struct transport *transport = run->transport;
    transport->attach(run->state, false);
    memset(message, 0, sizeof message);
    for (int i = 0; i < WARM_UP && run->size < LARGEST_MESSAGE; i++)
        transport->send(run->state, message, run->size);
    flush(run);
    transport->receive(run->state, buffer, run->size); /* the receiver is there, and has got all of these */

    uint64_t count = 0;
    int64_t start = now_ns();
    while (now_ns() - start < LENGTH_NS) {
        for (int i = 0; i < BATCH; i++)
            transport->send(run->state, message, run->size);
        count += BATCH;
    }
    message[0] = LAST;
    transport->send(run->state, message, run->size);
    flush(run);
    transport->receive(run->state, buffer, run->size); /* and now it has got every one */
    int64_t end = now_ns();
    transport->detach(run->state);
    return (double)(count + 1) * 1e9 / (double)(end - start);
}

static void receive_until_last(void *argument)
{
    struct run *run = argument;
    const struct transport *transport = run->transport;
    transport->attach(run->state, true);
    for (int i = 0; i < WARM_UP && run->size < LARGEST_MESSAGE; i++)
        transport->receive(run->state, buffer, run->size);
    transport->send(run->state, message, run->size);
    flush(run);
    do
        transport->receive(run->state, buffer, run->size);
    while (buffer[0] != LAST);
    transport->send(run->state, message, run->size);
    flush(run);
    transport->detach(run->state);
}

double measure_rate(const struct transport *transport, size_t message_size)
{
    struct run run = {.transport = transport, .state = transport->create(message_size), .size = message_size};
    double rate = run_pair(send_for_a_while, receive_until_last, &run);
    transport->destroy(run.state);
    return rate;
}

static int compare(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static double ping(void *argument)
{
    static int64_t samples[ROUND_TRIPS];
    struct run *run = argument;
    const struct transport *transport = run->transport;
    transport->attach(run->state, false);
    int64_t last = 0;
    for (int i = -WARM_UP; i < ROUND_TRIPS; i++) {
        transport->send(run->state, message, run->size);
        flush(run);
        transport->receive(run->state, buffer, run->size);
        int64_t now = now_ns();
        if (i >= 0)
            samples[i] = now - last;
        last = now;
    }
    transport->detach(run->state);
    qsort(samples, ROUND_TRIPS, sizeof *samples, compare);
    size_t middle = ROUND_TRIPS / 2;
    size_t slow = ROUND_TRIPS - ROUND_TRIPS / 100;
    run->latency.p50 = (double)samples[middle];
    run->latency.p99 = (double)samples[slow];
    return run->latency.p50;
}

static void pong(void *argument)
{
    struct run *run = argument;
    const struct transport *transport = run->transport;
    transport->attach(run->state, true);
    for (int i = -WARM_UP; i < ROUND_TRIPS; i++) {
        transport->receive(run->state, buffer, run->size);
        transport->send(run->state, buffer, run->size);
        flush(run);
    }
    transport->detach(run->state);
}

struct latency measure_round_trip(const struct transport *transport)
{
    struct run run = {.transport = transport, .state = transport->create(8), .size = 8};
    (void)run_pair(ping, pong, &run);
    transport->destroy(run.state);
    return run.latency;
}
