#include "tests/fuzz/virtqueue_harness.h"

#include <linux/virtio_config.h>
#include <linux/virtio_net.h>
#include <linux/virtio_ring.h>
#include <stdlib.h>
#include <string.h>

#include "dataplane/virtio_net/virtio_net.h"

#define BIT(number) (UINT64_C(1) << (number))

enum {
    /* The guest: two regions that follow each other, and one behind a gap. Each is an allocation of its own,
     * so that AddressSanitizer sees an access past its end. */
    GUEST_A = 0x1000,
    GUEST_B = 0x2000,
    GUEST_C = 0x8000,
    REGION_SIZE = 0x1000,
    REGIONS = 3,
    /* A ring's parts, from its start in region A. The tables are at the start of region B. */
    RING_SPACE = 0x400,
    DRIVER_AREA = 0x100,
    DEVICE_AREA = 0x200,
    RING_DESCRIPTORS = 8,
    TABLE_ENTRIES = 16,
    /* An input's descriptor: 16 bits each of address, length, flags, and next or id. */
    COMPACT = 8,
    FAR_AWAY = 1 << 9, /* in its flags: the upper bits of the address are set */
    VERY_LONG = 1 << 10
};

struct harness {
    bool packed;
    uint8_t *memory[REGIONS];
    struct guest_memory *guest;
    struct virtqueue *sender, *receiver;
    struct virtqueue_setup sender_setup;
    const uint8_t *input;
    size_t left;
};

static struct burst burst;
static struct statistics_direction counters;

static void expect(bool condition)
{
    if (!condition)
        abort();
}

static uint8_t next_byte(struct harness *harness)
{
    if (harness->left == 0)
        return 0;
    harness->left--;
    return *harness->input++;
}

static uint16_t next_16(struct harness *harness)
{
    const uint8_t low = next_byte(harness);
    return (uint16_t)(low | next_byte(harness) << 8);
}

/* ---- the guest ---- */

static void make_guest(struct harness *harness)
{
    static const uint64_t addresses[REGIONS] = {GUEST_A, GUEST_B, GUEST_C};
    static atomic_uint never_looked; /* nothing is ever lost here */
    harness->guest = calloc(1, sizeof *harness->guest + REGIONS * sizeof harness->guest->regions[0]);
    expect(harness->guest != NULL);
    harness->guest->count = REGIONS;
    harness->guest->looked_at = &never_looked;
    for (unsigned i = 0; i < REGIONS; i++) {
        harness->memory[i] = calloc(1, REGION_SIZE);
        expect(harness->memory[i] != NULL);
        harness->guest->regions[i] = (struct guest_region){.guest_address = addresses[i],
                                                           .size = REGION_SIZE,
                                                           .user_address = addresses[i],
                                                           .host = harness->memory[i]};
    }
}

static void free_guest(struct harness *harness)
{
    for (unsigned i = 0; i < REGIONS; i++)
        free(harness->memory[i]);
    free(harness->guest);
}

static bool is_within_guest(const struct harness *harness, const struct iovec *segment)
{
    const uint8_t *start = segment->iov_base;
    for (unsigned i = 0; i < REGIONS; i++) {
        const uint8_t *region = harness->memory[i];
        if (start >= region && start < region + REGION_SIZE)
            return segment->iov_len <= (size_t)(region + REGION_SIZE - start);
    }
    return false;
}

/* A descriptor of the input to where the device reads it. */
static void expand(struct harness *harness, uint8_t *to)
{
    uint64_t address = next_16(harness);
    uint32_t length = next_16(harness);
    const uint16_t flags = next_16(harness), link = next_16(harness);
    if ((flags & FAR_AWAY) != 0)
        address |= UINT64_C(0xffffffffffff0000);
    if ((flags & VERY_LONG) != 0)
        length |= 0xffff0000;
    if (harness->packed) {
        const struct vring_packed_desc descriptor = {
            .addr = address, .len = length, .id = link, .flags = flags};
        memcpy(to, &descriptor, sizeof descriptor);
    } else {
        const struct vring_desc descriptor = {.addr = address, .len = length, .flags = flags, .next = link};
        memcpy(to, &descriptor, sizeof descriptor);
    }
}

static void fill_memory(struct harness *harness)
{
    for (unsigned i = 0; i < 2 * RING_DESCRIPTORS; i++)
        expand(harness, harness->memory[0] + i / RING_DESCRIPTORS * RING_SPACE +
                            i % RING_DESCRIPTORS * sizeof(struct vring_desc));
    for (unsigned i = 0; i < TABLE_ENTRIES; i++)
        expand(harness, harness->memory[1] + i * sizeof(struct vring_desc));
}

/* What is left: the driver's areas of both rings, then memory for frames. */
static void fill_rest(struct harness *harness)
{
    for (unsigned ring = 0; ring < 2; ring++) {
        for (unsigned i = 0; i < 24; i++)
            harness->memory[0][ring * RING_SPACE + DRIVER_AREA + i] = next_byte(harness);
    }
    const size_t length = harness->left < REGION_SIZE ? harness->left : REGION_SIZE;
    memcpy(harness->memory[2], harness->input, length);
}

static struct virtqueue *start(const struct harness *harness, unsigned ring, uint32_t size, uint64_t features,
                               struct virtqueue_setup *setup)
{
    struct virtqueue *queue = NULL;
    struct error err = ERROR_INIT;
    expect(virtqueue_new(&queue, &err) == 0);
    const uint64_t at = GUEST_A + (uint64_t)ring * RING_SPACE;
    *setup = (struct virtqueue_setup){.size = size,
                                      .features = features,
                                      .descriptors = at,
                                      .driver = at + DRIVER_AREA,
                                      .device = at + DEVICE_AREA,
                                      .base = harness->packed ? UINT32_C(0x80008000) : 0};
    expect(virtqueue_start(queue, setup, harness->guest, &err) == 0);
    return queue;
}

/* ---- the script ---- */

static void check_burst(const struct harness *harness)
{
    static volatile uint8_t sink;
    expect(burst.count <= BURST_FRAMES && burst.segment_count <= BURST_SEGMENTS);
    for (unsigned i = 0; i < burst.count; i++) {
        const struct frame *frame = &burst.frames[i];
        uint64_t length = 0;
        expect(frame->segment_count <= FRAME_SEGMENTS_MAX);
        for (unsigned k = 0; k < frame->segment_count; k++) {
            expect(frame->first + k < burst.segment_count);
            const struct iovec *segment = &burst.segments[frame->first + k];
            expect(is_within_guest(harness, segment));
            sink = (uint8_t)(sink ^ *(const uint8_t *)segment->iov_base);
            length += segment->iov_len;
        }
        expect(length == frame->length);
        expect(frame->malformed ? length == 0 : length >= FRAME_LENGTH_MIN && length <= FRAME_LENGTH_MAX);
    }
}

static void push(struct harness *harness)
{
    const unsigned done = net_push(harness->receiver, &burst, 0, &counters);
    expect(done <= burst.count);
}

/* Frames of the harness's own, whose lengths and offloads come from the script. */
static void push_own(struct harness *harness, unsigned count)
{
    static uint8_t bytes[FRAME_LENGTH_MAX];
    burst.count = burst.segment_count = count;
    for (unsigned i = 0; i < count; i++) {
        const uint8_t kind = next_byte(harness);
        const uint32_t length = FRAME_LENGTH_MIN + (uint32_t)kind * (kind > 250 ? 250 : 17);
        burst.frames[i] = (struct frame){.length = length, .first = i, .segment_count = 1};
        if (kind % 4 == 3)
            burst.frames[i].header = (struct virtio_net_hdr_v1){
                .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM, .csum_start = kind, .csum_offset = kind / 8};
        burst.segments[i] = (struct iovec){.iov_base = bytes, .iov_len = length};
    }
    push(harness);
}

/* At the position where it was, whose fault is forgiven. */
static void restart_sender(struct harness *harness)
{
    struct error err = ERROR_INIT;
    virtqueue_disable_kicks(harness->sender);
    virtqueue_stop(harness->sender);
    expect(net_pull(harness->sender, &burst) == 0);
    harness->sender_setup.base = virtqueue_base(harness->sender);
    expect(virtqueue_start(harness->sender, &harness->sender_setup, harness->guest, &err) == 0);
}

static void step(struct harness *harness, uint8_t byte)
{
    const unsigned argument = byte >> 3;
    unsigned count;
    switch (byte & 7) {
    case 0:
    case 1:
        count = net_pull(harness->sender, &burst);
        expect(count == burst.count);
        check_burst(harness);
        push(harness);
        net_release(harness->sender, (byte & 7) == 0 ? count : argument);
        break;
    case 2:
    case 3:
        push_own(harness, 1 + argument);
        break;
    case 4: /* the guest changes what it likes */
        count = next_16(harness) % (2 * RING_SPACE);
        harness->memory[0][count] = next_byte(harness);
        break;
    case 5: /* makes more available: of a split ring */
        harness->memory[0][(argument & 1) * RING_SPACE + DRIVER_AREA + 2] += (uint8_t)(argument >> 1);
        break;
    case 6:
        (void)virtqueue_enable_kicks(harness->sender);
        (void)virtqueue_enable_kicks(harness->receiver);
        (void)virtqueue_notify(harness->receiver);
        break;
    default:
        (void)virtqueue_notify(harness->sender);
        restart_sender(harness);
        break;
    }
}

void virtqueue_harness_run(const uint8_t *data, size_t size, bool packed)
{
    static const uint32_t sizes[2][4] = {{1, 2, 4, 8}, {1, 3, 5, 8}};
    struct harness harness = {.packed = packed, .input = data, .left = size};
    const uint8_t choice = next_byte(&harness), offloads = next_byte(&harness);
    uint64_t features = packed ? BIT(VIRTIO_F_RING_PACKED) : 0;
    features |= (choice & 1) != 0 ? BIT(VIRTIO_NET_F_MRG_RXBUF) : 0;
    features |= (choice & 2) != 0 ? BIT(VIRTIO_RING_F_INDIRECT_DESC) : 0;
    features |= (choice & 4) != 0 ? BIT(VIRTIO_RING_F_EVENT_IDX) : 0;
    features |= (choice & 8) != 0 ? BIT(VIRTIO_F_IN_ORDER) : 0;
    features |= (choice & 16) != 0 ? BIT(VIRTIO_F_VERSION_1) : 0;
    features |= (offloads & 1) != 0 ? BIT(VIRTIO_NET_F_GUEST_CSUM) : 0;
    features |= (offloads & 2) != 0 ? BIT(VIRTIO_NET_F_GUEST_TSO4) : 0;
    const uint32_t ring_size = sizes[packed][choice >> 5 & 3];
    make_guest(&harness);
    fill_memory(&harness);
    const unsigned steps = next_byte(&harness) % 32;
    uint8_t script[32];
    for (unsigned i = 0; i < steps; i++)
        script[i] = next_byte(&harness);
    fill_rest(&harness);
    struct virtqueue_setup ignored;
    harness.sender = start(&harness, 0, ring_size, features, &harness.sender_setup);
    harness.receiver = start(&harness, 1, ring_size, features, &ignored);
    for (unsigned i = 0; i < steps; i++)
        step(&harness, script[i]);
    virtqueue_free(harness.sender);
    virtqueue_free(harness.receiver);
    free_guest(&harness);
}
