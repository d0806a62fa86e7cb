/* A frozen region, and what this side makes of it. The input is
 *   byte 0        kind of mapping (2 bits), and whether the image is the whole region or the peer's ring only
 * (bit 2) byte 1        length of the script the script    one call per byte, see step() the image     of the
 * region, or of the peer's ring With the peer's ring only, the harness plays the peer's handshake, so that
 * the image is read as records in a session. Whatever the bytes are: no crash, no access outside, no endless
 * loop, and no message longer than the ring allows. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "chan/channel.h"
#include "sdk-c/src/region.h"

enum { REGION_BYTES = 32768, RING_BYTES = 8192, WHOLE_REGION = 4 };

/* Low 16 bits 0: the first record of the peer has the sequence 0. */
static const uint64_t peer_epoch = UINT64_C(0x1234567800000000);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(int condition)
{
    if (!condition)
        abort();
}

/* One file for all inputs: making one each time would take most of the time. */
static int region_file(void)
{
    static int fd = -1;
    if (fd < 0) {
        fd = memfd_create("region", MFD_CLOEXEC);
        expect(fd >= 0 && ftruncate(fd, REGION_BYTES) == 0);
    }
    return fd;
}

static void write_image(const uint8_t *image, size_t size, int whole)
{
    static unsigned char region[REGION_BYTES];
    memset(region, 0, sizeof region);
    struct chan_superblock superblock;
    expect(chan_superblock_make(&superblock, REGION_BYTES, 1, 1) == 0);
    memcpy(region, &superblock, sizeof superblock);
    size_t offset = whole ? 0 : superblock.half_b_offset + CHAN_CONTROL_BYTES;
    size_t room = whole ? REGION_BYTES : RING_BYTES;
    memcpy(region + offset, image, size < room ? size : room);
    expect(pwrite(region_file(), region, sizeof region, 0) == (ssize_t)sizeof region);
}

/* Puts the peer's words so that the handshake succeeds, without touching its ring. */
static int connect_to_frozen_peer(struct chan_channel *channel, struct chan_region *region)
{
    const struct chan_superblock *superblock = chan_region_superblock(region);
    unsigned char *base = chan_region_base(region);
    const struct chan_control *host = (const struct chan_control *)(void *)(base + superblock->half_a_offset);
    struct chan_control *guest = (struct chan_control *)(void *)(base + superblock->half_b_offset);
    (void)chan_connect(channel, 0); /* draws our epoch */
    guest->epoch = peer_epoch;
    guest->acknowledged = host->epoch;
    guest->state = CHAN_STATE_READY;
    return chan_connect(channel, 0);
}

static void read_all(const unsigned char *message, size_t length)
{
    static volatile unsigned char sink;
    for (size_t i = 0; i < length; i++)
        sink = (unsigned char)(sink ^ message[i]);
}

/* One call. The upper bits of the byte are its argument. */
static void step(struct chan_channel *channel, struct chan_region *region, uint8_t byte)
{
    static unsigned char buffer[REGION_BYTES];
    const void *message = NULL;
    void *place = NULL;
    size_t length = 0;
    size_t argument = byte >> 3;
    size_t most = chan_max_message(channel);
    switch (byte & 7u) {
    case 0:
        if (chan_recv(channel, buffer, sizeof buffer, &length, 0) == 0)
            expect(length <= most);
        break;
    case 1:
        if (chan_recv(channel, buffer, argument, &length, 0) == 0)
            expect(length <= argument);
        break;
    case 2:
        if (chan_peek(channel, &message, &length, 0) == 0) {
            expect(length <= most);
            read_all(message, length);
        }
        break;
    case 3:
        (void)chan_release(channel);
        break;
    case 4:
        (void)chan_send(channel, buffer, argument * argument * 8, 0);
        break;
    case 5:
        if (chan_reserve(channel, argument * 64, &place, 0) == 0) {
            memset(place, 0xff, argument * 64);
            (void)chan_commit(channel, argument * 60);
        }
        break;
    case 6: { /* a head that may be right, or not */
        const struct chan_superblock *superblock = chan_region_superblock(region);
        unsigned char *base = chan_region_base(region);
        ((struct chan_control *)(void *)(base + superblock->half_b_offset))->head = argument * 260;
        break;
    }
    default:
        (void)chan_peer_state(channel);
        if (argument == 0)
            (void)chan_reconnect(channel, 0);
        break;
    }
}

static void run(struct chan_region *region, const uint8_t *script, size_t script_length, int whole)
{
    const struct chan_options options = {.side = CHAN_SIDE_HOST};
    struct chan_channel *channel = NULL;
    if (chan_open(region, &options, &channel, NULL) < 0)
        return;
    int r = whole ? chan_connect(channel, 0) : connect_to_frozen_peer(channel, region);
    expect(whole || r == 0);
    for (size_t i = 0; i < script_length; i++)
        step(channel, region, script[i]);
    chan_close(channel);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    int whole = (data[0] & WHOLE_REGION) != 0;
    size_t script_length = data[1] < size - 2 ? data[1] : size - 2;
    const uint8_t *image = data + 2 + script_length;
    write_image(image, size - 2 - script_length, whole);

    const struct chan_region_source source = {
        .fd = dup(region_file()),
        .path = "fuzz",
        .size = REGION_BYTES,
        .mapping = (enum chan_mapping)(CHAN_MAPPING_CACHED + data[0] % 4 % 3),
        .natural_side = CHAN_SIDE_HOST,
    };
    struct chan_region *region = NULL;
    if (chan_region_create(&source, &region, NULL) < 0)
        return 0;
    run(region, data + 2, script_length, whole);
    chan_region_close(region);
    return 0;
}
