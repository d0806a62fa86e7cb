#include "tests/unit/virtio_net/frames.h"

int main(void)
{
    Suite *suite = suite_create("virtio_net");
    suite_add_tcase(suite, pull_tests());
    suite_add_tcase(suite, fault_tests());
    suite_add_tcase(suite, push_tests());
    suite_add_tcase(suite, offload_tests());
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
