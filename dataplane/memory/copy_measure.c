/* Two threads on two CPUs play a worker and its guests: the writer copies, as a worker would; the reader
 * reads what arrived and makes new contents to be copied, so that every line has to travel both ways. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "dataplane/memory/copy_methods.h"

enum {
    LINE = 64,
    RING_BYTES =
        512 * 1024, /* of buffers, as a receive ring of 256 holds: more than fits a core's own caches */
    BURST_BYTES = 16 * 1024,
    LENGTH_MAX = 65536,
    /* Where frames lie in their buffers. */
    SOURCE_OFFSET = 2,
    TARGET_OFFSET = 12,
    ROUNDS = 2,
    RUN_NS = 400000,
    TOTAL_NS = 40000000
};

/* Typical lengths, one of each class. */
static const size_t lengths[COPY_CLASSES] = {384, 768, 1518, 3000, 6000, 12000, 24000, LENGTH_MAX};

struct measurement {
    uint8_t *source, *target;
    int64_t deadline;
    bool complete;
    enum copy_method *best;

    /* the writer's */
    _Alignas(LINE) atomic_uint written;
    atomic_size_t length; /* of a frame; changes only while the reader has read everything */
    atomic_bool stop;
    /* the reader's */
    _Alignas(LINE) atomic_uint read;
};

static size_t stride(size_t length)
{
    return (length + TARGET_OFFSET + LINE - 1) / LINE * LINE;
}

static size_t buffer_at(size_t length, unsigned index)
{
    return index % (RING_BYTES / stride(length)) * stride(length);
}

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    __asm__ volatile("" : : : "memory");
#endif
}

static void *read_frames(void *argument)
{
    struct measurement *m = argument;
    unsigned done = 0;
    uint8_t sum = 0;
    while (!atomic_load_explicit(&m->stop, memory_order_relaxed)) {
        const unsigned written = atomic_load_explicit(&m->written, memory_order_acquire);
        if (done == written) {
            relax();
            continue;
        }
        const size_t length = atomic_load_explicit(&m->length, memory_order_relaxed);
        for (; done != written; done++) {
            const size_t buffer = buffer_at(length, done);
            for (size_t i = 0; i < length; i += LINE) {
                sum = (uint8_t)(sum + m->target[buffer + TARGET_OFFSET + i]);
                m->source[buffer + SOURCE_OFFSET + i] = sum;
            }
        }
        atomic_store_explicit(&m->read, done, memory_order_release);
    }
    return NULL;
}

/* Waits until at most `left` frames are unread. False when the time is up. */
static bool wait_for_reader(const struct measurement *m, unsigned written, unsigned left)
{
    while (written - atomic_load_explicit(&m->read, memory_order_acquire) > left) {
        if (clock_monotonic_ns() > m->deadline)
            return false;
        relax();
    }
    return true;
}

/* Bytes copied in a nanosecond; 0 when the time is up. */
static double run(struct measurement *m, enum copy_method method, size_t length)
{
    const unsigned buffers = (unsigned)(RING_BYTES / stride(length));
    const unsigned burst = length < BURST_BYTES ? (unsigned)(BURST_BYTES / length) : 1;
    unsigned written = atomic_load_explicit(&m->written, memory_order_relaxed);
    atomic_store_explicit(&m->length, length, memory_order_relaxed);
    const int64_t start = clock_monotonic_ns();
    double bytes = 0;
    int64_t end;
    do {
        if (!wait_for_reader(m, written, buffers - burst))
            return 0;
        for (unsigned i = 0; i < burst; i++, written++) {
            const size_t buffer = buffer_at(length, written);
            copy_with(method, m->target + buffer + TARGET_OFFSET, m->source + buffer + SOURCE_OFFSET, length);
        }
        atomic_store_explicit(&m->written, written, memory_order_release);
        bytes += (double)length * burst;
        end = clock_monotonic_ns();
    } while (end - start < RUN_NS);
    return wait_for_reader(m, written, 0) ? bytes / (double)(end - start) : 0;
}

/* The best method for that length. Another one than vectors must be better by a quarter: less is chance. */
static bool compare(struct measurement *m, size_t length, enum copy_method *best)
{
    double speed[COPY_METHOD_COUNT] = {0};
    for (unsigned i = 0; i < ROUNDS; i++) {
        for (unsigned method = 0; method < COPY_METHOD_COUNT; method++) {
            if (!copy_method_usable((enum copy_method)method))
                continue;
            const double now = run(m, (enum copy_method)method, length);
            if (now <= 0)
                return false;
            speed[method] = now > speed[method] ? now : speed[method];
        }
    }
    speed[COPY_VECTOR] *= 1.25;
    *best = COPY_VECTOR;
    for (unsigned method = 0; method < COPY_METHOD_COUNT; method++)
        if (speed[method] > speed[*best])
            *best = (enum copy_method)method;
    return true;
}

static void *write_frames(void *argument)
{
    struct measurement *m = argument;
    m->complete = true;
    for (unsigned i = 0; i < COPY_CLASSES && m->complete; i++)
        m->complete = compare(m, lengths[i], &m->best[i]);
    atomic_store_explicit(&m->stop, true, memory_order_relaxed);
    return NULL;
}

static bool start_on(int cpu, void *(*fn)(void *argument), struct measurement *m, pthread_t *thread)
{
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0)
        return false;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET((size_t)cpu, &cpus);
    const bool started = pthread_attr_setaffinity_np(&attributes, sizeof cpus, &cpus) == 0 &&
                         pthread_create(thread, &attributes, fn, m) == 0;
    (void)pthread_attr_destroy(&attributes);
    return started;
}

/* The first CPU from `from` on that this process may use; -1: none. */
static int next_cpu(const cpu_set_t *cpus, int from)
{
    for (int cpu = from; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET((size_t)cpu, cpus))
            return cpu;
    return -1;
}

bool copy_measure(enum copy_method best[COPY_CLASSES])
{
    cpu_set_t cpus;
    if (sched_getaffinity(0, sizeof cpus, &cpus) != 0)
        return false;
    const int one = next_cpu(&cpus, 0);
    const int other = one < 0 ? -1 : next_cpu(&cpus, one + 1);
    if (other < 0)
        return false;
    auto_free uint8_t *source = aligned_alloc(LINE, RING_BYTES);
    auto_free uint8_t *target = aligned_alloc(LINE, RING_BYTES);
    if (source == NULL || target == NULL)
        return false;
    memset(source, 1, RING_BYTES); /* so that no page is missing while the clock runs */
    memset(target, 1, RING_BYTES);
    struct measurement m = {.source = source, .target = target, .best = best};
    m.deadline = clock_monotonic_ns() + TOTAL_NS;
    pthread_t reader, writer;
    if (!start_on(other, read_frames, &m, &reader))
        return false;
    if (start_on(one, write_frames, &m, &writer))
        (void)pthread_join(writer, NULL);
    else
        atomic_store_explicit(&m.stop, true, memory_order_relaxed);
    (void)pthread_join(reader, NULL);
    return m.complete;
}
