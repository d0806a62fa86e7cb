/* What this process uses, for the process_* metrics. */
#ifndef CHAN_DAEMON_METRICS_PROCESS_H
#define CHAN_DAEMON_METRICS_PROCESS_H

#include <stdint.h>

struct process_usage {
    uint64_t cpu_ns; /* user and system */
    uint64_t resident_bytes, virtual_bytes;
};

/* When this process started, in milliseconds since the epoch, by the clock as it stands now; 0 when /proc
 * does not tell. To be asked once: the answer moves when the real-time clock is set. */
int64_t process_start_time_ms(void);

/* Return 0 or a negative errno. Any thread. */
int process_usage_read(struct process_usage *ret);
int process_fds_read(uint64_t *open_fds, uint64_t *max_fds);

#endif
