/* Two ends, joined. */
#include <stdlib.h>

#include "dataplane/links/link.h"

struct link {
    struct worker_task task; /* first: the task is the link */
    struct end *ends[2];
    struct statistics_slot *slot;
    int64_t patience_ns;
    bool paused;
    /* Bit i, of what ends[side] sends on pair i. stalled: the receiver is out of buffers, and frames wait for
     * it. starved: that has outlasted the patience, and frames are dropped until the receiver takes one. */
    uint32_t stalled[2], starved[2];
    int64_t stalled_since[2][END_QUEUE_PAIRS];
};

/* What a visit works on: too large for a stack frame, and needed by one visit of a thread at a time only. */
static _Thread_local struct burst scratch;

#define likely(condition) __builtin_expect((condition), 1)

static struct link *link_of(struct worker_task *task)
{
    return (struct link *)task;
}

/* The receiver has taken a frame, and then had no buffer for the next one: frames wait, with fresh patience.
 */
static void begin_stall(struct link *link, unsigned side, unsigned pair, int64_t now)
{
    const uint32_t bit = UINT32_C(1) << pair;
    if ((link->stalled[side] & bit) == 0)
        statistics_add(&link->slot->directions[side].stalls, 1);
    link->stalled[side] |= bit;
    link->starved[side] &= ~bit;
    link->stalled_since[side][pair] = now;
}

static void end_stall(struct link *link, unsigned side, unsigned pair)
{
    const uint32_t bit = UINT32_C(1) << pair;
    link->stalled[side] &= ~bit;
    link->starved[side] &= ~bit;
}

/* The receiver has no buffer for the first frame. It waits for as long as patience allows; then it is
 * dropped, and so is each one behind it that finds no buffer either (a smaller one may). Returns how many
 * frames are done with. */
static unsigned wait_or_drop(struct link *link, unsigned side, unsigned pair, int64_t now)
{
    struct end *to = link->ends[1 - side];
    struct statistics_direction *counters = &link->slot->directions[side];
    const uint32_t bit = UINT32_C(1) << pair;
    if (((link->stalled[side] | link->starved[side]) & bit) == 0) {
        begin_stall(link, side, pair, now);
        return 0;
    }
    if ((link->stalled[side] & bit) != 0 && now - link->stalled_since[side][pair] < link->patience_ns)
        return 0;
    link->stalled[side] &= ~bit;
    link->starved[side] |= bit;
    unsigned done = 0;
    unsigned taken = 0;
    while (taken == 0 && done < scratch.count) {
        statistics_add(&counters->dropped[STATISTICS_DROP_RECEIVER_FULL], 1);
        done++;
        if (done < scratch.count)
            taken = to->operations->push(to, pair, &scratch, done, counters);
    }
    if (done + taken < scratch.count)
        begin_stall(link, side, pair, now);
    else if (taken > 0)
        end_stall(link, side, pair);
    return done + taken;
}

/* One burst of one pair of ends[side] to the other end. */
static bool move_pair(struct link *link, unsigned side, unsigned pair, int64_t now)
{
    struct end *from = link->ends[side];
    struct end *to = link->ends[1 - side];
    const unsigned count = from->operations->pull(from, pair, &scratch);
    if (count == 0) {
        /* whatever waited is gone, with its sender */
        link->stalled[side] &= ~(UINT32_C(1) << pair);
        return false;
    }
    unsigned done = to->operations->push(to, pair, &scratch, 0, &link->slot->directions[side]);
    if (likely(done == count))
        end_stall(link, side, pair);
    else if (done > 0)
        begin_stall(link, side, pair, now);
    else
        done = wait_or_drop(link, side, pair, now);
    if (done == 0)
        return false;
    from->operations->release(from, pair, done);
    return true;
}

static bool move(struct link *link, unsigned side, int64_t now)
{
    struct end *from = link->ends[side];
    const uint32_t sending = from->operations->sending_pairs(from);
    bool work = false;
    link->stalled[side] &= sending;
    for (uint32_t pairs = sending; pairs != 0; pairs &= pairs - 1)
        work |= move_pair(link, side, (unsigned)__builtin_ctz(pairs), now);
    return work;
}

static bool visit(struct worker_task *task, int64_t now)
{
    struct link *link = link_of(task);
    if (link->paused)
        return false;
    bool work = move(link, 0, now);
    work |= move(link, 1, now);
    if (work) {
        for (unsigned side = 0; side < 2; side++) {
            struct end *end = link->ends[side];
            const unsigned sent = end->operations->flush(end);
            if (sent > 0)
                statistics_add(&link->slot->directions[1 - side].interrupts, sent);
        }
    }
    return work;
}

/* When the oldest stall will have outlasted the patience; 0: nothing is stalled. */
static int64_t stall_deadline(const struct link *link)
{
    int64_t earliest = 0;
    for (unsigned side = 0; side < 2; side++) {
        for (uint32_t pairs = link->stalled[side]; pairs != 0; pairs &= pairs - 1) {
            const int64_t at = link->stalled_since[side][__builtin_ctz(pairs)] + link->patience_ns;
            if (earliest == 0 || at < earliest)
                earliest = at;
        }
    }
    return earliest;
}

static void disarm(struct worker_task *task)
{
    const struct link *link = link_of(task);
    for (unsigned side = 0; side < 2; side++)
        link->ends[side]->operations->disarm(link->ends[side]);
}

static bool sleep_link(struct worker_task *task)
{
    struct link *link = link_of(task);
    bool work = false;
    if (!link->paused) {
        task->deadline = stall_deadline(link);
        for (unsigned side = 0; side < 2; side++) {
            struct end *end = link->ends[side];
            /* What is stalled waits for buffers of the other end, not for more frames. */
            work |= end->operations->arm(end, ~link->stalled[side], link->stalled[1 - side] != 0);
        }
    }
    if (work)
        disarm(task);
    else
        statistics_add(&link->slot->sleeps, 1);
    return work;
}

static void wake(struct worker_task *task)
{
    struct link *link = link_of(task);
    statistics_add(&link->slot->wakeups, 1);
    disarm(task);
}

/* ---- the control thread ---- */

int link_new(const struct link_config *config, struct link **ret, struct error *err)
{
    struct link *link = calloc(1, sizeof *link);
    if (link == NULL)
        return error_set(err, REASON_RESOURCE_LIMIT, "making a link: out of memory");
    link->task =
        (struct worker_task){.visit = visit, .sleep = sleep_link, .wake = wake, .worker = config->worker};
    link->slot = config->slot;
    link->patience_ns = config->patience_ns;
    *ret = link;
    return 0;
}

struct worker_task *link_task(struct link *link)
{
    return &link->task;
}

struct change {
    struct link *link;
    bool paused;
    struct error *err;
    int result;
};

static void add_on_worker(void *argument)
{
    struct change *change = argument;
    change->result = worker_add(change->link->task.worker, &change->link->task, change->err);
}

int link_open(struct link *link, struct end *const ends[2], struct error *err)
{
    link->ends[0] = ends[0];
    link->ends[1] = ends[1];
    for (unsigned side = 0; side < 2; side++)
        ends[side]->sent = &link->slot->directions[side];
    struct change change = {.link = link, .err = err};
    worker_run(link->task.worker, add_on_worker, &change);
    if (change.result != 0)
        link->ends[0] = link->ends[1] = NULL;
    return change.result;
}

static void remove_on_worker(void *argument)
{
    struct link *link = argument;
    worker_remove(link->task.worker, &link->task);
}

void link_close(struct link *link)
{
    if (link == NULL)
        return;
    if (link->ends[0] != NULL) {
        worker_run(link->task.worker, remove_on_worker, link);
        for (unsigned side = 0; side < 2; side++)
            link->ends[side]->operations->destroy(link->ends[side]);
    }
    free(link);
}

struct end *link_end(const struct link *link, unsigned index)
{
    return link->ends[index & 1];
}

static void pause_on_worker(void *argument)
{
    const struct change *change = argument;
    change->link->paused = change->paused;
    worker_wake(&change->link->task);
}

void link_pause(struct link *link, bool paused)
{
    struct change change = {.link = link, .paused = paused};
    worker_run(link->task.worker, pause_on_worker, &change);
}

bool link_is_paused(const struct link *link)
{
    return link->paused;
}
