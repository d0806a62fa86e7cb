/* Batches: several messages made visible at once; messages in pieces. */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "tests/unit/sdk/support.h"

static unsigned char sent[65536];
static unsigned char received[65536];

static void expect_pattern(struct chan_channel *channel, size_t length, uint64_t seed)
{
    size_t got = SIZE_MAX;
    int r = chan_recv(channel, received, sizeof received, &got, 0);
    ck_assert_msg(r == 0, "message of %zu bytes: got %d", length, r);
    ck_assert_uint_eq(got, length);
    ck_assert_msg(is_pattern(received, length, seed), "message of %zu bytes came damaged", length);
}

static void expect_none(struct chan_channel *channel)
{
    size_t length = 0;
    ck_assert_int_eq(chan_recv(channel, received, sizeof received, &length, 0), -EAGAIN);
}

START_TEST(test_nothing_is_seen_before_the_flush)
{
    struct pair pair = new_pair(SMALL_REGION, (enum chan_mapping)_i);
    for (uint64_t round = 0; round < 500; round++) { /* many laps, so that a batch begins at every place */
        const size_t lengths[] = {0, 1, 7, 8, 9, 15, 16, 17, 33, 64, 65, round % 200};
        const size_t count = sizeof lengths / sizeof *lengths;
        for (size_t i = 0; i < count; i++) {
            fill_pattern(sent, lengths[i], round * 100 + i);
            ck_assert_int_eq(chan_send_more(pair.host, sent, lengths[i], 0), 0);
        }
        expect_none(pair.guest);
        ck_assert_int_eq(chan_flush(pair.host, 0), 0);
        for (size_t i = 0; i < count; i++)
            expect_pattern(pair.guest, lengths[i], round * 100 + i);
        expect_none(pair.guest);
    }
    struct chan_stats stats;
    chan_get_stats(pair.host, &stats);
    ck_assert_uint_eq(stats.sent_messages, UINT64_C(6000));
    ck_assert_uint_eq(stats.batches, 500);
    free_pair(&pair);
}
END_TEST

START_TEST(test_other_calls_that_send_keep_the_order)
{
    struct pair pair = new_pair(SMALL_REGION, (enum chan_mapping)_i);
    for (int round = 0; round < 100; round++) {
        ck_assert_int_eq(chan_send_more(pair.host, "one", 3, 0), 0);
        ck_assert_int_eq(chan_send(pair.host, "two", 3, 0), 0);
        ck_assert_int_eq(chan_send_more(pair.host, "three", 5, 0), 0);
        void *place = NULL;
        ck_assert_int_eq(chan_reserve(pair.host, 4, &place, 0), 0);
        memcpy(place, "four", 4);
        ck_assert_int_eq(chan_send_more(pair.host, "not now", 7, 0), -EBUSY);
        ck_assert_int_eq(chan_commit(pair.host, 4), 0);
        static const char *const expected[] = {"one", "two", "three", "four"};
        for (int i = 0; i < 4; i++) {
            size_t length = 0;
            ck_assert_int_eq(chan_recv(pair.guest, received, sizeof received, &length, 0), 0);
            ck_assert_uint_eq(length, strlen(expected[i]));
            ck_assert_int_eq(memcmp(received, expected[i], length), 0);
        }
    }
    free_pair(&pair);
}
END_TEST

START_TEST(test_batches_that_grow_too_large_go_by_themselves)
{
    struct pair pair = new_pair(SMALL_REGION, (enum chan_mapping)_i);
    uint64_t seed = 0;
    uint64_t expected = 0;
    uint64_t random = 1;
    /* A large message among small ones is beyond any batch; nothing is lost nor overtaken. */
    for (int round = 0; round < 2000; round++) {
        const size_t length = round % 37 == 0 ? 3000 : next_random(&random) % 120;
        fill_pattern(sent, length, seed);
        int r = chan_send_more(pair.host, sent, length, 0);
        while (r == -EAGAIN) { /* full: the receiver takes one */
            size_t got = 0;
            ck_assert_int_eq(chan_recv(pair.guest, received, sizeof received, &got, 0), 0);
            ck_assert_msg(is_pattern(received, got, expected), "message %lu came damaged or out of order",
                          (unsigned long)expected);
            expected++;
            r = chan_send_more(pair.host, sent, length, 0);
        }
        ck_assert_int_eq(r, 0);
        seed++;
    }
    while (expected < seed) {
        size_t got = 0;
        (void)chan_flush(pair.host, 0); /* what there is room for */
        ck_assert_int_eq(chan_recv(pair.guest, received, sizeof received, &got, 0), 0);
        ck_assert_msg(is_pattern(received, got, expected), "message %lu came damaged",
                      (unsigned long)expected);
        expected++;
    }
    ck_assert_int_eq(chan_flush(pair.host, 0), 0);
    expect_none(pair.guest);
    free_pair(&pair);
}
END_TEST

START_TEST(test_a_full_ring_keeps_the_batch)
{
    struct pair pair = new_pair(SMALL_REGION, CHAN_MAPPING_CACHED);
    ck_assert_int_eq(chan_send(pair.host, sent, SMALL_RING - 200, 0), 0);
    for (uint64_t i = 0; i < 10; i++) {
        fill_pattern(sent, 50, i);
        ck_assert_int_eq(chan_send_more(pair.host, sent, 50, 0), 0);
    }
    ck_assert_int_eq(chan_flush(pair.host, 0), -EAGAIN);
    ck_assert_int_eq(chan_flush(pair.host, 5), -ETIMEDOUT);
    size_t length = 0;
    ck_assert_int_eq(chan_recv(pair.guest, received, sizeof received, &length, 0), 0);
    ck_assert_int_eq(chan_flush(pair.host, 0), 0);
    for (uint64_t i = 0; i < 10; i++)
        expect_pattern(pair.guest, 50, i);
    free_pair(&pair);
}
END_TEST

START_TEST(test_close_flushes_and_a_new_session_drops)
{
    struct pair pair = new_pair(SMALL_REGION, CHAN_MAPPING_CACHED);
    ck_assert_int_eq(chan_send_more(pair.host, "old", 3, 0), 0);
    ck_assert_int_eq(chan_reconnect(pair.host, 0), -EAGAIN);
    ck_assert_int_eq(chan_flush(pair.host, 0), -ENOTCONN);
    ck_assert_int_eq(try_recv(pair.guest), -ECONNRESET);
    (void)chan_reconnect(pair.guest, 0);
    connect_both(pair.host, pair.guest);
    ck_assert_int_eq(chan_flush(pair.host, 0), 0);
    expect_none(pair.guest);
    ck_assert_int_eq(chan_send_more(pair.host, "last words", 10, 0), 0);
    chan_close(pair.host);
    pair.host = NULL;
    size_t length = 0;
    ck_assert_int_eq(chan_recv(pair.guest, received, sizeof received, &length, 0), 0);
    ck_assert_uint_eq(length, 10);
    ck_assert_int_eq(try_recv(pair.guest), -EPIPE);
    free_pair(&pair);
}
END_TEST

START_TEST(test_pieces)
{
    struct pair pair = new_pair(SMALL_REGION, (enum chan_mapping)_i);
    const struct iovec pieces[] = {
        {(void *)(uintptr_t) "ab", 2}, {NULL, 0}, {(void *)(uintptr_t) "cdefghijk", 9}};
    ck_assert_int_eq(chan_send_more(pair.host, "first", 5, 0), 0);
    ck_assert_int_eq(chan_sendv(pair.host, pieces, 3, 0), 0);
    ck_assert_int_eq(chan_sendv(pair.host, pieces, 0, 0), 0);
    size_t length = 0;
    ck_assert_int_eq(chan_recv(pair.guest, received, sizeof received, &length, 0), 0);
    ck_assert_int_eq(chan_recv(pair.guest, received, sizeof received, &length, 0), 0);
    ck_assert_uint_eq(length, 11);
    ck_assert_int_eq(memcmp(received, "abcdefghijk", 11), 0);
    ck_assert_int_eq(chan_recv(pair.guest, received, sizeof received, &length, 0), 0);
    ck_assert_uint_eq(length, 0);
    const struct iovec much[] = {{sent, SIZE_MAX - 1}, {sent, 2}};
    ck_assert_int_eq(chan_sendv(pair.host, much, 2, 0), -EINVAL);
    ck_assert_int_eq(chan_sendv(pair.host, much, 1, 0), -EMSGSIZE);
    ck_assert_int_eq(chan_sendv(pair.host, pieces, -1, 0), -EINVAL);
    free_pair(&pair);
}
END_TEST

TCase *batch_tests(void)
{
    TCase *tests = tcase_create("batch");
    tcase_set_timeout(tests, 60);
    add_mapping_test(tests, test_nothing_is_seen_before_the_flush);
    add_mapping_test(tests, test_other_calls_that_send_keep_the_order);
    add_mapping_test(tests, test_batches_that_grow_too_large_go_by_themselves);
    tcase_add_test(tests, test_a_full_ring_keeps_the_batch);
    tcase_add_test(tests, test_close_flushes_and_a_new_session_drops);
    add_mapping_test(tests, test_pieces);
    return tests;
}
