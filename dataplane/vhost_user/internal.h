/* What the files of vhost_user/ share. Two threads are at work here. The control thread owns everything but
 * `struct datapath`, which is the worker's: the control thread changes it within worker_run only. */
#ifndef CHAN_DATAPLANE_VHOST_USER_INTERNAL_H
#define CHAN_DATAPLANE_VHOST_USER_INTERNAL_H

#include <stdatomic.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "dataplane/ends/end.h"
#include "dataplane/loop/loop.h"
#include "dataplane/memory/dirty_log.h"
#include "dataplane/memory/memory.h"
#include "dataplane/vhost_user/features.h"
#include "dataplane/vhost_user/receive.h"
#include "dataplane/vhost_user/reply.h"
#include "dataplane/virtqueue/virtqueue.h"

enum {
    RINGS = 2 * END_QUEUE_PAIRS, /* even: the guest receives; odd: it sends */
    ANNOUNCEMENTS = 8,           /* RARP frames that may wait for the worker; more are left out */
    ANNOUNCEMENT_SIZE = 60
};
#define RECEIVE_RINGS UINT32_C(0x5555)
#define SEND_RINGS    UINT32_C(0xaaaa)

static inline uint32_t bit(unsigned index)
{
    return UINT32_C(1) << index;
}

static inline void close_descriptor(int *fd)
{
    cleanup_close(fd);
    *fd = -1;
}

/* Why the worker gave up a ring: a virtqueue_fault, or */
enum { RING_FAULT_CALL_BLOCKS = 200 };

/* ---- the worker's part ---- */

struct datapath {
    /* By ring. NULL: never started. */
    struct virtqueue *queues[RINGS];
    /* Bit masks of rings. */
    uint32_t running; /* started, and not given up */
    uint32_t enabled;
    uint32_t polled; /* has no kick descriptor */
    uint32_t armed;  /* notifications are on */
    uint32_t owed;   /* something was used since the last interrupt */
    uint32_t nudge;  /* resumed in mid-life: one interrupt, since the last one may have been lost */
    /* Follow from the masks. */
    uint32_t sending; /* bit mask of pairs */
    unsigned ready_count;
    uint8_t ready[END_QUEUE_PAIRS]; /* rings that receive, ascending */

    int call_fds[RINGS], error_fds[RINGS]; /* borrowed; -1: none */
    const struct guest_memory *memory;
    const struct dirty_log *log;

    uint8_t announcements[ANNOUNCEMENTS][ANNOUNCEMENT_SIZE];
    unsigned announcement_count;
    bool announcing; /* the frames pulled last are announcements */

    /* To the control thread, which fault_event wakes. */
    int fault_event; /* borrowed; -1: no session */
    atomic_bool memory_lost;
    _Atomic uint32_t faulted;     /* bit mask of rings */
    _Atomic uint8_t fault[RINGS]; /* read where the bit is set */
};

/* ---- the control thread's part ---- */

struct ring {
    uint32_t size, base;
    uint64_t descriptors, driver, device; /* in the front-end's address space */
    uint64_t log_address;
    bool log_used;
    bool addressed, based; /* SET_VRING_ADDR, SET_VRING_BASE were sent */
    bool started;          /* SET_VRING_KICK was sent, GET_VRING_BASE not since */
    bool running;          /* the worker has it */
    int kick_fd, call_fd, error_fd;
    uint8_t fault; /* why the worker gave it up; 0: it did not */
};

/* Where a device state is loaded from: ours is empty. */
enum load_state { LOAD_NONE, LOAD_OPEN, LOAD_DONE, LOAD_FAILED };

/* One connection of a front-end. */
struct session {
    struct loop_source socket; /* fd -1: nobody is connected */
    struct loop_source faults; /* datapath.fault_event */
    struct receiver receiver;
    struct output output;
    uint64_t offered, features, protocol_features;
    bool features_acked; /* SET_FEATURES was sent */
    uint64_t status;
    struct guest_memory *memory;
    struct dirty_log *log;
    struct ring rings[RINGS];
    int backend_request_fd;
    struct loop_source load;
    enum load_state load_state;
    uint32_t peer_pid;
    char refusal[END_REASON_SIZE]; /* the last message that was refused; empty: none */
};

struct listener {
    struct loop_source source;  /* fd -1: this end is a client */
    struct loop_timer pause;    /* while there is no descriptor to accept with */
    struct loop_source leaving; /* a client that was turned away and has not hung up yet; fd -1: none */
    struct loop_timer patience; /* with that one */
    int spare;                  /* given up to turn a client away when there is no other descriptor */
    bool bound;                 /* the path is ours to unlink, while it is this file: */
    uint64_t device, inode;
};

struct connector {
    struct loop_timer retry;
    int64_t wait_ns;
};

struct vhost_user_end {
    struct end end; /* first: an end is one */
    struct control_loop *loop;
    struct listener listener;
    struct connector connector;
    struct session session;
    uint64_t connections, fault_count;
    bool misbehaved;               /* the last session was ended for a violation */
    char history[END_REASON_SIZE]; /* why there is no session; empty: there was none yet */
    struct datapath path;

    /* A second front-end at the same socket: see standby.c. */
    struct vhost_user_end *standby; /* of the end that listens; NULL: there was never one */
    struct vhost_user_end *primary; /* of a standby: the end that listens; NULL: this is it */
    struct vhost_user_end *live; /* of the end that listens: whose rings the link sees; the worker reads it */
};

/* The end of which *pointer is the member. */
#define VHOST_USER_END(pointer, member)                                                                      \
    ((struct vhost_user_end *)(void *)((char *)(pointer)-offsetof(struct vhost_user_end, member)))

static inline struct vhost_user_end *vhost_user_end_of(struct end *end)
{
    return (struct vhost_user_end *)end;
}

/* The end that the link knows. */
static inline struct vhost_user_end *primary_of(struct vhost_user_end *end)
{
    return end->primary != NULL ? end->primary : end;
}

/* standby.c */

/* Where another front-end is to be served; NULL: both places are taken, or there is no memory for a second
 * one. */
struct vhost_user_end *standby_find_place(struct vhost_user_end *primary);
/* After anything that may have started or stopped a ring, or ended a session. */
void standby_choose(struct vhost_user_end *end);
void standby_destroy(struct vhost_user_end *primary);

/* datapath.c: worker's thread, or within worker_run */
extern const struct end_operations vhost_user_end_operations;
/* After a change of a mask. */
void datapath_refresh(struct datapath *path);
/* Writes the interrupt of a resumed ring, as soon as it has a descriptor for it. */
void datapath_nudge(struct vhost_user_end *end, unsigned index);

/* end.c */
void vhost_user_end_status(const struct end *base, struct end_status *status);
void vhost_user_end_set_offloads(struct end *base, uint64_t offloads_off);
void vhost_user_end_destroy(struct end *base);

/* session.c */
void session_init(struct vhost_user_end *end);
static inline bool session_is_open(const struct session *session)
{
    return session->socket.fd >= 0;
}
/* Has the front-end hung up, whether or not that was noticed yet? */
bool session_is_dead(const struct session *session);
/* Takes fd over, on failure too. */
int session_begin(struct vhost_user_end *end, int fd, struct error *err);
/* Ends it, with the reason that is shown from then on. misbehaved: it is counted as a fault. */
void session_end(struct vhost_user_end *end, bool misbehaved, const char *reason);

/* dispatch.c: handles the message that was received. -1: the session is to be ended for it. */
int dispatch(struct vhost_user_end *end, struct error *err);
/* For the handlers of messages with an answer of their own. */
int reply(struct vhost_user_end *end, const void *payload, size_t size, struct error *err);
int reply_number(struct vhost_user_end *end, uint64_t number, struct error *err);

/* rings.c: what the worker sees of the rings */

/* Starts the ring as it was described, if SET_VRING_KICK and all else that it needs was sent; it may not be
 * running. What is changed about a running ring is changed between ring_stop and ring_start. */
int ring_start(struct vhost_user_end *end, unsigned index, struct error *err);
/* Takes it from the worker, if it runs, and keeps its base. */
void ring_stop(struct vhost_user_end *end, unsigned index);
/* Another descriptor; takes fd over (-1: none), and closes the one before. */
void ring_set_call(struct vhost_user_end *end, unsigned index, int fd);
void ring_set_error(struct vhost_user_end *end, unsigned index, int fd);
void rings_set_enabled(struct vhost_user_end *end, uint32_t mask, bool enabled);
/* Switches all rings to another table and frees the one before. A running ring that does not lie in the new
 * one is given up, which is the error; the table is the session's in any case. */
int rings_set_memory(struct vhost_user_end *end, struct guest_memory *memory, struct error *err);
/* As LOG_ALL, the log and the rings' log addresses are now. `log` takes the place of the session's one. */
void rings_set_log(struct vhost_user_end *end, struct dirty_log *log);
void rings_stop_all(struct vhost_user_end *end);
/* Takes over what the worker has reported. False: the guest's memory is lost. */
bool rings_collect_faults(struct vhost_user_end *end);
const char *ring_fault_text(uint8_t fault);

/* listener.c */
int listener_start(struct vhost_user_end *end, int fd, struct error *err);
void listener_stop(struct vhost_user_end *end);

/* connector.c */
void connector_start(struct vhost_user_end *end);
/* Tries again, after a session has ended. */
void connector_retry(struct vhost_user_end *end);
void connector_stop(struct vhost_user_end *end);

#endif
