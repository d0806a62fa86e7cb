#include <stdlib.h>

#include "tests/unit/cli/suites.h"

int main(void)
{
    SRunner *runner = srunner_create(args_suite());
    srunner_add_suite(runner, command_suite());
    srunner_add_suite(runner, completion_suite());
    srunner_add_suite(runner, details_suite());
    srunner_add_suite(runner, link_suite());
    srunner_add_suite(runner, table_suite());
    srunner_add_suite(runner, text_suite());
    srunner_add_suite(runner, values_suite());
    srunner_add_suite(runner, yaml_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
