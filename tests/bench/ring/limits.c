/* What two cores of this machine can do at best, measured without any ring. */
#include <stdatomic.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "tests/bench/ring/bench.h"

enum { ROUND_TRIPS = 200000, SLOTS = 8, COPIES = 8192 };

struct lines {
    _Alignas(LINE_BYTES) _Atomic uint64_t ping;
    _Alignas(LINE_BYTES) _Atomic uint64_t pong;
};

static double ping(void *argument)
{
    struct lines *lines = argument;
    while (atomic_load_explicit(&lines->pong, memory_order_acquire) == 0)
        pause_cpu();
    int64_t start = now_ns();
    for (uint64_t i = 2; i < ROUND_TRIPS; i++) {
        atomic_store_explicit(&lines->ping, i, memory_order_release);
        while (atomic_load_explicit(&lines->pong, memory_order_acquire) != i)
            pause_cpu();
    }
    return (double)(now_ns() - start) / (ROUND_TRIPS - 2);
}

static void pong(void *argument)
{
    struct lines *lines = argument;
    atomic_store_explicit(&lines->pong, 1, memory_order_release);
    for (uint64_t i = 2; i < ROUND_TRIPS; i++) {
        while (atomic_load_explicit(&lines->ping, memory_order_acquire) != i)
            pause_cpu();
        atomic_store_explicit(&lines->pong, i, memory_order_release);
    }
}

double limit_line_round_trip(void)
{
    struct lines *lines = shared_alloc(sizeof *lines);
    double result = run_pair(ping, pong, lines);
    shared_free(lines, sizeof *lines);
    return result;
}

struct copy {
    void (*store)(void *to, const void *from, size_t size);
    struct slots {
        _Alignas(LINE_BYTES) _Atomic uint64_t written;
        _Alignas(LINE_BYTES) _Atomic uint64_t read;
        _Alignas(4096) unsigned char data[SLOTS][LARGEST_MESSAGE];
    } * slots;
};

static void store_memcpy(void *to, const void *from, size_t size)
{
    memcpy(to, from, size);
}

#if defined(__x86_64__)
static void store_movsb(void *to, const void *from, size_t size)
{
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
}
#endif

#if defined(__SSE2__)
static void store_streaming(void *to, const void *from, size_t size)
{
    __m128i *out = to;
    const __m128i *in = from;
    for (size_t i = 0; i < size / sizeof *in; i += 4) {
        _mm_stream_si128(&out[i], _mm_load_si128(&in[i]));
        _mm_stream_si128(&out[i + 1], _mm_load_si128(&in[i + 1]));
        _mm_stream_si128(&out[i + 2], _mm_load_si128(&in[i + 2]));
        _mm_stream_si128(&out[i + 3], _mm_load_si128(&in[i + 3]));
    }
    _mm_sfence();
}
#endif

static _Alignas(4096) unsigned char private_data[LARGEST_MESSAGE];

static double copy_in(void *argument)
{
    const struct copy *copy = argument;
    struct slots *slots = copy->slots;
    memset(private_data, 1, sizeof private_data);
    while (atomic_load_explicit(&slots->read, memory_order_acquire) == 0)
        pause_cpu();
    int64_t start = now_ns();
    for (uint64_t i = 1; i <= COPIES; i++) {
        while (i >= atomic_load_explicit(&slots->read, memory_order_acquire) + SLOTS)
            pause_cpu();
        copy->store(slots->data[i % SLOTS], private_data, LARGEST_MESSAGE);
        atomic_store_explicit(&slots->written, i, memory_order_release);
    }
    while (atomic_load_explicit(&slots->read, memory_order_acquire) <= COPIES)
        pause_cpu();
    return (double)COPIES * LARGEST_MESSAGE * 1e9 / (double)(now_ns() - start);
}

static void copy_out(void *argument)
{
    const struct copy *copy = argument;
    struct slots *slots = copy->slots;
    memset(private_data, 2, sizeof private_data);
    for (uint64_t i = 1; i <= COPIES; i++) {
        atomic_store_explicit(&slots->read, i, memory_order_release); /* all before i are done with */
        while (atomic_load_explicit(&slots->written, memory_order_acquire) < i)
            pause_cpu();
        memcpy(private_data, slots->data[i % SLOTS], LARGEST_MESSAGE);
    }
    atomic_store_explicit(&slots->read, COPIES + 1, memory_order_release);
}

double limit_copy(const char **way)
{
    static const struct {
        const char *name;
        void (*store)(void *to, const void *from, size_t size);
    } ways[] = {
        {"memcpy", store_memcpy},
#if defined(__x86_64__)
        {"rep movsb", store_movsb},
#endif
#if defined(__SSE2__)
        {"non-temporal", store_streaming},
#endif
    };
    double best = 0;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct copy copy = {.store = ways[i].store, .slots = shared_alloc(sizeof *copy.slots)};
        double rate = run_pair(copy_in, copy_out, &copy);
        shared_free(copy.slots, sizeof *copy.slots);
        if (rate > best) {
            best = rate;
            *way = ways[i].name;
        }
    }
    return best;
}
