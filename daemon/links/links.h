/* The dataplane's client: a thread of its own keeps the connection to chan-dataplane, starts one if none
 * listens (and one is wanted), adopts one that runs, and makes it have exactly the links that the store
 * wants, after every restart of either. Directories and listening sockets of the ends are made here, so that
 * the dataplane needs no rights to them.
 *
 * For any thread; calls may wait for the dataplane, for at most LINKS_CALL_MS.
 */
#ifndef CHAN_DAEMON_LINKS_LINKS_H
#define CHAN_DAEMON_LINKS_LINKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/log.h"
#include "daemon/metrics.h"
#include "store/store.h"

struct links;

enum { LINKS_CALL_MS = 5000, LINK_REASON_SIZE = 200, LINK_SOCKET_PATH_SIZE = 108 };

struct links_config {
    struct store *store;
    struct metrics *metrics;
    const struct log *log;
    const char *runtime_directory; /* absolute: dataplane.sock and links/ are in it */
    /* chan-dataplane, which is started when none listens: a path, or a name that is looked for in PATH. NULL:
     * never start one. */
    const char *dataplane_program;
    /* "1" or "0,2-3": for the one that is started; NULL: the last CPU that chand may use */
    const char *dataplane_cpus;
};

int links_new(const struct links_config *config, struct links **ret, struct error *err);
/* Connects or starts, compares the store with what is there and repairs the difference. A dataplane that
 * cannot be had is no error: links then say so, and the thread goes on trying. */
int links_start(struct links *links, struct error *err);
void links_free(struct links *links); /* the dataplane goes on; NULL is fine */

struct link_counters {
    uint64_t frames, bytes;
    uint64_t dropped[8]; /* by enum statistics_drop of api/proto/statistics.h */
    uint64_t checksummed, segmented, segments, interrupts, stalls;
};

/* What the dataplane says of an end, with what it sent (counters of the direction away from it). */
struct link_end_state {
    char state[16]; /* "waiting", "connected", "running", "faulted"; "unknown" while there is no dataplane */
    char reason[LINK_REASON_SIZE];
    char socket_path[LINK_SOCKET_PATH_SIZE];
    uint64_t features, protocol_features;
    uint32_t queue_pairs, peer_pid;
    uint64_t connections, faults;
    struct link_counters sent;
};
struct link_state {
    bool known; /* the dataplane has it */
    bool paused;
    uint32_t worker_cpu;
    struct link_end_state ends[2];
};

/* The lock of one link id: whoever changes a link or what belongs to it holds it, and reads its row under it.
 * Striped; a thread holds at most one at a time. */
struct link_lock {
    void *stripe;
};
struct link_lock links_lock(struct links *links, const char *id);
void links_unlock(struct link_lock *lock);
#define auto_link_lock __attribute__((cleanup(links_unlock), unused))

/* Makes directories, sockets and the dataplane's link for a row that is in the store. After a failure nothing
 * of it is left outside of the store. */
int links_apply(struct links *links, const struct link_row *row, struct error *err);
/* Takes the link from the dataplane and removes its sockets and directories. Done too when there was none.
 * Without a dataplane the files go at once, and the link when one is there again. */
int links_remove(struct links *links, const char *id, struct error *err);
/* Deletes a link: intent, what belongs to it, row. The caller holds its lock and has read `row` under it. On
 * failure the row says deleting, and the thread tries again. */
int links_delete(struct links *links, const struct link_row *row, const struct store_actor *actor,
                 struct error *err);
/* Undoes a creation: what belongs to it, then the row. Likewise; `reason` goes into the event. */
int links_undo(struct links *links, const struct link_row *row, const char *reason,
               const struct store_actor *actor, struct error *err);
/* May links be in the store? Never false when there are. For skipping what only links need; NULL: false. */
bool links_may_exist(const struct links *links);

/* State of a link; one call to the dataplane. Never fails: without a dataplane the ends are "unknown" and say
 * why. */
void links_state(struct links *links, const struct link_row *row, struct link_state *ret);
/* The same for many, in the order of their ids: a few calls for all of them. */
void links_states(struct links *links, const struct link_row *rows, size_t count, struct link_state *ret);

struct links_report {
    bool connected;
    bool started_here; /* by this chand */
    uint32_t pid;
    char software[64];
    char reason[LINK_REASON_SIZE]; /* why not connected */
    uint64_t starts, reconnects;
};
/* NULL links: not connected. */
void links_report(struct links *links, struct links_report *ret);

/* The path of an end's socket of role server, as it is or will be. REASON_INVALID_ID when the id makes it
 * longer than a unix socket's path may be; the detail says how long the id may be. */
int links_socket_path(const struct links *links, const char *id, unsigned end,
                      char path[LINK_SOCKET_PATH_SIZE], struct error *err);

/* Sets the metrics that are read from the dataplane; for the scrape. Takes at most LINKS_SCRAPE_MS. NULL is
 * fine. */
enum { LINKS_SCRAPE_MS = 1000 };
void links_collect_metrics(struct links *links);

#endif
