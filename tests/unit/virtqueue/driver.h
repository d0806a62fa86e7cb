/* A guest in this process: memory in a memfd, and the driver's side of one virtqueue in it, split or packed.
 * For tests, so a driver that is misused fails the test. */
#ifndef CHAN_TESTS_UNIT_VIRTQUEUE_DRIVER_H
#define CHAN_TESTS_UNIT_VIRTQUEUE_DRIVER_H

#include <linux/virtio_config.h>
#include <linux/virtio_net.h>
#include <linux/virtio_ring.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dataplane/memory/memory.h"
#include "dataplane/virtqueue/virtqueue.h"

#define BIT(number) (UINT64_C(1) << (number))

/* Two regions follow each other for the guest, but not in the file; the third one is far away. The ring is in
 * the first one. */
#define GUEST_A    UINT64_C(0x100000)
#define GUEST_B    UINT64_C(0x200000)
#define GUEST_C    UINT64_C(0x80000000)
#define USER_SHIFT UINT64_C(0x7f0000000000)
enum { GUEST_A_SIZE = 0x100000, GUEST_B_SIZE = 0x100000, GUEST_C_SIZE = 0x200000 };
#define GUEST_BORDER GUEST_B /* between the first two */

enum { DRIVER_SIZE_MAX = 2048 }; /* of its ring */

struct piece {
    uint64_t address;
    uint32_t length;
    bool writable;
};

struct used {
    uint16_t id;
    uint32_t length; /* UINT32_MAX: one that an in-order device has skipped */
};

struct driver {
    int fd;
    uint8_t *file; /* the driver's own mapping */
    struct guest_memory *memory;
    struct virtqueue *queue;
    struct virtqueue_setup setup;
    uint32_t size;
    bool packed;
    uint64_t free_address; /* of memory for buffers, in the third region */

    uint16_t available, used; /* split: free-running; packed: slots */
    bool available_wrap, used_wrap;
    uint32_t room;       /* descriptors that are free */
    uint16_t next_free;  /* split: the next descriptor; they are used round and round */
    uint16_t first_slot; /* packed: of what is not published yet */
    uint16_t first_flags;
    bool unpublished;
    struct {
        uint16_t id;
        uint16_t descriptors;
    } outstanding[DRIVER_SIZE_MAX]; /* oldest first */
    unsigned outstanding_count;
};

/* Makes the guest with its ring. position: where the ring starts, as after some use. */
void driver_new(struct driver *driver, uint32_t size, uint64_t features, uint16_t position);
/* The same, and starts the queue on it. */
void driver_start(struct driver *driver, uint32_t size, uint64_t features);
void driver_start_at(struct driver *driver, uint32_t size, uint64_t features, uint16_t position);
void driver_stop(struct driver *driver);

/* Where a guest's address is in the file, and memory for a buffer. */
uint8_t *driver_at(const struct driver *driver, uint64_t address);
uint64_t driver_allocate(struct driver *driver, uint32_t length);
void driver_write(const struct driver *driver, uint64_t address, const void *bytes, size_t length);
void driver_read(const struct driver *driver, uint64_t address, void *bytes, size_t length);

/* Adds a chain, which the device sees after driver_publish. indirect: through a table, at `table` or, if that
 * is 0, anywhere. Returns its id. */
uint16_t driver_add(struct driver *driver, const struct piece *pieces, unsigned count, bool indirect);
uint16_t driver_add_table(struct driver *driver, const struct piece *pieces, unsigned count, uint64_t table);
void driver_publish(struct driver *driver);

/* A descriptor as it is, of the ring or at any address. link: next, or the id in a packed ring. */
void driver_set_descriptor(const struct driver *driver, unsigned index, uint64_t address, uint32_t length,
                           uint16_t flags, uint16_t link);
void driver_write_descriptor(const struct driver *driver, uint64_t at, uint64_t address, uint32_t length,
                             uint16_t flags, uint16_t link);
/* Split: a head as it is, and an available index as it is. */
void driver_push_head(struct driver *driver, uint16_t head);
void driver_set_available_index(const struct driver *driver, uint16_t index);

/* What the device has used since the last call. */
unsigned driver_collect(struct driver *driver, struct used used[DRIVER_SIZE_MAX]);

struct vring_avail *driver_available(const struct driver *driver);
struct vring_used *driver_used(const struct driver *driver);
struct vring_packed_desc *driver_descriptors(const struct driver *driver);
/* Packed: the two areas of event suppression. */
struct vring_packed_desc_event *driver_event(const struct driver *driver);
struct vring_packed_desc_event *driver_device_event(const struct driver *driver);

#endif
