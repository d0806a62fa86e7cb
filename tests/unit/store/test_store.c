/* Tests of the store, through store/store.h. */
#include <stdlib.h>

#include "tests/unit/store/support.h"

int main(void)
{
    TCase *(*const cases[])(void) = {open_case,  template_case,   sandbox_case,  event_case,
                                     write_case, checkpoint_case, full_disk_case};
    Suite *suite = suite_create("store");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        TCase *tcase = cases[i]();
        tcase_set_timeout(tcase, 120);
        tcase_add_unchecked_fixture(tcase, make_directory, remove_directory);
        suite_add_tcase(suite, tcase);
    }
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
