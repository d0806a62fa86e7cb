/* An end of a link: what frames come from and go to. vhost-user is one kind; a link and a worker know no more
 * than this interface.
 *
 * Two threads use an end. Its worker calls the functions of `queue`; the control thread calls the others, and
 * uses worker_run to change what the worker sees. An end never blocks either of them.
 */
#ifndef CHAN_DATAPLANE_ENDS_END_H
#define CHAN_DATAPLANE_ENDS_END_H

#include <stdbool.h>
#include <stdint.h>

#include "api/proto/statistics.h"
#include "base/error.h"
#include "dataplane/frames/frame.h"
#include "dataplane/workers/worker.h"

enum { END_QUEUE_PAIRS = 8, END_REASON_SIZE = 160, END_PATH_SIZE = 108 };

enum end_state {
    END_WAITING,   /* nobody is connected */
    END_CONNECTED, /* somebody is, but no receive queue runs */
    END_RUNNING,
    END_FAULTED /* it misbehaved; see reason. A new start or a new connection clears it */
};

enum end_role { END_SERVER, END_CLIENT };

struct end_specification {
    char type[16];
    enum end_role role;
    char socket_path[END_PATH_SIZE];
    uint64_t offloads_off; /* virtio-net feature bits not to be offered */
    uint32_t mtu;          /* the largest that a front-end may set; 0: any */
};

struct end_status {
    enum end_state state;
    char reason[END_REASON_SIZE];
    uint64_t features, protocol_features;
    unsigned queue_pairs;
    uint32_t peer_pid;
    uint64_t connections, faults;
};

struct end;

struct end_operations {
    const char *type;

    /* ---- on the worker's thread ---- */

    /* Fills the burst with what the end wants to send on queue pair `pair`, at most BURST_FRAMES; returns the
     * count. The frames stay the end's until they are released; what was not released comes again with the
     * next pull. */
    unsigned (*pull)(struct end *end, unsigned pair, struct burst *burst);
    /* The first `count` frames of the burst that was pulled last are done with. */
    void (*release)(struct end *end, unsigned pair, unsigned count);
    /* Delivers the frames from index `from` on that came from the peer's pair `pair`, with software offloads
     * where this end cannot take them as they are. Returns how many were dealt with, delivered or dropped,
     * and counts them; fewer than there are: there is no buffer for the next one at the moment. */
    unsigned (*push)(struct end *end, unsigned pair, const struct burst *burst, unsigned from,
                     struct statistics_direction *counters);
    /* Ends a visit: sends the notifications that the visit's push and release calls owe. Returns how many. */
    unsigned (*flush)(struct end *end);
    /* Bit i: pair i may have frames to send (it is started, whether or not it is enabled). */
    uint32_t (*sending_pairs)(const struct end *end);
    /* Turns notifications on: of frames to send on the pairs of the mask, and if `refill`, of buffers to
     * receive into. True if there is something already. An end that cannot be notified (its front-end wants
     * to be polled) asks for a visit by setting task->deadline, if that is 0 or later. */
    bool (*arm)(struct end *end, uint32_t sending, bool refill);
    void (*disarm)(struct end *end);

    /* ---- on the control thread ---- */

    void (*status)(const struct end *end, struct end_status *status);
    void (*set_offloads)(struct end *end, uint64_t offloads_off);
    /* Closes its connection and sockets, takes its descriptors from the worker, frees it. Its socket's path
     * is unlinked if the end bound it. */
    void (*destroy)(struct end *end);
};

/* The part that every kind of end has; the first member of its structure. */
struct end {
    const struct end_operations *operations;
    struct worker_task *task; /* of the link, whose worker is its own; set by the link before start */
    struct end_specification specification;
    /* What the end sent is counted here; for what pull throws away by itself. The worker's; set by the link
     * before start, NULL without a link. */
    struct statistics_direction *sent;
};

#endif
