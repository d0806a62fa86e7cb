/* A cable of two vhost-user ends, as the dataplane has it: a control thread with its loop, a worker, a link.
 * The test's own thread plays the front-ends. */
#ifndef CHAN_TESTS_UNIT_VHOST_USER_FIXTURE_H
#define CHAN_TESTS_UNIT_VHOST_USER_FIXTURE_H

#include "api/proto/statistics.h"
#include "dataplane/ends/end.h"

enum { FIXTURE_WAIT_MS = 5000 };

/* Both ends are servers, at fixture_path(0) and (1). */
void fixture_start(void);
/* Only the directory, the threads and the link; for tests that make an end themselves. */
void fixture_start_bare(void);
void fixture_stop(void);

const char *fixture_path(unsigned side);
/* Of an end with that path. */
struct end_specification fixture_specification(unsigned side, enum end_role role);
struct statistics_slot *fixture_slot(void);

/* Runs fn(argument) on the control thread and waits for it. */
void fixture_on_control(void (*fn)(void *argument), void *argument);
/* An end of the bare fixture; ends that were made are destroyed by fixture_stop. 0 or -1. */
int fixture_new_end(unsigned side, const struct end_specification *specification, int listener,
                    struct error *err);
void fixture_destroy_end(unsigned side);
/* Joins the two ends that were made. */
void fixture_join(void);

struct end_status fixture_status(unsigned side);
/* Waits for a state, for FIXTURE_WAIT_MS at most, and returns the status then. */
struct end_status fixture_wait_for_state(unsigned side, enum end_state state);
void fixture_set_offloads(unsigned side, uint64_t offloads_off);

unsigned open_descriptors(void);

#endif
