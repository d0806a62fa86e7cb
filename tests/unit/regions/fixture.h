/* A directory of its own on /dev/shm for each test, and what the tests look at. */
#ifndef CHAN_TESTS_REGIONS_FIXTURE_H
#define CHAN_TESTS_REGIONS_FIXTURE_H

#include <check.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "daemon/regions/regions.h"

struct fixture {
    char directory[64];
    struct regions *regions;
};
extern struct fixture fixture;

/* The directory that those of all tests are in: made before the first, and removed with everything in it
 * after the last, also when a test failed. */
void fixture_make_base(void);
void fixture_remove_base(void);

void fixture_setup(void);
void fixture_teardown(void);

/* Opens the fixture's directory with that pattern, closing what was open. */
void fixture_reopen(const char *pattern);

/* The row of a new region: default name, a token of its own, layout chan, 1 MiB, our own uid and gid. */
struct region_row make_row(const char *sandbox_id);

/* Creates it, or fails the test. */
void create(struct region_row *row);

/* Creates it and expects that reason. */
void expect_failure(struct region_row *row, enum reason reason);

/* "{directory}/{name}", in a static buffer that the next call overwrites. */
const char *path_of(const char *name);
const char *staging_path_of(const struct region_row *row);

bool exists(const char *name);
size_t count_files(void); /* in the directory, dot files too */
void write_file(const char *name, const char *content, mode_t mode);
struct stat look_at(const char *path); /* lstat that must succeed */

/* Stranger's files: nothing about them may have changed. */
void expect_untouched(const char *name, const struct stat *before, const char *content);

/* Says so and returns true where a test needs root and the process is not. */
bool skip_without_root(const char *test);

TCase *names_tests(void);
TCase *create_tests(void);
TCase *remove_tests(void);
TCase *fault_tests(void);

#endif
