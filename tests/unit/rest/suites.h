#ifndef CHAN_TESTS_UNIT_REST_SUITES_H
#define CHAN_TESTS_UNIT_REST_SUITES_H

#include <check.h>

TCase *json_writer_tests(void);
TCase *decode_tests(void);
TCase *target_tests(void);
TCase *headers_tests(void);
TCase *answer_tests(void);
TCase *connections_tests(void);
TCase *workers_tests(void);
TCase *listener_tests(void);

#endif
