/* The life of a queue, and notifications. What goes through a queue is tested with virtio_net. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dataplane/virtqueue/ring.h"
#include "tests/unit/virtqueue/driver.h"

enum { PACKED_WRAP = 1 << VRING_PACKED_EVENT_F_WRAP_CTR };

static const uint64_t base_features = BIT(VIRTIO_F_VERSION_1);
static const uint64_t packed_features = BIT(VIRTIO_F_VERSION_1) | BIT(VIRTIO_F_RING_PACKED);
static const uint64_t kinds[] = {BIT(VIRTIO_F_VERSION_1),
                                 BIT(VIRTIO_F_VERSION_1) | BIT(VIRTIO_F_RING_PACKED)};

/* The driver adds that many chains, and the device uses them. */
static void use(struct driver *driver, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        const struct piece piece = {.address = GUEST_C, .length = 100};
        (void)driver_add(driver, &piece, 1, false);
        driver_publish(driver);
        struct virtqueue *queue = driver->queue;
        struct iovec pieces[4];
        struct ring_walk walk = {.pieces = pieces, .limit = 4};
        struct ring_at at = ring_position(queue);
        ck_assert(ring_walk(queue, at, false, &walk));
        ring_use(queue, queue->packed, &at, walk.id, walk.slots, 0);
        ring_set_position(queue, at);
        ring_publish(queue, queue->packed);
        struct used used[DRIVER_SIZE_MAX];
        ck_assert_uint_eq(driver_collect(driver, used), 1);
    }
}

START_TEST(test_sizes)
{
    const uint32_t powers[] = {1, 2, 4, 256, 1024, 32768};
    const uint32_t others[] = {3, 7, 100, 32767};
    const uint32_t never[] = {0, 32769, 65536, UINT32_MAX};
    for (size_t i = 0; i < sizeof powers / sizeof powers[0]; i++) {
        ck_assert(virtqueue_size_valid(powers[i], false));
        ck_assert(virtqueue_size_valid(powers[i], true));
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        ck_assert(!virtqueue_size_valid(others[i], false));
        ck_assert(virtqueue_size_valid(others[i], true));
    }
    for (size_t i = 0; i < sizeof never / sizeof never[0]; i++) {
        ck_assert(!virtqueue_size_valid(never[i], false));
        ck_assert(!virtqueue_size_valid(never[i], true));
    }
}
END_TEST

START_TEST(test_fault_texts)
{
    for (int fault = VIRTQUEUE_FAULT_AVAILABLE_INDEX; fault <= VIRTQUEUE_FAULT_MEMORY_LOST; fault++) {
        const char *text = virtqueue_fault_text((enum virtqueue_fault)fault);
        ck_assert_str_ne(text, virtqueue_fault_text(VIRTQUEUE_FINE));
        for (int other = VIRTQUEUE_FAULT_AVAILABLE_INDEX; other < fault; other++)
            ck_assert_str_ne(text, virtqueue_fault_text((enum virtqueue_fault)other));
    }
}
END_TEST

/* What must not start, and says why. */
static const struct bad_setup {
    const char *what;
    uint64_t features;
    struct virtqueue_setup change; /* a member that is not 0 replaces */
} bad_setups[] = {
    {"no power of two", 0, {.size = 3}},
    {"too large", 0, {.size = 65536}},
    {"packed, too large", BIT(VIRTIO_F_RING_PACKED), {.size = 32769}},
    {"descriptors nowhere", 0, {.descriptors = 1}},
    {"a guest's address instead of the front-end's", 0, {.descriptors = GUEST_A}},
    {"descriptors behind the end", 0, {.descriptors = GUEST_A + USER_SHIFT + GUEST_A_SIZE}},
    {"the last descriptor is outside",
     0,
     {.descriptors = GUEST_A + USER_SHIFT + GUEST_A_SIZE - 7 * UINT64_C(16)}},
    {"the end of the available ring is outside", 0, {.driver = GUEST_A + USER_SHIFT + GUEST_A_SIZE - 18}},
    {"the event in the available ring is outside",
     BIT(VIRTIO_RING_F_EVENT_IDX),
     {.driver = GUEST_A + USER_SHIFT + GUEST_A_SIZE - 20}},
    {"the end of the used ring is outside", 0, {.device = GUEST_A + USER_SHIFT + GUEST_A_SIZE - 64}},
    {"the event in the used ring is outside",
     BIT(VIRTIO_RING_F_EVENT_IDX),
     {.device = GUEST_A + USER_SHIFT + GUEST_A_SIZE - 68}},
    {"packed, the driver area is outside",
     BIT(VIRTIO_F_RING_PACKED),
     {.driver = GUEST_A + USER_SHIFT + GUEST_A_SIZE}},
    {"packed, the device area is outside",
     BIT(VIRTIO_F_RING_PACKED),
     {.device = GUEST_A + USER_SHIFT + GUEST_A_SIZE}},
    {"descriptors not aligned", 0, {.descriptors = GUEST_A + USER_SHIFT + 8}},
    {"available ring not aligned", 0, {.driver = GUEST_A + USER_SHIFT + 1}},
    {"used ring not aligned", 0, {.device = GUEST_A + USER_SHIFT + 2}},
    {"packed, areas not aligned", BIT(VIRTIO_F_RING_PACKED), {.driver = GUEST_A + USER_SHIFT + 2}},
    {"packed, base beyond the ring", BIT(VIRTIO_F_RING_PACKED), {.base = 8}},
    {"packed, used position beyond the ring", BIT(VIRTIO_F_RING_PACKED), {.base = 8U << 16}},
};

START_TEST(test_bad_setup)
{
    const struct bad_setup *bad = &bad_setups[_i];
    struct driver driver;
    driver_new(&driver, 8, base_features | bad->features, 0);
    struct virtqueue_setup setup = driver.setup;
    setup.size = bad->change.size != 0 ? bad->change.size : setup.size;
    setup.descriptors = bad->change.descriptors != 0 ? bad->change.descriptors : setup.descriptors;
    setup.driver = bad->change.driver != 0 ? bad->change.driver : setup.driver;
    setup.device = bad->change.device != 0 ? bad->change.device : setup.device;
    setup.base = bad->change.base != 0 ? bad->change.base : setup.base;
    struct error err = ERROR_INIT;
    ck_assert_msg(virtqueue_start(driver.queue, &setup, driver.memory, &err) == -1, "started: %s", bad->what);
    ck_assert_str_ne(err.detail, "");
    ck_assert(!virtqueue_is_started(driver.queue));
    ck_assert_int_eq(virtqueue_start(driver.queue, &driver.setup, driver.memory, &err), 0);
    driver_stop(&driver);
}
END_TEST

/* The last bytes of a region may be the ring's. */
START_TEST(test_ring_at_the_end)
{
    struct driver driver;
    driver_new(&driver, 8, base_features, 0);
    driver.setup.driver = GUEST_A + USER_SHIFT + GUEST_A_SIZE - (4 + 2 * 8);
    struct error err = ERROR_INIT;
    ck_assert_int_eq(virtqueue_start(driver.queue, &driver.setup, driver.memory, &err), 0);
    driver_stop(&driver);
}
END_TEST

START_TEST(test_base_of_an_unused_queue)
{
    struct virtqueue *queue = NULL;
    struct error err = ERROR_INIT;
    ck_assert_int_eq(virtqueue_new(&queue, &err), 0);
    ck_assert_uint_eq(virtqueue_base(queue), 0);
    ck_assert(!virtqueue_is_started(queue));
    ck_assert(!virtqueue_notify(queue));
    ck_assert(!virtqueue_enable_kicks(queue));
    virtqueue_disable_kicks(queue);
    virtqueue_stop(queue);
    ck_assert_uint_eq(virtqueue_base(queue), 0);
    virtqueue_free(queue);
    virtqueue_free(NULL);
}
END_TEST

START_TEST(test_split_base)
{
    struct driver driver;
    driver_new(&driver, 256, base_features, 65530);
    driver.setup.base = 77; /* the used index in memory is right */
    struct error err = ERROR_INIT;
    ck_assert_int_eq(virtqueue_start(driver.queue, &driver.setup, driver.memory, &err), 0);
    ck_assert_uint_eq(virtqueue_base(driver.queue), 65530);
    use(&driver, 10);
    ck_assert_uint_eq(virtqueue_base(driver.queue), 4);
    virtqueue_stop(driver.queue);
    ck_assert_uint_eq(virtqueue_base(driver.queue), 4);
    ck_assert_int_eq(virtqueue_start(driver.queue, &driver.setup, driver.memory, &err), 0);
    use(&driver, 3);
    ck_assert_uint_eq(virtqueue_base(driver.queue), 7);
    driver_stop(&driver);
}
END_TEST

START_TEST(test_packed_base)
{
    struct driver driver;
    driver_start(&driver, 5, packed_features);
    ck_assert_uint_eq(virtqueue_base(driver.queue), UINT32_C(0x80008000));
    use(&driver, 3);
    ck_assert_uint_eq(virtqueue_base(driver.queue), UINT32_C(0x80038003));
    use(&driver, 4);
    ck_assert_uint_eq(virtqueue_base(driver.queue), UINT32_C(0x00020002));
    virtqueue_stop(driver.queue);
    driver.setup.base = virtqueue_base(driver.queue);
    struct error err = ERROR_INIT;
    ck_assert_int_eq(virtqueue_start(driver.queue, &driver.setup, driver.memory, &err), 0);
    use(&driver, 4);
    ck_assert_uint_eq(virtqueue_base(driver.queue), UINT32_C(0x80018001));
    driver_stop(&driver);
}
END_TEST

/* A front-end that knows no used half sends it as zero; chains in flight are available again. */
START_TEST(test_packed_base_halves)
{
    struct driver driver;
    driver_new(&driver, 8, packed_features, 0);
    struct error err = ERROR_INIT;
    driver.setup.base = PACKED_WRAP | 3;
    ck_assert_int_eq(virtqueue_start(driver.queue, &driver.setup, driver.memory, &err), 0);
    ck_assert_uint_eq(virtqueue_base(driver.queue), UINT32_C(0x80038003));
    driver.setup.base = (PACKED_WRAP | 5U) | (PACKED_WRAP | 2U) << 16;
    ck_assert_int_eq(virtqueue_start(driver.queue, &driver.setup, driver.memory, &err), 0);
    ck_assert_uint_eq(virtqueue_base(driver.queue), UINT32_C(0x80028002));
    driver_stop(&driver);
}
END_TEST

/* The file's parts at other places for the guest; only the one with the ring stays where it is. */
static struct guest_memory *other_memory(int fd, bool with_ring)
{
    const struct guest_region_spec specs[] = {
        {.guest_address = GUEST_C,
         .size = GUEST_C_SIZE,
         .user_address = GUEST_C,
         .mmap_offset = GUEST_B_SIZE + GUEST_A_SIZE},
        {.guest_address = GUEST_A,
         .size = GUEST_A_SIZE,
         .user_address = GUEST_A + USER_SHIFT,
         .mmap_offset = GUEST_B_SIZE},
    };
    const int fds[] = {fd, fd};
    struct guest_memory *memory = NULL;
    struct error err = ERROR_INIT;
    ck_assert_msg(guest_memory_new(specs, fds, with_ring ? 2 : 1, &memory, &err) == 0, "%s", err.detail);
    return memory;
}

START_TEST(test_remap)
{
    struct driver driver;
    driver_start(&driver, 8, kinds[_i]);
    use(&driver, 3);
    struct guest_memory *other = other_memory(driver.fd, true);
    struct error err = ERROR_INIT;
    ck_assert_int_eq(virtqueue_remap(driver.queue, other, &err), 0);
    guest_memory_free(driver.memory);
    driver.memory = other;
    use(&driver, 7);
    driver_stop(&driver);
}
END_TEST

START_TEST(test_remap_without_the_ring)
{
    struct driver driver;
    driver_start(&driver, 8, kinds[_i]);
    use(&driver, 3);
    const uint32_t base = virtqueue_base(driver.queue);
    struct guest_memory *other = other_memory(driver.fd, false);
    struct error err = ERROR_INIT;
    ck_assert_int_eq(virtqueue_remap(driver.queue, other, &err), -1);
    ck_assert_str_ne(err.detail, "");
    ck_assert(!virtqueue_is_started(driver.queue));
    ck_assert_uint_eq(virtqueue_base(driver.queue), base);
    guest_memory_free(other);
    driver_stop(&driver);
}
END_TEST

/* ---- interrupts ---- */

static int call_descriptor(struct virtqueue *queue)
{
    const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    ck_assert_int_ge(fd, 0);
    virtqueue_set_call(queue, fd);
    return fd;
}

static uint64_t calls(int fd)
{
    eventfd_t value = 0;
    return eventfd_read(fd, &value) == 0 ? value : 0;
}

static void forbid_interrupts(const struct driver *driver, bool forbid)
{
    if (driver->packed)
        driver_event(driver)->flags =
            forbid ? VRING_PACKED_EVENT_FLAG_DISABLE : VRING_PACKED_EVENT_FLAG_ENABLE;
    else
        driver_available(driver)->flags = forbid ? VRING_AVAIL_F_NO_INTERRUPT : 0;
}

START_TEST(test_interrupt_flags)
{
    struct driver driver;
    driver_start(&driver, 8, kinds[_i]);
    const int fd = call_descriptor(driver.queue);
    ck_assert(!virtqueue_notify(driver.queue));
    use(&driver, 5);
    ck_assert(virtqueue_notify(driver.queue));
    ck_assert_uint_eq(calls(fd), 1);
    ck_assert(!virtqueue_notify(driver.queue)); /* one for all of them */
    forbid_interrupts(&driver, true);
    use(&driver, 5);
    ck_assert(!virtqueue_notify(driver.queue));
    forbid_interrupts(&driver, false);
    ck_assert(!virtqueue_notify(driver.queue)); /* what was used while they were forbidden is past */
    use(&driver, 1);
    ck_assert(virtqueue_notify(driver.queue));
    virtqueue_set_call(driver.queue, -1);
    use(&driver, 1);
    ck_assert(!virtqueue_notify(driver.queue));
    (void)close(fd);
    driver_stop(&driver);
}
END_TEST

/* Asks for an interrupt when the chain that is `ahead` from the next one is used. */
static void set_event(const struct driver *driver, unsigned ahead)
{
    if (!driver->packed) {
        driver_available(driver)->ring[driver->size] = (uint16_t)(driver->used + ahead);
        return;
    }
    unsigned slot = driver->used + ahead;
    bool wrap = driver->used_wrap;
    if (slot >= driver->size) {
        slot -= driver->size;
        wrap = !wrap;
    }
    driver_event(driver)->off_wrap = (uint16_t)(slot | (wrap ? PACKED_WRAP : 0));
    driver_event(driver)->flags = VRING_PACKED_EVENT_FLAG_DESC;
}

START_TEST(test_interrupt_event)
{
    struct driver driver;
    driver_start_at(&driver, 16, kinds[_i] | BIT(VIRTIO_RING_F_EVENT_IDX),
                    kinds[_i] == base_features ? 65500 : 3);
    const int fd = call_descriptor(driver.queue);
    set_event(&driver, 9);
    use(&driver, 1);
    ck_assert_msg(virtqueue_notify(driver.queue), "the first one after a start is sent in any case");
    (void)calls(fd);
    /* One at a time: only the wanted one. Enough to get round every end several times. */
    for (unsigned round = 0; round < 12; round++) {
        const unsigned ahead = round % 8;
        set_event(&driver, ahead);
        for (unsigned i = 0; i < ahead + 3; i++) {
            use(&driver, 1);
            ck_assert_msg(virtqueue_notify(driver.queue) == (i == ahead), "round %u, %u ahead: wrong at %u",
                          round, ahead, i);
        }
    }
    /* Several at a time: if the wanted one is among them. */
    set_event(&driver, 4);
    use(&driver, 4);
    ck_assert(!virtqueue_notify(driver.queue));
    use(&driver, 7);
    ck_assert(virtqueue_notify(driver.queue));
    (void)close(fd);
    driver_stop(&driver);
}
END_TEST

/* ---- kicks ---- */

static void make_available(struct driver *driver)
{
    const struct piece piece = {.address = GUEST_C, .length = 100};
    (void)driver_add(driver, &piece, 1, false);
    driver_publish(driver);
}

static bool kicks_are_off(const struct driver *driver)
{
    return driver->packed ? driver_device_event(driver)->flags == VRING_PACKED_EVENT_FLAG_DISABLE
                          : driver_used(driver)->flags == VRING_USED_F_NO_NOTIFY;
}

START_TEST(test_kick_flags)
{
    struct driver driver;
    driver_start(&driver, 8, kinds[_i]);
    virtqueue_disable_kicks(driver.queue);
    ck_assert(kicks_are_off(&driver));
    ck_assert(!virtqueue_enable_kicks(driver.queue));
    ck_assert(!kicks_are_off(&driver));
    make_available(&driver);
    ck_assert_msg(virtqueue_enable_kicks(driver.queue), "there is something already");
    virtqueue_disable_kicks(driver.queue);
    ck_assert(kicks_are_off(&driver));
    driver_stop(&driver);
}
END_TEST

/* Where the driver is asked to kick. */
static unsigned kick_event(const struct driver *driver)
{
    if (driver->packed) {
        ck_assert_uint_eq(driver_device_event(driver)->flags, VRING_PACKED_EVENT_FLAG_DESC);
        return driver_device_event(driver)->off_wrap;
    }
    uint16_t event = 0;
    memcpy(&event, &driver_used(driver)->ring[driver->size], sizeof event);
    return event;
}

START_TEST(test_kick_event)
{
    struct driver driver;
    driver_start(&driver, 8, kinds[_i] | BIT(VIRTIO_RING_F_EVENT_IDX));
    use(&driver, 11);
    ck_assert(!virtqueue_enable_kicks(driver.queue));
    ck_assert_uint_eq(kick_event(&driver), driver.packed ? 3 : 11);
    make_available(&driver);
    ck_assert(virtqueue_enable_kicks(driver.queue));
    driver_stop(&driver);
}
END_TEST

/* Buffers that were too few do not count. */
START_TEST(test_kick_for_more)
{
    struct driver driver;
    driver_start(&driver, 8, kinds[_i] | BIT(VIRTIO_RING_F_EVENT_IDX));
    make_available(&driver);
    make_available(&driver);
    struct ring_chain chains[8];
    bool end = false;
    ck_assert_uint_eq(
        ring_look(driver.queue, driver.packed, ring_position(driver.queue), 8, false, chains, &end), 2);
    ck_assert(end);
    struct ring_at at = ring_position(driver.queue);
    ring_advance(driver.queue, driver.packed, &at, 2);
    ring_wait_from(driver.queue, at);
    ck_assert(!virtqueue_enable_kicks(driver.queue));
    ck_assert_uint_eq(kick_event(&driver), driver.packed ? PACKED_WRAP | 2U : 2U);
    make_available(&driver);
    ck_assert(virtqueue_enable_kicks(driver.queue));
    driver_stop(&driver);
}
END_TEST

/* ---- the dirty log ---- */

static bool is_marked(const struct dirty_log *log, uint64_t address)
{
    const uint64_t page = address / DIRTY_LOG_PAGE;
    return (log->bits[page / 8] >> (page % 8) & 1) != 0;
}

START_TEST(test_log_of_the_used_ring)
{
    enum { LOGGED_AT = 0x40000 }; /* anywhere */
    struct driver driver;
    driver_start(&driver, 1024, kinds[_i]);
    const int fd = memfd_create("log", MFD_CLOEXEC);
    ck_assert_int_eq(ftruncate(fd, 4096), 0);
    struct dirty_log *log = NULL;
    struct error err = ERROR_INIT;
    ck_assert_msg(dirty_log_new(fd, 4096, 0, &log, &err) == 0, "%s", err.detail);
    (void)close(fd);

    virtqueue_set_log(driver.queue, log, false, LOGGED_AT);
    use(&driver, 1);
    ck_assert(!is_marked(log, LOGGED_AT));
    virtqueue_set_log(driver.queue, log, true, LOGGED_AT);
    use(&driver, 1);
    ck_assert(is_marked(log, LOGGED_AT));
    ck_assert(!is_marked(log, LOGGED_AT + DIRTY_LOG_PAGE));
    use(&driver, 600); /* 8 or 16 bytes each */
    ck_assert(is_marked(log, LOGGED_AT + DIRTY_LOG_PAGE));
    ck_assert_int_eq(is_marked(log, LOGGED_AT + 2 * DIRTY_LOG_PAGE), driver.packed);
    use(&driver, 1000); /* over the end */
    ck_assert(!is_marked(log, LOGGED_AT + 1024 * (driver.packed ? 16 : 8) + DIRTY_LOG_PAGE));
    virtqueue_stop(driver.queue);
    virtqueue_set_log(driver.queue, NULL, false, 0);
    dirty_log_free(log);
    driver_stop(&driver);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("virtqueue");
    TCase *life = tcase_create("life");
    tcase_add_test(life, test_sizes);
    tcase_add_test(life, test_fault_texts);
    tcase_add_loop_test(life, test_bad_setup, 0, (int)(sizeof bad_setups / sizeof bad_setups[0]));
    tcase_add_test(life, test_ring_at_the_end);
    tcase_add_test(life, test_base_of_an_unused_queue);
    tcase_add_test(life, test_split_base);
    tcase_add_test(life, test_packed_base);
    tcase_add_test(life, test_packed_base_halves);
    tcase_add_loop_test(life, test_remap, 0, 2);
    tcase_add_loop_test(life, test_remap_without_the_ring, 0, 2);
    suite_add_tcase(suite, life);
    TCase *notifications = tcase_create("notifications");
    tcase_add_loop_test(notifications, test_interrupt_flags, 0, 2);
    tcase_add_loop_test(notifications, test_interrupt_event, 0, 2);
    tcase_add_loop_test(notifications, test_kick_flags, 0, 2);
    tcase_add_loop_test(notifications, test_kick_event, 0, 2);
    tcase_add_loop_test(notifications, test_kick_for_more, 0, 2);
    tcase_add_loop_test(notifications, test_log_of_the_used_ring, 0, 2);
    suite_add_tcase(suite, notifications);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
