/* Going through the source's memory, piece by piece. */
#include <string.h>

#include "dataplane/offload/internal.h"

struct offload_cursor cursor_at_start(const struct frame *frame, const struct iovec *segments)
{
    return (struct offload_cursor){.segments = segments, .count = frame->segment_count};
}

/* The next piece of at most `length` bytes. Empty: the source ends here. */
static struct iovec next_piece(struct offload_cursor *cursor, size_t length)
{
    while (cursor->count > 0 && cursor->consumed == cursor->segments->iov_len) {
        cursor->segments++;
        cursor->count--;
        cursor->consumed = 0;
    }
    if (cursor->count == 0)
        return (struct iovec){.iov_len = 0};
    const size_t left = cursor->segments->iov_len - cursor->consumed;
    const struct iovec piece = {.iov_base = (uint8_t *)cursor->segments->iov_base + cursor->consumed,
                                .iov_len = left < length ? left : length};
    cursor->consumed += piece.iov_len;
    return piece;
}

bool cursor_read(struct offload_cursor *cursor, uint8_t *to, uint32_t length)
{
    for (size_t done = 0; done < length;) {
        const struct iovec piece = next_piece(cursor, length - done);
        if (piece.iov_len == 0)
            return false;
        memcpy(to + done, piece.iov_base, piece.iov_len);
        done += piece.iov_len;
    }
    return true;
}

static bool append(struct offload_output *output, struct iovec piece)
{
    if (output->segment_count == OFFLOAD_OUTPUT_SEGMENTS)
        return false;
    output->segments[output->segment_count++] = piece;
    output->length += (uint32_t)piece.iov_len;
    return true;
}

bool cursor_pass(struct offload_cursor *cursor, uint32_t length, struct offload_output *output,
                 struct running_sum *sum)
{
    for (size_t done = 0; done < length;) {
        const struct iovec piece = next_piece(cursor, length - done);
        if (piece.iov_len == 0 || (output != NULL && !append(output, piece)))
            return false;
        if (sum != NULL)
            running_sum_add(sum, piece.iov_base, piece.iov_len);
        done += piece.iov_len;
    }
    return true;
}

void output_clear(struct offload_output *output)
{
    output->length = 0;
    output->segment_count = 0;
}

bool output_append_own(struct offload_output *output, uint32_t length)
{
    return append(output, (struct iovec){.iov_base = output->bytes, .iov_len = length});
}
