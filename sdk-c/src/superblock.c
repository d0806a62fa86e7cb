#include <errno.h>
#include <string.h>

#include "chan/layout.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the layout is little-endian; a big-endian port has to swap every word of it"
#endif

/* CRC-32C (reflected polynomial 0x82f63b78). Bit by bit: a superblock is 68 bytes and is read once per open.
 */
static uint32_t crc32c(const void *data, size_t bytes)
{
    const unsigned char *byte = data;
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= byte[i];
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0x82f63b78u : 0u);
    }
    return ~crc;
}

static uint32_t superblock_crc(const struct chan_superblock *superblock)
{
    return crc32c(superblock, offsetof(struct chan_superblock, crc32c));
}

int chan_superblock_make(struct chan_superblock *out, uint64_t size, uint64_t nonce, uint64_t epoch)
{
    if (size < CHAN_LAYOUT_MIN_BYTES || size % CHAN_PAGE_BYTES != 0 || nonce == 0 || epoch == 0)
        return -EINVAL;

    uint64_t half = (size - 2 * (uint64_t)CHAN_PAGE_BYTES) / 2;
    half -= half % CHAN_PAGE_BYTES;
    *out = (struct chan_superblock){
        .magic = CHAN_MAGIC,
        .version = CHAN_LAYOUT_VERSION,
        .size = size,
        .half_a_offset = CHAN_PAGE_BYTES,
        .half_b_offset = CHAN_PAGE_BYTES + half,
        .half_bytes = half,
        .nonce = nonce,
        .epoch = epoch,
    };
    out->crc32c = superblock_crc(out);
    return 0;
}

int chan_superblock_check(const struct chan_superblock *superblock, uint64_t mapped_bytes)
{
    if (superblock->magic != CHAN_MAGIC)
        return -ENOMSG;
    /* The version decides what the rest means, so it comes before the checksum. */
    if (superblock->version != CHAN_LAYOUT_VERSION)
        return -EPROTONOSUPPORT;
    if (superblock->crc32c != superblock_crc(superblock))
        return -EBADMSG;
    if (superblock->features != 0)
        return -EPROTONOSUPPORT;

    /* Version 1 has one arrangement per size: whatever differs from it is wrong. */
    struct chan_superblock expected;
    if (chan_superblock_make(&expected, superblock->size, superblock->nonce, superblock->epoch) < 0 ||
        memcmp(&expected, superblock, sizeof expected) != 0)
        return -EBADMSG;
    if (superblock->size > mapped_bytes)
        return -EMSGSIZE;
    return 0;
}
