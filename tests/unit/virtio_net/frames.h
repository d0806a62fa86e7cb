/* What the tests of virtio_net share: frames put into a driver's chains, and found in them again. */
#ifndef CHAN_TESTS_UNIT_VIRTIO_NET_FRAMES_H
#define CHAN_TESTS_UNIT_VIRTIO_NET_FRAMES_H

#include <check.h>

#include "dataplane/virtio_net/virtio_net.h"
#include "tests/unit/virtqueue/driver.h"

enum { HEADER = sizeof(struct virtio_net_hdr_v1), LEGACY_HEADER = 10, FRAMES_LONGEST = 70000 };

#define MODERN    BIT(VIRTIO_F_VERSION_1)
#define MERGEABLE (MODERN | BIT(VIRTIO_NET_F_MRG_RXBUF))
#define PACKED    BIT(VIRTIO_F_RING_PACKED)
#define INDIRECT  BIT(VIRTIO_RING_F_INDIRECT_DESC)
#define IN_ORDER  BIT(VIRTIO_F_IN_ORDER)

/* The kinds of rings that everything is tried on: for tcase_add_loop_test. */
enum { KINDS = 4 };
extern const uint64_t ring_kinds[KINDS];

/* One burst and one set of counters; tests run one at a time. */
extern struct burst burst;
extern struct statistics_direction counters;

/* The byte at `index` of frame `seed`. */
uint8_t frame_byte(unsigned seed, size_t index);
void make_frame(uint8_t *bytes, uint32_t length, unsigned seed);

/* Adds header and frame as one chain of pieces of these lengths; what they leave over is the last piece. */
void add_frame(struct driver *driver, const struct virtio_net_hdr_v1 *header, uint32_t header_length,
               const uint8_t *frame, uint32_t length, const uint32_t *layout, unsigned layout_count,
               bool indirect);
/* A plain frame in one piece; published. */
void send_frame(struct driver *driver, uint32_t length, unsigned seed);

/* Fails unless the burst's frame has these bytes. */
void check_pulled(unsigned index, const uint8_t *bytes, uint32_t length);

/* A receiver remembers where its buffers are, oldest first. */
struct receiver {
    struct driver driver;
    struct {
        uint16_t id;
        unsigned count;
        struct piece pieces[20];
    } posted[DRIVER_SIZE_MAX];
    unsigned posted_count;
    struct used used[DRIVER_SIZE_MAX]; /* seen by the driver, not received yet */
    unsigned used_count;
};

struct received {
    struct virtio_net_hdr_v1 header;
    uint32_t length;
    unsigned buffers;
    uint32_t first_used; /* bytes in the first buffer, with the header */
    uint8_t bytes[FRAMES_LONGEST];
};

void receiver_start(struct receiver *receiver, uint32_t size, uint64_t features);
void receiver_stop(struct receiver *receiver);
/* Posts and publishes `count` buffers of pieces of these lengths, filled with 0xee. */
void post_chain(struct receiver *receiver, const uint32_t *lengths, unsigned pieces, bool indirect);
void post(struct receiver *receiver, unsigned count, uint32_t length);
/* The next frame that has arrived; false: there is none. */
bool receive(struct receiver *receiver, struct received *received);
void check_received(const struct received *received, uint32_t length, unsigned seed);

/* A burst of plain frames of these lengths with the seeds 0, 1, ... as if another end had pulled it. */
void make_burst(const uint32_t *lengths, unsigned count);
uint64_t dropped(enum statistics_drop cause);
void reset_counters(void);

TCase *pull_tests(void);
TCase *fault_tests(void);
TCase *push_tests(void);
TCase *offload_tests(void);

#endif
