#include "tests/unit/virtqueue/driver.h"

#include <check.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    /* where the regions are in the file */
    FILE_B = 0,
    FILE_A = GUEST_B_SIZE,
    FILE_C = GUEST_B_SIZE + GUEST_A_SIZE,
    FILE_SIZE = FILE_C + GUEST_C_SIZE,
    /* where the ring's parts are in the first region; each on a page of its own */
    DESCRIPTORS = 0,
    DRIVER_AREA = 0x8000,
    DEVICE_AREA = 0x10000,
    PACKED_WRAP = 1 << VRING_PACKED_EVENT_F_WRAP_CTR
};

static struct guest_memory *map(int fd)
{
    const struct guest_region_spec specs[] = {
        {.guest_address = GUEST_A,
         .size = GUEST_A_SIZE,
         .user_address = GUEST_A + USER_SHIFT,
         .mmap_offset = FILE_A},
        {.guest_address = GUEST_B,
         .size = GUEST_B_SIZE,
         .user_address = GUEST_B + 2 * USER_SHIFT,
         .mmap_offset = FILE_B},
        {.guest_address = GUEST_C,
         .size = GUEST_C_SIZE,
         .user_address = GUEST_C + 3 * USER_SHIFT,
         .mmap_offset = FILE_C},
    };
    const int fds[] = {fd, fd, fd};
    struct guest_memory *memory = NULL;
    struct error err = ERROR_INIT;
    ck_assert_msg(guest_memory_new(specs, fds, 3, &memory, &err) == 0, "%s", err.detail);
    return memory;
}

void driver_new(struct driver *driver, uint32_t size, uint64_t features, uint16_t position)
{
    *driver = (struct driver){.fd = memfd_create("guest", MFD_CLOEXEC), .size = size, .room = size};
    ck_assert_int_ge(driver->fd, 0);
    ck_assert_int_eq(ftruncate(driver->fd, FILE_SIZE), 0);
    driver->file = mmap(NULL, FILE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, driver->fd, 0);
    ck_assert_ptr_ne(driver->file, MAP_FAILED);
    driver->memory = map(driver->fd);
    driver->free_address = GUEST_C;
    driver->packed = (features & BIT(VIRTIO_F_RING_PACKED)) != 0;
    driver->available = driver->used = position;
    driver->available_wrap = driver->used_wrap = true;
    const uint32_t half = position | (uint32_t)PACKED_WRAP;
    driver->setup = (struct virtqueue_setup){
        .size = size,
        .features = features,
        .descriptors = GUEST_A + USER_SHIFT + DESCRIPTORS,
        .driver = GUEST_A + USER_SHIFT + DRIVER_AREA,
        .device = GUEST_A + USER_SHIFT + DEVICE_AREA,
        .base = driver->packed ? half | half << 16 : position,
    };
    if (!driver->packed) {
        driver_available(driver)->idx = position;
        driver_used(driver)->idx = position;
    }
    struct error err = ERROR_INIT;
    ck_assert_int_eq(virtqueue_new(&driver->queue, &err), 0);
}

void driver_start_at(struct driver *driver, uint32_t size, uint64_t features, uint16_t position)
{
    driver_new(driver, size, features, position);
    struct error err = ERROR_INIT;
    ck_assert_msg(virtqueue_start(driver->queue, &driver->setup, driver->memory, &err) == 0, "%s",
                  err.detail);
}

void driver_start(struct driver *driver, uint32_t size, uint64_t features)
{
    driver_start_at(driver, size, features, 0);
}

void driver_stop(struct driver *driver)
{
    virtqueue_stop(driver->queue);
    virtqueue_free(driver->queue);
    guest_memory_free(driver->memory);
    (void)munmap(driver->file, FILE_SIZE);
    (void)close(driver->fd);
}

/* ---- memory ---- */

uint8_t *driver_at(const struct driver *driver, uint64_t address)
{
    if (address >= GUEST_A && address < GUEST_A + GUEST_A_SIZE)
        return driver->file + FILE_A + (address - GUEST_A);
    if (address >= GUEST_B && address < GUEST_B + GUEST_B_SIZE)
        return driver->file + FILE_B + (address - GUEST_B);
    if (address < GUEST_C || address >= GUEST_C + GUEST_C_SIZE)
        ck_abort_msg("no memory at %#llx", (unsigned long long)address);
    return driver->file + FILE_C + (address - GUEST_C);
}

uint64_t driver_allocate(struct driver *driver, uint32_t length)
{
    const uint64_t address = driver->free_address;
    driver->free_address += (length + 63) & ~UINT64_C(63);
    ck_assert_msg(driver->free_address <= GUEST_C + GUEST_C_SIZE, "the guest's memory is used up");
    return address;
}

void driver_write(const struct driver *driver, uint64_t address, const void *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        *driver_at(driver, address + i) = ((const uint8_t *)bytes)[i];
}

void driver_read(const struct driver *driver, uint64_t address, void *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        ((uint8_t *)bytes)[i] = *driver_at(driver, address + i);
}

/* ---- the ring's parts ---- */

struct vring_avail *driver_available(const struct driver *driver)
{
    return (struct vring_avail *)(void *)driver_at(driver, GUEST_A + DRIVER_AREA);
}

struct vring_used *driver_used(const struct driver *driver)
{
    return (struct vring_used *)(void *)driver_at(driver, GUEST_A + DEVICE_AREA);
}

struct vring_packed_desc *driver_descriptors(const struct driver *driver)
{
    return (struct vring_packed_desc *)(void *)driver_at(driver, GUEST_A + DESCRIPTORS);
}

struct vring_packed_desc_event *driver_event(const struct driver *driver)
{
    return (struct vring_packed_desc_event *)(void *)driver_at(driver, GUEST_A + DRIVER_AREA);
}

struct vring_packed_desc_event *driver_device_event(const struct driver *driver)
{
    return (struct vring_packed_desc_event *)(void *)driver_at(driver, GUEST_A + DEVICE_AREA);
}

void driver_write_descriptor(const struct driver *driver, uint64_t at, uint64_t address, uint32_t length,
                             uint16_t flags, uint16_t link)
{
    const struct vring_desc split = {.addr = address, .len = length, .flags = flags, .next = link};
    const struct vring_packed_desc packed = {.addr = address, .len = length, .id = link, .flags = flags};
    uint8_t bytes[sizeof split];
    memcpy(bytes, driver->packed ? (const void *)&packed : (const void *)&split, sizeof bytes);
    driver_write(driver, at, bytes, sizeof bytes);
}

void driver_set_descriptor(const struct driver *driver, unsigned index, uint64_t address, uint32_t length,
                           uint16_t flags, uint16_t link)
{
    driver_write_descriptor(driver, GUEST_A + DESCRIPTORS + index * sizeof(struct vring_desc), address,
                            length, flags, link);
}

/* ---- adding chains ---- */

static void remember(struct driver *driver, uint16_t id, unsigned descriptors)
{
    ck_assert_uint_lt(driver->outstanding_count, DRIVER_SIZE_MAX);
    driver->outstanding[driver->outstanding_count].id = id;
    driver->outstanding[driver->outstanding_count++].descriptors = (uint16_t)descriptors;
    ck_assert_msg(driver->room >= descriptors, "the ring is full");
    driver->room -= descriptors;
}

void driver_push_head(struct driver *driver, uint16_t head)
{
    driver_available(driver)->ring[driver->available++ % driver->size] = head;
}

void driver_set_available_index(const struct driver *driver, uint16_t index)
{
    __atomic_store_n(&driver_available(driver)->idx, index, __ATOMIC_RELEASE);
}

static uint16_t piece_flags(const struct piece *piece)
{
    return piece->writable ? VRING_DESC_F_WRITE : 0;
}

static uint16_t add_split(struct driver *driver, const struct piece *pieces, unsigned count, uint16_t extra)
{
    const uint16_t head = driver->next_free;
    for (unsigned i = 0; i < count; i++) {
        const uint16_t index = driver->next_free;
        const bool more = i + 1 < count;
        driver->next_free = (uint16_t)((driver->next_free + 1U) % driver->size);
        driver_set_descriptor(driver, index, pieces[i].address, pieces[i].length,
                              (uint16_t)(piece_flags(&pieces[i]) | (more ? VRING_DESC_F_NEXT : extra)),
                              driver->next_free);
    }
    driver_push_head(driver, head);
    return head;
}

static uint16_t available_flags(const struct driver *driver)
{
    return driver->available_wrap ? 1U << VRING_PACKED_DESC_F_AVAIL : 1U << VRING_PACKED_DESC_F_USED;
}

/* The first descriptor of all that is unpublished gets its flags last. */
static uint16_t add_packed(struct driver *driver, const struct piece *pieces, unsigned count, uint16_t extra)
{
    const uint16_t id = (uint16_t)(driver->available + 1000U); /* any number, and no index */
    for (unsigned i = 0; i < count; i++) {
        const bool more = i + 1 < count;
        const uint16_t flags = (uint16_t)(available_flags(driver) | piece_flags(&pieces[i]) |
                                          (more ? VRING_DESC_F_NEXT : extra));
        uint16_t written = flags;
        if (!driver->unpublished) {
            driver->unpublished = true;
            driver->first_slot = driver->available;
            driver->first_flags = flags;
            written = driver_descriptors(driver)[driver->available].flags;
        }
        driver_set_descriptor(driver, driver->available, pieces[i].address, pieces[i].length, written, id);
        if (++driver->available == driver->size) {
            driver->available = 0;
            driver->available_wrap = !driver->available_wrap;
        }
    }
    return id;
}

static uint16_t add(struct driver *driver, const struct piece *pieces, unsigned count, uint16_t extra)
{
    const uint16_t id =
        driver->packed ? add_packed(driver, pieces, count, extra) : add_split(driver, pieces, count, extra);
    remember(driver, id, count);
    return id;
}

uint16_t driver_add_table(struct driver *driver, const struct piece *pieces, unsigned count, uint64_t table)
{
    for (unsigned i = 0; i < count; i++) {
        const bool more = !driver->packed && i + 1 < count;
        driver_write_descriptor(
            driver, table + i * sizeof(struct vring_desc), pieces[i].address, pieces[i].length,
            (uint16_t)(piece_flags(&pieces[i]) | (more ? VRING_DESC_F_NEXT : 0)), (uint16_t)(i + 1));
    }
    const struct piece whole = {.address = table, .length = count * (uint32_t)sizeof(struct vring_desc)};
    return add(driver, &whole, 1, VRING_DESC_F_INDIRECT);
}

uint16_t driver_add(struct driver *driver, const struct piece *pieces, unsigned count, bool indirect)
{
    if (indirect)
        return driver_add_table(driver, pieces, count,
                                driver_allocate(driver, count * (uint32_t)sizeof(struct vring_desc)));
    return add(driver, pieces, count, 0);
}

void driver_publish(struct driver *driver)
{
    if (!driver->packed) {
        driver_set_available_index(driver, driver->available);
    } else if (driver->unpublished) {
        __atomic_store_n(&driver_descriptors(driver)[driver->first_slot].flags, driver->first_flags,
                         __ATOMIC_RELEASE);
        driver->unpublished = false;
    }
}

/* ---- taking chains back ---- */

/* Takes the outstanding chain of that id; returns the descriptors that come free. */
static unsigned forget(struct driver *driver, unsigned index)
{
    const unsigned descriptors = driver->outstanding[index].descriptors;
    driver->outstanding_count--;
    memmove(&driver->outstanding[index], &driver->outstanding[index + 1],
            (driver->outstanding_count - index) * sizeof driver->outstanding[0]);
    driver->room += descriptors;
    return descriptors;
}

static unsigned index_of(const struct driver *driver, uint16_t id)
{
    for (unsigned i = 0; i < driver->outstanding_count; i++)
        if (driver->outstanding[i].id == id)
            return i;
    ck_abort_msg("the device used %u, which is not outstanding", id);
    return 0;
}

/* One used entry: that chain, and those before it that an in-order device has skipped. */
static unsigned take(struct driver *driver, uint16_t id, uint32_t length, struct used *used,
                     unsigned *descriptors)
{
    unsigned count = 0;
    unsigned index = index_of(driver, id);
    if ((driver->setup.features & BIT(VIRTIO_F_IN_ORDER)) != 0) {
        for (; index > 0; index--) {
            used[count++] = (struct used){.id = driver->outstanding[0].id, .length = UINT32_MAX};
            *descriptors += forget(driver, 0);
        }
    }
    *descriptors += forget(driver, index);
    used[count++] = (struct used){.id = id, .length = length};
    return count;
}

static unsigned collect_split(struct driver *driver, struct used *used)
{
    const struct vring_used *ring = driver_used(driver);
    const uint16_t index = __atomic_load_n(&ring->idx, __ATOMIC_ACQUIRE);
    ck_assert_uint_le((uint16_t)(index - driver->used), driver->size);
    unsigned count = 0;
    while (driver->used != index) {
        const struct vring_used_elem *element = &ring->ring[driver->used % driver->size];
        unsigned ignored = 0;
        const unsigned taken = take(driver, (uint16_t)element->id, element->len, &used[count], &ignored);
        driver->used = (uint16_t)(driver->used + taken);
        count += taken;
    }
    return count;
}

static unsigned collect_packed(struct driver *driver, struct used *used)
{
    unsigned count = 0;
    while (driver->outstanding_count > 0) {
        const struct vring_packed_desc *slot = &driver_descriptors(driver)[driver->used];
        const uint16_t flags = __atomic_load_n(&slot->flags, __ATOMIC_ACQUIRE);
        const bool is_available = (flags & 1U << VRING_PACKED_DESC_F_AVAIL) != 0;
        const bool is_used = (flags & 1U << VRING_PACKED_DESC_F_USED) != 0;
        if (is_available != driver->used_wrap || is_used != driver->used_wrap)
            break;
        unsigned descriptors = 0;
        count += take(driver, slot->id, slot->len, &used[count], &descriptors);
        const unsigned position = driver->used + descriptors;
        if (position >= driver->size)
            driver->used_wrap = !driver->used_wrap;
        driver->used = (uint16_t)(position % driver->size);
    }
    return count;
}

unsigned driver_collect(struct driver *driver, struct used used[DRIVER_SIZE_MAX])
{
    return driver->packed ? collect_packed(driver, used) : collect_split(driver, used);
}
