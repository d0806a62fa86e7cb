#include "tests/unit/dataplane_control/quiet_end.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

struct quiet_end {
    struct end end; /* first */
    int listener;
    enum end_state state;
    char reason[END_REASON_SIZE];
};

static unsigned alive;

static unsigned pull(struct end *end, unsigned pair, struct burst *burst)
{
    (void)end;
    (void)pair;
    burst->count = 0;
    return 0;
}

static void release(struct end *end, unsigned pair, unsigned count)
{
    (void)end;
    (void)pair;
    (void)count;
}

static unsigned push(struct end *end, unsigned pair, const struct burst *burst, unsigned from,
                     struct statistics_direction *counters)
{
    (void)end;
    (void)pair;
    (void)counters;
    return burst->count - from;
}

static unsigned flush(struct end *end)
{
    (void)end;
    return 0;
}

static uint32_t sending_pairs(const struct end *end)
{
    (void)end;
    return 0;
}

static bool arm(struct end *end, uint32_t sending, bool refill)
{
    (void)end;
    (void)sending;
    (void)refill;
    return false;
}

static void disarm(struct end *end)
{
    (void)end;
}

static void status(const struct end *end, struct end_status *ret)
{
    const struct quiet_end *quiet = (const struct quiet_end *)end;
    /* The largest numbers, so that a description is as long as it can be. */
    *ret = (struct end_status){.state = quiet->state,
                               .features = UINT64_MAX,
                               .protocol_features = UINT64_MAX,
                               .queue_pairs = UINT32_MAX,
                               .peer_pid = UINT32_MAX,
                               .connections = UINT64_MAX,
                               .faults = UINT64_MAX};
    memcpy(ret->reason, quiet->reason, sizeof ret->reason);
}

static void set_offloads(struct end *end, uint64_t offloads_off)
{
    end->specification.offloads_off = offloads_off;
}

static void destroy(struct end *end)
{
    const struct quiet_end *quiet = (const struct quiet_end *)end;
    cleanup_close(&quiet->listener);
    alive--;
    free(end);
}

static const struct end_operations operations = {.type = "quiet",
                                                 .pull = pull,
                                                 .release = release,
                                                 .push = push,
                                                 .flush = flush,
                                                 .sending_pairs = sending_pairs,
                                                 .arm = arm,
                                                 .disarm = disarm,
                                                 .status = status,
                                                 .set_offloads = set_offloads,
                                                 .destroy = destroy};

int quiet_end_make(const struct end_specification *specification, int listener, struct control_loop *loop,
                   struct worker_task *task, struct end **ret, struct error *err)
{
    (void)loop;
    auto_close int given = listener;
    if (strcmp(specification->socket_path, QUIET_END_REFUSED) == 0)
        return error_set(err, REASON_SOCKET_FAILED, "this end is refused");
    struct quiet_end *quiet = calloc(1, sizeof *quiet);
    if (quiet == NULL)
        return error_set(err, REASON_RESOURCE_LIMIT, "out of memory");
    quiet->end = (struct end){.operations = &operations, .task = task, .specification = *specification};
    quiet->listener = take_fd(&given);
    quiet->state = END_WAITING;
    strcpy(quiet->reason, "nobody is there");
    alive++;
    *ret = &quiet->end;
    return 0;
}

unsigned quiet_ends_alive(void)
{
    return alive;
}

void quiet_end_set_status(struct end *end, enum end_state state, const char *reason)
{
    struct quiet_end *quiet = (struct quiet_end *)end;
    quiet->state = state;
    memset(quiet->reason, 0, sizeof quiet->reason);
    memcpy(quiet->reason, reason, strnlen(reason, sizeof quiet->reason - 1));
}
