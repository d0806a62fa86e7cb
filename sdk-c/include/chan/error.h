/* What went wrong, in words. */
#ifndef CHAN_ERROR_H
#define CHAN_ERROR_H

#include "chan/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CHAN_ERROR_BYTES = 512 };

/* Where a call that takes one says what was wrong and what to do about it. Left alone when the call succeeds.
 * Wherever a `struct chan_error *` is taken, NULL is accepted. */
struct chan_error {
    char text[CHAN_ERROR_BYTES];
};

/* What a negative result of a channel's call means, and what to do next: a static string, never NULL. */
CHAN_API const char *chan_error_text(int result);

#ifdef __cplusplus
}
#endif
#endif
