#include "tests/bench/cable/frontend/frames.h"

#include <arpa/inet.h>
#include <linux/virtio_config.h>
#include <net/ethernet.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <string.h>

enum { PATTERN = 1 << 18, OFFSETS = PATTERN - FRAME_LENGTH_MAX, SEGMENT = 1448 };

static const uint8_t ethernet[FRAME_LENGTH_MIN] = {0x02, 0x54, 0, 0, 0, 2,    0x02,
                                                   0x54, 0,    0, 0, 1, 0x88, 0xb5};

/* Random bytes, always the same ones. */
static const uint8_t *pattern(void)
{
    static uint8_t bytes[PATTERN];
    static bool made;
    if (!made) {
        uint64_t state = UINT64_C(0x9e3779b97f4a7c15);
        for (unsigned i = 0; i < PATTERN; i++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes[i] = (uint8_t)(state >> 56);
        }
        made = true;
    }
    return bytes;
}

static const uint8_t *body_of(uint64_t number)
{
    return pattern() + number * 7919 % OFFSETS;
}

void frame_fill(uint8_t *frame, uint32_t length, uint64_t number)
{
    memcpy(frame, ethernet, sizeof ethernet);
    memcpy(frame + sizeof ethernet, body_of(number), length - sizeof ethernet);
}

bool frame_is(const uint8_t *frame, uint32_t length, uint64_t number)
{
    return length >= sizeof ethernet && memcmp(frame, ethernet, sizeof ethernet) == 0 &&
           memcmp(frame + sizeof ethernet, body_of(number), length - sizeof ethernet) == 0;
}

void frame_fill_tcp(uint8_t *chain, uint32_t length)
{
    uint8_t *frame = chain + FRAME_HEADER;
    struct iphdr ip = {.version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_TCP};
    struct tcphdr tcp = {.doff = 5, .ack = 1, .psh = 1};
    const uint32_t headers = (uint32_t)(sizeof ethernet + sizeof ip + sizeof tcp);
    const struct virtio_net_hdr_v1 header = {.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                                             .gso_type = VIRTIO_NET_HDR_GSO_TCPV4,
                                             .hdr_len = (uint16_t)headers,
                                             .gso_size = SEGMENT,
                                             .csum_start = (uint16_t)(sizeof ethernet + sizeof ip),
                                             .csum_offset = offsetof(struct tcphdr, check)};
    memcpy(chain, &header, sizeof header);
    memcpy(frame, ethernet, sizeof ethernet);
    frame[12] = ETHERTYPE_IP >> 8;
    frame[13] = ETHERTYPE_IP & 0xff;
    ip.tot_len = htons((uint16_t)(length - sizeof ethernet));
    ip.saddr = htonl(0x0a000001);
    ip.daddr = htonl(0x0a000002);
    memcpy(frame + sizeof ethernet, &ip, sizeof ip);
    memcpy(frame + sizeof ethernet + sizeof ip, &tcp, sizeof tcp);
    memcpy(frame + headers, pattern(), length - headers);
}

/* ---- receiving ---- */

struct assembly {
    uint8_t *out;
    uint32_t length;
};

/* The next chain's bytes from `skip` on. */
static bool append_chain(struct frontend *frontend, uint16_t chain, int64_t length, uint32_t skip,
                         struct assembly *assembly)
{
    if (length < skip || length - skip > (int64_t)FRAME_LENGTH_MAX - assembly->length)
        return false;
    memcpy(assembly->out + assembly->length, frontend_received(frontend, chain) + skip,
           (size_t)length - skip);
    assembly->length += (uint32_t)length - skip;
    return true;
}

int64_t frame_receive(struct frontend *frontend, struct virtio_net_hdr_v1 *header, uint8_t *out)
{
    uint16_t chain = 0;
    int64_t length = 0;
    if (!ring_take(&frontend->receive, &chain, &length))
        return FRAME_NONE;
    struct assembly assembly = {.out = out};
    memcpy(header, frontend_received(frontend, chain), sizeof *header);
    bool good = append_chain(frontend, chain, length, FRAME_HEADER, &assembly);
    /* A chain that is used wrongly must not be taken for a right one the next time. */
    memset(frontend_received(frontend, chain), 0xaa, sizeof *header);
    ring_give(&frontend->receive, chain);
    for (unsigned left = header->num_buffers; left != 1 && good; left--) {
        /* All buffers of a frame become visible together. */
        good = left != 0 && ring_take(&frontend->receive, &chain, &length) &&
               append_chain(frontend, chain, length, 0, &assembly);
        if (good)
            ring_give(&frontend->receive, chain);
    }
    return good ? (int64_t)assembly.length : FRAME_BROKEN;
}
