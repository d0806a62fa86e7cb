/* The parts of chan-bench-ring: ways to carry messages between two processes (transports), what the machine
 * can do at best (limits), and measuring either. */
#ifndef TESTS_BENCH_RING_BENCH_H
#define TESTS_BENCH_RING_BENCH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

enum { LARGEST_MESSAGE = 65536, LINE_BYTES = 128 };

/* Message passing both ways between two processes. Everything ends the program on failure. */
struct transport {
    const char *name;
    /* In the parent, before the fork: for messages of this size. */
    void *(*create)(size_t message_size);
    /* In each process after the fork; `child` says which. */
    void (*attach)(void *state, bool child);
    void (*send)(void *state, const void *message, size_t size);
    void (*flush)(void *state); /* what was sent is on its way when it returns; NULL: it always is */
    void (*receive)(void *state, void *buffer, size_t size);
    void (*detach)(void *state); /* in each process */
    void (*destroy)(void *state);
};

extern const struct transport transport_chan;         /* libchan, chan_send() and chan_recv() */
extern const struct transport transport_chan_batched; /* chan_send_more() and chan_recv() */
extern const struct transport
    transport_spsc; /* a ring of fixed slots with cached indexes, as rigtorp's SPSCQueue */
extern const struct transport transport_stream; /* an AF_UNIX stream socket */
extern const struct transport transport_pipe;

/* Messages per second, one way, the last one received. */
double measure_rate(const struct transport *transport, size_t message_size);

/* Nanoseconds of a round trip of 8 bytes. */
struct latency {
    double p50, p99;
};
struct latency measure_round_trip(const struct transport *transport);

/* Nanoseconds for a line to go to the other core and back: two dependent transfers. */
double limit_line_round_trip(void);

/* Bytes per second from private memory on one core to private memory on the other, 64 KiB at a time, by the
 * fastest of several ways to store; *way becomes its name. */
double limit_copy(const char **way);

/* Runs `child` in another process on CPU 1 while `parent` runs on CPU 0; returns what `parent` does. */
double run_pair(double (*parent)(void *), void (*child)(void *), void *argument);

/* Memory that is shared with children forked later. Zeroed. */
void *shared_alloc(size_t size);
void shared_free(void *memory, size_t size);

/* Zeroed; the program ends when there is none. */
void *allocate(size_t size);

int64_t now_ns(void);
_Noreturn void die(const char *what);

static inline void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
