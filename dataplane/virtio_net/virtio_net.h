/* Frames in virtqueues: the virtio network device's transmit queue (the guest sends) and receive queue (the
 * guest receives). Here a frame is copied, once. Runs on the worker's thread. */
#ifndef CHAN_DATAPLANE_VIRTIO_NET_VIRTIO_NET_H
#define CHAN_DATAPLANE_VIRTIO_NET_VIRTIO_NET_H

#include "api/proto/statistics.h"
#include "dataplane/frames/frame.h"
#include "dataplane/virtqueue/virtqueue.h"

/* Looks at up to BURST_FRAMES chains of a transmit queue, without taking them: see end_operations.pull. A
 * chain that holds no frame (shorter than header and Ethernet header, or longer than FRAME_LENGTH_MAX)
 * becomes a malformed frame; one that violates the ring's rules is a fault of the queue, and the frames
 * before it are returned. */
unsigned net_pull(struct virtqueue *queue, struct burst *burst);
/* Gives the first `count` chains of the last pull back to the driver. */
void net_release(struct virtqueue *queue, unsigned count);

/* Delivers into a receive queue: see end_operations.push. Frames that the driver cannot take as they are (by
 * the features with which the queue was started) are checksummed or segmented on the way. A frame larger than
 * the buffers can hold is dropped whole. */
unsigned net_push(struct virtqueue *queue, const struct burst *burst, unsigned from,
                  struct statistics_direction *counters);

#endif
