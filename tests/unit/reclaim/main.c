/* Reclaim: what a crash leaves is repaired, what has no owner goes, and what may have one stays. */
#include <stdlib.h>

#include "tests/unit/reclaim/fixture.h"

int main(void)
{
    TCase *cases[] = {owner_tests(), remove_tests(), repair_tests(), collector_tests()};
    Suite *suite = suite_create("reclaim");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tcase_add_checked_fixture(cases[i], fixture_setup, fixture_teardown);
        tcase_set_timeout(cases[i], 120);
        suite_add_tcase(suite, cases[i]);
    }
    SRunner *runner = srunner_create(suite);
    fixture_make_bases();
    srunner_run_all(runner, CK_ENV);
    fixture_remove_bases();
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
