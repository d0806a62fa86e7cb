/* What the sources of daemon/links share. */
#ifndef CHAN_DAEMON_LINKS_INTERNAL_H
#define CHAN_DAEMON_LINKS_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/links/client.h"
#include "daemon/links/links.h"
#include "daemon/links/spawn.h"
#include "daemon/links/statistics.h"

enum { LOCK_STRIPES = 64, DATAPLANE_LIST_PAGE = 64 };

struct links {
    struct links_config config;
    char *runtime_directory, *program, *cpus;
    char socket_path[LINK_SOCKET_PATH_SIZE]; /* of the dataplane */
    int directory_fd;                        /* links/ in the runtime directory */
    pthread_mutex_t stripes[LOCK_STRIPES];
    atomic_bool may_exist; /* links may be in the store */

    /* The connection. `lock` is held for moments only. One caller at a time has the client (`calling`); the
     * thread alone opens and closes it, so that it may wait for its end without the lock. */
    pthread_mutex_t lock;
    pthread_cond_t change; /* of what follows; on the monotonic clock */
    bool calling;
    struct client client;
    struct statistics statistics;
    bool connected;
    uint64_t attempts; /* to connect or start that came to nothing */
    uint64_t rounds;   /* of the thread that left nothing to do */
    unsigned waiting;  /* callers that wait for a dataplane */
    struct links_report report;

    /* The thread. */
    pthread_t thread;
    bool running; /* the thread was started */
    int wake_fd;
    atomic_bool stopping;
    struct spawn spawn; /* the thread's alone, as all below */
    int64_t lost_ns;    /* when the connection was lost; 0: never had one */
    int64_t reconciled_ns;
    bool reconciled;
    bool failing; /* what fails was logged */
};

/* ---- calls (call.c) ---- */

/* A thread that waits for the dataplane waits this long in all. */
int64_t call_deadline_ns(void);
/* One request. *ret is answered whatever its code; free with response_free. Without a connection, or when it
 * breaks or takes too long: REASON_DATAPLANE_UNAVAILABLE, and the connection will be made anew. */
int links_call(struct links *links, control_request *request, const int *descriptors, size_t descriptor_count,
               int64_t deadline_ns, control_response **ret, struct error *err);
/* Waits for a change, with `lock` held; false: not in time. */
bool links_wait(struct links *links, int64_t deadline_ns);
/* Why there is no connection. With `lock` held. */
void set_reason(struct links *links, const char *reason);
/* Waits until there is a connection, having one started if need be. */
int links_await(struct links *links, int64_t deadline_ns, struct error *err);

/* Sets err from a response that says no. */
int links_refused(const control_response *response, struct error *err);

/* The page of links after that id (NULL: the first), or (only_id) that one. */
int links_list(struct links *links, const char *after_id, const char *only_id, int64_t deadline_ns,
               control_response **ret, struct error *err);

/* ---- one link (apply.c, delete.c) ---- */

/* The path of an end's socket, ours or the VMM's. */
void link_end_path(const struct links *links, const struct link_row *row, unsigned end,
                   char path[LINK_SOCKET_PATH_SIZE]);
/* Is the dataplane's link as the row wants it, with sockets in place? */
bool link_is_as_wanted(const struct links *links, const struct link_row *row,
                       const control_link_status *status);
/* links_apply with the connection that there is. */
int link_give(struct links *links, const struct link_row *row, int64_t deadline_ns, struct error *err);
/* Takes it from the dataplane. 0 too when it has none; REASON_DATAPLANE_UNAVAILABLE as links_call. */
int link_take(struct links *links, const char *id, int64_t deadline_ns, struct error *err);

/* ---- all links (delete.c, reconcile.c) ---- */

/* Finishes what says deleting and undoes what says creating; what is busy is left to whoever is at it. 1 when
 * something is left for later, 0, or -1 with err. */
int links_settle(struct links *links, const char *who, struct error *err);
/* Removes directories that no row explains. Before anybody makes links. */
int links_sweep(struct links *links, struct error *err);
/* Makes the dataplane have what the store wants. 1: something was busy or has failed, to be tried again. */
int links_reconcile(struct links *links, struct error *err);

/* As links_lock, but false when somebody holds it. */
bool links_try_lock(struct links *links, const char *id, struct link_lock *ret);

/* The thread (keeper.c). */
void *keeper_run(void *argument); /* the struct links */
void keeper_wake(struct links *links);

#endif
