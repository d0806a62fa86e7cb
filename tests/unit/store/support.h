/* What the tests of the store share. */
#ifndef CHAN_TESTS_UNIT_STORE_SUPPORT_H
#define CHAN_TESTS_UNIT_STORE_SUPPORT_H

#include <check.h>
#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

enum { PATH_SIZE = 512 };

/* The directory of this run; made before the first test and removed after the last, whatever failed. */
extern char test_directory[256];
void make_directory(void);
void remove_directory(void);

/* A path in the directory. */
void path_of(const char *name, char out[PATH_SIZE]);

/* Opens the database of that name in the directory; fails the test when it cannot. */
struct store *open_store(const char *name);

/* The integer that an SQL query answers, on a connection of its own. */
int64_t sql_int(const char *path, const char *sql);
/* Runs SQL; answers SQLite's code. */
int sql_run(const char *path, const char *sql);

/* Fails the test with the detail of err. */
#define ck_done(call, err)                                                                                   \
    ck_assert_msg((call) >= 0, "%s failed: %s: %s", #call, reason_info((err).reason)->word, (err).detail)
#define ck_refused(call, err, expected)                                                                      \
    do {                                                                                                     \
        ck_assert_msg((call) < 0, "%s was to fail with %s", #call, reason_info(expected)->word);             \
        ck_assert_msg((err).reason == (expected), "%s: expected %s, got %s: %s", #call,                      \
                      reason_info(expected)->word, reason_info((err).reason)->word, (err).detail);           \
    } while (0)

void fill_template(struct template_row *row, const char *id, const char *annotations);
/* With a region of 1 MiB owned by uid 1000, in state creating; name and token are made from the id. */
void fill_sandbox(struct sandbox_row *row, const char *id, const char *template_id, bool has_region);

/* One unit each: the change, its event and its audit record. */
int put_template(struct store *store, struct template_row *row, struct error *err);
int delete_template(struct store *store, const char *id, struct error *err);
int insert_sandbox(struct store *store, struct sandbox_row *row, struct error *err);
int update_sandbox(struct store *store, struct sandbox_row *row, struct error *err);
int delete_sandbox(struct store *store, const char *id, struct error *err);

/* Puts the template "tpl". */
void put_default_template(struct store *store);
/* Adds an event about that id. */
int add_event(struct store_txn *txn, const char *id, struct error *err);
/* Runs fn as a unit of the operation "test". */
int write_unit(struct store *store, store_write_fn fn, void *argument, struct error *err);

TCase *open_case(void);
TCase *template_case(void);
TCase *sandbox_case(void);
TCase *link_case(void);
TCase *event_case(void);
TCase *write_case(void);
TCase *checkpoint_case(void);
TCase *full_disk_case(void);

#endif
