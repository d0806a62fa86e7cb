/* Operations on a real store and real regions, in directories of their own, gone after each test. */
#ifndef CHAN_TESTS_UNIT_OPERATIONS_FIXTURE_H
#define CHAN_TESTS_UNIT_OPERATIONS_FIXTURE_H

#include <check.h>
#include <string.h>

#include "daemon/operations/operations.h"

struct fixture {
    char state[64], shm[64];
    struct store *store;
    struct regions *regions;
    struct reclaim *reclaim;
    struct links *links; /* no dataplane is started */
    struct operations *operations;
    struct operations_limits limits; /* a test may change them, then reopen */
    struct caller caller;
    struct error err;
};
extern struct fixture fx;

void fixture_setup(void);
void fixture_teardown(void);
/* Everything closed and opened again, as a restart of the daemon does it, with the repair. */
void fixture_reopen(void);

/* Number of directory entries in the region directory. */
size_t region_files(void);
void region_path(const char *id, char out[256]);
int64_t newest_revision(void);

/* Shorthands that expect success. */
void put_template(const char *id, bool opt_in, uint64_t size);
struct sandbox_view create_sandbox(const char *id, const char *template_id);
struct sandbox_view get_sandbox(const char *id);
void delete_sandbox(const char *id);
void set_state(const char *id, enum sandbox_state state, const char *reason);
/* A process that waits for the end of the test, or for its end. */
pid_t start_process(void);
void end_process(pid_t pid);

/* The call failed with that reason, and the detail contains the part. */
#define assert_fails(call, expected, part)                                                                   \
    do {                                                                                                     \
        fx.err = ERROR_INIT;                                                                                 \
        ck_assert_msg((call) == -1, "%s did not fail", #call);                                               \
        ck_assert_msg(fx.err.reason == (expected), "%s: expected %s, got %s: %s", #call,                     \
                      reason_info(expected)->word, reason_info(fx.err.reason)->word, fx.err.detail);         \
        ck_assert_msg(strstr(fx.err.detail, part) != NULL, "expected \"%s\" in \"%s\"", part,                \
                      fx.err.detail);                                                                        \
    } while (0)
#define assert_works(call)                                                                                   \
    do {                                                                                                     \
        fx.err = ERROR_INIT;                                                                                 \
        ck_assert_msg((call) == 0, "%s: %s: %s", #call, reason_info(fx.err.reason)->word, fx.err.detail);    \
    } while (0)
void assert_field(const char *field, const char *part);

TCase *rules_tests(void);
TCase *templates_tests(void);
TCase *sandboxes_tests(void);
TCase *lifecycle_tests(void);
TCase *events_tests(void);
TCase *links_tests(void);
TCase *link_arguments_tests(void);

#endif
