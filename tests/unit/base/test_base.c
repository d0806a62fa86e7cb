/* Tests of base/. */
#include <stdlib.h>

#include "tests/unit/base/cases.h"

int main(void)
{
    Suite *suite = suite_create("base");
    suite_add_tcase(suite, error_case());
    suite_add_tcase(suite, clock_case());
    suite_add_tcase(suite, log_case());
    suite_add_tcase(suite, fault_case());
    suite_add_tcase(suite, cleanup_case());
    suite_add_tcase(suite, proc_stat_case());
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
