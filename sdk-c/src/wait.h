/* Waiting for the peer: poll with PAUSE for a short time, then sleep, longer each time, 1 ms at most. There
 * is no doorbell to wait on, so every sleep is bounded and nothing depends on being woken. */
#ifndef CHAN_SRC_WAIT_H
#define CHAN_SRC_WAIT_H

#include <stdbool.h>
#include <stdint.h>

struct chan_wait {
    int timeout_ms, spin_us;
    bool immediate; /* a time-out of 0 */
    bool slow;      /* the last step took its time: look at what changes rarely, too */
    bool timed;     /* the two below are set: the clock is first read when the wait is not over at once */
    int64_t deadline_ns; /* INT64_MAX: for ever */
    int64_t spin_until_ns;
    int64_t sleep_ns; /* the next one; 0: still polling */
    unsigned polls;
    uint64_t sleeps;
};

int64_t chan_now_ns(void);

/* spin_us < 0: sleep at once. */
void chan_wait_begin(struct chan_wait *wait, int timeout_ms, int spin_us);

/* Lets a little time pass. Returns 0 to look again; -EAGAIN at once for a time-out of 0; -ETIMEDOUT when it
 * is over. */
int chan_wait_step(struct chan_wait *wait);

#endif
