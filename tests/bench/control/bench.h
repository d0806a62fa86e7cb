/* The parts of chan-bench-control: how long creating and deleting sandboxes takes, next to bare SQLite
 * commits on the same disk. A part that cannot go on ends the program with a message: figures of half a run
 * would mislead.
 */
#ifndef CHAN_TESTS_BENCH_CONTROL_BENCH_H
#define CHAN_TESTS_BENCH_CONTROL_BENCH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));
void *allocate(size_t count, size_t size); /* zeroed; never NULL */

/* ---- samples.c: durations in nanoseconds ---- */

struct samples {
    int64_t *values;
    size_t count, capacity;
};
void samples_add(struct samples *samples, int64_t value);
void samples_append(struct samples *samples, const struct samples *more);
/* 0 <= fraction <= 1; sorts. 0 when there are none. */
int64_t samples_quantile(struct samples *samples, double fraction);
void samples_free(struct samples *samples);
double median(double *values, size_t count); /* sorts */

/* ---- bare.c: one-row inserts into a SQLite database in WAL mode with synchronous=FULL ---- */

struct bare;
struct bare *bare_open(const char *directory);
void bare_close(struct bare *bare);
/* Commits `count` times, one after the other; adds each duration. Answers commits/s. */
double bare_commits(struct bare *bare, size_t count, struct samples *samples);

/* ---- file.c: a region's file without any care: made, its storage reserved, and removed ---- */

void bare_files(const char *directory, size_t bytes, size_t count, struct samples *make,
                struct samples *remove);

/* ---- http.c: a client that does nothing but keep a connection and wait for the answer ---- */

struct http {
    int fd;
    char buffer[16384];
};
void http_open(struct http *http, const char *socket_path);
/* -1 when nobody listens. */
int http_try_open(struct http *http, const char *socket_path);
void http_close(struct http *http);
/* Answers the status; the answer's body is read and dropped. */
int http_call(struct http *http, const char *method, const char *path, const char *body);

/* ---- daemon.c: a chand in directories of its own ---- */

struct daemon {
    char directory[256], shm[256], socket_path[300];
    const char *program;
    pid_t pid;
};
/* The state is below `directory`, the regions are below `shm`. */
void daemon_start(struct daemon *daemon, const char *program, const char *directory, const char *shm);
/* Ends it by that signal and starts it again; answers the nanoseconds from its start until it is ready. */
int64_t daemon_restart(struct daemon *daemon, int signal);
uint64_t daemon_resident_kib(const struct daemon *daemon);
void daemon_end(struct daemon *daemon); /* and remove its directories */
/* Ends all that was started, for die(). */
void daemon_end_all(void);

/* ---- load.c: clients at work ---- */

enum verb { CREATE, DELETE };

struct load {
    const struct daemon *daemon;
    enum verb verb;
    const char *template_id, *prefix;
    size_t clients, count;
};
/* Each of `clients` connections does `count` calls, one after the other; ids are prefix-client-number. Adds
 * each duration and answers calls/s. samples may be NULL. */
double load_run(const struct load *load, struct samples *samples);
/* The same with one client, and after each call one bare commit, so that both find disk and CPUs in the same
 * state; the bare commits do not count in the calls/s. */
double load_run_paired(const struct load *load, struct samples *samples, struct bare *bare,
                       struct samples *bare_samples);
void load_template(const struct daemon *daemon, const char *template_id, size_t region_bytes);

#endif
