/* Copying between guests. What is written here is read by another core, so the store path decides; which one
 * is best depends on size and machine. copy_calibrate measures the candidates once, at start. */
#ifndef CHAN_DATAPLANE_MEMORY_COPY_H
#define CHAN_DATAPLANE_MEMORY_COPY_H

#include <stddef.h>
#include <stdint.h>

enum { COPY_SMALL_MAX = 256 };

/* Chooses by measurement on this machine, in about 20 ms; without it, or where it cannot measure (fewer than
 * two CPUs, or busy ones), a sane default is used. Before any worker runs. */
void copy_calibrate(void);
/* What was chosen, for people: "vector below 1024 bytes, rep movsb from there on (measured)". Any thread,
 * after copy_calibrate. */
const char *copy_description(void);

/* copy_bytes beyond COPY_SMALL_MAX. */
void copy_large(uint8_t *to, const uint8_t *from, size_t length);

/* Pieces of any alignment. */
typedef uint16_t copy_piece_2 __attribute__((aligned(1), may_alias));
typedef uint32_t copy_piece_4 __attribute__((aligned(1), may_alias));
typedef uint64_t copy_piece_8 __attribute__((aligned(1), may_alias));
typedef uint8_t copy_piece_16 __attribute__((vector_size(16), aligned(1), may_alias));

static inline void copy_64(uint8_t *to, const uint8_t *from)
{
    const copy_piece_16 *source = (const copy_piece_16 *)from;
    copy_piece_16 *target = (copy_piece_16 *)to;
    const copy_piece_16 a = source[0], b = source[1], c = source[2], d = source[3];
    target[0] = a;
    target[1] = b;
    target[2] = c;
    target[3] = d;
}

/* As memcpy, for guest memory: the ranges never overlap, may change under the copy, and are of any alignment.
 * What is stored after it is seen after it.
 *
 * Small ones are two halves that may overlap each other in the middle, so that there is no loop. */
static inline void copy_bytes(void *to, const void *from, size_t length)
{
    uint8_t *target = to;
    const uint8_t *source = from;
    uint8_t *target_end = target + length;
    const uint8_t *source_end = source + length;
    if (length > COPY_SMALL_MAX) {
        copy_large(target, source, length);
    } else if (length > 128) {
        copy_64(target, source);
        copy_64(target + 64, source + 64);
        copy_64(target_end - 128, source_end - 128);
        copy_64(target_end - 64, source_end - 64);
    } else if (length > 64) {
        copy_64(target, source);
        copy_64(target_end - 64, source_end - 64);
    } else if (length >= 16) {
        /* From 32 on four pieces; below, the inner two are the outer two once more. */
        const size_t inner = length >= 32 ? 16 : 0;
        const copy_piece_16 a = *(const copy_piece_16 *)source;
        const copy_piece_16 b = *(const copy_piece_16 *)(source + inner);
        const copy_piece_16 c = *(const copy_piece_16 *)(source_end - inner - 16);
        const copy_piece_16 d = *(const copy_piece_16 *)(source_end - 16);
        *(copy_piece_16 *)target = a;
        *(copy_piece_16 *)(target + inner) = b;
        *(copy_piece_16 *)(target_end - inner - 16) = c;
        *(copy_piece_16 *)(target_end - 16) = d;
    } else if (length >= 8) {
        const copy_piece_8 first = *(const copy_piece_8 *)source;
        const copy_piece_8 last = *(const copy_piece_8 *)(source_end - 8);
        *(copy_piece_8 *)target = first;
        *(copy_piece_8 *)(target_end - 8) = last;
    } else if (length >= 4) {
        const copy_piece_4 first = *(const copy_piece_4 *)source;
        const copy_piece_4 last = *(const copy_piece_4 *)(source_end - 4);
        *(copy_piece_4 *)target = first;
        *(copy_piece_4 *)(target_end - 4) = last;
    } else if (length >= 2) {
        const copy_piece_2 first = *(const copy_piece_2 *)source;
        const copy_piece_2 last = *(const copy_piece_2 *)(source_end - 2);
        *(copy_piece_2 *)target = first;
        *(copy_piece_2 *)(target_end - 2) = last;
    } else if (length == 1) {
        *target = *source;
    }
}

#endif
