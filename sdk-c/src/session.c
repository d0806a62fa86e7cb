/* Theory of operation: the session
 *
 * Each side owns one half: nobody else ever writes there. Each start of a side draws a random epoch. A
 * session is a pair of epochs, each acknowledged by the other side; positions, heads and sequences count from
 * its start. Nothing in the region tells a live peer from a dead one: a killed process leaves its last words,
 * and they may stay for ever. So no step trusts what stands there unless it can only have been written in
 * answer to this start of this side.
 *
 * What a side X does, with Y as its peer:
 *
 *   LEAVING   1. X.state = RESET                  "I use nothing of Y's half, and mine is void"
 *             2. wait until Y.state is not RUN     Y does not use X's half
 *   MEETING   3. clear the first header of X's ring, X.head = 0, X.acknowledged = 0, X.epoch = a fresh one
 *             4. X.state = INIT                   what 3 wrote holds for that epoch
 *             5. whenever Y.state >= INIT and Y.epoch is new to X:
 *                X.acknowledged = Y.epoch, X.state = READY
 *             6. once Y.state is READY or RUN and Y.acknowledged = X.epoch and Y.epoch = X.acknowledged:
 *                X.state = RUN; look again; if this no longer holds, X.state = READY and back to 5
 *   RUNNING   7. read Y's ring from 0, write X's ring from 0
 *
 * Why stale bytes are never read as records. X reads Y's ring in RUN only. Y acknowledged X's epoch, which is
 * random and fresh, so Y did so in answer to this start of X, and not in an earlier life: a dead Y cannot
 * complete step 6. Y's epoch is the one X acknowledged, and step 3 of that life of Y came before its epoch
 * was visible. So the header at 0 was cleared, and from there on the ring's own rule holds (ring.c): wherever
 * a consumer looks there is 0 or a header of this session. The rest of the ring need not be cleared.
 *
 * Why nobody changes what the other one is using. All that step 3 touches is read by a Y in RUN: the first
 * header, and the head. Step 2 waits for that; step 6 makes it safe, as both sides store their own state,
 * then load the other's, in one total order (sequential consistency). Of X at 1-2 and Y at 6 one sees the
 * other: if Y's second look still finds the old X, then X at 2 finds Y in RUN and waits; if it finds RESET or
 * a new epoch, Y steps back having touched nothing. So a Y in RUN may go on reading what a dead X had sent,
 * for as long as it likes, and is then told that the session is over.
 *
 * An epoch serves one session only: a side that was in RUN goes through 1 to 3 before it meets a peer again.
 * In MEETING it has sent and received nothing, so it may answer any number of restarts of Y under the same
 * epoch.
 *
 * Killed at any moment. In 1-3: the state is RESET; the next life begins there again. In 4-5: the peer may
 * acknowledge an epoch of the dead and even enter RUN with it; the next life finds RUN, waits at 2, and the
 * peer sees RESET and leaves. In RUN, in mid-record: the record's header was not stored, so it does not exist
 * (ring.c); the peer drains what exists. Both killed in RUN: each new life stores RESET first, so neither
 * waits for the other at 2. Both started at once: both pass 2, both meet; 5 and 6 have no order between the
 * sides.
 *
 * Deadlock: waiting at 2 ends when Y runs at all, for a Y in RUN sees X.state = RESET in its next slow path.
 * A Y that is dead or not calling leaves X waiting, which is all that it could do anyway.
 *
 * The region's content may be replaced under both (rollback, clone, reset): the daemon then raises the
 * superblock's epoch and nonce. Slow paths compare both; a change ends the session at once, undrained, since
 * the ring is no longer the one that was being read. chan_reconnect() reads the superblock again.
 *
 * Memory order. Step 3 before 4, and the acknowledgement before READY: release stores, matched by acquire
 * loads of state and epoch. The epoch is stored after `acknowledged` was cleared (release), and loaded before
 * it (acquire), so that a new epoch is never seen with the old acknowledgement. Stores of RESET and RUN, and
 * the loads of the peer's state behind them: sequentially consistent. Everything in RUN: ring.c.
 *
 * It is enough that one side's epoch is fresh: a guest that was rolled back may draw the same "random" epoch
 * as it did before, but step 6 demands that it acknowledges the host's, and step 2 that the host has left the
 * old session.
 *
 * Mistrust. state, epoch and acknowledged of the peer are compared, never used as index, size or address. A
 * peer that writes nonsense there keeps this side waiting (with a time-out), or gets -EPROTO for a state that
 * does not exist.
 */
#include "session.h"

#include <errno.h>
#include <stddef.h>
#include <sys/random.h>

#include "chan/layout.h"
#include "shared.h"

static uint64_t load(const struct chan_session *session, const uint64_t *word)
{
    return chan_load_acquire(chan_as_const_word(word), session->mapping);
}

static void store(const struct chan_session *session, uint64_t *word, uint64_t value)
{
    chan_store_release(chan_as_word(word), value, session->mapping);
}

int chan_session_result(enum chan_session_end end)
{
    switch (end) {
    case CHAN_SESSION_UP:
        return 0;
    case CHAN_SESSION_NONE:
        return -ENOTCONN;
    case CHAN_SESSION_CLOSED:
        return -EPIPE;
    case CHAN_SESSION_RESTART:
    case CHAN_SESSION_REPLACED:
        return -ECONNRESET;
    case CHAN_SESSION_POISONED:
        break;
    }
    return -EPROTO;
}

void chan_session_init(struct chan_session *session, const struct chan_region *region, unsigned half)
{
    session->region = region;
    session->mapping = region->mapping;
    session->own = region->halves[half].control;
    session->peer = region->halves[1 - half].control;
    session->phase = CHAN_PHASE_LEAVING;
    atomic_init(&session->end, CHAN_SESSION_NONE);
    /* Goes on from what stands there, so that a restart is seen as a change. */
    atomic_init(&session->heartbeat, load(session, &session->own->heartbeat));
}

static int draw_epoch(uint64_t *epoch)
{
    uint64_t old = *epoch;
    do {
        if (getrandom(epoch, sizeof *epoch, 0) != (ssize_t)sizeof *epoch)
            return errno == EINTR ? -EAGAIN : -errno;
    } while (*epoch == 0 || *epoch == old);
    return 0;
}

int chan_session_begin(struct chan_session *session)
{
    /* Steps back first: whatever comes now, the peer need not wait for us. */
    chan_store_ordered(chan_as_word(&session->own->state), CHAN_STATE_RESET, session->mapping);
    session->phase = CHAN_PHASE_LEAVING;
    atomic_store(&session->end, CHAN_SESSION_NONE);

    struct chan_superblock superblock;
    int r = chan_region_read_superblock(session->region, &superblock);
    if (r < 0)
        return r;
    if (superblock.size != session->region->superblock.size)
        return -ESTALE;
    session->nonce = superblock.nonce;
    session->region_epoch = superblock.epoch;
    return 0;
}

static bool is_replaced(const struct chan_session *session)
{
    const struct chan_superblock *superblock =
        (const struct chan_superblock *)(const void *)session->region->base;
    return load(session, &superblock->nonce) != session->nonce ||
           load(session, &superblock->epoch) != session->region_epoch;
}

/* Step 2 and 3. */
static int leave(struct chan_session *session, struct chan_producer *producer)
{
    uint64_t state = chan_load_ordered(chan_as_const_word(&session->peer->state), session->mapping);
    if (state == CHAN_STATE_RUN)
        return -EAGAIN;
    int r = draw_epoch(&session->epoch);
    if (r < 0)
        return r;

    session->peer_epoch = 0;
    chan_producer_reset(producer, (uint16_t)session->epoch);
    store(session, &session->own->head, 0);
    store(session, &session->own->rx_waiting, 0);
    store(session, &session->own->tx_waiting, 0);
    store(session, &session->own->acknowledged, 0);
    store(session, &session->own->epoch, session->epoch);
    store(session, &session->own->state, CHAN_STATE_INIT);
    session->phase = CHAN_PHASE_MEETING;
    return 0;
}

/* The condition of step 6. The order of the loads matters: see "Memory order". */
static bool is_accepted(const struct chan_session *session)
{
    uint64_t state = chan_load_ordered(chan_as_const_word(&session->peer->state), session->mapping);
    if (state != CHAN_STATE_READY && state != CHAN_STATE_RUN)
        return false;
    return load(session, &session->peer->epoch) == session->peer_epoch &&
           load(session, &session->peer->acknowledged) == session->epoch;
}

/* Steps 5 and 6. */
static int meet(struct chan_session *session, struct chan_consumer *consumer)
{
    uint64_t state = load(session, &session->peer->state);
    if (state > CHAN_STATE_CLOSED)
        return chan_session_result(chan_session_finish(session, CHAN_SESSION_POISONED));
    if (state == CHAN_STATE_RESET || state == CHAN_STATE_CLOSED)
        return -EAGAIN;

    uint64_t peer_epoch = load(session, &session->peer->epoch);
    if (peer_epoch != 0 && peer_epoch != session->peer_epoch) {
        session->peer_epoch = peer_epoch;
        store(session, &session->own->acknowledged, peer_epoch);
        store(session, &session->own->state, CHAN_STATE_READY);
    }
    if (session->peer_epoch == 0 || !is_accepted(session))
        return -EAGAIN;

    chan_store_ordered(chan_as_word(&session->own->state), CHAN_STATE_RUN, session->mapping);
    if (!is_accepted(session)) {
        store(session, &session->own->state, CHAN_STATE_READY);
        return -EAGAIN;
    }
    chan_consumer_reset(consumer, (uint16_t)session->peer_epoch);
    session->phase = CHAN_PHASE_RUNNING;
    atomic_store(&session->end, CHAN_SESSION_UP);
    return 0;
}

int chan_session_step(struct chan_session *session, struct chan_producer *producer,
                      struct chan_consumer *consumer)
{
    enum chan_session_end end = (enum chan_session_end)atomic_load(&session->end);
    if (end != CHAN_SESSION_NONE)
        return chan_session_result(end);
    if (is_replaced(session))
        return chan_session_result(chan_session_finish(session, CHAN_SESSION_REPLACED));
    if (session->phase == CHAN_PHASE_LEAVING) {
        int r = leave(session, producer);
        if (r < 0)
            return r;
    }
    return meet(session, consumer);
}

enum chan_session_end chan_session_finish(struct chan_session *session, enum chan_session_end end)
{
    /* What was recorded first counts, except that nothing is read any more once the peer or the region is not
     * to be trusted: these two override the ends that allow draining. */
    int current = atomic_load(&session->end);
    while (current < (int)end) {
        if (current >= CHAN_SESSION_CLOSED && end < CHAN_SESSION_REPLACED)
            break;
        if (atomic_compare_exchange_weak(&session->end, &current, (int)end))
            return end;
    }
    return (enum chan_session_end)current;
}

enum chan_session_end chan_session_check(struct chan_session *session)
{
    enum chan_session_end end = (enum chan_session_end)atomic_load(&session->end);
    if (end == CHAN_SESSION_NONE || end >= CHAN_SESSION_REPLACED)
        return end;
    if (is_replaced(session))
        return chan_session_finish(session, CHAN_SESSION_REPLACED);

    uint64_t state = load(session, &session->peer->state);
    if (state > CHAN_STATE_CLOSED)
        return chan_session_finish(session, CHAN_SESSION_POISONED);
    if (load(session, &session->peer->epoch) != session->peer_epoch ||
        load(session, &session->peer->acknowledged) != session->epoch || state == CHAN_STATE_RESET ||
        state == CHAN_STATE_INIT)
        return chan_session_finish(session, CHAN_SESSION_RESTART);
    if (state == CHAN_STATE_CLOSED)
        return chan_session_finish(session, CHAN_SESSION_CLOSED);
    return end;
}

void chan_session_close(struct chan_session *session)
{
    store(session, &session->own->state, CHAN_STATE_CLOSED);
}

void chan_session_beat(struct chan_session *session)
{
    /* The counter is private memory; the shared word is only ever stored. Two threads may store out of order,
     * which does no harm: the word has changed. */
    uint64_t beat = atomic_fetch_add_explicit(&session->heartbeat, 1, memory_order_relaxed) + 1;
    chan_store_relaxed(chan_as_word(&session->own->heartbeat), beat);
}
