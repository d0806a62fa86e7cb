/* Messages: sizes, wrap-around, full and empty, zero copy, time-outs. */
#include <errno.h>
#include <string.h>

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

START_TEST(test_every_size)
{
    struct pair pair = new_pair(SMALL_REGION, (enum chan_mapping)_i);
    size_t most = chan_max_message(pair.host);
    ck_assert_uint_eq(most, SMALL_RING - 16);
    /* Successive sizes end at every place of the ring, so this wraps at every place, too. */
    for (size_t length = 0; length <= most; length++) {
        fill_pattern(sent, length, length);
        ck_assert_int_eq(chan_send(pair.host, sent, length, 0), 0);
        expect_pattern(pair.guest, length, length);
        size_t none = 0;
        ck_assert_int_eq(chan_recv(pair.guest, received, sizeof received, &none, 0), -EAGAIN);
    }
    ck_assert_int_eq(chan_send(pair.host, sent, most + 1, 0), -EMSGSIZE);
    ck_assert_int_eq(chan_send(pair.host, sent, SIZE_MAX, 0), -EMSGSIZE);
    void *place = NULL;
    ck_assert_int_eq(chan_reserve(pair.host, most + 1, &place, 0), -EMSGSIZE);
    free_pair(&pair);
}
END_TEST

START_TEST(test_fill_and_drain)
{
    struct pair pair = new_pair(SMALL_REGION, (enum chan_mapping)_i);
    uint64_t random = 1;
    for (int round = 0; round < 200; round++) {
        size_t lengths[SMALL_RING];
        size_t count = 0;
        size_t record_bytes = 0;
        for (;;) {
            size_t length = next_random(&random) % 200;
            fill_pattern(sent, length, count);
            int r = chan_send(pair.host, sent, length, 0);
            if (r == -EAGAIN) {
                ck_assert_uint_gt(record_bytes + 8 + (length + 7) / 8 * 8 + 8, SMALL_RING); /* it was full */
                break;
            }
            ck_assert_int_eq(r, 0);
            lengths[count++] = length;
            record_bytes += 8 + (length + 7) / 8 * 8;
        }
        ck_assert_uint_le(record_bytes + 8, SMALL_RING);
        for (size_t i = 0; i < count; i++)
            expect_pattern(pair.guest, lengths[i], i);
        size_t none = 0;
        ck_assert_int_eq(chan_recv(pair.guest, received, sizeof received, &none, 0), -EAGAIN);
    }
    free_pair(&pair);
}
END_TEST

START_TEST(test_consumer_publishes_before_it_waits)
{
    struct pair pair = new_pair(SMALL_REGION, CHAN_MAPPING_CACHED);
    size_t most = chan_max_message(pair.host);
    ck_assert_int_eq(chan_send(pair.host, sent, 8, 0), 0);
    size_t length = 0;
    ck_assert_int_eq(chan_recv(pair.guest, received, sizeof received, &length, 0), 0);
    ck_assert_int_eq(chan_send(pair.host, sent, most, 0), -EAGAIN); /* 16 bytes are not published yet */
    ck_assert_int_eq(chan_recv(pair.guest, received, sizeof received, &length, 0), -EAGAIN);
    ck_assert_int_eq(chan_send(pair.host, sent, most, 0), 0);
    free_pair(&pair);
}
END_TEST

START_TEST(test_too_small_a_buffer_keeps_the_message)
{
    struct pair pair = new_pair(SMALL_REGION, (enum chan_mapping)_i);
    fill_pattern(sent, 100, 7);
    ck_assert_int_eq(chan_send(pair.host, sent, 100, 0), 0);
    size_t length = 0;
    memset(received, 0, sizeof received);
    ck_assert_int_eq(chan_recv(pair.guest, received, 99, &length, 0), -EMSGSIZE);
    ck_assert_uint_eq(length, 100);
    ck_assert_uint_eq(received[0], 0); /* not a byte was written */
    ck_assert_int_eq(chan_recv(pair.guest, received, 0, &length, 0), -EMSGSIZE);
    expect_pattern(pair.guest, 100, 7);
    free_pair(&pair);
}
END_TEST

START_TEST(test_reserve_and_commit)
{
    struct pair pair = new_pair(SMALL_REGION, (enum chan_mapping)_i);
    size_t none = 0;
    void *place = NULL;
    ck_assert_int_eq(chan_commit(pair.host, 0), -EINVAL);
    ck_assert_int_eq(chan_reserve(pair.host, 1000, &place, 0), 0);
    ck_assert_uint_eq((uintptr_t)place % 8, 0);
    memset(place, 0xee, 1000); /* what looks like a header must not become one */
    ck_assert_int_eq(chan_recv(pair.guest, received, sizeof received, &none, 0), -EAGAIN);
    ck_assert_int_eq(chan_send(pair.host, sent, 1, 0), -EBUSY);
    ck_assert_int_eq(chan_commit(pair.host, 1001), -EINVAL);
    fill_pattern(place, 300, 3);
    ck_assert_int_eq(chan_commit(pair.host, 300), 0); /* less than reserved */
    ck_assert_int_eq(chan_commit(pair.host, 300), -EINVAL);
    expect_pattern(pair.guest, 300, 3);
    ck_assert_int_eq(chan_recv(pair.guest, received, sizeof received, &none, 0), -EAGAIN);

    /* Aborted, or replaced by another reserve: nothing is sent. */
    ck_assert_int_eq(chan_reserve(pair.host, 500, &place, 0), 0);
    memset(place, 0xee, 500);
    chan_abort(pair.host);
    ck_assert_int_eq(chan_commit(pair.host, 0), -EINVAL);
    ck_assert_int_eq(chan_reserve(pair.host, 500, &place, 0), 0);
    ck_assert_int_eq(chan_reserve(pair.host, 40, &place, 0), 0);
    fill_pattern(place, 40, 4);
    ck_assert_int_eq(chan_commit(pair.host, 41), -EINVAL);
    ck_assert_int_eq(chan_commit(pair.host, 40), 0);
    expect_pattern(pair.guest, 40, 4);
    ck_assert_int_eq(chan_send(pair.host, sent, 0, 0), 0);
    expect_pattern(pair.guest, 0, 0);
    free_pair(&pair);
}
END_TEST

START_TEST(test_zero_copy_wraps_in_one_piece)
{
    struct pair pair = new_pair(SMALL_REGION, (enum chan_mapping)_i);
    for (uint64_t i = 0; i < 2000; i++) {
        size_t length = (size_t)(i * 37 % 3000);
        void *place = NULL;
        ck_assert_int_eq(chan_reserve(pair.host, length, &place, 0), 0);
        fill_pattern(place, length, i);
        ck_assert_int_eq(chan_commit(pair.host, length), 0);
        const void *message = NULL;
        const void *again = NULL;
        size_t got = 0;
        ck_assert_int_eq(chan_peek(pair.guest, &message, &got, 0), 0);
        ck_assert_uint_eq(got, length);
        ck_assert_uint_eq((uintptr_t)message % 8, 0);
        ck_assert_int_eq(chan_peek(pair.guest, &again, &got, 0), 0);
        ck_assert_ptr_eq(message, again);
        ck_assert(is_pattern(message, length, i));
        ck_assert_int_eq(chan_release(pair.guest), 0);
        ck_assert_int_eq(chan_release(pair.guest), -EINVAL);
    }
    free_pair(&pair);
}
END_TEST

START_TEST(test_peek_and_recv_mix)
{
    struct pair pair = new_pair(SMALL_REGION, (enum chan_mapping)_i);
    for (uint64_t i = 0; i < 3; i++) {
        fill_pattern(sent, 50 + (size_t)i, i);
        ck_assert_int_eq(chan_send(pair.host, sent, 50 + (size_t)i, 0), 0);
    }
    const void *message = NULL;
    size_t length = 0;
    ck_assert_int_eq(chan_peek(pair.guest, &message, &length, 0), 0);
    expect_pattern(pair.guest, 50, 0); /* recv takes what was peeked at */
    ck_assert_int_eq(chan_release(pair.guest), -EINVAL);
    ck_assert_int_eq(chan_recv(pair.guest, received, 1, &length, 0), -EMSGSIZE);
    ck_assert_int_eq(chan_peek(pair.guest, &message, &length, 0), 0);
    ck_assert(is_pattern(message, 51, 1));
    ck_assert_int_eq(chan_release(pair.guest), 0);
    ck_assert_int_eq(chan_peek(pair.guest, &message, &length, 0), 0);
    ck_assert(is_pattern(message, 52, 2)); /* and not the copy of the one before */
    free_pair(&pair);
}
END_TEST

START_TEST(test_time_outs)
{
    struct pair pair = new_pair(SMALL_REGION, (enum chan_mapping)_i);
    size_t length = 0;
    int64_t start = now_ms();
    ck_assert_int_eq(chan_recv(pair.guest, received, sizeof received, &length, 30), -ETIMEDOUT);
    ck_assert_int_ge(now_ms() - start, 29);
    ck_assert_int_eq(chan_recv(pair.guest, received, sizeof received, &length, 0), -EAGAIN);

    while (chan_send(pair.host, sent, 500, 0) == 0)
        ;
    start = now_ms();
    ck_assert_int_eq(chan_send(pair.host, sent, 500, 30), -ETIMEDOUT);
    ck_assert_int_ge(now_ms() - start, 29);
    void *place = NULL;
    ck_assert_int_eq(chan_reserve(pair.host, 500, &place, 0), -EAGAIN);
    ck_assert_int_eq(chan_commit(pair.host, 0), -EINVAL); /* nothing was reserved */
    free_pair(&pair);
}
END_TEST

START_TEST(test_no_spinning_when_asked)
{
    struct chan_region *region = new_region(SMALL_REGION, CHAN_MAPPING_CACHED);
    const struct chan_options options = {.side = CHAN_SIDE_HOST, .spin_us = -1};
    struct chan_channel *host = NULL;
    ck_assert_int_eq(chan_open(region, &options, &host, NULL), 0);
    struct chan_channel *guest = open_side(region, CHAN_SIDE_GUEST);
    connect_both(host, guest);
    size_t length = 0;
    ck_assert_int_eq(chan_recv(host, received, sizeof received, &length, 20), -ETIMEDOUT);
    struct chan_stats stats;
    chan_get_stats(host, &stats);
    ck_assert_uint_ge(stats.sleeps, 5);
    ck_assert_uint_le(stats.sleeps, 60); /* they grow to 1 ms */
    chan_close(host);
    chan_close(guest);
    chan_region_close(region);
}
END_TEST

START_TEST(test_counters)
{
    struct pair pair = new_pair(SMALL_REGION, CHAN_MAPPING_CACHED);
    for (size_t i = 1; i <= 10; i++)
        ck_assert_int_eq(chan_send(pair.host, sent, i, 0), 0);
    size_t length = 0;
    for (size_t i = 1; i <= 10; i++)
        ck_assert_int_eq(chan_recv(pair.guest, received, sizeof received, &length, 0), 0);
    ck_assert_int_eq(chan_recv(pair.guest, received, sizeof received, &length, 0), -EAGAIN);
    struct chan_stats host;
    struct chan_stats guest;
    chan_get_stats(pair.host, &host);
    chan_get_stats(pair.guest, &guest);
    ck_assert_uint_eq(host.sent_messages, 10);
    ck_assert_uint_eq(host.sent_bytes, 55);
    ck_assert_uint_eq(host.received_messages, 0);
    ck_assert_uint_eq(guest.received_messages, 10);
    ck_assert_uint_eq(guest.received_bytes, 55);
    ck_assert_uint_eq(guest.receive_waits, 1);
    ck_assert_uint_eq(host.send_waits, 0);
    ck_assert_uint_eq(host.sessions, 1);
    ck_assert_int_eq(host.mapping, CHAN_MAPPING_CACHED);
    free_pair(&pair);
}
END_TEST

TCase *message_tests(void)
{
    TCase *tests = tcase_create("message");
    tcase_set_timeout(tests, 60);
    add_mapping_test(tests, test_every_size);
    add_mapping_test(tests, test_fill_and_drain);
    tcase_add_test(tests, test_consumer_publishes_before_it_waits);
    add_mapping_test(tests, test_too_small_a_buffer_keeps_the_message);
    add_mapping_test(tests, test_reserve_and_commit);
    add_mapping_test(tests, test_zero_copy_wraps_in_one_piece);
    add_mapping_test(tests, test_peek_and_recv_mix);
    add_mapping_test(tests, test_time_outs);
    tcase_add_test(tests, test_no_spinning_when_asked);
    tcase_add_test(tests, test_counters);
    return tests;
}
