#include "tests/unit/sdk/support.h"

int main(void)
{
    scratch_make();
    Suite *suite = suite_create("sdk");
    suite_add_tcase(suite, superblock_tests());
    suite_add_tcase(suite, region_tests());
    suite_add_tcase(suite, region_pci_tests());
    suite_add_tcase(suite, session_tests());
    suite_add_tcase(suite, message_tests());
    suite_add_tcase(suite, batch_tests());
    suite_add_tcase(suite, mistrust_tests());
    suite_add_tcase(suite, traffic_tests());
    suite_add_tcase(suite, restart_tests());
    /* A peer that writes where and when it likes is a data race by intention: ThreadSanitizer has nothing to
     * say there. */
    if (!UNDER_TSAN)
        suite_add_tcase(suite, hostile_tests());
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    scratch_remove();
    return failed == 0 ? 0 : 1;
}
