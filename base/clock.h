/* Clocks and the boot id. */
#ifndef CHAN_BASE_CLOCK_H
#define CHAN_BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { BOOT_ID_SIZE = 37, TIMESTAMP_SIZE = 32 }; /* with the terminating zero */

/* Milliseconds since the epoch, for people to read. It may jump; nothing is decided by it. */
int64_t clock_real_ms(void);

/* Milliseconds since boot, suspend included. Never jumps; leases and graces are counted in it. */
int64_t clock_boot_ms(void);

/* Nanoseconds of the monotonic clock, for durations. */
int64_t clock_monotonic_ns(void);

/* RFC 3339 in UTC with milliseconds: 2026-01-02T03:04:05.678Z. Times before 1970 and after 9999 are written
 * as the first and the last millisecond in between. */
void clock_format(int64_t real_ms, char out[TIMESTAMP_SIZE]);

/* This boot's id, from /proc/sys/kernel/random/boot_id. */
int clock_boot_id(char out[BOOT_ID_SIZE], struct error *err);

#endif
