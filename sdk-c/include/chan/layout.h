/* The layout "chan" of a region: who owns which bytes. The daemon formats a region with it, libchan uses it
 * on both sides. All integers are little-endian.
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

#define CHAN_MAGIC          UINT64_C(0x314e47524e414843) /* "CHANRGN1" in memory */
#define CHAN_LAYOUT_VERSION 1u
#define CHAN_PAGE_BYTES     4096u
#define CHAN_CONTROL_BYTES  4096u
/* The smallest region that holds a channel: superblock, two controls, two rings of a page, one reserved page,
 * rounded up to a power of two. */
#define CHAN_LAYOUT_MIN_BYTES 32768u

/* The first bytes of a region. A reader copies it once into private memory, checks it, and uses only the
 * copy. */
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

/* What a side says about itself in its control block. The numbers are wire values. chan_layout(7) has the
 * protocol. */
enum chan_state {
    CHAN_STATE_RESET =
        0, /* nothing here is valid and the peer's half is not being used; also what zeros mean */
    CHAN_STATE_INIT = 1,   /* this half is initialised for the epoch beside it */
    CHAN_STATE_READY = 2,  /* and the peer's epoch is acknowledged */
    CHAN_STATE_RUN = 3,    /* the session is up: the peer's half may be in use */
    CHAN_STATE_CLOSED = 4, /* no further record will come and the peer's half is not being used */
};

/* The first bytes of each half, written by the half's owner only. A line of 128 bytes per topic, so that no
 * store of one topic takes the cache line (or the pair that prefetchers fetch) of another. */
struct chan_control {
    uint64_t state;        /* enum chan_state */
    uint64_t epoch;        /* of the owner's session: random, never 0, never used again */
    uint64_t acknowledged; /* the peer's epoch that the owner has seen; 0: none */
    uint64_t pad0[13];
    uint64_t heartbeat; /* changes while the owner's program calls the library */
    uint64_t pad1[15];
    uint64_t head; /* bytes of the *inbound* ring (in the other half) that the owner is done with, since its
                      epoch */
    uint64_t pad2[15];
    uint64_t rx_waiting; /* for notifiers; without one always 0 and never read */
    uint64_t pad3[15];
    uint64_t tx_waiting; /* as rx_waiting */
    uint64_t pad4[15];
};

/* A record: this header, then `length` bytes, then padding to a multiple of 8. A header of 0 means: nothing
 * here yet. */
#define CHAN_RECORD_HEADER_BYTES 8u
#define CHAN_RECORD_ALIGN        8u
#define CHAN_RECORD_MESSAGE      1u /* the only type; flags are 0 */

struct chan_record_header {
    uint32_t length;
    uint8_t type;
    uint8_t flags;
    uint16_t sequence; /* the first record of a session has the low 16 bits of its writer's epoch, then one
                          more each */
};

#ifdef __cplusplus
static_assert(sizeof(struct chan_superblock) == 72, "wire structure");
static_assert(sizeof(struct chan_control) == 640, "wire structure");
static_assert(sizeof(struct chan_record_header) == 8, "wire structure");
#else
_Static_assert(sizeof(struct chan_superblock) == 72, "wire structure");
_Static_assert(offsetof(struct chan_superblock, crc32c) == 68, "wire structure");
_Static_assert(sizeof(struct chan_control) == 640, "wire structure");
_Static_assert(offsetof(struct chan_control, heartbeat) == 128, "wire structure");
_Static_assert(offsetof(struct chan_control, head) == 256, "wire structure");
_Static_assert(offsetof(struct chan_control, rx_waiting) == 384, "wire structure");
_Static_assert(offsetof(struct chan_control, tx_waiting) == 512, "wire structure");
_Static_assert(sizeof(struct chan_record_header) == 8, "wire structure");
#endif

/* Fills in the superblock of a region of `size` bytes with this nonce and epoch.
 * Returns 0, or -EINVAL when the size is not a multiple of 4 KiB or below CHAN_LAYOUT_MIN_BYTES, or nonce or
 * epoch is 0. Pure; any thread. */
CHAN_API int chan_superblock_make(struct chan_superblock *out, uint64_t size, uint64_t nonce, uint64_t epoch);

/* Checks a private copy of a superblock against the number of bytes that are mapped.
 * Returns 0; -ENOMSG when there is no magic (a raw region, or not a region); -EPROTONOSUPPORT for another
 * version or an unknown required feature; -EBADMSG when the checksum or an offset is wrong; -EMSGSIZE when it
 * says it is larger than what is mapped. Pure; any thread. */
CHAN_API int chan_superblock_check(const struct chan_superblock *superblock, uint64_t mapped_bytes);

#ifdef __cplusplus
}
#endif
#endif
