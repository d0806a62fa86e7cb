/* Copies between private memory and a region. */
#ifndef CHAN_SRC_COPY_H
#define CHAN_SRC_COPY_H

#include <stddef.h>

#include "chan/region.h"

/* To the region. `to` is aligned to 8; on a device mapping the last word is written whole, padded with zeros,
 * so `to` has room for `bytes` rounded up to 8. */
void chan_copy_out(enum chan_mapping mapping, void *to, const void *from, size_t bytes);

/* From the region. `from` is aligned to 8; on a device mapping its last word is read whole. */
void chan_copy_in(enum chan_mapping mapping, void *to, const void *from, size_t bytes);

#endif
