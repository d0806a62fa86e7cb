/* The descriptors of a process, put right at its start. */
#ifndef CHAN_BASE_DESCRIPTORS_H
#define CHAN_BASE_DESCRIPTORS_H

#include <stdint.h>

#include "base/error.h"

/* Opens /dev/null for each of the descriptors 0 to 2 that is closed, so that no file of ours gets a number to
 * which others write. */
int descriptors_standard(struct error *err);

/* Raises the soft limit of open descriptors to the hard one. *ret is the limit; one with which a daemon could
 * not work is refused. */
int descriptors_limit(uint64_t *ret, struct error *err);

#endif
