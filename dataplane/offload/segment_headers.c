/* Reading and checking the headers of a frame that is to be segmented. They are read once, in order, as far
 * as each of them says that there is more, and never beyond the frame or OFFLOAD_HEADERS_MAX. */
#include <netinet/in.h>
#include <string.h>

#include "dataplane/offload/internal.h"

enum {
    ETHERTYPE_OFFSET = 12,
    ETHERNET_HEADER_LENGTH = 14,
    VLAN_TAG_LENGTH = 4,
    TYPE_IPV4 = 0x0800,
    TYPE_IPV6 = 0x86dd,
    TYPE_VLAN = 0x8100,
    TYPE_SERVICE_VLAN = 0x88a8,
    IPV4_HEADER_LENGTH = 20,
    IPV4_FRAGMENT_BITS = 0x3fff, /* more fragments, and the offset */
    TCP_HEADER_LENGTH = 20,
    IPV6_EXTENSION_UNIT = 8,
    ROUTING_HOME_ADDRESS = 2, /* types of routing headers: RFC 6275 */
    ROUTING_SEGMENTS = 4,     /* RFC 8754 */
    /* A fragment header may have to be put in. */
    READ_MAX = OFFLOAD_HEADERS_MAX - IPV6_FRAGMENT_HEADER_LENGTH
};

struct reader {
    struct segmenter *segmenter;
    const struct frame *frame;
    uint8_t *headers;    /* the segmenter's */
    uint32_t length;     /* of what was read */
    uint32_t packet_end; /* as the IP header has it: there may be padding behind it */
    uint8_t protocol;
    /* Where IPv6's fragment header would go, and the field before it that would name it. */
    uint32_t fragment_point, fragment_field;
};

/* Makes sure that the headers are read that far. */
static bool read_to(struct reader *reader, uint32_t length)
{
    if (length <= reader->length)
        return true;
    if (length > READ_MAX)
        return false;
    const uint32_t more = length - reader->length;
    if (!cursor_read(&reader->segmenter->payload, reader->headers + reader->length, more))
        return false;
    reader->length = length;
    return true;
}

static void add_to_pseudo_header(struct reader *reader, uint32_t offset, size_t length)
{
    struct segmenter *segmenter = reader->segmenter;
    segmenter->pseudo_sum = checksum_add(segmenter->pseudo_sum, reader->headers + offset, length, false);
}

/* The network layer's type; the offset of its header is left in network_start. False: no Ethernet frame. */
static bool read_ethernet(struct reader *reader, uint16_t *type)
{
    uint32_t end = ETHERNET_HEADER_LENGTH;
    if (!read_to(reader, end))
        return false;
    *type = get_be16(reader->headers + ETHERTYPE_OFFSET);
    while (*type == TYPE_VLAN || *type == TYPE_SERVICE_VLAN) {
        end += VLAN_TAG_LENGTH;
        if (!read_to(reader, end))
            return false;
        *type = get_be16(reader->headers + end - sizeof *type);
    }
    reader->segmenter->network_start = end;
    return true;
}

/* `length` is what the IP header says; 0: it is too long to be said, or was left to us. */
static bool set_packet_end(struct reader *reader, uint32_t header_start, uint32_t length)
{
    reader->packet_end = length != 0 ? header_start + length : reader->frame->length;
    return reader->packet_end <= reader->frame->length;
}

static bool read_ipv4(struct reader *reader)
{
    const uint32_t start = reader->segmenter->network_start;
    if (!read_to(reader, start + IPV4_HEADER_LENGTH))
        return false;
    const uint8_t *header = reader->headers + start;
    const uint32_t length = (header[0] & 0xfu) * 4;
    if (header[0] >> 4 != 4 || length < IPV4_HEADER_LENGTH || !read_to(reader, start + length))
        return false;
    if ((get_be16(header + 6) & IPV4_FRAGMENT_BITS) != 0)
        return false;
    reader->protocol = header[9];
    reader->segmenter->ip_id = get_be16(header + 4);
    reader->segmenter->transport_start = start + length;
    reader->fragment_point = start + length;
    add_to_pseudo_header(reader, start + 12, 2 * sizeof(struct in_addr));
    return set_packet_end(reader, start, get_be16(header + 2));
}

/* Where the address is of whom the packet reaches in the end, who is in the pseudo header: the destination
 * or, if a routing header names hops, the last of those. 0: we do not know such a header. */
static uint32_t final_destination(const struct reader *reader, uint32_t routing_header,
                                  uint32_t header_length, uint32_t destination)
{
    const uint8_t *header = reader->headers + routing_header;
    const uint8_t type = header[2], hops_left = header[3];
    if (hops_left == 0)
        return destination;
    const bool known = type == ROUTING_HOME_ADDRESS || type == ROUTING_SEGMENTS;
    /* In both, it is the first address that is listed. */
    return known && header_length >= 8 + sizeof(struct in6_addr) ? routing_header + 8 : 0;
}

static bool read_ipv6(struct reader *reader)
{
    const uint32_t start = reader->segmenter->network_start;
    uint32_t end = start + IPV6_HEADER_LENGTH;
    if (!read_to(reader, end) || reader->headers[start] >> 4 != 6)
        return false;
    uint32_t destination = start + 24;
    uint32_t next_field = start + 6; /* which names the header at `end` */
    reader->fragment_point = end;
    reader->fragment_field = next_field;
    for (;;) {
        const uint8_t kind = reader->headers[next_field];
        if (kind != IPPROTO_HOPOPTS && kind != IPPROTO_ROUTING && kind != IPPROTO_DSTOPTS) {
            reader->protocol = kind;
            break;
        }
        if (!read_to(reader, end + IPV6_EXTENSION_UNIT))
            return false;
        const uint32_t length = (reader->headers[end + 1] + 1u) * IPV6_EXTENSION_UNIT;
        if (!read_to(reader, end + length))
            return false;
        if (kind == IPPROTO_ROUTING)
            destination = final_destination(reader, end, length, destination);
        if (destination == 0)
            return false;
        next_field = end;
        end += length;
        if (kind != IPPROTO_DSTOPTS) { /* what every hop may look at goes into every fragment */
            reader->fragment_point = end;
            reader->fragment_field = next_field;
        }
    }
    reader->segmenter->transport_start = end;
    add_to_pseudo_header(reader, start + 8, sizeof(struct in6_addr));
    add_to_pseudo_header(reader, destination, sizeof(struct in6_addr));
    const uint32_t payload = get_be16(reader->headers + start + 4);
    return set_packet_end(reader, start, payload != 0 ? IPV6_HEADER_LENGTH + payload : 0);
}

static bool read_network(struct reader *reader)
{
    uint16_t type = 0;
    if (!read_ethernet(reader, &type))
        return false;
    reader->segmenter->ipv6 = type == TYPE_IPV6;
    if (type == TYPE_IPV4)
        return read_ipv4(reader);
    return type == TYPE_IPV6 && read_ipv6(reader);
}

/* Whether the virtio header's checksum is the one at that place of the transport's header. */
static bool checksum_is_at(const struct reader *reader, uint16_t offset)
{
    return !reader->segmenter->needs_checksum ||
           (reader->frame->header.csum_start == reader->segmenter->transport_start &&
            reader->frame->header.csum_offset == offset);
}

static bool read_tcp(struct reader *reader)
{
    const uint32_t start = reader->segmenter->transport_start;
    if (reader->protocol != IPPROTO_TCP || !checksum_is_at(reader, TCP_CHECKSUM) ||
        !read_to(reader, start + TCP_HEADER_LENGTH))
        return false;
    const uint8_t *header = reader->headers + start;
    const uint32_t length = (header[12] >> 4) * 4u;
    reader->segmenter->tcp_sequence = get_be32(header + 4);
    return length >= TCP_HEADER_LENGTH && read_to(reader, start + length);
}

static bool read_udp(struct reader *reader)
{
    return reader->protocol == IPPROTO_UDP && checksum_is_at(reader, UDP_CHECKSUM) &&
           read_to(reader, reader->segmenter->transport_start + UDP_HEADER_LENGTH);
}

static bool read_transport(struct reader *reader)
{
    struct segmenter *segmenter = reader->segmenter;
    switch (reader->frame->header.gso_type & ~VIRTIO_NET_HDR_GSO_ECN) {
    case VIRTIO_NET_HDR_GSO_TCPV4:
        segmenter->transport = IPPROTO_TCP;
        return !segmenter->ipv6 && read_tcp(reader);
    case VIRTIO_NET_HDR_GSO_TCPV6:
        segmenter->transport = IPPROTO_TCP;
        return segmenter->ipv6 && read_tcp(reader);
    case VIRTIO_NET_HDR_GSO_UDP:
    case VIRTIO_NET_HDR_GSO_UDP_L4:
        segmenter->transport = IPPROTO_UDP;
        return read_udp(reader);
    default:
        return false;
    }
}

/* Segmenters of other queues number other flows: those should not get the same numbers. */
static uint32_t next_fragment_id(struct reader *reader)
{
    const uint32_t ports = get_be32(reader->headers + reader->segmenter->transport_start);
    const uint32_t flow = checksum_fold(reader->segmenter->pseudo_sum) ^ ports;
    return flow * UINT32_C(0x9e3779b1) + reader->segmenter->fragment_id++;
}

/* What is behind the fragment point is payload, although it was copied. */
static void prepare_fragments(struct reader *reader)
{
    struct segmenter *segmenter = reader->segmenter;
    const uint32_t id = next_fragment_id(reader);
    uint8_t *at = reader->headers + reader->fragment_point;
    segmenter->payload_length = reader->packet_end - reader->fragment_point;
    segmenter->header_length = reader->fragment_point;
    if (!segmenter->ipv6)
        return;
    memmove(at + IPV6_FRAGMENT_HEADER_LENGTH, at, reader->length - reader->fragment_point);
    memset(at, 0, IPV6_FRAGMENT_HEADER_LENGTH);
    at[0] = reader->headers[reader->fragment_field];
    put_be32(at + 4, id);
    reader->headers[reader->fragment_field] = IPPROTO_FRAGMENT;
    segmenter->header_length += IPV6_FRAGMENT_HEADER_LENGTH;
    segmenter->copied_length += IPV6_FRAGMENT_HEADER_LENGTH;
    segmenter->transport_start += IPV6_FRAGMENT_HEADER_LENGTH;
}

bool segmenter_read_headers(struct segmenter *segmenter, const struct frame *frame,
                            const struct iovec *segments)
{
    struct reader reader = {.segmenter = segmenter, .frame = frame, .headers = segmenter->headers};
    segmenter->payload = cursor_at_start(frame, segments);
    segmenter->pseudo_sum = 0;
    segmenter->needs_checksum = (frame->header.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) != 0;
    if (!read_network(&reader) || !read_transport(&reader) || reader.packet_end < reader.length)
        return false;
    segmenter->payload_length = reader.packet_end - reader.length;
    segmenter->header_length = reader.length;
    segmenter->copied_length = reader.length;
    segmenter->pseudo_sum += (uint64_t)htons(segmenter->transport);
    /* UFO of a datagram that fits needs no fragments. */
    segmenter->fragmented = frame->header.gso_type == VIRTIO_NET_HDR_GSO_UDP &&
                            reader.packet_end - reader.fragment_point > frame->header.gso_size;
    if (segmenter->fragmented)
        prepare_fragments(&reader);
    return true;
}
