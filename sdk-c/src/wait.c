#include "wait.h"

#include <errno.h>
#include <time.h>

enum {
    POLLS_PER_CLOCK = 32, /* reading the clock costs as much as some polls */
    FIRST_SLEEP_NS = 20 * 1000,
    LONGEST_SLEEP_NS = 1000 * 1000,
};

static inline void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

int64_t chan_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void chan_wait_begin(struct chan_wait *wait, int timeout_ms, int spin_us)
{
    *wait = (struct chan_wait){.timeout_ms = timeout_ms, .spin_us = spin_us, .immediate = timeout_ms == 0};
}

static void read_clock_first(struct chan_wait *wait, int64_t now)
{
    wait->timed = true;
    wait->deadline_ns = wait->timeout_ms < 0 ? INT64_MAX : now + (int64_t)wait->timeout_ms * 1000000;
    wait->spin_until_ns = wait->spin_us < 0 ? now : now + (int64_t)wait->spin_us * 1000;
}

static void sleep_some(struct chan_wait *wait, int64_t left_ns)
{
    wait->sleep_ns = wait->sleep_ns == 0 ? FIRST_SLEEP_NS : wait->sleep_ns * 2;
    if (wait->sleep_ns > LONGEST_SLEEP_NS)
        wait->sleep_ns = LONGEST_SLEEP_NS;
    int64_t sleep_ns = wait->sleep_ns < left_ns ? wait->sleep_ns : left_ns;
    struct timespec request = {.tv_nsec = (long)sleep_ns};
    (void)nanosleep(&request, NULL);
    wait->sleeps++;
}

int chan_wait_step(struct chan_wait *wait)
{
    if (wait->immediate)
        return -EAGAIN;
    wait->slow = false;
    /* Two: polling without a pause doubles the latency, since it steals the line from the writer; more adds
     * to it. */
    pause_cpu();
    pause_cpu();
    bool polling = wait->sleep_ns == 0 && wait->spin_us >= 0;
    if (polling && ++wait->polls % POLLS_PER_CLOCK != 0)
        return 0;

    wait->slow = true;
    int64_t now = chan_now_ns();
    if (!wait->timed)
        read_clock_first(wait, now);
    if (now >= wait->deadline_ns)
        return -ETIMEDOUT;
    if (now >= wait->spin_until_ns)
        sleep_some(wait, wait->deadline_ns - now);
    return 0;
}
