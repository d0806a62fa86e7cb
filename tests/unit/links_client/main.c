/* Tests of daemon/links against a fake dataplane. */
#include <signal.h>
#include <stdlib.h>

#include "tests/unit/links_client/fixture.h"

static void add(Suite *suite, TCase *tcase)
{
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, fixture_setup, fixture_teardown);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    Suite *suite = suite_create("links_client");
    (void)signal(SIGPIPE, SIG_IGN);
    add(suite, sockets_tests());
    add(suite, apply_tests());
    add(suite, keeper_tests());
    add(suite, spawn_tests());
    add(suite, states_tests());
    add(suite, threads_tests());
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
