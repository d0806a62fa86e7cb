#include <stdlib.h>

#include "tests/unit/vhost_user/suites.h"

int main(void)
{
    SRunner *runner = srunner_create(receive_suite());
    srunner_add_suite(runner, offer_suite());
    srunner_add_suite(runner, messages_suite());
    srunner_add_suite(runner, rings_suite());
    srunner_add_suite(runner, sockets_suite());
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
