/* Links on a real store, in directories of their own, gone after each test. */
#ifndef CHAN_TESTS_UNIT_LINKS_CLIENT_FIXTURE_H
#define CHAN_TESTS_UNIT_LINKS_CLIENT_FIXTURE_H

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/links/internal.h"
#include "daemon/links/sockets.h"
#include "tests/unit/links_client/fake.h"

struct fixture {
    char directory[64];
    struct log log;
    struct metrics *metrics;
    struct store *store;
    struct links *links; /* NULL until links_open */
    struct fake *fake;   /* likewise */
    struct error err;
};
extern struct fixture fx;

void fixture_setup(void); /* the store only */
void fixture_teardown(void);

/* program NULL: none is started. cpus as the program's option. */
void open_links(const char *program, const char *cpus); /* new and start */
void close_links(void);
void start_fake(void);
void stop_fake(void);

/* In the directory of the test. */
void path_in(const char *name, char out[256]);
bool exists(const char *name);
struct stat status_of(const char *name);

/* A row of two ends of role server, stored in that state. */
struct link_row make_row(const char *id);
void store_row(struct link_row *row, enum link_row_state state);
/* links_apply under the lock, with fx.err. */
int apply_link(const struct link_row *row);
/* Stored and made, as an operation does it. */
struct link_row make_link(const char *id);
bool row_exists(const char *id);
/* The number of events of that kind. */
size_t count_events(const char *kind);

void connects(const char *name); /* fails unless somebody listens */
/* Waits until it is true, at most ten seconds; says what was expected. */
void wait_for(bool (*condition)(const void *), const void *argument, const char *what);
bool is_connected(const void *unused);
bool is_disconnected(const void *unused);
bool fake_has(const void *id); /* the fake of the fixture */
bool fake_has_not(const void *id);

#define assert_works(call)                                                                                   \
    do {                                                                                                     \
        fx.err = ERROR_INIT;                                                                                 \
        ck_assert_msg((call) == 0, "%s: %s: %s", #call, reason_info(fx.err.reason)->word, fx.err.detail);    \
    } while (0)
#define assert_fails(call, expected, part)                                                                   \
    do {                                                                                                     \
        fx.err = ERROR_INIT;                                                                                 \
        ck_assert_msg((call) == -1, "%s did not fail", #call);                                               \
        ck_assert_msg(fx.err.reason == (expected), "%s: expected %s, got %s: %s", #call,                     \
                      reason_info(expected)->word, reason_info(fx.err.reason)->word, fx.err.detail);         \
        ck_assert_msg(strstr(fx.err.detail, part) != NULL, "expected \"%s\" in \"%s\"", part,                \
                      fx.err.detail);                                                                        \
    } while (0)

TCase *sockets_tests(void);
TCase *apply_tests(void);
TCase *keeper_tests(void);
TCase *spawn_tests(void);
TCase *states_tests(void);
TCase *threads_tests(void);

#endif
