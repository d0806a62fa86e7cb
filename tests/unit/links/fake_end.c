#include "tests/unit/links/fake_end.h"

#include <check.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static unsigned pull(struct end *end, unsigned pair, struct burst *burst)
{
    struct fake_end *fake = (struct fake_end *)end;
    const unsigned sent = atomic_load(&fake->sent[pair]);
    const unsigned waiting = atomic_load(&fake->queued[pair]) - sent;
    burst->count = waiting < BURST_FRAMES ? waiting : BURST_FRAMES;
    for (unsigned i = 0; i < burst->count; i++)
        burst->frames[i].length = pair << 16 | (sent + i);
    return burst->count;
}

static void release(struct end *end, unsigned pair, unsigned count)
{
    atomic_fetch_add(&((struct fake_end *)end)->sent[pair], count);
}

static unsigned push(struct end *end, unsigned pair, const struct burst *burst, unsigned from,
                     struct statistics_direction *counters)
{
    struct fake_end *fake = (struct fake_end *)end;
    (void)pair;
    unsigned done = 0;
    for (unsigned i = from; i < burst->count && atomic_load(&fake->room) > 0; i++, done++) {
        if (burst->frames[i].length != 0 && burst->frames[i].length == atomic_load(&fake->unwanted))
            break;
        const unsigned at = atomic_load(&fake->received_count);
        ck_assert_uint_lt(at, FAKE_FRAMES);
        fake->received[at] = burst->frames[i].length;
        atomic_store(&fake->received_count, at + 1);
        atomic_fetch_sub(&fake->room, 1);
    }
    statistics_add(&counters->frames, done);
    return done;
}

static unsigned flush(struct end *end)
{
    atomic_fetch_add(&((struct fake_end *)end)->interrupts, 1);
    return 1;
}

static uint32_t sending_pairs(const struct end *end)
{
    return atomic_load(&((const struct fake_end *)end)->pairs);
}

static bool arm(struct end *end, uint32_t sending, bool refill)
{
    struct fake_end *fake = (struct fake_end *)end;
    sending &= atomic_load(&fake->pairs);
    atomic_store(&fake->armed, sending != 0);
    atomic_store(&fake->refill_armed, refill);
    bool work = refill && atomic_load(&fake->room) > 0;
    for (unsigned pair = 0; pair < END_QUEUE_PAIRS; pair++) {
        if ((sending >> pair & 1) != 0 && atomic_load(&fake->queued[pair]) != atomic_load(&fake->sent[pair]))
            work = true;
    }
    return work;
}

static void disarm(struct end *end)
{
    struct fake_end *fake = (struct fake_end *)end;
    atomic_store(&fake->armed, false);
    atomic_store(&fake->refill_armed, false);
}

static void status(const struct end *end, struct end_status *status)
{
    (void)end;
    memset(status, 0, sizeof *status);
}

static void set_offloads(struct end *end, uint64_t offloads_off)
{
    end->specification.offloads_off = offloads_off;
}

static void unwatch(void *argument)
{
    const struct fake_end *fake = argument;
    worker_unwatch(fake->end.task, fake->kick_fd);
}

static void destroy(struct end *end)
{
    struct fake_end *fake = (struct fake_end *)end;
    worker_run(end->task->worker, unwatch, fake);
    atomic_fetch_add(&fake->destroyed, 1);
}

static const struct end_operations operations = {
    .type = "fake",
    .pull = pull,
    .release = release,
    .push = push,
    .flush = flush,
    .sending_pairs = sending_pairs,
    .arm = arm,
    .disarm = disarm,
    .status = status,
    .set_offloads = set_offloads,
    .destroy = destroy,
};

static void watch(void *argument)
{
    const struct fake_end *fake = argument;
    ck_assert_int_eq(worker_watch(fake->end.task, fake->kick_fd, NULL), 0);
}

void fake_end_init(struct fake_end *fake, struct worker_task *task)
{
    memset(fake, 0, sizeof *fake);
    fake->end.operations = &operations;
    fake->end.task = task;
    fake->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    ck_assert_int_ge(fake->kick_fd, 0);
    atomic_store(&fake->pairs, 1);
    worker_run(task->worker, watch, fake);
}

void fake_end_clear(struct fake_end *fake)
{
    (void)close(fake->kick_fd);
}

void fake_end_send(struct fake_end *fake, unsigned pair, unsigned count)
{
    atomic_fetch_add(&fake->queued[pair], count);
    if (atomic_load(&fake->armed))
        ck_assert_int_eq(eventfd_write(fake->kick_fd, 1), 0);
}

void fake_end_refill(struct fake_end *fake, unsigned count)
{
    atomic_fetch_add(&fake->room, count);
    if (atomic_load(&fake->refill_armed))
        ck_assert_int_eq(eventfd_write(fake->kick_fd, 1), 0);
}
