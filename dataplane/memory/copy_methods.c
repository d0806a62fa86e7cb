#include "dataplane/memory/copy_methods.h"

#include "dataplane/memory/copy.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <emmintrin.h>
#endif

enum { LINE = 64 };

typedef uint8_t piece_32 __attribute__((vector_size(32), aligned(1), may_alias));

/* In line where it is used, so that it becomes what that function's target allows: two stores of 16 bytes
 * or one of 32. */
static inline __attribute__((always_inline)) void copy_128(uint8_t *to, const uint8_t *from)
{
    const piece_32 *source = (const piece_32 *)from;
    piece_32 *target = (piece_32 *)to;
    const piece_32 a = source[0], b = source[1], c = source[2], d = source[3];
    target[0] = a;
    target[1] = b;
    target[2] = c;
    target[3] = d;
}

/* The first 128 bytes and the last ones are copied wherever they lie; between them stores are aligned. */
static inline __attribute__((always_inline)) void copy_vectors(uint8_t *to, const uint8_t *from,
                                                               size_t length)
{
    copy_128(to, from);
    for (size_t at = 128 - (uintptr_t)to % 32; at < length - 128; at += 128)
        copy_128(to + at, from + at);
    copy_128(to + length - 128, from + length - 128);
}

static void copy_vectors_16(uint8_t *to, const uint8_t *from, size_t length)
{
    copy_vectors(to, from, length);
}

#if defined(__x86_64__)

__attribute__((target("avx2"))) static void copy_vectors_32(uint8_t *to, const uint8_t *from, size_t length)
{
    copy_vectors(to, from, length);
}

static void copy_movsb(uint8_t *to, const uint8_t *from, size_t length)
{
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(length) : : "memory");
}

/* Whole lines past the caches, what is before and behind them as usual. The fence puts them before all that
 * is stored later. */
static void copy_stream(uint8_t *to, const uint8_t *from, size_t length)
{
    copy_64(to, from);
    size_t at = LINE - (uintptr_t)to % LINE;
    for (; at + LINE <= length; at += LINE) {
        const __m128i *source = (const __m128i *)(const void *)(from + at);
        __m128i *target = (__m128i *)(void *)(to + at);
        const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
        const __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
        _mm_stream_si128(target, a);
        _mm_stream_si128(target + 1, b);
        _mm_stream_si128(target + 2, c);
        _mm_stream_si128(target + 3, d);
    }
    copy_64(to + length - LINE, from + length - LINE);
    _mm_sfence();
}

/* Enhanced rep movsb: without it, it is slow for sure. CPUID 7, EBX bit 9. */
static bool has_fast_movsb(void)
{
    unsigned a, b = 0, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & (1U << 9)) != 0;
}

bool copy_method_usable(enum copy_method method)
{
    return method != COPY_MOVSB || has_fast_movsb();
}

void copy_with(enum copy_method method, uint8_t *to, const uint8_t *from, size_t length)
{
    if (method == COPY_STREAM)
        copy_stream(to, from, length);
    else if (method == COPY_MOVSB)
        copy_movsb(to, from, length);
    else if (__builtin_cpu_supports("avx2"))
        copy_vectors_32(to, from, length);
    else
        copy_vectors_16(to, from, length);
}

#else

bool copy_method_usable(enum copy_method method)
{
    return method == COPY_VECTOR;
}

void copy_with(enum copy_method method, uint8_t *to, const uint8_t *from, size_t length)
{
    (void)method; /* there is one only */
    copy_vectors_16(to, from, length);
}

#endif

const char *copy_method_name(enum copy_method method)
{
    static const char *const names[COPY_METHOD_COUNT] = {
        [COPY_VECTOR] = "vector", [COPY_MOVSB] = "rep movsb", [COPY_STREAM] = "non-temporal"};
    return names[method];
}
