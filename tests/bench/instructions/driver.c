#include "tests/bench/instructions/driver.h"

#include <linux/virtio_config.h>
#include <linux/virtio_ring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Where things lie in the guest's memory. */
static const uint64_t GUEST_BASE = UINT64_C(0x40000000), USER_BASE = UINT64_C(0x7f0000000000);
enum { DESCRIPTORS_AT = 0, DRIVER_AT = 8192, DEVICE_AT = 16384, TABLES_AT = 32768, BUFFERS_AT = 1 << 20 };

static void die(const char *what, const struct error *err)
{
    (void)fprintf(stderr, "chan-bench-instructions: %s%s%s\n", what, err != NULL ? ": " : "",
                  err != NULL ? err->detail : "");
    exit(1);
}

static bool is_packed(const struct driver *driver)
{
    return (driver->features & UINT64_C(1) << VIRTIO_F_RING_PACKED) != 0;
}

void driver_start(struct driver *driver, uint64_t features, bool device_writes, uint32_t buffer_size,
                  unsigned pieces, bool indirect)
{
    memset(driver, 0, sizeof *driver);
    driver->features = features;
    driver->device_writes = device_writes;
    driver->buffer_size = buffer_size;
    driver->pieces = pieces;
    driver->indirect = indirect;
    driver->available_wrap = true;
    const size_t stride = ((size_t)buffer_size + 4095) & ~(size_t)4095;
    driver->memory_size = BUFFERS_AT + stride * DRIVER_RING_SIZE;
    const int fd = memfd_create("chan-bench", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)driver->memory_size) != 0)
        die("cannot make the guest's memory", NULL);
    driver->memory = mmap(NULL, driver->memory_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (driver->memory == MAP_FAILED)
        die("cannot map the guest's memory", NULL);
    struct error err = ERROR_INIT;
    const struct guest_region_spec region = {
        .guest_address = GUEST_BASE, .size = driver->memory_size, .user_address = USER_BASE};
    if (guest_memory_new(&region, &fd, 1, &driver->guest, &err) != 0 ||
        virtqueue_new(&driver->queue, &err) != 0)
        die("setting up", &err);
    (void)close(fd);
    const struct virtqueue_setup setup = {
        .size = DRIVER_RING_SIZE,
        .features = features,
        .descriptors = USER_BASE + DESCRIPTORS_AT,
        .driver = USER_BASE + DRIVER_AT,
        .device = USER_BASE + DEVICE_AT,
        .base = is_packed(driver) ? UINT32_C(0x80008000) : 0,
    };
    if (virtqueue_start(driver->queue, &setup, driver->guest, &err) != 0)
        die("starting the queue", &err);
    virtqueue_set_call(driver->queue, -1);
    virtqueue_disable_kicks(driver->queue);
}

void driver_stop(struct driver *driver)
{
    virtqueue_stop(driver->queue);
    virtqueue_free(driver->queue);
    guest_memory_free(driver->guest);
    (void)munmap(driver->memory, driver->memory_size);
}

static uint64_t buffer_offset(const struct driver *driver, unsigned index)
{
    const uint64_t stride = ((uint64_t)driver->buffer_size + 4095) & ~UINT64_C(4095);
    return BUFFERS_AT + stride * index;
}

uint8_t *driver_buffer(const struct driver *driver, unsigned index)
{
    return driver->memory + buffer_offset(driver, index);
}

/* Piece `piece` of a chain of `length` bytes at `address`: equal parts, the last one takes the rest. */
static void cut(const struct driver *driver, uint64_t address, uint32_t length, unsigned piece, uint64_t *at,
                uint32_t *size)
{
    const uint32_t part = length / driver->pieces;
    *at = address + (uint64_t)part * piece;
    *size = piece + 1 == driver->pieces ? length - part * piece : part;
}

static uint16_t direction(const struct driver *driver)
{
    return driver->device_writes ? VRING_DESC_F_WRITE : 0;
}

/* ---- split ---- */

static void supply_split(struct driver *driver, unsigned chain, uint32_t length)
{
    struct vring_desc *descriptors = (struct vring_desc *)(void *)(driver->memory + DESCRIPTORS_AT);
    struct vring_avail *available = (struct vring_avail *)(void *)(driver->memory + DRIVER_AT);
    const uint64_t address = GUEST_BASE + buffer_offset(driver, chain);
    const unsigned head = driver->indirect ? chain : chain * driver->pieces;
    struct vring_desc *to = &descriptors[head];
    const uint64_t table = TABLES_AT + (uint64_t)chain * driver->pieces * sizeof *to;
    if (driver->indirect) {
        *to = (struct vring_desc){.addr = GUEST_BASE + table,
                                  .len = driver->pieces * (uint32_t)sizeof *to,
                                  .flags = VRING_DESC_F_INDIRECT};
        to = (struct vring_desc *)(void *)(driver->memory + table);
    }
    for (unsigned piece = 0; piece < driver->pieces; piece++) {
        uint64_t at = 0;
        uint32_t size = 0;
        cut(driver, address, length, piece, &at, &size);
        const bool more = piece + 1 < driver->pieces;
        to[piece] = (struct vring_desc){
            .addr = at,
            .len = size,
            .flags = (uint16_t)(direction(driver) | (more ? VRING_DESC_F_NEXT : 0)),
            .next = (uint16_t)((driver->indirect ? 0 : head) + piece + 1),
        };
    }
    available->ring[driver->available % DRIVER_RING_SIZE] = (uint16_t)head;
    driver->available++;
}

static void publish_split(const struct driver *driver)
{
    struct vring_avail *available = (struct vring_avail *)(void *)(driver->memory + DRIVER_AT);
    __atomic_store_n(&available->idx, driver->available, __ATOMIC_RELEASE);
}

static unsigned collect_split(struct driver *driver, uint64_t *bytes)
{
    const struct vring_used *used = (const struct vring_used *)(const void *)(driver->memory + DEVICE_AT);
    const uint16_t index = __atomic_load_n(&used->idx, __ATOMIC_ACQUIRE);
    const unsigned count = (uint16_t)(index - driver->used);
    for (; driver->used != index; driver->used++)
        *bytes += used->ring[driver->used % DRIVER_RING_SIZE].len;
    return count;
}

/* ---- packed: one descriptor a chain, or an indirect table ---- */

static void supply_packed(struct driver *driver, unsigned chain, uint32_t length)
{
    struct vring_packed_desc *descriptors =
        (struct vring_packed_desc *)(void *)(driver->memory + DESCRIPTORS_AT);
    struct vring_packed_desc *to = &descriptors[driver->available];
    const uint64_t address = GUEST_BASE + buffer_offset(driver, chain);
    const uint64_t table = TABLES_AT + (uint64_t)chain * driver->pieces * sizeof *to;
    to->addr = address;
    to->len = length;
    to->id = (uint16_t)chain;
    uint16_t flags = direction(driver);
    if (driver->indirect) {
        struct vring_packed_desc *inner = (struct vring_packed_desc *)(void *)(driver->memory + table);
        for (unsigned piece = 0; piece < driver->pieces; piece++) {
            uint64_t at = 0;
            uint32_t size = 0;
            cut(driver, address, length, piece, &at, &size);
            inner[piece] = (struct vring_packed_desc){.addr = at, .len = size, .flags = direction(driver)};
        }
        to->addr = GUEST_BASE + table;
        to->len = driver->pieces * (uint32_t)sizeof *inner;
        flags = VRING_DESC_F_INDIRECT;
    }
    flags |=
        (uint16_t)(driver->available_wrap ? 1 << VRING_PACKED_DESC_F_AVAIL : 1 << VRING_PACKED_DESC_F_USED);
    __atomic_store_n(&to->flags, flags, __ATOMIC_RELEASE);
    if (++driver->available == DRIVER_RING_SIZE) {
        driver->available = 0;
        driver->available_wrap = !driver->available_wrap;
    }
}

/* Every chain is one descriptor here, and the ring is emptied each time: what is used lies behind `used`. */
static unsigned collect_packed(struct driver *driver, uint64_t *bytes)
{
    const struct vring_packed_desc *descriptors =
        (const struct vring_packed_desc *)(const void *)(driver->memory + DESCRIPTORS_AT);
    unsigned count = 0;
    while (driver->used != driver->available) {
        const uint16_t flags = __atomic_load_n(&descriptors[driver->used].flags, __ATOMIC_ACQUIRE);
        const bool available = (flags & 1 << VRING_PACKED_DESC_F_AVAIL) != 0;
        const bool used = (flags & 1 << VRING_PACKED_DESC_F_USED) != 0;
        if (available != used)
            break;
        *bytes += descriptors[driver->used].len;
        driver->used = (uint16_t)((driver->used + 1) % DRIVER_RING_SIZE);
        count++;
    }
    return count;
}

void driver_supply(struct driver *driver, unsigned count, uint32_t length)
{
    for (unsigned chain = 0; chain < count; chain++) {
        if (is_packed(driver))
            supply_packed(driver, chain, length);
        else
            supply_split(driver, chain, length);
    }
    if (!is_packed(driver))
        publish_split(driver);
}

unsigned driver_collect(struct driver *driver, uint64_t *bytes)
{
    return is_packed(driver) ? collect_packed(driver, bytes) : collect_split(driver, bytes);
}
