/* Regions: files are made complete or not at all, nobody else's file is touched, and what a crash leaves is
 * known. */
#include <stdlib.h>

#include "tests/unit/regions/fixture.h"

int main(void)
{
    TCase *cases[] = {names_tests(), create_tests(), remove_tests(), fault_tests()};
    Suite *suite = suite_create("regions");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tcase_add_checked_fixture(cases[i], fixture_setup, fixture_teardown);
        tcase_set_timeout(cases[i], 60);
        suite_add_tcase(suite, cases[i]);
    }
    SRunner *runner = srunner_create(suite);
    fixture_make_base();
    srunner_run_all(runner, CK_ENV);
    fixture_remove_base();
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
