/* An end that has nothing to send and takes nothing, for tests of what is around it. */
#ifndef CHAN_TESTS_UNIT_DATAPLANE_CONTROL_QUIET_END_H
#define CHAN_TESTS_UNIT_DATAPLANE_CONTROL_QUIET_END_H

#include "dataplane/control/end_types.h"

/* The path of an end that cannot be made. */
#define QUIET_END_REFUSED "/refused"

/* An end_factory. The listener is kept open as long as the end lives. */
int quiet_end_make(const struct end_specification *specification, int listener, struct control_loop *loop,
                   struct worker_task *task, struct end **ret, struct error *err);

/* How many there are. */
unsigned quiet_ends_alive(void);

/* What the end says of itself from now on. */
void quiet_end_set_status(struct end *end, enum end_state state, const char *reason);

#endif
