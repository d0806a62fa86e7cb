/* Guest memory: tables of regions, translation, the SIGBUS guard, the log of dirty pages, copying. */
#include <stdlib.h>

#include "tests/unit/memory/support.h"

int main(void)
{
    Suite *suite = suite_create("memory");
    suite_add_tcase(suite, tables_tcase());
    suite_add_tcase(suite, translate_tcase());
    suite_add_tcase(suite, guard_tcase());
    suite_add_tcase(suite, dirty_log_tcase());
    suite_add_tcase(suite, copy_tcase());
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
