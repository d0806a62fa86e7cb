#ifndef CHAN_TESTS_UNIT_LOOP_SUITES_H
#define CHAN_TESTS_UNIT_LOOP_SUITES_H

#include <check.h>

TCase *timers_tcase(void);

#endif
