/* What is to be done with a frame, by its virtio header. */
#include "dataplane/offload/internal.h"

/* Headers before Linux 6.2 lack these. */
enum { GUEST_USO4 = 54, GUEST_USO6 = 55 };

#define FEATURE(bit) (UINT64_C(1) << (bit))

/* What a receiver must have acked to take frames of this type whole; 0: there is no such type. */
static uint64_t features_for(uint8_t gso_type)
{
    const uint64_t checksum = FEATURE(VIRTIO_NET_F_GUEST_CSUM);
    const bool ecn = (gso_type & VIRTIO_NET_HDR_GSO_ECN) != 0;
    const uint64_t for_tcp = ecn ? checksum | FEATURE(VIRTIO_NET_F_GUEST_ECN) : checksum;
    switch (gso_type & ~VIRTIO_NET_HDR_GSO_ECN) {
    case VIRTIO_NET_HDR_GSO_TCPV4:
        return for_tcp | FEATURE(VIRTIO_NET_F_GUEST_TSO4);
    case VIRTIO_NET_HDR_GSO_TCPV6:
        return for_tcp | FEATURE(VIRTIO_NET_F_GUEST_TSO6);
    case VIRTIO_NET_HDR_GSO_UDP:
        return ecn ? 0 : checksum | FEATURE(VIRTIO_NET_F_GUEST_UFO);
    case VIRTIO_NET_HDR_GSO_UDP_L4:
        return ecn ? 0 : checksum | FEATURE(GUEST_USO4) | FEATURE(GUEST_USO6);
    default:
        return 0;
    }
}

static bool needs_checksum(const struct frame *frame)
{
    return (frame->header.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) != 0;
}

bool offload_checksum_lies_inside(const struct frame *frame)
{
    const uint32_t end = (uint32_t)frame->header.csum_start + frame->header.csum_offset + CHECKSUM_LENGTH;
    return frame->header.csum_start >= FRAME_LENGTH_MIN && end <= frame->length;
}

static enum offload_plan plan_gso(const struct frame *frame, uint64_t receiver_features)
{
    const uint64_t wanted = features_for(frame->header.gso_type);
    if (wanted == 0 || frame->header.gso_size == 0 || frame->header.hdr_len > frame->length)
        return OFFLOAD_MALFORMED;
    return needs_checksum(frame) && (receiver_features & wanted) == wanted ? OFFLOAD_PASS : OFFLOAD_SEGMENT;
}

enum offload_plan offload_plan(const struct frame *frame, uint64_t receiver_features)
{
    const bool gso = frame->header.gso_type != VIRTIO_NET_HDR_GSO_NONE;
    if (!gso && !needs_checksum(frame))
        return OFFLOAD_PASS;
    if (needs_checksum(frame) && !offload_checksum_lies_inside(frame))
        return OFFLOAD_MALFORMED;
    if (gso)
        return plan_gso(frame, receiver_features);
    return (receiver_features & FEATURE(VIRTIO_NET_F_GUEST_CSUM)) != 0 ? OFFLOAD_PASS : OFFLOAD_CHECKSUM;
}

void offload_passed_header(const struct frame *frame, uint64_t receiver_features,
                           struct virtio_net_hdr_v1 *header)
{
    uint8_t known = VIRTIO_NET_HDR_F_NEEDS_CSUM;
    if ((receiver_features & FEATURE(VIRTIO_NET_F_GUEST_CSUM)) != 0)
        known |= VIRTIO_NET_HDR_F_DATA_VALID;
    *header = (struct virtio_net_hdr_v1){.flags = frame->header.flags & known, .num_buffers = 1};
    if (needs_checksum(frame)) {
        header->csum_start = frame->header.csum_start;
        header->csum_offset = frame->header.csum_offset;
    }
    if (frame->header.gso_type != VIRTIO_NET_HDR_GSO_NONE) {
        header->gso_type = frame->header.gso_type;
        header->gso_size = frame->header.gso_size;
        header->hdr_len = frame->header.hdr_len;
    }
}
