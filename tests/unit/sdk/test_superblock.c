#include <errno.h>
#include <string.h>

#include "tests/unit/sdk/support.h"

#define MIB (UINT64_C(1) << 20)

static struct chan_superblock made(uint64_t size)
{
    struct chan_superblock superblock;
    ck_assert_int_eq(chan_superblock_make(&superblock, size, 0x1234, 7), 0);
    return superblock;
}

/* The checksum as chan_layout(7) describes it, written anew here, so that the test does not believe the code.
 */
static void sign(struct chan_superblock *superblock)
{
    uint32_t crc = UINT32_MAX;
    const unsigned char *bytes = (const unsigned char *)superblock;
    for (size_t i = 0; i < offsetof(struct chan_superblock, crc32c); i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
    }
    superblock->crc32c = ~crc;
}

START_TEST(test_layout_of_one_mebibyte)
{
    struct chan_superblock superblock = made(MIB);
    ck_assert_mem_eq(&superblock, "CHANRGN1", 8);
    ck_assert_uint_eq(superblock.version, 1);
    ck_assert_uint_eq(superblock.size, MIB);
    ck_assert_uint_eq(superblock.half_a_offset, 4096);
    ck_assert_uint_eq(superblock.half_bytes, UINT64_C(508) * 1024);
    ck_assert_uint_eq(superblock.half_b_offset, UINT64_C(4096) + UINT64_C(508) * 1024);
    ck_assert_uint_eq(superblock.nonce, 0x1234);
    ck_assert_uint_eq(superblock.epoch, 7);
    ck_assert_int_eq(chan_superblock_check(&superblock, MIB), 0);
    struct chan_superblock again = superblock;
    sign(&again);
    ck_assert_uint_eq(again.crc32c, superblock.crc32c);
}
END_TEST

START_TEST(test_every_size_fits)
{
    for (uint64_t size = CHAN_LAYOUT_MIN_BYTES; size < 4 * MIB; size += CHAN_PAGE_BYTES) {
        struct chan_superblock superblock = made(size);
        ck_assert_int_eq(chan_superblock_check(&superblock, size), 0);
        ck_assert_uint_le(superblock.half_b_offset + superblock.half_bytes + CHAN_PAGE_BYTES, size);
        ck_assert_uint_ge(superblock.half_bytes, CHAN_CONTROL_BYTES + CHAN_PAGE_BYTES);
        ck_assert_uint_eq(superblock.half_bytes % CHAN_PAGE_BYTES, 0);
    }
}
END_TEST

START_TEST(test_arguments_that_are_refused)
{
    struct chan_superblock superblock;
    ck_assert_int_eq(chan_superblock_make(&superblock, 0, 1, 1), -EINVAL);
    ck_assert_int_eq(chan_superblock_make(&superblock, CHAN_LAYOUT_MIN_BYTES - CHAN_PAGE_BYTES, 1, 1),
                     -EINVAL);
    ck_assert_int_eq(chan_superblock_make(&superblock, MIB + 1, 1, 1), -EINVAL);
    ck_assert_int_eq(chan_superblock_make(&superblock, MIB, 0, 1), -EINVAL);
    ck_assert_int_eq(chan_superblock_make(&superblock, MIB, 1, 0), -EINVAL);
}
END_TEST

START_TEST(test_every_flipped_bit_is_noticed)
{
    struct chan_superblock good = made(MIB);
    for (size_t bit = 0; bit < sizeof good * 8; bit++) {
        struct chan_superblock bad = good;
        ((unsigned char *)&bad)[bit / 8] ^= (unsigned char)(1u << bit % 8);
        int r = chan_superblock_check(&bad, MIB);
        int expected = bit < 64 ? -ENOMSG : bit < 96 ? -EPROTONOSUPPORT : -EBADMSG;
        ck_assert_msg(r == expected, "bit %zu flipped: expected %d, got %d", bit, expected, r);
    }
}
END_TEST

/* A field that is wrong under a checksum that is right: whoever can write the region can do that. */
static void expect_refusal(size_t offset, size_t width, uint64_t value, int expected)
{
    struct chan_superblock bad = made(MIB);
    memcpy((unsigned char *)&bad + offset, &value, width);
    sign(&bad);
    int r = chan_superblock_check(&bad, MIB);
    ck_assert_msg(r == expected, "%#llx at offset %zu: expected %d, got %d", (unsigned long long)value,
                  offset, expected, r);
}
#define EXPECT_REFUSAL(field, value, expected)                                                               \
    expect_refusal(offsetof(struct chan_superblock, field), sizeof(((struct chan_superblock *)0)->field),    \
                   value, expected)

START_TEST(test_every_wrong_field_is_refused)
{
    EXPECT_REFUSAL(magic, 0, -ENOMSG);
    EXPECT_REFUSAL(version, 0, -EPROTONOSUPPORT);
    EXPECT_REFUSAL(version, 2, -EPROTONOSUPPORT);
    EXPECT_REFUSAL(features, 1, -EPROTONOSUPPORT);
    EXPECT_REFUSAL(features, 0x80000000u, -EPROTONOSUPPORT);
    EXPECT_REFUSAL(size, 0, -EBADMSG);
    EXPECT_REFUSAL(size, MIB / 2, -EBADMSG);
    EXPECT_REFUSAL(size, UINT64_MAX, -EBADMSG);
    EXPECT_REFUSAL(half_a_offset, 0, -EBADMSG);
    EXPECT_REFUSAL(half_a_offset, UINT64_MAX - 4095, -EBADMSG);
    EXPECT_REFUSAL(half_b_offset, 4096, -EBADMSG);
    EXPECT_REFUSAL(half_b_offset, UINT64_C(1) << 40, -EBADMSG);
    EXPECT_REFUSAL(half_bytes, 0, -EBADMSG);
    EXPECT_REFUSAL(half_bytes, UINT64_C(1) << 40, -EBADMSG);
    EXPECT_REFUSAL(half_bytes, 4096, -EBADMSG);
    EXPECT_REFUSAL(nonce, 0, -EBADMSG);
    EXPECT_REFUSAL(epoch, 0, -EBADMSG);
    EXPECT_REFUSAL(reserved, 1, -EBADMSG);
}
END_TEST

START_TEST(test_size_against_the_mapping)
{
    struct chan_superblock superblock = made(MIB);
    ck_assert_int_eq(chan_superblock_check(&superblock, MIB - 1), -EMSGSIZE);
    ck_assert_int_eq(chan_superblock_check(&superblock, 0), -EMSGSIZE);
    ck_assert_int_eq(chan_superblock_check(&superblock, 2 * MIB), 0);
}
END_TEST

TCase *superblock_tests(void)
{
    TCase *tests = tcase_create("superblock");
    tcase_add_test(tests, test_layout_of_one_mebibyte);
    tcase_add_test(tests, test_every_size_fits);
    tcase_add_test(tests, test_arguments_that_are_refused);
    tcase_add_test(tests, test_every_flipped_bit_is_noticed);
    tcase_add_test(tests, test_every_wrong_field_is_refused);
    tcase_add_test(tests, test_size_against_the_mapping);
    return tests;
}
