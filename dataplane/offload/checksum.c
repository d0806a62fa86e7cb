/* The Internet checksum (RFC 1071). The order of bytes in a word does not matter to the sum, so words are
 * taken as they lie in memory; words of 32 bits are as good as words of 16, since 2^16 is 1 modulo 0xffff. */
#include <string.h>

#include "dataplane/offload/internal.h"

/* Two words of 64 bits, of any alignment. */
typedef uint64_t word_pair __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint64_t word_pair_sum __attribute__((vector_size(16)));

enum { TURN_LENGTH = 2 * sizeof(word_pair) };

/* Halves of 64-bit words are added apart, so that no carry is lost. `length` is a multiple of TURN_LENGTH. */
static uint64_t sum_of_turns(const uint8_t *bytes, size_t length)
{
    const word_pair_sum low_half = {UINT32_MAX, UINT32_MAX};
    word_pair_sum low[2] = {{0}}, high[2] = {{0}};
    for (const uint8_t *end = bytes + length; bytes < end; bytes += TURN_LENGTH) {
        const word_pair *words = (const word_pair *)bytes;
        const word_pair_sum a = words[0], b = words[1];
        low[0] += a & low_half;
        high[0] += a >> 32;
        low[1] += b & low_half;
        high[1] += b >> 32;
    }
    const word_pair_sum all = low[0] + low[1] + high[0] + high[1];
    return all[0] + all[1];
}

/* Fewer than TURN_LENGTH bytes. */
static uint64_t sum_of_rest(const uint8_t *bytes, size_t length)
{
    uint64_t sum = 0;
    for (; length >= sizeof(uint32_t); length -= sizeof(uint32_t), bytes += sizeof(uint32_t)) {
        uint32_t word = 0;
        memcpy(&word, bytes, sizeof word);
        sum += word;
    }
    uint32_t last = 0;
    memcpy(&last, bytes, length);
    return sum + last;
}

uint64_t checksum_add(uint64_t sum, const void *bytes, size_t length, bool odd)
{
    const size_t rest = length % TURN_LENGTH;
    const uint8_t *place = bytes;
    uint64_t added = sum_of_turns(place, length - rest) + sum_of_rest(place + length - rest, rest);
    if (odd)
        added = __builtin_bswap16(checksum_fold(added));
    /* Kept short, so that a great many of them may be added. */
    return sum + (added & UINT32_MAX) + (added >> 32);
}

uint16_t checksum_fold(uint64_t sum)
{
    sum = (sum & UINT32_MAX) + (sum >> 32);
    sum = (sum & UINT32_MAX) + (sum >> 32);
    sum = (sum & UINT16_MAX) + (sum >> 16);
    sum = (sum & UINT16_MAX) + (sum >> 16);
    return (uint16_t)((sum & UINT16_MAX) + (sum >> 16));
}

void checksum_store(uint8_t *place, uint64_t sum, bool udp)
{
    uint16_t checksum = (uint16_t)~checksum_fold(sum);
    if (udp && checksum == 0)
        checksum = UINT16_MAX;
    memcpy(place, &checksum, sizeof checksum);
}
