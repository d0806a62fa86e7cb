/* Each thing that a peer can write and no correct peer writes: an error of its own, nothing used, and a way
 * out. */
#include <errno.h>
#include <string.h>

#include "tests/unit/sdk/support.h"

/* A session in which nothing was sent yet. */
static void renew(struct pair *pair)
{
    (void)chan_reconnect(pair->host, 0);
    (void)chan_reconnect(pair->guest, 0);
    connect_both(pair->host, pair->guest);
}

/* After the peer broke the protocol: everything says so, until both begin anew. */
static void expect_poisoned(struct pair *pair)
{
    const void *message = NULL;
    void *place = NULL;
    size_t length = 0;
    ck_assert_int_eq(try_recv(pair->host), -EPROTO);
    ck_assert_int_eq(chan_peek(pair->host, &message, &length, -1), -EPROTO);
    ck_assert_int_eq(chan_send(pair->host, "x", 1, -1), -EPROTO);
    ck_assert_int_eq(chan_reserve(pair->host, 1, &place, -1), -EPROTO);
    ck_assert_int_eq(chan_connect(pair->host, -1), -EPROTO);
    ck_assert_int_eq(chan_peer_state(pair->host), CHAN_PEER_ABSENT);

    ck_assert_int_eq(chan_reconnect(pair->host, 0), -EAGAIN);
    int r = 0;
    while ((r = try_recv(pair->guest)) == 0)
        ;
    ck_assert_int_eq(r, -ECONNRESET);
    (void)chan_reconnect(pair->guest, 0);
    connect_both(pair->host, pair->guest);
    ck_assert_int_eq(chan_send(pair->guest, "fine", 4, 0), 0);
    ck_assert_int_eq(try_recv(pair->host), 0);
    ck_assert_int_eq(chan_send(pair->host, "fine", 4, 0), 0);
    ck_assert_int_eq(try_recv(pair->guest), 0);
    renew(pair);
}

/* The header that a correct guest would write next, at the start of a session. */
static struct chan_record_header next_header(const struct pair *pair, uint32_t length)
{
    return (struct chan_record_header){
        .length = length,
        .type = CHAN_RECORD_MESSAGE,
        .sequence = (uint16_t)control_of(pair->region, CHAN_SIDE_GUEST)->epoch,
    };
}

static void expect_bad_header(struct chan_record_header header, struct pair *pair)
{
    memcpy(ring_of(pair->region, CHAN_SIDE_GUEST), &header, sizeof header);
    expect_poisoned(pair);
}

START_TEST(test_headers)
{
    struct pair pair = new_pair(SMALL_REGION, (enum chan_mapping)_i);

    /* First that a hand-made record of the allowed kind is taken, so that the refusals below mean something.
     */
    struct chan_record_header header = next_header(&pair, SMALL_RING - 16);
    memcpy(ring_of(pair.region, CHAN_SIDE_GUEST), &header, sizeof header);
    ck_assert_int_eq(try_recv(pair.host), 0);
    renew(&pair);

    static const uint32_t lengths[] = {SMALL_RING - 15, SMALL_RING,  SMALL_RING + 1, 0x7fffffff,
                                       0x80000000u,     0xfffffff8u, UINT32_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        expect_bad_header(next_header(&pair, lengths[i]), &pair);
    header = next_header(&pair, 8);
    header.type = 2;
    expect_bad_header(header, &pair);
    header = next_header(&pair, 8);
    header.type = 0;
    expect_bad_header(header, &pair);
    header = next_header(&pair, 8);
    header.flags = 1;
    expect_bad_header(header, &pair);
    header = next_header(&pair, 8);
    header.sequence++;
    expect_bad_header(header, &pair);
    header = next_header(&pair, 8);
    header.sequence--;
    expect_bad_header(header, &pair);
    free_pair(&pair);
}
END_TEST

START_TEST(test_length_against_what_is_not_published_yet)
{
    struct pair pair = new_pair(SMALL_REGION, CHAN_MAPPING_CACHED);
    ck_assert_int_eq(chan_send(pair.guest, "12345678", 8, 0), 0);
    ck_assert_int_eq(try_recv(pair.host),
                     0); /* 16 bytes, unpublished: the ring is shorter by that for the peer */
    struct chan_record_header header = next_header(&pair, SMALL_RING - 16);
    header.sequence++;
    memcpy(ring_of(pair.region, CHAN_SIDE_GUEST) + 16, &header, sizeof header);
    expect_poisoned(&pair);
    free_pair(&pair);
}
END_TEST

/* The head is looked at when the ring seems full. */
static void expect_bad_head(struct pair *pair, uint64_t head)
{
    while (chan_send(pair->host, "12345678", 8, 0) == 0)
        ;
    control_of(pair->region, CHAN_SIDE_GUEST)->head = head;
    ck_assert_int_eq(chan_send(pair->host, "12345678", 8, -1), -EPROTO);
    expect_poisoned(pair);
}

START_TEST(test_heads)
{
    struct pair pair = new_pair(SMALL_REGION, (enum chan_mapping)_i);
    expect_bad_head(&pair, 4);          /* not a multiple of 8 */
    expect_bad_head(&pair, SMALL_RING); /* beyond what was written */
    expect_bad_head(&pair, UINT64_MAX);
    expect_bad_head(&pair, UINT64_MAX - 7);
    expect_bad_head(&pair, UINT64_C(1) << 63);

    /* Backwards. */
    while (chan_send(pair.host, "12345678", 8, 0) == 0)
        ;
    for (int i = 0; i < 511; i++)
        ck_assert_int_eq(try_recv(pair.guest), 0);
    ck_assert_int_eq(try_recv(pair.guest), -EAGAIN);
    while (chan_send(pair.host, "12345678", 8, 0) == 0)
        ;
    control_of(pair.region, CHAN_SIDE_GUEST)->head -= 8;
    ck_assert_int_eq(chan_send(pair.host, "12345678", 8, -1), -EPROTO);
    expect_poisoned(&pair);
    free_pair(&pair);
}
END_TEST

START_TEST(test_states)
{
    struct pair pair = new_pair(SMALL_REGION, CHAN_MAPPING_CACHED);
    struct chan_control *guest = control_of(pair.region, CHAN_SIDE_GUEST);
    static const uint64_t no_states[] = {5, 0x100000003, UINT64_MAX};
    for (size_t i = 0; i < sizeof no_states / sizeof *no_states; i++) {
        guest->state = no_states[i];
        ck_assert_int_eq(try_recv(pair.host), -EPROTO);
        guest->state = CHAN_STATE_RUN;
        expect_poisoned(&pair);
    }

    /* During the handshake. */
    ck_assert_int_eq(chan_reconnect(pair.host, 0), -EAGAIN);
    guest->state = 77;
    ck_assert_int_eq(chan_connect(pair.host, -1), -EPROTO);
    guest->state = CHAN_STATE_RUN;
    expect_poisoned(&pair);
    free_pair(&pair);
}
END_TEST

START_TEST(test_false_acknowledgements)
{
    struct chan_region *region = new_region(SMALL_REGION, CHAN_MAPPING_CACHED);
    struct chan_channel *host = open_side(region, CHAN_SIDE_HOST);
    struct chan_control *guest = control_of(region, CHAN_SIDE_GUEST);
    static const uint64_t states[] = {CHAN_STATE_INIT, CHAN_STATE_READY, CHAN_STATE_RUN};
    for (int i = 0; i < 30; i++) {
        guest->state = states[i % 3];
        guest->epoch = i % 2 ? 0 : 1000 + (uint64_t)i; /* 0 is never an epoch */
        guest->acknowledged = i % 5 ? 0 : 12345;       /* not what the host has drawn */
        ck_assert_int_eq(chan_connect(host, 0), -EAGAIN);
    }
    guest->epoch = 0;
    guest->state = CHAN_STATE_RUN;
    guest->acknowledged = control_of(region, CHAN_SIDE_HOST)->epoch;
    ck_assert_int_eq(chan_connect(host, 5), -ETIMEDOUT);
    chan_close(host);
    chan_region_close(region);
}
END_TEST

START_TEST(test_own_words_are_not_believed)
{
    /* Nothing that a side wrote into shared memory is read back by it as a fact: positions are private. */
    struct pair pair = new_pair(SMALL_REGION, CHAN_MAPPING_CACHED);
    struct chan_control *host = control_of(pair.region, CHAN_SIDE_HOST);
    ck_assert_int_eq(chan_send(pair.guest, "a", 1, 0), 0);
    host->head = UINT64_MAX;
    host->state = 99;
    host->epoch = 1;
    host->heartbeat = 0;
    ck_assert_int_eq(try_recv(pair.host), 0);
    ck_assert_int_eq(chan_send(pair.host, "a", 1, 0), 0);
    ck_assert_int_eq(try_recv(pair.host), -EAGAIN);
    free_pair(&pair);
}
END_TEST

TCase *mistrust_tests(void)
{
    TCase *tests = tcase_create("mistrust");
    tcase_set_timeout(tests, 60);
    add_mapping_test(tests, test_headers);
    tcase_add_test(tests, test_length_against_what_is_not_published_yet);
    add_mapping_test(tests, test_heads);
    tcase_add_test(tests, test_states);
    tcase_add_test(tests, test_false_acknowledgements);
    tcase_add_test(tests, test_own_words_are_not_believed);
    return tests;
}
