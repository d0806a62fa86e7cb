#include <stdlib.h>

#include "tests/unit/dataplane_control/fixture.h"

int main(void)
{
    Suite *suite = suite_create("dataplane control");
    suite_add_tcase(suite, link_table_tcase());
    suite_add_tcase(suite, requests_tcase());
    suite_add_tcase(suite, socket_tcase());
    suite_add_tcase(suite, statistics_memory_tcase());
    suite_add_tcase(suite, watch_tcase());
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
