/* A frame of any sender, for any receiver. The input is
 *   12 bytes   the virtio header
 *   byte 12    which features the receiver has acked: CSUM, TSO4, TSO6, ECN, UFO, USO, from bit 0 on
 *   byte 13    how much payload is put behind the frame, in units of 256 bytes
 *   byte 14    number of piece lengths
 *   those      the lengths, used in turn; 0 is a piece without bytes
 *   the rest   the frame
 * Every piece is an allocation of its own, so that nothing can be read beyond it unnoticed. Whatever the
 * bytes are: no more segments than there may be, none longer than announced, all of the payload in them, and
 * IPv4 headers and checksums right. */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "dataplane/offload/offload.h"

enum { PREFIX = 15, PAYLOAD_UNIT = 256, ETHERNET = 14 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct iovec segments[FRAME_SEGMENTS_MAX];
static struct segmenter segmenter;
static struct offload_output output;
static uint8_t bytes[FRAME_LENGTH_MAX], made[FRAME_LENGTH_MAX];

static void expect(int condition)
{
    if (!condition)
        abort();
}

static uint64_t features_of(uint8_t choice)
{
    static const uint64_t features[] = {
        UINT64_C(1) << VIRTIO_NET_F_GUEST_CSUM, UINT64_C(1) << VIRTIO_NET_F_GUEST_TSO4,
        UINT64_C(1) << VIRTIO_NET_F_GUEST_TSO6, UINT64_C(1) << VIRTIO_NET_F_GUEST_ECN,
        UINT64_C(1) << VIRTIO_NET_F_GUEST_UFO,  UINT64_C(3) << 54 /* GUEST_USO4 and GUEST_USO6 */};
    uint64_t all = 0;
    for (unsigned i = 0; i < sizeof features / sizeof *features; i++)
        all |= (choice >> i & 1) != 0 ? features[i] : 0;
    return all;
}

/* ---- the frame in memory ---- */

static void scatter(struct frame *frame, const uint8_t *lengths, size_t length_count)
{
    unsigned count = 0;
    for (size_t done = 0; done < frame->length; count++) {
        const size_t left = frame->length - done;
        size_t length =
            count + 1 < FRAME_SEGMENTS_MAX && length_count > 0 ? lengths[count % length_count] : left;
        length = length < left ? length : left;
        uint8_t *piece = malloc(length);
        expect(piece != NULL || length == 0);
        if (length > 0)
            memcpy(piece, bytes + done, length);
        segments[count] = (struct iovec){.iov_base = piece, .iov_len = length};
        done += length;
    }
    frame->segment_count = (uint16_t)count;
}

static void free_pieces(const struct frame *frame)
{
    for (unsigned i = 0; i < frame->segment_count; i++)
        free(segments[i].iov_base);
}

/* ---- what comes out ---- */

static void flatten(void)
{
    size_t length = 0;
    for (unsigned i = 0; i < output.segment_count; i++) {
        expect(length + output.segments[i].iov_len <= sizeof made);
        memcpy(made + length, output.segments[i].iov_base, output.segments[i].iov_len);
        length += output.segments[i].iov_len;
    }
    expect(length == output.length);
}

static uint32_t number(const uint8_t *place)
{
    return (uint32_t)place[0] << 8 | place[1];
}

static uint32_t slow_sum(const uint8_t *place, size_t length, uint32_t sum)
{
    for (size_t i = 0; i < length; i++)
        sum += i % 2 == 0 ? (uint32_t)place[i] << 8 : place[i];
    while (sum > UINT16_MAX)
        sum = (sum & UINT16_MAX) + (sum >> 16);
    return sum;
}

static void check_completed(const struct frame *frame)
{
    const uint32_t start = frame->header.csum_start, offset = frame->header.csum_offset;
    const uint32_t field = start + offset;
    flatten();
    expect(output.length == frame->length);
    expect(memcmp(made, bytes, field) == 0);
    expect(memcmp(made + field + 2, bytes + field + 2, frame->length - field - 2) == 0);
    /* What was in the field counts, and what is in it now is the inverse of the sum. */
    uint32_t expected = ~slow_sum(bytes + start, frame->length - start, 0) & UINT16_MAX;
    if (offset == 6 && expected == 0)
        expected = UINT16_MAX;
    expect(number(made + field) == expected);
}

/* An untagged frame of IPv4. */
static void check_ipv4(int fragmented)
{
    const uint8_t *header = made + ETHERNET;
    const uint32_t length = (header[0] & 0xfu) * 4;
    expect(number(header + 2) == output.length - ETHERNET);
    expect(slow_sum(header, length, 0) == UINT16_MAX);
    const uint32_t transport = output.length - ETHERNET - length;
    if (!fragmented)
        expect(slow_sum(header + length, transport, slow_sum(header + 12, 8, header[9] + transport)) ==
               UINT16_MAX);
}

static void check_segments(const struct frame *frame)
{
    if (!segmenter_start(&segmenter, frame, segments))
        return;
    uint64_t payload = 0;
    uint32_t count = 0;
    const uint32_t most = segmenter.header_length + segmenter.payload_per_segment;
    expect(segmenter.count > 0 && segmenter.count <= OFFLOAD_SEGMENTS_MAX);
    for (; segmenter_next(&segmenter, &output); count++) {
        flatten();
        expect(output.length >= segmenter.header_length && output.length <= most);
        expect(output.length == most || count + 1 == segmenter.count);
        payload += output.length - segmenter.header_length;
        expect(memcmp(made, bytes, 12) == 0);
        if (number(made + 12) == 0x0800)
            check_ipv4(segmenter.fragmented);
    }
    expect(count == segmenter.count);
    expect(payload == segmenter.payload_length && payload <= frame->length);
}

static void check_passed(const struct frame *frame, uint64_t features)
{
    struct virtio_net_hdr_v1 header;
    offload_passed_header(frame, features, &header);
    expect(header.num_buffers == 1 && header.hdr_len <= frame->length);
    if (header.gso_type != 0 || (header.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) != 0) {
        expect((features & features_of(1)) != 0);
        expect((header.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) != 0);
        expect((uint32_t)header.csum_start + header.csum_offset + 2 <= frame->length);
    }
    if (header.gso_type != 0)
        expect(header.gso_size > 0 && (features & ~features_of(1)) != 0);
}

static void follow_plan(const struct frame *frame, uint64_t features)
{
    switch (offload_plan(frame, features)) {
    case OFFLOAD_PASS:
        check_passed(frame, features);
        break;
    case OFFLOAD_CHECKSUM:
        expect(offload_complete_checksum(frame, segments, &output));
        check_completed(frame);
        break;
    case OFFLOAD_SEGMENT:
        check_segments(frame);
        break;
    default:
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < PREFIX + (size_t)FRAME_LENGTH_MIN || size < PREFIX + (size_t)FRAME_LENGTH_MIN + data[14])
        return 0;
    struct frame frame = {.first = 0};
    const uint8_t *lengths = data + PREFIX;
    const size_t length_count = data[14];
    const size_t given = size - PREFIX - length_count, more = data[13] * (size_t)PAYLOAD_UNIT;
    const size_t copied = given < sizeof bytes ? given : sizeof bytes;
    const size_t length = copied + more < sizeof bytes ? copied + more : sizeof bytes;
    memcpy(&frame.header, data, sizeof frame.header);
    memcpy(bytes, lengths + length_count, copied);
    for (size_t i = copied; i < length; i++)
        bytes[i] = (uint8_t)(i * 7 + (i >> 8));
    frame.length = (uint32_t)length;
    scatter(&frame, lengths, length_count);
    follow_plan(&frame, features_of(data[12]));
    free_pieces(&frame);
    return 0;
}
