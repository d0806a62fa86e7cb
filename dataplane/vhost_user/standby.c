/* A second front-end at the same socket.
 *
 * In a live migration within a host the destination connects, and wants its negotiation answered, while the
 * source still runs the guest. So the end that listens has room for two sessions. The second one is served by
 * an end of its own, the standby, which listens to nothing and is in no link. Both negotiate as they like;
 * the link sees the rings of one of them, the live one. It stays live as long as a ring of it runs; then it
 * is the other one's turn, if that has rings that run. So the source lets go (GET_VRING_BASE) before the
 * destination's rings are touched, and a migration that fails gives the rings back the same way.
 */
#include <stdlib.h>

#include "dataplane/vhost_user/internal.h"

static bool runs(const struct vhost_user_end *end)
{
    for (unsigned i = 0; i < RINGS; i++) {
        if (end->session.rings[i].running)
            return true;
    }
    return false;
}

static struct vhost_user_end *make_standby(struct vhost_user_end *primary)
{
    struct vhost_user_end *standby = calloc(1, sizeof *standby);
    if (standby == NULL)
        return NULL;
    standby->end = primary->end;
    standby->loop = primary->loop;
    standby->listener.source.fd = standby->listener.spare = standby->listener.leaving.fd = -1;
    standby->primary = primary;
    session_init(standby);
    return standby;
}

struct vhost_user_end *standby_find_place(struct vhost_user_end *primary)
{
    if (!session_is_open(&primary->session))
        return primary;
    if (primary->standby == NULL)
        primary->standby = make_standby(primary);
    if (primary->standby == NULL || session_is_open(&primary->standby->session))
        return NULL;
    primary->standby->end.specification = primary->end.specification;
    primary->standby->end.sent = primary->end.sent;
    return primary->standby;
}

struct choice {
    struct vhost_user_end *primary, *live;
};

static void choose_on_worker(void *argument)
{
    const struct choice *choice = argument;
    choice->primary->live = choice->live;
    worker_wake(choice->primary->end.task);
}

void standby_choose(struct vhost_user_end *end)
{
    struct vhost_user_end *primary = primary_of(end);
    const struct vhost_user_end *live = primary->live;
    if (primary->standby == NULL || runs(live))
        return;
    struct vhost_user_end *other = live == primary ? primary->standby : primary;
    if (!runs(other) && (session_is_open(&live->session) || !session_is_open(&other->session)))
        return;
    struct choice choice = {.primary = primary, .live = other};
    worker_run(primary->end.task->worker, choose_on_worker, &choice);
}

void standby_destroy(struct vhost_user_end *primary)
{
    struct vhost_user_end *standby = primary->standby;
    if (standby == NULL)
        return;
    if (session_is_open(&standby->session))
        session_end(standby, false, "the link was deleted");
    primary->live = primary; /* an end that is destroyed is in no link any more: no worker looks */
    for (unsigned i = 0; i < RINGS; i++)
        virtqueue_free(standby->path.queues[i]);
    primary->standby = NULL;
    free(standby);
}
