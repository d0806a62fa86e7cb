/* A table of links with two workers and quiet ends. */
#ifndef CHAN_TESTS_UNIT_DATAPLANE_CONTROL_FIXTURE_H
#define CHAN_TESTS_UNIT_DATAPLANE_CONTROL_FIXTURE_H

#include <check.h>

#include "dataplane/control/link_table.h"
#include "tests/unit/dataplane_control/quiet_end.h"

enum { FIXTURE_LINKS = 200, FIXTURE_WORKERS = 2 };

extern struct control_loop *loop;
extern struct worker *workers[FIXTURE_WORKERS];
extern struct statistics_memory *statistics;
extern struct link_table *table;

void fixture_setup(void);
/* Fails if an end or a task is left. */
void fixture_teardown(void);

/* Both ends with the id as their path. */
struct link_specification specification_of(const char *id);
const struct link_entry *create(const char *id);
/* A descriptor, and whether it is open. */
int some_descriptor(void);
bool is_open(int fd);

/* The suites. */
TCase *link_table_tcase(void);
TCase *requests_tcase(void);
TCase *socket_tcase(void);
TCase *statistics_memory_tcase(void);
TCase *watch_tcase(void);

#endif
