/* What the tests of offload share: packets built by a slow and simple builder, which is also the judge, laid
 * out in memory in many ways. */
#ifndef CHAN_TESTS_UNIT_OFFLOAD_SUPPORT_H
#define CHAN_TESTS_UNIT_OFFLOAD_SUPPORT_H

#include <check.h>

#include "dataplane/offload/offload.h"

enum {
    TCP = 6,
    UDP = 17,
    ICMPV6 = 58,
    HOP_BY_HOP = 0,
    ROUTING = 43,
    DESTINATION = 60,
    FIN = 1,
    PSH = 8,
    ACK = 16,
    CWR = 128,
    EXTENSIONS_MAX = 4,
    PACKET_MAX = FRAME_LENGTH_MAX
};

TCase *checksum_tcase(void);
TCase *plan_tcase(void);
TCase *complete_tcase(void);
TCase *segment_tcase(void);
TCase *fragment_tcase(void);
TCase *malformed_tcase(void);

/* What a packet is to be like; everything may be left 0. */
struct spec {
    bool ipv6;
    uint8_t protocol;
    unsigned vlan_tags;
    unsigned ip_options;  /* bytes, a multiple of 4 */
    unsigned tcp_options; /* the same */
    struct {
        uint8_t kind;
        uint32_t length;          /* a multiple of 8 */
    } extensions[EXTENSIONS_MAX]; /* up to the first of length 0 */
    bool source_routed;           /* a routing header has a hop left */
    uint8_t tcp_flags;
    uint32_t sequence;
    uint16_t ip_id;
    bool dont_fragment;
    const uint8_t *payload;
    uint32_t payload_length;
    bool partial; /* the checksum is the pseudo header's sum only */
};

struct packet {
    uint32_t length, network, transport, payload; /* offsets */
    uint16_t checksum_offset;                     /* from the transport header */
    uint8_t bytes[PACKET_MAX];
};

void build(struct packet *packet, const struct spec *spec);
/* `length` bytes that depend on nothing but their number; they stay. */
const uint8_t *payload_of(uint32_t length);

/* The sum of big-endian words, folded. The bytes begin at an even offset. */
uint16_t slow_sum(const uint8_t *bytes, size_t length, uint32_t sum);

/* How a frame lies in memory. Every piece is an allocation of its own, of just its size. */
enum layout {
    LAYOUT_ONE,      /* one piece */
    LAYOUT_BYTES,    /* a byte each, as far as pieces go, then the rest */
    LAYOUT_ODD,      /* pieces of 1, 2, 3, ... 97 bytes */
    LAYOUT_HOLES,    /* pieces of 333 bytes and some without any */
    LAYOUT_TWO_ENDS, /* 13 bytes, the rest but one, and the last */
    LAYOUT_COUNT
};

struct scattered {
    struct frame frame;
    struct iovec segments[FRAME_SEGMENTS_MAX];
    unsigned judged; /* segments that flatten is done with */
};

void scatter(struct scattered *scattered, const uint8_t *bytes, uint32_t length, enum layout layout);
void gather_again(struct scattered *scattered); /* frees it */
/* The virtio header that an honest sender writes. */
void ask_for_checksum(struct scattered *scattered, const struct packet *packet);
void ask_for_segments(struct scattered *scattered, const struct packet *packet, uint8_t gso_type,
                      uint16_t gso_size);

/* The bytes of an output, to a place of PACKET_MAX bytes; checks that all pieces but its own lie in the
 * source. */
void flatten(const struct offload_output *output, struct scattered *source, uint8_t *bytes);
/* Fails with the first byte that differs. */
void check_same(const uint8_t *bytes, uint32_t length, const struct packet *expected, const char *what,
                unsigned index);

#endif
