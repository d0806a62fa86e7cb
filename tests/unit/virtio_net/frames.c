#include "tests/unit/virtio_net/frames.h"

#include <string.h>

const uint64_t ring_kinds[KINDS] = {0, IN_ORDER, PACKED, PACKED | IN_ORDER};

struct burst burst;
struct statistics_direction counters;

uint8_t frame_byte(unsigned seed, size_t index)
{
    return (uint8_t)((index * 2654435761U + seed * UINT64_C(40503) + (index >> 8)) >> 3);
}

void make_frame(uint8_t *bytes, uint32_t length, unsigned seed)
{
    for (uint32_t i = 0; i < length; i++)
        bytes[i] = frame_byte(seed, i);
}

/* ---- sending ---- */

void add_frame(struct driver *driver, const struct virtio_net_hdr_v1 *header, uint32_t header_length,
               const uint8_t *frame, uint32_t length, const uint32_t *layout, unsigned layout_count,
               bool indirect)
{
    static uint8_t bytes[HEADER + FRAMES_LONGEST];
    memcpy(bytes, header, header_length);
    memcpy(bytes + header_length, frame, length);
    struct piece pieces[64];
    uint32_t at = 0;
    unsigned count = 0;
    for (; at < header_length + length || count < layout_count; count++) {
        ck_assert_uint_lt(count, sizeof pieces / sizeof pieces[0]);
        const uint32_t left = header_length + length - at;
        const uint32_t part =
            layout != NULL && count < layout_count && layout[count] < left ? layout[count] : left;
        pieces[count] = (struct piece){.address = driver_allocate(driver, part), .length = part};
        driver_write(driver, pieces[count].address, bytes + at, part);
        at += part;
    }
    (void)driver_add(driver, pieces, count, indirect);
}

void send_frame(struct driver *driver, uint32_t length, unsigned seed)
{
    static uint8_t frame[FRAMES_LONGEST];
    const struct virtio_net_hdr_v1 header = {.flags = 0};
    make_frame(frame, length, seed);
    add_frame(driver, &header, HEADER, frame, length, NULL, 0, false);
    driver_publish(driver);
}

void check_pulled(unsigned index, const uint8_t *bytes, uint32_t length)
{
    const struct frame *frame = &burst.frames[index];
    ck_assert(!frame->malformed);
    ck_assert_uint_eq(frame->length, length);
    uint32_t at = 0;
    for (unsigned i = 0; i < frame->segment_count; i++) {
        const struct iovec *segment = &burst.segments[frame->first + i];
        ck_assert_uint_le(at + segment->iov_len, length);
        ck_assert_int_eq(memcmp(segment->iov_base, bytes + at, segment->iov_len), 0);
        at += (uint32_t)segment->iov_len;
    }
    ck_assert_uint_eq(at, length);
}

/* ---- receiving ---- */

void receiver_start(struct receiver *receiver, uint32_t size, uint64_t features)
{
    memset(receiver, 0, sizeof *receiver);
    driver_start(&receiver->driver, size, features);
}

void receiver_stop(struct receiver *receiver)
{
    driver_stop(&receiver->driver);
}

void post_chain(struct receiver *receiver, const uint32_t *lengths, unsigned pieces, bool indirect)
{
    const unsigned index = receiver->posted_count++;
    ck_assert_uint_lt(index, DRIVER_SIZE_MAX);
    receiver->posted[index].count = pieces;
    for (unsigned i = 0; i < pieces; i++) {
        const uint64_t address = driver_allocate(&receiver->driver, lengths[i] + 1);
        memset(driver_at(&receiver->driver, address), 0xee, lengths[i] + 1);
        receiver->posted[index].pieces[i] =
            (struct piece){.address = address, .length = lengths[i], .writable = true};
    }
    receiver->posted[index].id =
        driver_add(&receiver->driver, receiver->posted[index].pieces, pieces, indirect);
    driver_publish(&receiver->driver);
}

void post(struct receiver *receiver, unsigned count, uint32_t length)
{
    for (unsigned i = 0; i < count; i++)
        post_chain(receiver, &length, 1, false);
}

/* Copies what was written into the oldest buffer, and checks that nothing was behind its end. */
static uint32_t take_buffer(struct receiver *receiver, const struct used *used, uint8_t *bytes)
{
    ck_assert_uint_gt(receiver->posted_count, 0);
    ck_assert_uint_eq(receiver->posted[0].id, used->id);
    uint32_t at = 0;
    for (unsigned i = 0; i < receiver->posted[0].count; i++) {
        const struct piece *piece = &receiver->posted[0].pieces[i];
        const uint32_t left = used->length - at;
        const uint32_t part = piece->length < left ? piece->length : left;
        driver_read(&receiver->driver, piece->address, bytes + at, part);
        at += part;
        for (uint32_t k = part; k <= piece->length; k++) {
            if (*driver_at(&receiver->driver, piece->address + k) != 0xee)
                ck_abort_msg("written behind the end of the %s", k < piece->length ? "frame" : "buffer");
        }
    }
    ck_assert_uint_eq(at, used->length);
    receiver->posted_count--;
    memmove(&receiver->posted[0], &receiver->posted[1], receiver->posted_count * sizeof receiver->posted[0]);
    return at;
}

bool receive(struct receiver *receiver, struct received *received)
{
    static uint8_t bytes[2 * FRAMES_LONGEST];
    const uint64_t features = receiver->driver.setup.features;
    const uint32_t header = (features & MERGEABLE) != 0 ? HEADER : LEGACY_HEADER;
    struct used fresh[DRIVER_SIZE_MAX];
    const unsigned count = driver_collect(&receiver->driver, fresh);
    memcpy(&receiver->used[receiver->used_count], fresh, count * sizeof fresh[0]);
    receiver->used_count += count;
    if (receiver->used_count == 0)
        return false;
    memset(received, 0, sizeof *received);
    uint32_t length = take_buffer(receiver, &receiver->used[0], bytes);
    received->first_used = length;
    ck_assert_uint_ge(length, header);
    memcpy(&received->header, bytes, header);
    received->buffers = 1;
    if ((features & BIT(VIRTIO_NET_F_MRG_RXBUF)) != 0) {
        received->buffers = received->header.num_buffers;
        ck_assert_uint_ge(received->buffers, 1);
        ck_assert_msg(received->buffers <= receiver->used_count, "only a part of a frame's buffers is used");
        for (unsigned i = 1; i < received->buffers; i++)
            length += take_buffer(receiver, &receiver->used[i], bytes + length);
    }
    receiver->used_count -= received->buffers;
    memmove(&receiver->used[0], &receiver->used[received->buffers],
            receiver->used_count * sizeof receiver->used[0]);
    received->length = length - header;
    ck_assert_uint_le(received->length, FRAMES_LONGEST);
    memcpy(received->bytes, bytes + header, received->length);
    return true;
}

void check_received(const struct received *received, uint32_t length, unsigned seed)
{
    ck_assert_uint_eq(received->length, length);
    for (uint32_t i = 0; i < length; i++) {
        if (received->bytes[i] != frame_byte(seed, i))
            ck_abort_msg("byte %u of a frame of %u is wrong", i, length);
    }
}

void make_burst(const uint32_t *lengths, unsigned count)
{
    static uint8_t bytes[BURST_FRAMES][FRAMES_LONGEST];
    burst.count = burst.segment_count = count;
    for (unsigned i = 0; i < count; i++) {
        make_frame(bytes[i], lengths[i], i);
        burst.frames[i] = (struct frame){.length = lengths[i], .first = i, .segment_count = 1};
        burst.segments[i] = (struct iovec){.iov_base = bytes[i], .iov_len = lengths[i]};
    }
}

uint64_t dropped(enum statistics_drop cause)
{
    return atomic_load(&counters.dropped[cause]);
}

void reset_counters(void)
{
    memset(&counters, 0, sizeof counters);
}
