/* What is offered. */
#include "dataplane/vhost_user/features.h"
#include "tests/unit/vhost_user/suites.h"

START_TEST(test_what_is_off_takes_along_what_needs_it)
{
    const uint64_t all = features_offered(0);
    const uint64_t without = features_offered(FEATURE(VIRTIO_NET_F_CSUM));
    const uint64_t senders = FEATURE(VIRTIO_NET_F_CSUM) | FEATURE(VIRTIO_NET_F_HOST_TSO4) |
                             FEATURE(VIRTIO_NET_F_HOST_TSO6) | FEATURE(VIRTIO_NET_F_HOST_ECN) |
                             FEATURE(VIRTIO_NET_F_HOST_UFO) | FEATURE(FEATURE_HOST_USO);
    ck_assert_uint_eq(all & senders, senders);
    ck_assert_uint_eq(without, all & ~senders);
    const uint64_t tso6_only = features_offered(FEATURE(VIRTIO_NET_F_GUEST_TSO4));
    ck_assert_msg((tso6_only & FEATURE(VIRTIO_NET_F_GUEST_ECN)) != 0, "GUEST_TSO6 is enough for GUEST_ECN");
}
END_TEST

START_TEST(test_essentials_stay)
{
    ck_assert_uint_eq(features_offered(UINT64_MAX), FEATURE(VIRTIO_F_VERSION_1) | FEATURE(FEATURE_PROTOCOL));
}
END_TEST

START_TEST(test_nothing_is_offered_that_is_not_served)
{
    const uint64_t never[] = {VIRTIO_NET_F_CTRL_VQ, VIRTIO_NET_F_HASH_REPORT, VIRTIO_NET_F_RSS,
                              VIRTIO_F_ACCESS_PLATFORM};
    for (unsigned i = 0; i < sizeof never / sizeof never[0]; i++)
        ck_assert_uint_eq(features_offered(0) & FEATURE(never[i]), 0);
    const unsigned never_protocol[] = {6 /* CROSS_ENDIAN */,    8 /* PAGEFAULT */, 9 /* CONFIG */,
                                       12 /* INFLIGHT_SHMFD */, 14 /* INBAND */,   21 /* GPA_ADDRESSES */};
    for (unsigned i = 0; i < sizeof never_protocol / sizeof never_protocol[0]; i++)
        ck_assert_uint_eq(protocol_features_offered() & FEATURE(never_protocol[i]), 0);
}
END_TEST

Suite *offer_suite(void)
{
    Suite *suite = suite_create("offer");
    TCase *test = tcase_create("offer");
    tcase_add_test(test, test_what_is_off_takes_along_what_needs_it);
    tcase_add_test(test, test_essentials_stay);
    tcase_add_test(test, test_nothing_is_offered_that_is_not_served);
    suite_add_tcase(suite, test);
    return suite;
}
