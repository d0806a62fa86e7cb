/* Frames whose bytes are known from their number, and the way back out of the receive ring. */
#ifndef CHAN_BENCH_FRONTEND_FRAMES_H
#define CHAN_BENCH_FRONTEND_FRAMES_H

#include <linux/virtio_net.h>

#include "tests/bench/cable/frontend/frontend.h"

enum { FRAME_HEADER = sizeof(struct virtio_net_hdr_v1), FRAME_LENGTH_MAX = 65550, FRAME_LENGTH_MIN = 14 };

/* Writes frame number `number` of that length, without a virtio header. Its bytes are no IP packet. */
void frame_fill(uint8_t *frame, uint32_t length, uint64_t number);

/* Are these the bytes of that frame? */
bool frame_is(const uint8_t *frame, uint32_t length, uint64_t number);

/* Writes a TCP/IPv4 frame of that length that asks for segmentation, virtio header included. */
void frame_fill_tcp(uint8_t *chain, uint32_t length);

enum { FRAME_NONE = -1, FRAME_BROKEN = -2 };

/* Copies the next received frame, without its header, into `out` of FRAME_LENGTH_MAX bytes, posts its buffers
 * again (visible after ring_publish), and answers its length. FRAME_NONE: none is there. FRAME_BROKEN: header
 * and buffers do not fit together. Not with IN_ORDER. */
int64_t frame_receive(struct frontend *frontend, struct virtio_net_hdr_v1 *header, uint8_t *out);

#endif
