/* The vhost-user kind of an end: a back-end for one virtio network device, in either socket role. One
 * front-end at a time; a second one at a server socket is answered, but its rings wait until those of the
 * first have stopped, as in a live migration within a host. A third one is turned away at once. */
#ifndef CHAN_DATAPLANE_VHOST_USER_VHOST_USER_H
#define CHAN_DATAPLANE_VHOST_USER_VHOST_USER_H

#include "dataplane/ends/end.h"
#include "dataplane/loop/loop.h"

/* Makes the end and starts to listen or to connect. `listener`: a listening unix socket, which the end takes
 * over (on failure it is closed) and whose path it never unlinks, or -1: it binds the specification's path
 * itself (role server), over a stale socket (nobody listens on it) but never over anything else. `task` is
 * the link's; its worker is set. Control thread. */
int vhost_user_end_new(const struct end_specification *specification, int listener, struct control_loop *loop,
                       struct worker_task *task, struct end **ret, struct error *err);

#endif
