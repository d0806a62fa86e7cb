"""Bodies of cases about notifications and idleness."""

from cases.impl.words import *          # noqa: F401,F403


# ------------------------------------------------------------------ events

def event_exact(c, feats, preset=None, gaps=(1, 3, 7), no_base=False, size=256):
    """Calls come exactly at the wanted index, on the TX ring of A and the RX ring of B."""
    order = None
    if no_base:
        order = ["get_features", "get_proto", "set_proto", "owner", "set_features", "mem",
                 ("num", "addr", "kick", "call"), ("enable",)]
    A, B = c.pair(feats, preset=preset, order=order, size=size)
    f = c.frames(1)[0]
    A.send(f, wait=0.5)                    # first call after a start is free
    B.recv(0.5)
    time.sleep(0.02)
    bad = []
    for fe, q, name in ((A, A.txq(), "TX"), (B, B.rxq(), "RX")):
        for gap in gaps:
            q.calls()
            if q.packed:
                slot, wrap = q.next_used, q.used_wrap
                slot += gap - 1
                if slot >= size:
                    slot -= size
                    wrap ^= 1
                q.set_event(slot, wrap)
            else:
                q.set_used_event((q.used_idx + gap - 1) & 0xFFFF)
            for j in range(gap + 2):
                A.send(c.frames(1, 60, 200)[0], wait=1.0)
                p = B.recv(1.0)
                check(p is not None, "traffic stopped")
                if j == gap - 1:
                    if not q.wait_call(0.3):
                        bad.append("%s ring: no call at the wanted buffer (%d ahead)" % (name, gap))
                    q.calls()
                else:
                    time.sleep(0.004)
                    n = q.calls()
                    if n:
                        bad.append("%s ring: %d call(s) at buffer %d, wanted at %d"
                                   % (name, n, j + 1, gap))
        # leave it quiet
        if q.packed:
            q.set_no_interrupt(True)
    c.clean(A, B)
    check(not bad, "; ".join(bad[:4]))


def notif_counts(c, feats, frames, limit_share):
    """Calls for a burst: few without suppression, none with it."""
    A, B = c.pair(feats)
    rounds = 6
    res = []
    A.send(c.frames(1)[0], wait=0.5)
    B.recv(0.5)
    time.sleep(0.02)
    for quiet in (False, True):
        for q in (A.txq(), B.rxq()):
            q.calls()
            if not q.packed and q.event_idx:
                # stands for "no interrupt": an event index that is not coming up
                q.set_used_event((q.used_idx - 2 if quiet else q.used_idx) & 0xFFFF)
            else:
                q.set_no_interrupt(quiet)
        tx = rx = 0
        for _ in range(rounds):
            fr = c.frames(frames, 60, 700)
            for f in fr:
                A.send(f, publish=False)
            if not A.txq().packed and A.txq().event_idx and not quiet:
                A.txq().set_used_event(A.txq().used_idx)
                B.rxq().set_used_event(B.rxq().used_idx)
            A.flush()
            got = B.recv_all(frames, 1.0)
            c.same(fr, [p.data for p in got])
            check(A.tx_drain(1.0), "TX not given back")
            time.sleep(0.01)
            tx += A.txq().calls()
            rx += B.rxq().calls()
        res.append((tx, rx))
    (tx, rx), (qtx, qrx) = res
    total = frames * rounds
    txt = "%d frames in %d bursts: %d TX and %d RX calls; suppressed: %d and %d" % (
        total, rounds, tx, rx, qtx, qrx)
    check(tx >= 1 and rx >= 1, "no call at all: " + txt)
    check(qtx == 0 and qrx == 0, "calls although suppressed: " + txt)
    check(tx <= total * limit_share and rx <= total * limit_share, "too many calls: " + txt)
    return txt


def kick_counts(c, feats, bursts=50, per=8):
    """How often a driver has to kick while traffic runs."""
    A, B = c.pair(feats)
    A.txq().kicks = 0
    for _ in range(bursts):
        fr = c.frames(per, 60, 300)
        for f in fr:
            A.send(f, publish=False)
        A.flush()
        got = B.recv_all(per, 1.0)
        c.same(fr, [p.data for p in got])
    k = A.txq().kicks
    check(k <= bursts, "%d kicks for %d bursts" % (k, bursts))
    return "%d kicks for %d bursts of %d" % (k, bursts, per)


def cpu_case(c, prepare, seconds=3.0, limit=0.05, settle=0.7):
    """CPU time of the back-end while nothing happens."""
    c.need_pid()
    keep = prepare()
    time.sleep(settle)
    t0, w0 = cpu_ticks(c.pid), time.monotonic()
    time.sleep(seconds)
    t1, w1 = cpu_ticks(c.pid), time.monotonic()
    share = (t1 - t0) / os.sysconf("SC_CLK_TCK") / (w1 - w0)
    for fe in keep or ():
        fe.close()
    txt = "%.1f %% of one CPU" % (share * 100)
    check(share <= limit, txt + " while idle (limit %.0f %%)" % (limit * 100))
    return txt
