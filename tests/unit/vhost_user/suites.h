/* The suites of this program. */
#ifndef CHAN_TESTS_UNIT_VHOST_USER_SUITES_H
#define CHAN_TESTS_UNIT_VHOST_USER_SUITES_H

#include <check.h>

Suite *receive_suite(void);
Suite *offer_suite(void);
Suite *messages_suite(void);
Suite *rings_suite(void);
Suite *sockets_suite(void);

#endif
