/* Rings that violate the rules: the queue has the fault, what came before is good, and nothing is touched
 * that is not the ring's business. Each one as a transmit queue and as a receive queue. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/virtio_net/frames.h"

enum { SIZE = 16, NOWHERE = 0x50000000, TABLE = 0x1000 /* from GUEST_C on */ };

enum {
    NEXT = VRING_DESC_F_NEXT,
    TABLE_FLAG = VRING_DESC_F_INDIRECT,
    AVAILABLE = 1 << VRING_PACKED_DESC_F_AVAIL,
    USED = 1 << VRING_PACKED_DESC_F_USED
};

struct hostile {
    struct driver driver;
    uint16_t right; /* the flag of the direction that the queue needs */
    uint16_t wrong;
};

static void descriptor(struct hostile *hostile, unsigned index, uint64_t address, uint32_t length, int flags,
                       unsigned link)
{
    driver_set_descriptor(&hostile->driver, index, address, length,
                          (uint16_t)(flags | (hostile->driver.packed ? AVAILABLE : 0)), (uint16_t)link);
}

static void entry(const struct hostile *hostile, unsigned index, uint64_t address, uint32_t length, int flags,
                  unsigned link)
{
    driver_write_descriptor(&hostile->driver, GUEST_C + TABLE + UINT64_C(16) * index, address, length,
                            (uint16_t)flags, (uint16_t)link);
}

static void head(struct hostile *hostile, unsigned index)
{
    if (!hostile->driver.packed) {
        driver_push_head(&hostile->driver, (uint16_t)index);
        driver_publish(&hostile->driver);
    }
}

/* ---- the violations ---- */

static void head_beyond(struct hostile *hostile)
{
    head(hostile, SIZE);
}

static void head_far_beyond(struct hostile *hostile)
{
    head(hostile, 0xffff);
}

static void next_beyond(struct hostile *hostile)
{
    descriptor(hostile, 0, GUEST_C, 100, NEXT | hostile->right, SIZE);
    head(hostile, 0);
}

static void self_loop(struct hostile *hostile)
{
    descriptor(hostile, 0, GUEST_C, 100, NEXT | hostile->right, 0);
    head(hostile, 0);
}

static void loop_of_three_empty_ones(struct hostile *hostile)
{
    for (unsigned i = 0; i < 3; i++)
        descriptor(hostile, i, GUEST_C, 0, NEXT | hostile->right, (i + 1) % 3);
    head(hostile, 0);
}

static void whole_ring_goes_on(struct hostile *hostile)
{
    for (unsigned i = 0; i < SIZE; i++)
        descriptor(hostile, i, GUEST_C, 20, NEXT | hostile->right, (i + 1) % SIZE);
    head(hostile, 0);
}

static void index_jumps(struct hostile *hostile)
{
    driver_set_available_index(&hostile->driver, SIZE + 1);
}

static void index_goes_back(struct hostile *hostile)
{
    driver_set_available_index(&hostile->driver, 0xffff);
}

static void address_nowhere(struct hostile *hostile)
{
    descriptor(hostile, 0, NOWHERE, 100, hostile->right, 0);
    head(hostile, 0);
}

static void address_zero(struct hostile *hostile)
{
    descriptor(hostile, 0, 0, 100, hostile->right, 0);
    head(hostile, 0);
}

static void address_of_the_front_end(struct hostile *hostile)
{
    descriptor(hostile, 0, GUEST_A + USER_SHIFT, 100, hostile->right, 0);
    head(hostile, 0);
}

static void address_at_the_top(struct hostile *hostile)
{
    descriptor(hostile, 0, UINT64_MAX - 50, 100, hostile->right, 0);
    head(hostile, 0);
}

static void end_outside(struct hostile *hostile)
{
    descriptor(hostile, 0, GUEST_C + GUEST_C_SIZE - 64, 100, hostile->right, 0);
    head(hostile, 0);
}

static void huge_length(struct hostile *hostile)
{
    descriptor(hostile, 0, GUEST_C, UINT32_MAX, hostile->right, 0);
    head(hostile, 0);
}

static void second_outside(struct hostile *hostile)
{
    descriptor(hostile, 1, NOWHERE, 100, hostile->right, 0);
    descriptor(hostile, 0, GUEST_C, 100, NEXT | hostile->right, 1);
    head(hostile, 0);
}

static void wrong_direction(struct hostile *hostile)
{
    descriptor(hostile, 0, GUEST_C, 2000, hostile->wrong, 0);
    head(hostile, 0);
}

static void second_of_wrong_direction(struct hostile *hostile)
{
    descriptor(hostile, 1, GUEST_C, 100, hostile->wrong, 0);
    descriptor(hostile, 0, GUEST_C, 2000, NEXT | hostile->right, 1);
    head(hostile, 0);
}

static void table_not_negotiated(struct hostile *hostile)
{
    entry(hostile, 0, GUEST_C, 2000, hostile->right, 0);
    descriptor(hostile, 0, GUEST_C + TABLE, 16, TABLE_FLAG, 0);
    head(hostile, 0);
}

static void table_in_table(struct hostile *hostile)
{
    entry(hostile, 0, GUEST_C + TABLE + 16, 16, TABLE_FLAG | hostile->right, 0);
    entry(hostile, 1, GUEST_C, 2000, hostile->right, 0);
    descriptor(hostile, 0, GUEST_C + TABLE, 16, TABLE_FLAG, 0);
    head(hostile, 0);
}

static void table_with_next(struct hostile *hostile)
{
    entry(hostile, 0, GUEST_C, 2000, hostile->right, 0);
    descriptor(hostile, 1, GUEST_C, 2000, hostile->right, 0);
    descriptor(hostile, 0, GUEST_C + TABLE, 16, TABLE_FLAG | NEXT, 1);
    head(hostile, 0);
}

static void table_empty(struct hostile *hostile)
{
    descriptor(hostile, 0, GUEST_C + TABLE, 0, TABLE_FLAG, 0);
    head(hostile, 0);
}

static void table_of_odd_length(struct hostile *hostile)
{
    entry(hostile, 0, GUEST_C, 2000, hostile->right, 0);
    descriptor(hostile, 0, GUEST_C + TABLE, 17, TABLE_FLAG, 0);
    head(hostile, 0);
}

static void table_nowhere(struct hostile *hostile)
{
    descriptor(hostile, 0, NOWHERE, 32, TABLE_FLAG, 0);
    head(hostile, 0);
}

static void table_ends_outside(struct hostile *hostile)
{
    const uint64_t last = GUEST_C + GUEST_C_SIZE - 16;
    driver_write_descriptor(&hostile->driver, last, GUEST_C, 2000, (uint16_t)(NEXT | hostile->right), 1);
    descriptor(hostile, 0, last, 32, TABLE_FLAG, 0);
    head(hostile, 0);
}

static void next_beyond_the_table(struct hostile *hostile)
{
    entry(hostile, 0, GUEST_C, 20, NEXT | hostile->right, 2);
    entry(hostile, 2, GUEST_C, 2000, hostile->right, 0);
    descriptor(hostile, 0, GUEST_C + TABLE, 32, TABLE_FLAG, 0);
    head(hostile, 0);
}

static void loop_in_the_table(struct hostile *hostile)
{
    entry(hostile, 0, GUEST_C, 20, NEXT | hostile->right, 1);
    entry(hostile, 1, GUEST_C, 20, NEXT | hostile->right, 0);
    descriptor(hostile, 0, GUEST_C + TABLE, 32, TABLE_FLAG, 0);
    head(hostile, 0);
}

static void table_of_too_many(struct hostile *hostile)
{
    for (unsigned i = 0; i < 1025; i++)
        entry(hostile, i, GUEST_C, 1, NEXT | hostile->right, i + 1);
    descriptor(hostile, 0, GUEST_C + TABLE, 1025 * 16, TABLE_FLAG, 0);
    head(hostile, 0);
}

static void table_of_too_many_empty_ones(struct hostile *hostile)
{
    for (unsigned i = 0; i < 1025; i++)
        entry(hostile, i, GUEST_C, 0, NEXT | hostile->right, i + 1);
    descriptor(hostile, 0, GUEST_C + TABLE, 1025 * 16, TABLE_FLAG, 0);
    head(hostile, 0);
}

enum { SPLIT_ONLY = 1, BOTH = 0 };

static const struct violation {
    const char *name;
    void (*make)(struct hostile *hostile);
    enum virtqueue_fault fault;
    int where;
    bool no_tables; /* INDIRECT_DESC is not negotiated */
} violations[] = {
    {"a head beyond the ring", head_beyond, VIRTQUEUE_FAULT_HEAD, SPLIT_ONLY, false},
    {"a head far beyond the ring", head_far_beyond, VIRTQUEUE_FAULT_HEAD, SPLIT_ONLY, false},
    {"next beyond the ring", next_beyond, VIRTQUEUE_FAULT_HEAD, SPLIT_ONLY, false},
    {"a descriptor that is its own next", self_loop, VIRTQUEUE_FAULT_LOOP, SPLIT_ONLY, false},
    {"a loop of empty descriptors", loop_of_three_empty_ones, VIRTQUEUE_FAULT_LOOP, SPLIT_ONLY, false},
    {"a chain of the whole ring and more", whole_ring_goes_on, VIRTQUEUE_FAULT_LOOP, BOTH, false},
    {"a jump of the index", index_jumps, VIRTQUEUE_FAULT_AVAILABLE_INDEX, SPLIT_ONLY, false},
    {"an index that goes back", index_goes_back, VIRTQUEUE_FAULT_AVAILABLE_INDEX, SPLIT_ONLY, false},
    {"an address in no region", address_nowhere, VIRTQUEUE_FAULT_ADDRESS, BOTH, false},
    {"the address 0", address_zero, VIRTQUEUE_FAULT_ADDRESS, BOTH, false},
    {"a user's address", address_of_the_front_end, VIRTQUEUE_FAULT_ADDRESS, BOTH, false},
    {"an address that wraps around", address_at_the_top, VIRTQUEUE_FAULT_ADDRESS, BOTH, false},
    {"the end outside of the region", end_outside, VIRTQUEUE_FAULT_ADDRESS, BOTH, false},
    {"a length of 4 GiB", huge_length, VIRTQUEUE_FAULT_ADDRESS, BOTH, false},
    {"a second piece outside", second_outside, VIRTQUEUE_FAULT_ADDRESS, BOTH, false},
    {"the wrong direction", wrong_direction, VIRTQUEUE_FAULT_DIRECTION, BOTH, false},
    {"a second piece of the wrong direction", second_of_wrong_direction, VIRTQUEUE_FAULT_DIRECTION, BOTH,
     false},
    {"a table that was not negotiated", table_not_negotiated, VIRTQUEUE_FAULT_INDIRECT, BOTH, true},
    {"a table in a table", table_in_table, VIRTQUEUE_FAULT_INDIRECT, BOTH, false},
    {"a table with a next", table_with_next, VIRTQUEUE_FAULT_INDIRECT, BOTH, false},
    {"an empty table", table_empty, VIRTQUEUE_FAULT_INDIRECT, BOTH, false},
    {"a table of 17 bytes", table_of_odd_length, VIRTQUEUE_FAULT_INDIRECT, BOTH, false},
    {"a table in no region", table_nowhere, VIRTQUEUE_FAULT_ADDRESS, BOTH, false},
    {"a table that ends outside", table_ends_outside, VIRTQUEUE_FAULT_ADDRESS, BOTH, false},
    {"next beyond the table", next_beyond_the_table, VIRTQUEUE_FAULT_INDIRECT, SPLIT_ONLY, false},
    {"a loop in a table", loop_in_the_table, VIRTQUEUE_FAULT_LOOP, SPLIT_ONLY, false},
    {"a table of too many entries", table_of_too_many, VIRTQUEUE_FAULT_CHAIN_LENGTH, BOTH, false},
    {"a table of too many empty entries", table_of_too_many_empty_ones, VIRTQUEUE_FAULT_CHAIN_LENGTH, BOTH,
     false},
};
enum { VIOLATIONS = sizeof violations / sizeof violations[0] };

static void start(struct hostile *hostile, const struct violation *violation, bool packed, bool receives)
{
    const uint64_t features = MERGEABLE | (packed ? PACKED : 0) | (violation->no_tables ? 0 : INDIRECT);
    driver_start(&hostile->driver, SIZE, features);
    hostile->right = receives ? VRING_DESC_F_WRITE : 0;
    hostile->wrong = receives ? 0 : VRING_DESC_F_WRITE;
    memset(driver_at(&hostile->driver, GUEST_C), 0x5a, TABLE);
}

static void check_untouched(const struct hostile *hostile)
{
    for (unsigned i = 0; i < TABLE; i++) {
        if (*driver_at(&hostile->driver, GUEST_C + i) != 0x5a)
            ck_abort_msg("byte %u was written to", i);
    }
}

static void check_violation(const struct violation *violation, bool packed, bool receives)
{
    struct hostile hostile;
    start(&hostile, violation, packed, receives);
    violation->make(&hostile);
    if (receives) {
        const uint32_t lengths[] = {1000, 60};
        make_burst(lengths, 2);
        reset_counters();
        ck_assert_uint_eq(net_push(hostile.driver.queue, &burst, 0, &counters), 0);
        ck_assert_uint_eq(atomic_load(&counters.frames), 0);
    } else {
        ck_assert_uint_eq(net_pull(hostile.driver.queue, &burst), 0);
    }
    ck_assert_msg(virtqueue_fault(hostile.driver.queue) == violation->fault, "%s: the fault is \"%s\"",
                  violation->name, virtqueue_fault_text(virtqueue_fault(hostile.driver.queue)));
    check_untouched(&hostile);
    struct used used[DRIVER_SIZE_MAX];
    ck_assert_uint_eq(driver_collect(&hostile.driver, used), 0);
    /* It stays away from the ring, until it is started anew. */
    ck_assert_uint_eq(net_pull(hostile.driver.queue, &burst), 0);
    ck_assert(!virtqueue_enable_kicks(hostile.driver.queue));
    virtqueue_stop(hostile.driver.queue);
    struct error err = ERROR_INIT;
    ck_assert_int_eq(
        virtqueue_start(hostile.driver.queue, &hostile.driver.setup, hostile.driver.memory, &err), 0);
    ck_assert_int_eq(virtqueue_fault(hostile.driver.queue), VIRTQUEUE_FINE);
    driver_stop(&hostile.driver);
}

START_TEST(test_violation)
{
    const struct violation *violation = &violations[_i];
    check_violation(violation, false, false);
    check_violation(violation, false, true);
    if (violation->where != SPLIT_ONLY) {
        check_violation(violation, true, false);
        check_violation(violation, true, true);
    }
}
END_TEST

/* The frames before a bad chain are good, and are given back. */
START_TEST(test_frames_before)
{
    struct driver driver;
    driver_start(&driver, SIZE, MODERN | ring_kinds[_i]);
    for (unsigned i = 0; i < 3; i++)
        send_frame(&driver, 60, i);
    const struct piece bad = {.address = NOWHERE, .length = 100};
    (void)driver_add(&driver, &bad, 1, false);
    driver_publish(&driver);
    ck_assert_uint_eq(net_pull(driver.queue, &burst), 3);
    ck_assert_int_eq(virtqueue_fault(driver.queue), VIRTQUEUE_FAULT_ADDRESS);
    net_release(driver.queue, 3);
    struct used used[DRIVER_SIZE_MAX];
    ck_assert_uint_eq(driver_collect(&driver, used), 3);
    ck_assert_uint_eq(net_pull(driver.queue, &burst), 0);
    driver_stop(&driver);
}
END_TEST

START_TEST(test_delivered_before)
{
    static struct receiver receiver;
    static struct received received;
    receiver_start(&receiver, SIZE, MODERN | ring_kinds[_i]);
    post(&receiver, 2, 2048);
    const struct piece bad = {.address = NOWHERE, .length = 2048, .writable = true};
    (void)driver_add(&receiver.driver, &bad, 1, false);
    driver_publish(&receiver.driver);
    const uint32_t lengths[] = {60, 1514, 60, 60};
    make_burst(lengths, 4);
    ck_assert_uint_eq(net_push(receiver.driver.queue, &burst, 0, &counters), 2);
    ck_assert_int_eq(virtqueue_fault(receiver.driver.queue), VIRTQUEUE_FAULT_ADDRESS);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert(receive(&receiver, &received));
        check_received(&received, lengths[i], i);
    }
    ck_assert(!receive(&receiver, &received));
    ck_assert_uint_eq(net_push(receiver.driver.queue, &burst, 2, &counters), 0);
    receiver_stop(&receiver);
}
END_TEST

/* A driver that makes its only slot available again and again: the ring is not gone round twice. */
START_TEST(test_packed_slot_again)
{
    struct driver driver;
    driver_start(&driver, 1, MODERN | PACKED);
    send_frame(&driver, 60, 1);
    ck_assert_uint_eq(net_pull(driver.queue, &burst), 1);
    driver_descriptors(&driver)[0].flags = USED; /* available in the next round already */
    ck_assert_uint_eq(net_pull(driver.queue, &burst), 0);
    driver_descriptors(&driver)[0].flags = AVAILABLE;
    ck_assert_uint_eq(net_pull(driver.queue, &burst), 1);
    net_release(driver.queue, 1);
    ck_assert_uint_eq(driver_descriptors(&driver)[0].flags, AVAILABLE | USED);
    driver_stop(&driver);
}
END_TEST

/* The memory vanishes while the queue is in use. */
START_TEST(test_memory_lost)
{
    struct error err = ERROR_INIT;
    ck_assert_int_eq(memory_guard_install(&err), 0);
    struct driver driver;
    driver_start(&driver, SIZE, MODERN | ring_kinds[_i]);
    send_frame(&driver, 60, 1);
    const int length = 0x200000; /* the ring stays; buffers are behind it */
    ck_assert_int_eq(ftruncate(driver.fd, length), 0);
    ck_assert_uint_eq(net_pull(driver.queue, &burst), 0);
    ck_assert_int_eq(virtqueue_fault(driver.queue), VIRTQUEUE_FAULT_MEMORY_LOST);
    virtqueue_stop(driver.queue);
    driver_stop(&driver);
}
END_TEST

TCase *fault_tests(void)
{
    TCase *faults = tcase_create("faults");
    tcase_add_loop_test(faults, test_violation, 0, VIOLATIONS);
    tcase_add_loop_test(faults, test_frames_before, 0, KINDS);
    tcase_add_loop_test(faults, test_delivered_before, 0, KINDS);
    tcase_add_test(faults, test_packed_slot_again);
    tcase_add_loop_test(faults, test_memory_lost, 0, KINDS);
    return faults;
}
