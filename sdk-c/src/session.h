/* The session of a channel: the handshake, and noticing that it is over. session.c begins with how it works.
 */
#ifndef CHAN_SRC_SESSION_H
#define CHAN_SRC_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "region.h"
#include "ring.h"

/* Why there is no session (any more). */
enum chan_session_end {
    CHAN_SESSION_UP = 0,
    CHAN_SESSION_NONE,     /* not yet: -ENOTCONN */
    CHAN_SESSION_CLOSED,   /* the peer closed: its ring may still be drained, then -EPIPE */
    CHAN_SESSION_RESTART,  /* the peer started again: likewise, then -ECONNRESET */
    CHAN_SESSION_REPLACED, /* the region's content is another one: -ECONNRESET */
    CHAN_SESSION_POISONED, /* the peer broke the protocol: -EPROTO */
};

/* Where this side is on its way to a session. */
enum chan_session_phase {
    CHAN_PHASE_LEAVING, /* RESET is published; waiting until the peer does not use our half */
    CHAN_PHASE_MEETING, /* INIT or READY is published; waiting for the peer's acknowledgement */
    CHAN_PHASE_RUNNING, /* RUN is published */
};

struct chan_session {
    const struct chan_region *region;
    enum chan_mapping mapping;
    struct chan_control *own;
    const struct chan_control *peer;
    enum chan_session_phase phase;
    uint64_t epoch;      /* ours */
    uint64_t peer_epoch; /* the one we acknowledged */
    uint64_t nonce, region_epoch;
    _Atomic int end; /* enum chan_session_end; either thread may set it */
    /* Written by both threads now and then: not on the line that every call reads. */
    _Alignas(CHAN_LINE_BYTES) _Atomic uint64_t heartbeat;
};

/* Prepares the session of one half; publishes nothing. */
void chan_session_init(struct chan_session *session, const struct chan_region *region, unsigned half);

/* Leaves whatever session there is and begins the handshake anew.
 * -ESTALE: the region has another size now; or as chan_superblock_check(). */
int chan_session_begin(struct chan_session *session);

/* Goes on with the handshake as far as it gets without waiting; both rings are reset on the way. 0: the
 * session is up; -EAGAIN: it is the peer's turn; or the result of its end. */
int chan_session_step(struct chan_session *session, struct chan_producer *producer,
                      struct chan_consumer *consumer);

/* Looks whether the session still stands, and records its end. For slow paths: it loads words of the peer. */
enum chan_session_end chan_session_check(struct chan_session *session);

/* Records the first end of a session and returns the one that was recorded. */
enum chan_session_end chan_session_finish(struct chan_session *session, enum chan_session_end end);

/* What a call reports for it. */
int chan_session_result(enum chan_session_end end);

/* Says that this side will not come back. */
void chan_session_close(struct chan_session *session);

/* Shows a sign of life. Any thread. */
void chan_session_beat(struct chan_session *session);

#endif
