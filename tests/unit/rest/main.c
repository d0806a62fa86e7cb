#include <stdlib.h>

#include "suites.h"

int main(void)
{
    Suite *suite = suite_create("rest");
    suite_add_tcase(suite, json_writer_tests());
    suite_add_tcase(suite, decode_tests());
    suite_add_tcase(suite, target_tests());
    suite_add_tcase(suite, headers_tests());
    suite_add_tcase(suite, answer_tests());
    suite_add_tcase(suite, connections_tests());
    suite_add_tcase(suite, workers_tests());
    suite_add_tcase(suite, listener_tests());
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
