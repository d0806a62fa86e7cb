/* Owners: is the process or lease that a sandbox belongs to still there? */
#ifndef CHAN_DAEMON_RECLAIM_OWNER_H
#define CHAN_DAEMON_RECLAIM_OWNER_H

#include "base/error.h"
#include "store/rows.h"

enum owner_condition {
    OWNER_ALIVE,
    OWNER_ENDED,   /* proved: no such process, another start time or boot, a zombie, or the lease is over */
    OWNER_IN_DOUBT /* it could not be asked (hidden /proc, no descriptors): keep, and report */
};

/* Records a process as owner: start time and boot id are read at once, and the pid is proved not to have been
 * reused in between (pidfd before, alive after). REASON_OWNER_GONE when there is no such process (or only a
 * zombie), REASON_OWNER_UNKNOWN when it cannot be examined. */
int owner_record_process(pid_t pid, const char *boot_id, struct owner_row *ret, struct error *err);

/* Starts or renews a lease of that many seconds from now, on the boot clock. */
void owner_record_lease(int64_t lease_seconds, const char *boot_id, struct owner_row *ret);

/* A lease is over when the boot clock has passed both its expiry and daemon_start_boot_ms + its length: while
 * chand is down or the host reboots nobody can renew, so every lease gets its full length again after a
 * start. */
enum owner_condition owner_examine(const struct owner_row *owner, const char *boot_id,
                                   int64_t daemon_start_boot_ms);

#endif
