/* Offloads in software: checksums, what is to be done with a frame, segments, fragments, lies. */
#include <stdlib.h>

#include "tests/unit/offload/support.h"

int main(void)
{
    Suite *suite = suite_create("offload");
    suite_add_tcase(suite, checksum_tcase());
    suite_add_tcase(suite, plan_tcase());
    suite_add_tcase(suite, complete_tcase());
    suite_add_tcase(suite, segment_tcase());
    suite_add_tcase(suite, fragment_tcase());
    suite_add_tcase(suite, malformed_tcase());
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
