#include "tests/bench/cable/generator/traffic.h"

#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "tests/bench/cable/frontend/frames.h"

static const int64_t NS = 1000000000, WARM_UP_NS = 300000000, PATIENCE_NS = 2000000000;
enum { VISITS_BETWEEN_CLOCKS = 64 };

/* One direction. */
struct flow {
    struct frontend *from, *to;
    uint64_t chains;               /* received */
    uint64_t sent, frames, lost;   /* with --check */
    uint16_t spare[RING_SIZE_MAX]; /* with --check: transmit chains that are ours */
    unsigned spare_count;
};

static struct flow flows[2]; /* too large for a stack */

/* ---- as lean as can be: what comes back is handed over again as it is ---- */

static unsigned turn(struct ring *ring, unsigned most)
{
    uint16_t chain = 0;
    int64_t length = 0;
    unsigned count = 0;
    for (; count < most && ring_take(ring, &chain, &length); count++)
        ring_give(ring, chain);
    if (count > 0) {
        ring_publish(ring);
        ring_kick(ring);
    }
    return count;
}

static void visit(const struct options *options, struct flow *flow)
{
    flow->chains += turn(&flow->to->receive, options->burst);
    (void)turn(&flow->from->transmit, options->burst);
}

static void begin(const struct options *options, struct flow *flow)
{
    struct ring *ring = &flow->from->transmit;
    for (uint16_t chain = 0; chain < ring->chains && chain < options->frames; chain++) {
        uint8_t *bytes = frontend_sent(flow->from, chain);
        if (options->tcp)
            frame_fill_tcp(bytes, options->size);
        else
            frame_fill(bytes + FRAME_HEADER, options->size, chain);
        if (options->check)
            flow->spare[flow->spare_count++] = chain;
        else
            ring_give(ring, chain);
    }
    ring_publish(ring);
    ring_kick(ring);
}

/* ---- with --check: frame number n has the bytes of number n ---- */

static void send_numbered(const struct options *options, struct flow *flow)
{
    struct ring *ring = &flow->from->transmit;
    uint16_t chain = 0;
    int64_t length = 0;
    while (ring_take(ring, &chain, &length))
        flow->spare[flow->spare_count++] = chain;
    const unsigned count = flow->spare_count < options->burst ? flow->spare_count : options->burst;
    for (unsigned i = 0; i < count; i++) {
        chain = flow->spare[--flow->spare_count];
        if (!options->tcp)
            frame_fill(frontend_sent(flow->from, chain) + FRAME_HEADER, options->size, flow->sent);
        flow->sent++;
        ring_give(ring, chain);
    }
    ring_publish(ring);
    ring_kick(ring);
}

/* Which frame is it? Those between it and the last one were lost. */
static bool recognise(const struct options *options, struct flow *flow, const uint8_t *frame, uint32_t length)
{
    static uint8_t tcp[FRAME_HEADER + FRAME_LENGTH_MAX];
    if (length != options->size)
        return false;
    if (options->tcp) {
        frame_fill_tcp(tcp, length);
        flow->frames++;
        return memcmp(tcp + FRAME_HEADER, frame, length) == 0;
    }
    for (uint64_t number = flow->frames + flow->lost; number < flow->sent; number++) {
        if (frame_is(frame, length, number)) {
            flow->lost = number - flow->frames;
            flow->frames++;
            return true;
        }
    }
    return false;
}

static int receive_numbered(const struct options *options, struct flow *flow, struct error *err)
{
    static uint8_t frame[FRAME_LENGTH_MAX];
    struct virtio_net_hdr_v1 header;
    int64_t length = 0;
    for (unsigned i = 0; i < options->burst; i++) {
        length = frame_receive(flow->to, &header, frame);
        if (length == FRAME_NONE)
            break;
        if (length < 0 || !recognise(options, flow, frame, (uint32_t)length))
            return error_set(err, REASON_INTERNAL, "frame %llu arrived as other bytes (length %lld)",
                             (unsigned long long)flow->frames, (long long)length);
    }
    ring_publish(&flow->to->receive);
    ring_kick(&flow->to->receive);
    return 0;
}

static int visit_checked(const struct options *options, struct flow *flow, bool send, struct error *err)
{
    if (send)
        send_numbered(options, flow);
    return receive_numbered(options, flow, err);
}

/* ---- both ---- */

static int run_checked(const struct options *options, unsigned count, struct result *result,
                       struct error *err)
{
    const int64_t begun = clock_monotonic_ns();
    const int64_t end = begun + NS * options->seconds;
    int64_t now = begun;
    /* At the end, what is under way may still arrive. */
    bool complete = false;
    while (now < end || (!complete && now < end + PATIENCE_NS)) {
        complete = true;
        for (unsigned i = 0; i < count; i++) {
            if (visit_checked(options, &flows[i], now < end, err) != 0)
                return -1;
            complete = complete && flows[i].frames + flows[i].lost == flows[i].sent;
        }
        now = clock_monotonic_ns();
    }
    result->seconds = (double)(now - begun) / (double)NS;
    for (unsigned i = 0; i < count; i++) {
        result->frames += flows[i].frames;
        result->lost += flows[i].sent - flows[i].frames;
    }
    return 0;
}

static uint64_t received(unsigned count)
{
    return flows[0].chains + (count > 1 ? flows[1].chains : 0);
}

static void run_fast(const struct options *options, unsigned count, struct result *result)
{
    const unsigned chains_per_frame =
        options->mergeable
            ? (options->size + FRAME_HEADER + options->receive_buffer - 1) / options->receive_buffer
            : 1;
    int64_t begun = clock_monotonic_ns() + WARM_UP_NS;
    int64_t end = begun + NS * options->seconds;
    uint64_t before = 0;
    bool warm = false;
    int64_t now = 0;
    do {
        for (unsigned i = 0; i < VISITS_BETWEEN_CLOCKS; i++)
            for (unsigned k = 0; k < count; k++)
                visit(options, &flows[k]);
        now = clock_monotonic_ns();
        if (!warm && now >= begun) {
            warm = true;
            before = received(count);
            end += now - begun;
            begun = now;
        }
    } while (now < end);
    result->frames = (received(count) - before) / chains_per_frame;
    result->seconds = (double)(now - begun) / (double)NS;
}

int traffic_run(const struct options *options, struct frontend ends[2], struct result *result,
                struct error *err)
{
    *result = (struct result){.frames = 0};
    const unsigned count = options->both ? 2 : 1;
    for (unsigned i = 0; i < count; i++) {
        flows[i] = (struct flow){.from = &ends[i], .to = &ends[1 - i]};
        begin(options, &flows[i]);
    }
    if (options->check && run_checked(options, count, result, err) != 0)
        return -1;
    if (!options->check)
        run_fast(options, count, result);
    result->bytes = result->frames * options->size;
    for (unsigned i = 0; i < 2; i++)
        result->kicks += ends[i].receive.kicks + ends[i].transmit.kicks;
    return 0;
}

int traffic_memcpy(const struct options *options, struct result *result, struct error *err)
{
    const size_t length = (size_t)options->size + FRAME_HEADER;
    const size_t stride = (length + 63) & ~(size_t)63;
    struct guest guests[2] = {{.fd = -1}, {.fd = -1}};
    int failed = 0;
    for (unsigned i = 0; i < 2 && failed == 0; i++)
        failed = guest_open(&guests[i], stride * options->queue_size, options->huge_pages, err);
    if (failed == 0) {
        memset(guests[0].memory, 0x5a, guests[0].size);
        *result = (struct result){.frames = 0};
        const int64_t begun = clock_monotonic_ns();
        int64_t now = begun;
        for (; now < begun + NS * options->seconds; now = clock_monotonic_ns()) {
            for (size_t i = 0; i < options->queue_size; i++)
                memcpy(guests[1].memory + i * stride, guests[0].memory + i * stride, length);
            /* What was copied counts as used, or it need not be copied. */
            __asm__ volatile("" : : "r"(guests[1].memory) : "memory");
            result->frames += options->queue_size;
        }
        result->bytes = result->frames * options->size;
        result->seconds = (double)(now - begun) / (double)NS;
    }
    guest_close(&guests[0]);
    guest_close(&guests[1]);
    return failed;
}
