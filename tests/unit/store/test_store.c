/* Tests of the store, through store/store.h. */
#include <stdlib.h>

#include "tests/unit/store/support.h"

static void add_case(Suite *suite, TCase *tcase)
{
    tcase_set_timeout(tcase, 120);
    tcase_add_unchecked_fixture(tcase, make_directory, remove_directory);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    Suite *suite = suite_create("store");
    add_case(suite, open_case());
    add_case(suite, template_case());
    add_case(suite, sandbox_case());
    add_case(suite, link_case());
    add_case(suite, event_case());
    add_case(suite, write_case());
    add_case(suite, checkpoint_case());
    add_case(suite, full_disk_case());
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
