/* chan_superblock_check() on any bytes: what it accepts must lie within the mapping and be what
 * chan_superblock_make() makes of the same size. The checksum is put right on every second input, or no input
 * would get past it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "chan/layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void sign(struct chan_superblock *superblock)
{
    uint32_t crc = UINT32_MAX;
    const unsigned char *bytes = (const unsigned char *)superblock;
    for (size_t i = 0; i < offsetof(struct chan_superblock, crc32c); i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0x82f63b78u : 0u);
    }
    superblock->crc32c = ~crc;
}

static void expect(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* A flag, the number of mapped bytes, the superblock. */
    struct chan_superblock superblock;
    uint64_t mapped = 0;
    if (size < 1 + sizeof mapped + sizeof superblock)
        return 0;
    memcpy(&mapped, data + 1, sizeof mapped);
    memcpy(&superblock, data + 1 + sizeof mapped, sizeof superblock);
    if ((data[0] & 1u) != 0)
        sign(&superblock);

    if (chan_superblock_check(&superblock, mapped) != 0)
        return 0;
    expect(superblock.size <= mapped);
    expect(superblock.half_bytes > CHAN_CONTROL_BYTES);
    expect(superblock.half_a_offset >= sizeof superblock);
    expect(superblock.half_a_offset + superblock.half_bytes <= superblock.half_b_offset);
    expect(superblock.half_b_offset + superblock.half_bytes <= superblock.size);
    struct chan_superblock made;
    expect(chan_superblock_make(&made, superblock.size, superblock.nonce, superblock.epoch) == 0);
    expect(memcmp(&made, &superblock, sizeof made) == 0);
    return 0;
}
