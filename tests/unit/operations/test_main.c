#include <stdlib.h>

#include "fixture.h"

int main(void)
{
    Suite *suite = suite_create("operations");
    suite_add_tcase(suite, rules_tests());
    suite_add_tcase(suite, templates_tests());
    suite_add_tcase(suite, sandboxes_tests());
    suite_add_tcase(suite, lifecycle_tests());
    suite_add_tcase(suite, events_tests());
    suite_add_tcase(suite, links_tests());
    suite_add_tcase(suite, link_arguments_tests());
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
