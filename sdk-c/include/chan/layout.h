/* The layout "chan" of a region: who owns which bytes. The daemon formats a region with it, libchan uses it on both
 * sides. All integers are little-endian.
 *
 *   0x00000              superblock, 4 KiB: struct chan_superblock, the rest zero
 *   0x01000              half A, written by the host side only: 4 KiB of control, then the ring A to B
 *   0x01000 + half       half B, written by the guest side only: 4 KiB of control, then the ring B to A
 *   ...                  reserved (the last 4 KiB at least)
 *
 * half = (size - 8 KiB) / 2, rounded down to a multiple of 4 KiB; a 1 MiB region has halves of 508 KiB.
 */
#ifndef CHAN_LAYOUT_H
#define CHAN_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef CHAN_API
#define CHAN_API __attribute__((visibility("default")))
#endif

#define CHAN_MAGIC           UINT64_C(0x314e47524e414843) /* "CHANRGN1" in memory */
#define CHAN_LAYOUT_VERSION  1u
#define CHAN_PAGE_BYTES      4096u
#define CHAN_CONTROL_BYTES   4096u
/* The smallest region that holds a channel: superblock, two controls, two rings of a page, one reserved page,
 * rounded up to a power of two. */
#define CHAN_LAYOUT_MIN_BYTES 32768u

/* The first bytes of a region. A reader copies it once into private memory, checks it, and uses only the copy. */
struct chan_superblock {
    uint64_t magic;    /* CHAN_MAGIC */
    uint32_t version;  /* CHAN_LAYOUT_VERSION; another version is refused */
    uint32_t features; /* required features: a bit the reader does not know makes it refuse; none exist */
    uint64_t size;     /* bytes of the whole region */
    uint64_t half_a_offset, half_b_offset;
    uint64_t half_bytes; /* of each half, control included */
    uint64_t nonce;      /* random, never 0, fresh whenever the epoch rises */
    uint64_t epoch;      /* the region's generation: rises when the content was replaced; the first is 1 */
    uint32_t reserved;   /* 0 */
    uint32_t crc32c;     /* CRC-32C (Castagnoli) of all bytes before it */
};

#ifdef __cplusplus
static_assert(sizeof(struct chan_superblock) == 72, "wire structure");
#else
_Static_assert(sizeof(struct chan_superblock) == 72, "wire structure");
_Static_assert(offsetof(struct chan_superblock, crc32c) == 68, "wire structure");
#endif

/* Fills in the superblock of a region of `size` bytes with this nonce and epoch.
 * Returns 0, or -EINVAL when the size is not a multiple of 4 KiB or below CHAN_LAYOUT_MIN_BYTES, or nonce or epoch
 * is 0. Pure; any thread. */
CHAN_API int chan_superblock_make(struct chan_superblock *out, uint64_t size, uint64_t nonce, uint64_t epoch);

/* Checks a private copy of a superblock against the number of bytes that are mapped.
 * Returns 0; -ENOMSG when there is no magic (a raw region, or not a region); -EPROTONOSUPPORT for another version or
 * an unknown required feature; -EBADMSG when the checksum or an offset is wrong; -EMSGSIZE when it says it is larger
 * than what is mapped. Pure; any thread. */
CHAN_API int chan_superblock_check(const struct chan_superblock *superblock, uint64_t mapped_bytes);

#ifdef __cplusplus
}
#endif
#endif
