/* A real store, a real directory of regions and real processes as owners, for each test its own. */
#ifndef CHAN_TESTS_RECLAIM_FIXTURE_H
#define CHAN_TESTS_RECLAIM_FIXTURE_H

#include <check.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/metrics.h"
#include "daemon/reclaim/owner.h"
#include "daemon/reclaim/reclaim.h"
#include "daemon/regions/regions.h"
#include "store/store.h"

struct fixture {
    char state_directory[64], shm_directory[64];
    int64_t grace_ms, interval_ms; /* what fixture_open makes reclaim with */
    uint64_t keep_events;
    struct store *store;
    struct regions *regions;
    struct metrics *metrics;
    struct reclaim *reclaim;
};
extern struct fixture fixture;

/* The directories that those of all tests are in: made before the first, and removed with everything in them
 * after the last, also when a test failed. */
void fixture_make_bases(void);
void fixture_remove_bases(void);

void fixture_setup(void);
void fixture_teardown(void);

/* As the daemon's start and stop; setup opens already. */
void fixture_open(void);
void fixture_close(void);

void repair(void); /* that must succeed */
void start(void);  /* the collector */

/* ---- owners ---- */

pid_t start_process(void);
void end_process(pid_t pid); /* and takes its status */
struct owner_row process_owner(pid_t pid);
struct owner_row lease_owner(int64_t seconds);
struct owner_row no_owner(void);

/* ---- sandboxes, as operations make them ---- */

/* How far a creation gets. */
enum progress { PROGRESS_INTENT, PROGRESS_FILE, PROGRESS_READY, PROGRESS_DONE };
void make_sandbox_until(const char *id, struct owner_row owner, enum progress progress);
void make_sandbox(const char *id, struct owner_row owner);       /* with a region, running */
void make_plain_sandbox(const char *id, struct owner_row owner); /* without one */

bool get_sandbox(const char *id, struct sandbox_row *row);
struct sandbox_row expect_sandbox(const char *id, enum sandbox_state state);
bool is_gone(const char *id);

/* Updates the store; the caller holds the sandbox's lock. */
void write_row(struct sandbox_row *row);

/* Changes the row under the sandbox's lock. */
typedef void (*change_fn)(struct sandbox_row *row);
void change_sandbox(const char *id, change_fn change);
void set_paused(struct sandbox_row *row);
void set_deleting(struct sandbox_row *row);
void set_other_boot(struct sandbox_row *row); /* of owner and region */

/* ---- what can be seen ---- */

size_t count_events(const char *kind, const char *object_id);
/* Exactly one event of that kind for the object, with this reason in its detail (NULL: no matter). */
void expect_event(const char *kind, const char *object_id, const char *reason);
int64_t revision(void);
double metric(const char *series);

const char *region_path(const char *id); /* in a static buffer */
bool has_region_file(const char *id);
size_t count_files(void); /* in the directory of regions */
void write_file(const char *path, const char *content);
void expect_content(const char *path, const char *content);

/* Waits until the condition holds, for ten seconds at most. */
#define wait_until(condition)                                                                                \
    do {                                                                                                     \
        int waited_ms = 0;                                                                                   \
        while (!(condition) && waited_ms < 10000)                                                            \
            waited_ms += wait_a_little();                                                                    \
        ck_assert_msg(condition, "expected within 10 s: " #condition);                                       \
    } while (0)
int wait_a_little(void); /* returns the milliseconds */

/* Waits for two whole passes of the collector. */
void wait_for_passes(void);

/* Hides /proc from this process, or shows it again. False, and says so, where that is not permitted. */
bool hide_proc(const char *test);
void show_proc(void);

TCase *owner_tests(void);
TCase *remove_tests(void);
TCase *repair_tests(void);
TCase *collector_tests(void);

#endif
