/* Two hostile rings, one to send from and one to receive into, in a small guest. What is shared by the fuzz
 * targets of split and packed rings. */
#ifndef CHAN_TESTS_FUZZ_VIRTQUEUE_HARNESS_H
#define CHAN_TESTS_FUZZ_VIRTQUEUE_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads the input as: features, sizes, length of the script, descriptors of both rings and of tables, script,
 * the rest of the rings and of the memory. Whatever it is: nothing outside of the guest's memory is touched,
 * every frame lies within it, every call ends. */
void virtqueue_harness_run(const uint8_t *data, size_t size, bool packed);

#endif
