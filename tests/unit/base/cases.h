#ifndef CHAN_TESTS_UNIT_BASE_CASES_H
#define CHAN_TESTS_UNIT_BASE_CASES_H

#include <check.h>

TCase *error_case(void);
TCase *clock_case(void);
TCase *log_case(void);
TCase *fault_case(void);
TCase *cleanup_case(void);
TCase *proc_stat_case(void);

#endif
