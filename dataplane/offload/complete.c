/* Completing a checksum: at its place stands the sum of the pseudo header, which is summed with the rest. */
#include "dataplane/offload/internal.h"

bool offload_complete_checksum(const struct frame *frame, const struct iovec *segments,
                               struct offload_output *output)
{
    if (!offload_checksum_lies_inside(frame))
        return false;
    const uint32_t start = frame->header.csum_start;
    const uint32_t offset = frame->header.csum_offset;
    const uint32_t behind = frame->length - start - offset - CHECKSUM_LENGTH;
    struct offload_cursor cursor = cursor_at_start(frame, segments);
    struct running_sum sum = {.sum = 0};

    output_clear(output);
    if (!cursor_pass(&cursor, start, output, NULL) || !cursor_pass(&cursor, offset, output, &sum) ||
        !cursor_read(&cursor, output->bytes, CHECKSUM_LENGTH) || !output_append_own(output, CHECKSUM_LENGTH))
        return false;
    running_sum_add(&sum, output->bytes, CHECKSUM_LENGTH);
    if (!cursor_pass(&cursor, behind, output, &sum))
        return false;
    checksum_store(output->bytes, sum.sum, offset == UDP_CHECKSUM);
    return true;
}
