/* The kinds of ends there are. A new one is a row in end_types.c. */
#ifndef CHAN_DATAPLANE_CONTROL_END_TYPES_H
#define CHAN_DATAPLANE_CONTROL_END_TYPES_H

#include "dataplane/ends/end.h"
#include "dataplane/loop/loop.h"

/* Makes an end. `listener`, if not -1, is taken over, on failure too. `task` is the link's, with its worker.
 */
typedef int (*end_factory)(const struct end_specification *specification, int listener,
                           struct control_loop *loop, struct worker_task *task, struct end **ret,
                           struct error *err);

/* The factory for all of them: by the specification's type; REASON_INVALID_REQUEST when there is none such.
 */
int end_types_make(const struct end_specification *specification, int listener, struct control_loop *loop,
                   struct worker_task *task, struct end **ret, struct error *err);

#endif
