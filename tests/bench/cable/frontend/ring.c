#include "tests/bench/cable/frontend/ring.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "base/cleanup.h"

static int take_parts(struct ring *ring, struct guest *guest, struct error *err)
{
    const size_t size = ring->shape.size;
    const bool packed = ring->shape.packed;
    const size_t event = sizeof(struct vring_packed_desc_event);
    ring->descriptors_at = guest_take(guest, size * sizeof(struct vring_desc), 4096);
    ring->driver_at = guest_take(guest, packed ? event : sizeof(uint16_t) * (3 + size), 4096);
    ring->device_at = guest_take(guest, packed ? event : 6 + size * sizeof(struct vring_used_elem), 4096);
    if (ring->shape.indirect)
        ring->tables_at = guest_take(guest, size * ring->shape.pieces * sizeof(struct vring_desc), 4096);
    if (ring->device_at == SIZE_MAX || ring->driver_at == SIZE_MAX || ring->descriptors_at == SIZE_MAX ||
        ring->tables_at == SIZE_MAX)
        return error_set(err, REASON_RESOURCE_LIMIT, "the guest's memory is too small for its rings");
    void *descriptors = guest->memory + ring->descriptors_at;
    void *driver = guest->memory + ring->driver_at;
    void *device = guest->memory + ring->device_at;
    if (packed) {
        ring->slots = descriptors;
        ring->driver_event = driver;
        ring->device_event = device;
        /* We poll. */
        ring->driver_event->flags = VRING_PACKED_EVENT_FLAG_DISABLE;
        return 0;
    }
    ring->descriptors = descriptors;
    ring->driver = driver;
    ring->device = device;
    ring->driver->flags = VRING_AVAIL_F_NO_INTERRUPT;
    return 0;
}

int ring_open(struct ring *ring, struct guest *guest, const struct ring_shape *shape, struct error *err)
{
    *ring = (struct ring){
        .shape = *shape, .available_wrap = true, .used_wrap = true, .kick_fd = -1, .call_fd = -1};
    if (shape->size == 0 || shape->size > RING_SIZE_MAX || (shape->size & (shape->size - 1)) != 0 ||
        shape->pieces == 0 || shape->pieces > RING_PIECES_MAX || shape->pieces > shape->size)
        return error_set(err, REASON_INVALID_FIELD, "a ring of %u with chains of %u is beyond this front-end",
                         shape->size, shape->pieces);
    ring->chains = (uint16_t)(shape->indirect ? shape->size : shape->size / shape->pieces);
    if (take_parts(ring, guest, err) != 0)
        return -1;
    ring->described = calloc((size_t)shape->size * shape->pieces, sizeof *ring->described);
    ring->described_count = calloc(shape->size, sizeof *ring->described_count);
    ring->order = calloc(shape->size, sizeof *ring->order);
    ring->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    ring->call_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (ring->described != NULL && ring->described_count != NULL && ring->order != NULL &&
        ring->kick_fd >= 0 && ring->call_fd >= 0)
        return 0;
    ring_close(ring);
    return error_set(err, REASON_RESOURCE_LIMIT, "out of memory or descriptors");
}

void ring_close(struct ring *ring)
{
    cleanup_close(&ring->kick_fd);
    cleanup_close(&ring->call_fd);
    free(ring->described);
    free(ring->described_count);
    free(ring->order);
    ring->described = NULL;
    ring->described_count = ring->order = NULL;
    ring->kick_fd = ring->call_fd = -1;
}

/* ---- describing chains ---- */

static uint16_t piece_flags(const struct ring *ring, bool more)
{
    return (uint16_t)((ring->shape.device_writes ? VRING_DESC_F_WRITE : 0) | (more ? VRING_DESC_F_NEXT : 0));
}

static void fill_split(const struct ring *ring, struct vring_desc *to, uint16_t first,
                       const struct ring_piece *pieces, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        to[i] = (struct vring_desc){.addr = pieces[i].address,
                                    .len = pieces[i].length,
                                    .flags = piece_flags(ring, i + 1 < count),
                                    .next = (uint16_t)(first + i + 1)};
}

static void fill_packed(const struct ring *ring, struct vring_packed_desc *to, bool table,
                        const struct ring_piece *pieces, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        to[i] = (struct vring_packed_desc){.addr = pieces[i].address,
                                           .len = pieces[i].length,
                                           .flags = piece_flags(ring, !table && i + 1 < count)};
}

void ring_describe(struct ring *ring, struct guest *guest, unsigned chain, const struct ring_piece *pieces,
                   unsigned count)
{
    const struct ring_shape *shape = &ring->shape;
    const size_t table = ring->tables_at + (size_t)chain * shape->pieces * sizeof(struct vring_desc);
    void *in_table = guest->memory + table;
    struct vring_packed_desc *described = &ring->described[(size_t)chain * shape->pieces];
    const uint32_t table_length = count * (uint32_t)sizeof(struct vring_desc);
    ring->described_count[chain] = (uint16_t)(shape->indirect ? 1 : count);
    if (shape->packed && shape->indirect) {
        fill_packed(ring, in_table, true, pieces, count);
        *described = (struct vring_packed_desc){
            .addr = GUEST_ADDRESS + table, .len = table_length, .flags = VRING_DESC_F_INDIRECT};
    } else if (shape->packed) {
        fill_packed(ring, described, false, pieces, count);
    } else if (shape->indirect) {
        fill_split(ring, in_table, 0, pieces, count);
        ring->descriptors[chain] = (struct vring_desc){
            .addr = GUEST_ADDRESS + table, .len = table_length, .flags = VRING_DESC_F_INDIRECT};
    } else {
        const uint16_t first = (uint16_t)(chain * shape->pieces);
        fill_split(ring, &ring->descriptors[first], first, pieces, count);
    }
}

/* ---- kicking ---- */

static bool passes(uint16_t event, uint16_t now, uint16_t before)
{
    return (uint16_t)(now - event - 1) < (uint16_t)(now - before);
}

static bool wants_kick_split(struct ring *ring)
{
    const uint16_t before = ring->kicked;
    ring->kicked = ring->available;
    if (!ring->shape.event_idx)
        return (__atomic_load_n(&ring->device->flags, __ATOMIC_RELAXED) & VRING_USED_F_NO_NOTIFY) == 0;
    const uint16_t *event = (const uint16_t *)(const void *)&ring->device->ring[ring->shape.size];
    return passes(__atomic_load_n(event, __ATOMIC_RELAXED), ring->available, before);
}

static bool wants_kick_packed(struct ring *ring)
{
    const uint16_t filled = ring->since_kick;
    ring->since_kick = 0;
    const uint16_t flags = __atomic_load_n(&ring->device_event->flags, __ATOMIC_RELAXED);
    if (flags != VRING_PACKED_EVENT_FLAG_DESC || !ring->shape.event_idx)
        return flags != VRING_PACKED_EVENT_FLAG_DISABLE;
    const uint16_t where = __atomic_load_n(&ring->device_event->off_wrap, __ATOMIC_RELAXED);
    uint16_t event = (uint16_t)(where & ~(1U << VRING_PACKED_EVENT_F_WRAP_CTR));
    if ((where >> VRING_PACKED_EVENT_F_WRAP_CTR != 0) != ring->available_wrap)
        event = (uint16_t)(event - ring->shape.size);
    return passes(event, ring->available, (uint16_t)(ring->available - filled));
}

void ring_kick(struct ring *ring)
{
    __sync_synchronize(); /* published before the device's wish is looked at */
    if (ring->shape.packed ? !wants_kick_packed(ring) : !wants_kick_split(ring))
        return;
    ring->kicks++;
    (void)eventfd_write(ring->kick_fd, 1);
}
