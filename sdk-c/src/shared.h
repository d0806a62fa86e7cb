/* Access to words of shared memory. One place knows what each kind of mapping needs; everybody else says
 * load, store, and which order.
 *
 * Cached memory: C11 atomics, nothing else. Device mappings (write-combining, uncached): plain aligned
 * accesses of 8 bytes, no read-modify-write, and a fence that orders every kind of memory, since the ordering
 * of C11 atomics is for cached memory only: neither an x86 release store nor a locked instruction orders
 * write-combining stores. A store on a write-combining mapping is followed by a fence as well, or it may rest
 * in the CPU's buffer for as long as it likes. */
#ifndef CHAN_SRC_SHARED_H
#define CHAN_SRC_SHARED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "chan/region.h"

typedef _Atomic uint64_t chan_word;

/* Producer's and consumer's private state, and words of different topics, lie this far apart: two cache
 * lines, since prefetchers fetch pairs. */
enum { CHAN_LINE_BYTES = 128 };

static inline bool chan_is_device(enum chan_mapping mapping)
{
    return mapping != CHAN_MAPPING_CACHED;
}

static inline void chan_device_fence(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __asm__ volatile("mfence" ::: "memory");
#elif defined(__aarch64__)
    __asm__ volatile("dmb sy" ::: "memory");
#else
    __sync_synchronize();
#endif
}

static inline chan_word *chan_as_word(void *address)
{
    return (chan_word *)address;
}

static inline const chan_word *chan_as_const_word(const void *address)
{
    return (const chan_word *)address;
}

static inline uint64_t chan_load_relaxed(const chan_word *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static inline void chan_store_relaxed(chan_word *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
}

static inline uint64_t chan_load_acquire(const chan_word *word, enum chan_mapping mapping)
{
    if (!chan_is_device(mapping))
        return atomic_load_explicit(word, memory_order_acquire);
    uint64_t value = chan_load_relaxed(word);
    chan_device_fence();
    return value;
}

static inline void chan_store_release(chan_word *word, uint64_t value, enum chan_mapping mapping)
{
    if (!chan_is_device(mapping)) {
        atomic_store_explicit(word, value, memory_order_release);
        return;
    }
    chan_device_fence();
    chan_store_relaxed(word, value);
    if (mapping == CHAN_MAPPING_WRITE_COMBINING)
        chan_device_fence();
}

/* Sequentially consistent, for the one place where a store must not pass a later load (session.c). */
static inline uint64_t chan_load_ordered(const chan_word *word, enum chan_mapping mapping)
{
    if (!chan_is_device(mapping))
        return atomic_load_explicit(word, memory_order_seq_cst);
    chan_device_fence();
    uint64_t value = chan_load_relaxed(word);
    chan_device_fence();
    return value;
}

static inline void chan_store_ordered(chan_word *word, uint64_t value, enum chan_mapping mapping)
{
    if (!chan_is_device(mapping)) {
        atomic_store_explicit(word, value, memory_order_seq_cst);
        return;
    }
    chan_device_fence();
    chan_store_relaxed(word, value);
    chan_device_fence();
}

#endif
