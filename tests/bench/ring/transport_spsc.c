/* The best-known kind of ring between two threads: fixed slots, one index per side on a line of its own, and
 * a private copy of the other side's index that is refreshed only when the ring seems full or empty
 * (rigtorp's SPSCQueue). The slots have just the size of the messages and carry no length, which is less than
 * what libchan does. */
#include <stdatomic.h>
#include <string.h>

#include "tests/bench/ring/bench.h"

enum { DATA_BYTES = 512 * 1024 };

struct spsc {
    _Alignas(LINE_BYTES) _Atomic size_t write_index;
    _Alignas(LINE_BYTES) size_t read_index_seen;
    _Alignas(LINE_BYTES) _Atomic size_t read_index;
    _Alignas(LINE_BYTES) size_t write_index_seen;
    _Alignas(LINE_BYTES) unsigned char slots[DATA_BYTES];
};

struct state {
    struct spsc *rings; /* two: to the child, from the child */
    struct spsc *out, *in;
    size_t slot_bytes, slot_count;
};

static void *create(size_t message_size)
{
    struct state *state = allocate(sizeof *state);
    state->rings = shared_alloc(2 * sizeof *state->rings);
    state->slot_bytes = message_size;
    state->slot_count = DATA_BYTES / message_size;
    return state;
}

static void attach(void *opaque, bool child)
{
    struct state *state = opaque;
    state->out = &state->rings[child ? 1 : 0];
    state->in = &state->rings[child ? 0 : 1];
}

static void send_message(void *opaque, const void *message, size_t size)
{
    const struct state *state = opaque;
    struct spsc *ring = state->out;
    size_t index = atomic_load_explicit(&ring->write_index, memory_order_relaxed);
    size_t next = index + 1 == state->slot_count ? 0 : index + 1;
    while (next == ring->read_index_seen) {
        ring->read_index_seen = atomic_load_explicit(&ring->read_index, memory_order_acquire);
        if (next == ring->read_index_seen)
            pause_cpu();
    }
    memcpy(ring->slots + index * state->slot_bytes, message, size);
    atomic_store_explicit(&ring->write_index, next, memory_order_release);
}

static void receive_message(void *opaque, void *buffer, size_t size)
{
    const struct state *state = opaque;
    struct spsc *ring = state->in;
    size_t index = atomic_load_explicit(&ring->read_index, memory_order_relaxed);
    while (index == ring->write_index_seen) {
        ring->write_index_seen = atomic_load_explicit(&ring->write_index, memory_order_acquire);
        if (index == ring->write_index_seen)
            pause_cpu();
    }
    memcpy(buffer, ring->slots + index * state->slot_bytes, size);
    size_t next = index + 1 == state->slot_count ? 0 : index + 1;
    atomic_store_explicit(&ring->read_index, next, memory_order_release);
}

static void detach(void *opaque)
{
    (void)opaque;
}

static void destroy(void *opaque)
{
    struct state *state = opaque;
    shared_free(state->rings, 2 * sizeof *state->rings);
    free(state);
}

const struct transport transport_spsc = {
    .name = "SPSC slots",
    .create = create,
    .attach = attach,
    .send = send_message,
    .receive = receive_message,
    .detach = detach,
    .destroy = destroy,
};
