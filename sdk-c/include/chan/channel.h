/* libchan: channels. A channel carries messages both ways between the two sides of a region with the layout
 * "chan". Messages keep their boundaries and their order.
 *
 *   struct chan_channel *channel;
 *   if (chan_open(region, NULL, &channel, &error) < 0)
 *       errx(1, "%s", error.text);
 *   int r = chan_connect(channel, -1);
 *   if (r == 0)
 *       r = chan_send(channel, "hello", 5, 1000);
 *   if (r < 0)
 *       errx(1, "%s", chan_error_text(r));
 *   chan_close(channel);
 *
 * A session is what lies between a successful chan_connect() and the end of either side. The sides may start
 * in any order, and either may end, be killed and start again at any time.
 *
 * Results that every call below may give:
 * - 0: done
 * - -EAGAIN: not now (time-out 0)
 * - -ETIMEDOUT: not within the time
 * - -ENOTCONN: chan_connect() has not succeeded yet
 * - -ECONNRESET: the peer started again, or the region's content was replaced (rollback): the session is
 * over, and messages under way may be lost. What the peer had sent before is still received first.
 * chan_reconnect() starts a new session
 * - -EPIPE: the peer closed the channel; what it had sent before is received first. chan_reconnect() waits
 * for the next one
 * - -EPROTO: the peer wrote something that no correct peer writes; nothing of it was used
 * - -ESTALE (chan_reconnect): the region is another one now: close channel and region, and open them again
 *
 * The last four stay until chan_reconnect().
 *
 * A message that was sent is in the region, not yet with the peer's program: what has to be certain needs an
 * answer.
 *
 * Time-outs are milliseconds; 0: do not wait, negative: wait for ever. Waiting polls for a short time and
 * then sleeps for 1 ms at most at a time. A peer that is gone without closing is not an error, as a paused
 * guest looks the same: ask chan_peer_state(), and decide.
 *
 * Threads: one thread may send while another receives. Every other call must have the channel to itself.
 */
#ifndef CHAN_CHANNEL_H
#define CHAN_CHANNEL_H

#include <stdbool.h>

#include "chan/error.h"
#include "chan/region.h"

#ifdef __cplusplus
extern "C" {
#endif

struct chan_channel;

enum chan_side {
    CHAN_SIDE_AUTO = 0,  /* the guest for a region opened through PCI, else the host */
    CHAN_SIDE_HOST = 1,  /* writes half A */
    CHAN_SIDE_GUEST = 2, /* writes half B */
};

/* NULL, or a field that is 0, means the default. */
struct chan_options {
    enum chan_side side;
    int spin_us;    /* how long a wait polls before it sleeps: 50; negative: not at all */
    int suspect_ms; /* how long a peer may show no sign of life before it is suspect: 1000 */
};

enum chan_peer {
    CHAN_PEER_ABSENT = 0, /* no session */
    CHAN_PEER_ALIVE = 1,
    CHAN_PEER_SUSPECT = 2, /* dead, paused, or not calling libchan */
    CHAN_PEER_CLOSED = 3,
};

struct chan_stats {
    uint64_t sent_messages, sent_bytes;
    uint64_t batches; /* how often several messages were made visible at once */
    uint64_t received_messages, received_bytes;
    uint64_t send_waits, receive_waits; /* how often a call found the ring full, or empty */
    uint64_t sleeps;                    /* how often a wait gave the CPU away */
    uint64_t sessions;                  /* how often the handshake succeeded */
    enum chan_mapping mapping;
};

/* Takes one side of the region's channel. The region may be closed after that.
 * -ENOMSG: a raw region; -EACCES: opened read-only; -EBUSY: this side is taken, by this or another process
 * here; -EINVAL, -ENOMEM. */
CHAN_API int chan_open(struct chan_region *region, const struct chan_options *options,
                       struct chan_channel **channel, struct chan_error *error);

/* Ends the session, if there is one, and frees the channel; NULL is accepted. The peer receives what was
 * sent, then -EPIPE. */
CHAN_API void chan_close(struct chan_channel *channel);

/* Waits for the peer and agrees with it on a session. After a time-out call it again to go on. In a session:
 * 0. */
CHAN_API int chan_connect(struct chan_channel *channel, int timeout_ms);

/* Leaves the session, whatever its state, and connects anew. Messages not yet received are dropped. After a
 * time-out go on with chan_connect(). */
CHAN_API int chan_reconnect(struct chan_channel *channel, int timeout_ms);

/* The largest message. */
CHAN_API size_t chan_max_message(const struct chan_channel *channel);

/* Sends a copy of `length` bytes, 0 included. -EMSGSIZE: more than chan_max_message(); -EBUSY: a reservation
 * is open. */
CHAN_API int chan_send(struct chan_channel *channel, const void *message, size_t length, int timeout_ms);

/* As chan_send(), but the message may wait for others and become visible together with them: by chan_flush(),
 * by any other call that sends, by chan_close(), or when enough of them wait (16 KiB, or a quarter of a small
 * ring). Many small messages go several times as fast this way. A program that then waits for an answer
 * flushes first. A message of an error result was not taken, nor lost: call again. */
CHAN_API int chan_send_more(struct chan_channel *channel, const void *message, size_t length, int timeout_ms);

/* Makes the messages visible that chan_send_more() has taken. After -EAGAIN or -ETIMEDOUT they still wait. A
 * new session drops them, as it drops all that the peer has not received. */
CHAN_API int chan_flush(struct chan_channel *channel, int timeout_ms);

/* As chan_send(), of one message that lies in `count` pieces. -EINVAL: count is negative, or the lengths
 * overflow. */
struct iovec;
CHAN_API int chan_sendv(struct chan_channel *channel, const struct iovec *pieces, int count, int timeout_ms);

/* Copies the next message to `buffer`; *length becomes its length. -EMSGSIZE: it is larger than `capacity`:
 * *length says what is needed and the message stays. */
CHAN_API int chan_recv(struct chan_channel *channel, void *buffer, size_t capacity, size_t *length,
                       int timeout_ms);

/* Sending without a copy: reserve room for up to `length` bytes, write the message to *buffer (aligned to 8),
 * and commit the length it has. Nothing is seen by the peer before the commit; abort, or another reserve,
 * drops the reservation. On device mappings the buffer is private memory and the commit copies. commit:
 * -EINVAL when nothing is reserved or the length is more than was. */
CHAN_API int chan_reserve(struct chan_channel *channel, size_t length, void **buffer, int timeout_ms);
CHAN_API int chan_commit(struct chan_channel *channel, size_t length);
CHAN_API void chan_abort(struct chan_channel *channel);

/* Receiving without a copy: peek at the next message, read it at *buffer (aligned to 8), release it. Peeking
 * again gives the same message. The bytes are the peer's memory: a hostile peer changes them while they are
 * read, so what is checked must be copied first. On device mappings the buffer is a private copy. release:
 * -EINVAL when nothing was peeked at. */
CHAN_API int chan_peek(struct chan_channel *channel, const void **buffer, size_t *length, int timeout_ms);
CHAN_API int chan_release(struct chan_channel *channel);

/* Whether the peer shows signs of life: it does while it calls libchan. A program that does not for longer
 * than the peer's suspect time calls this in between, which is a sign of life too. */
CHAN_API enum chan_peer chan_peer_state(struct chan_channel *channel);

/* Counters since chan_open(). May be called by any thread at any time. */
CHAN_API void chan_get_stats(const struct chan_channel *channel, struct chan_stats *stats);

/* What a side of the region says about itself at the moment, for tools; unchecked. `side` is HOST or GUEST.
 * -ENOMSG: a raw region; -EINVAL. */
struct chan_side_info {
    uint64_t state, epoch, acknowledged, heartbeat, head;
};
CHAN_API int chan_inspect(const struct chan_region *region, enum chan_side side, struct chan_side_info *info);

#ifdef __cplusplus
}
#endif
#endif
