#include "copy.h"

#include <string.h>

#include "shared.h"

/* Aligned accesses of 8 bytes, each exactly once: the compiler neither splits nor merges atomic ones, and
 * both x86 and arm64 take them on any memory type. What memcpy does instead (overlapping or unaligned
 * accesses) faults on arm64. */
static void device_copy_out(void *to, const unsigned char *from, size_t bytes)
{
    unsigned char *word = to;
    for (; bytes >= sizeof(uint64_t); bytes -= sizeof(uint64_t)) {
        uint64_t value;
        memcpy(&value, from, sizeof value);
        chan_store_relaxed(chan_as_word(word), value);
        from += sizeof value;
        word += sizeof value;
    }
    if (bytes > 0) {
        uint64_t value = 0;
        memcpy(&value, from, bytes);
        chan_store_relaxed(chan_as_word(word), value);
    }
}

static void device_copy_in(unsigned char *to, const void *from, size_t bytes)
{
    const unsigned char *word = from;
    for (; bytes >= sizeof(uint64_t); bytes -= sizeof(uint64_t)) {
        uint64_t value = chan_load_relaxed(chan_as_const_word(word));
        memcpy(to, &value, sizeof value);
        to += sizeof value;
        word += sizeof value;
    }
    if (bytes > 0) {
        uint64_t value = chan_load_relaxed(chan_as_const_word(word));
        memcpy(to, &value, bytes);
    }
}

void chan_copy_out(enum chan_mapping mapping, void *to, const void *from, size_t bytes)
{
    if (bytes == 0)
        return;
    if (chan_is_device(mapping))
        device_copy_out(to, from, bytes);
    else
        memcpy(to, from, bytes);
}

void chan_copy_in(enum chan_mapping mapping, void *to, const void *from, size_t bytes)
{
    if (bytes == 0)
        return;
    if (chan_is_device(mapping))
        device_copy_in(to, from, bytes);
    else
        memcpy(to, from, bytes);
}
