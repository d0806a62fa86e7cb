/* Split rings: see virtqueue_harness.h for what the input is. */
#include "tests/fuzz/virtqueue_harness.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    virtqueue_harness_run(data, size, false);
    return 0;
}
