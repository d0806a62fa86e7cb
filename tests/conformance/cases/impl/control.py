"""Bodies of cases about messages, starts, stops and connections."""

from cases.impl.words import *          # noqa: F401,F403
from cases.impl.log import Log


# ------------------------------------------------------------------ negotiation

def step_backend_req(fe):
    """SET_BACKEND_REQ_FD, where it was negotiated."""
    if fe.proto & P.BACKEND_REQ:
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        fe.tell(M.SET_BACKEND_REQ_FD, b"", [theirs.fileno()])
        theirs.close()
        fe.req_sock = mine


ORDER_OLD = ["get_features", "owner", ("call",), "set_features", "mem",
             ("num", "base", "addr", "kick", "call")]
ORDER_QEMU_FULL = ["get_features", "get_proto", "set_proto", "queue_num", step_backend_req,
                   "owner", ("call", "err"), "set_features", "mem",
                   ("num", "base", "addr", "kick", "call"), ("enable",)]
ORDER_CH = ["owner", "get_features", "get_proto", "set_proto", "queue_num", "set_features",
            "mem", ("num",), ("addr", "base", "call", "kick", "enable"), step_backend_req]
ORDER_VIRTIO_USER = ["owner", "get_features", "get_proto", "set_proto", "queue_num",
                     ("call",), "set_features", "mem", ("num", "base", "addr", "kick"),
                     ("enable",)]


def order_case(c, order, feats=BASIC, proto=PLAIN_P | P.BACKEND_REQ, n=16, **kw):
    A, B = c.pair(feats, order=order, proto=proto, **kw)
    c.both(A, B, n)
    A.close()
    B.close()


def rings_with(A, B):
    return "A offers %s" % bit_names(F, A.offered)


# ------------------------------------------------------------------ traffic with something in between

def during(c, src, dst, action, rounds, per=32, what=""):
    """Queue a burst, do something while it is under way, and miss nothing."""
    for i in range(rounds):
        fr = c.frames(per)
        for f in fr:
            src.send(f, publish=False)
        src.flush()
        action(i)
        got = dst.recv_all(per, 1.5)
        c.same(fr, [p.data for p in got], "%sround %d: " % (what, i))
        check(src.tx_drain(1.0), "TX buffers are not given back")
    c.clean(src, dst)


def setfeat_traffic(c, feats, logall, rounds=20, both=False):
    A, B = c.pair(feats, proto=PLAIN_P | P.LOG_SHMFD)
    if logall:
        for fe in (A, B):
            lg = Log(fe.mem.max_gpa())
            fe.keep = lg
            fe.set_log_base(lg.fd, lg.size)
    base = {id(A): A.features, id(B): B.features}

    def flip(i):
        for fe in (A, B) if both else ((A, B)[i & 1],):
            m = base[id(fe)]
            if logall and i // 2 % 2 == 0:
                m |= F.LOG_ALL
            fe.tell(M.SET_FEATURES, struct.pack("=Q", m))

    during(c, A, B, flip, rounds, what="A to B, ")
    during(c, B, A, flip, rounds, what="B to A, ")
    c.both(A, B, 8)


# ------------------------------------------------------------------ ring base

def base_counts(c, feats, n, preset=None, disable_first=False, size=256):
    A, B = c.pair(feats, size=size, ka={"preset": preset})
    c.burst(A, B, c.frames(n, 60, 1000))
    c.burst(B, A, c.frames(n + 3, 60, 1000))
    rx_used = A.rxq().used_total
    if disable_first:
        for q in A.queues:
            A.vring_enable(q, False)
    bases = [A.get_vring_base(q) for q in A.queues]
    start = preset or 0
    if A.txq().packed:
        for q, b, k in zip(A.queues, bases, (rx_used, n)):
            pos = k
            want = pos % size | (1 ^ (pos // size & 1)) << 15
            check(b & 0xFFFF == want, "ring %d after %d buffers: GET_VRING_BASE gave avail half "
                  "%#x, expected %#x" % (q.index, k, b & 0xFFFF, want))
            check(b >> 16 == want, "ring %d: the used half of the packed base is %#x, expected "
                  "%#x" % (q.index, b >> 16, want))
    else:
        for q, b, k in zip(A.queues, bases, (rx_used, n)):
            want = (start + k) & 0xFFFF
            check(b == want, "ring %d after %d buffers from %d: GET_VRING_BASE gave %d, expected "
                  "%d" % (q.index, k, start, b, want))
    again = [A.get_vring_base(q) for q in A.queues]
    check(again == bases, "a second GET_VRING_BASE gave %r after %r" % (again, bases))
    return A, B, bases


def stopped_is_untouched(c, A, B, enable=True):
    """A's rings are stopped: neither side may move, whatever is queued."""
    tx, rx = A.txq(), A.rxq()
    fr = c.frames(5)
    for f in fr:
        A.send(f, kick=False)
    tx.kick(force=True)
    for f in c.frames(5):
        B.send(f)
    time.sleep(0.1)
    A.rx_scan()
    check(not A._rx_done.get(0), "a stopped RX ring received frames")
    check(not A.reap(), "a stopped TX ring was processed")
    if enable:
        for q in A.queues:
            A.vring_enable(q, True)
        tx.kick(force=True)
        rx.kick(force=True)
        time.sleep(0.1)
        A.rx_scan()
        check(not A._rx_done.get(0), "SET_VRING_ENABLE alone restarted a stopped RX ring")
        check(not A.reap(), "SET_VRING_ENABLE alone restarted a stopped TX ring")
    check(B.recv(0.05) is None, "frames of a stopped ring came out")
    return fr


def restart_case(c, feats, rounds=3, preset=None, steps=("num", "base", "addr", "kick", "call"),
                 n=20, size=256, queued=True):
    A, B = c.pair(feats, size=size, ka={"preset": preset})
    for r in range(rounds):
        c.both(A, B, n, "before stop %d: " % r)
        bases = A.stop_rings()
        fr = []
        if queued:
            fr = c.frames(6)
            for f in fr:
                A.send(f)
        A.restart_rings(bases, steps=steps)
        if fr:
            got = B.recv_all(len(fr), 1.0)
            c.same(fr, [p.data for p in got], "frames queued while the ring was stopped: ")
        c.both(A, B, n, "after restart %d: " % r)


# ------------------------------------------------------------------ memory

def regions_case(c, mem_a, mem_b, feats=BASIC, n=60, cross=()):
    A, B = c.pair(feats, ka={"mem": mem_a, "rx": []}, kb={"mem": mem_b, "rx": []})
    for fe in (A, B):
        regs = fe.mem.regions
        fe.post_rx([1024] * 3 * len(regs), kick=False, publish=False, region=None)
        for r in regs:
            fe.post_rx([700, 1100, 1600], region=r, kick=False)
        fe.rxq().publish()
        fe.rxq().kick(force=True)
    for src, dst in ((A, B), (B, A)):
        regs = src.mem.regions
        for k in range(n):
            f = raw_frame(c.rng.randint(60, 3000), c.rng)
            q = src.txq()
            data = Hdr().pack(12) + f
            cuts = sorted(c.rng.sample(range(1, len(data)), min(4, len(regs))))
            chain, segs, pos = [], [], 0
            for cut in cuts + [len(data)]:
                r = c.rng.choice(regs)
                a = src.mem.alloc(cut - pos, 16, r)
                src.mem.write(a, data[pos:cut])
                chain.append((a, cut - pos, 0))
                pos = cut
            q.add(chain, [(a, m) for a, m, _ in chain])
            q.publish()
            q.kick()
            p = dst.recv(1.0)
            check(p is not None, "frame %d, spread over regions, did not arrive" % k)
            check(p.data == f, "frame %d, spread over regions, came out different" % k)
            src.reap()
    for gpa_of in cross:
        pass
    c.clean(A, B)
    return A, B


def cross_border(c, fe, peer, border, sizes=(60, 1514, 9000), rx=True):
    """Buffers that straddle `border`, where one region ends and the next begins."""
    q = fe.txq()
    for n in sizes:
        for back in (1, 12, 13, 40):
            f = raw_frame(n, c.rng)
            data = Hdr().pack(12) + f
            a = border - back
            fe.mem.write(a, data)
            q.add([(a, len(data), 0)], [])
            q.publish()
            q.kick()
            p = peer.recv(1.0)
            check(p is not None and p.data == f, "TX buffer of %d bytes starting %d bytes before "
                  "a region border: %s" % (len(data), back, "lost" if p is None else "garbled"))
            fe.reap()
    if not rx:
        return
    rq = fe.rxq()
    for n in sizes:
        for back in (1, 12, 13, 40):
            fe.mem.write(border - back, b"\xAA" * (n + 64))
            rq.add([(border - back, n + 12, 1)], [(border - back, n + 12)])
            fe.mem.write(border - back + n + 12, b"\xC5" * fe.GUARD)
            rq.publish()
            rq.kick()
            f = raw_frame(n, c.rng)
            peer.send(f)
            p = fe.recv(1.0, refill=False)
            check(p is not None and p.data == f, "RX buffer of %d bytes starting %d bytes before a "
                  "region border: %s" % (n + 12, back, "lost" if p is None else "garbled"))
            # recv() gave it back to the allocator: take it out again
            r = fe.mem.find(border - back)
            for lst in r.freed.values():
                if border - back in lst:
                    lst.remove(border - back)


# ------------------------------------------------------------------ reconnect

class Abrupt(FrontEnd):
    """A front-end that dies after a number of messages."""
    budget = None

    def raw_send(self, data, fds=()):
        if self.budget is not None:
            self.budget -= 1
            if self.budget < 0:
                # half a message, then gone
                if self.budget == -1 and len(data) > 4:
                    try:
                        self.sock.send(data[:len(data) // 2])
                    except OSError:
                        pass
                raise VhostError("gone")
        super().raw_send(data, fds)


def reconnect_loop(c, side, rounds, killed, feats=BASIC, every=10):
    """`rounds` times: a front-end on `side` comes, does something, and vanishes; the other
    side stays all the time.  `killed` of the rounds use a process that gets SIGKILL."""
    other = "b" if side == "a" else "a"
    S = c.fe(other, feats)
    base = fd_count(c.pid) if c.pid else 0
    for i in range(rounds):
        if i < killed:
            r, w = os.pipe()

            def child():
                fe = c.fe(side, feats)
                for f in c.frames(8):
                    fe.send(f)
                os.write(w, b"x")
                while True:
                    for f in c.frames(4):
                        fe.send(f)
                    time.sleep(0.001)
            pid = in_child(child)
            os.close(w)
            select.select([r], [], [], 3)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(r)
        else:
            fe = c.open(side, cls=Abrupt)
            if i % 3:
                fe.budget = c.rng.randint(0, 34)
            try:
                fe.bring_up(features=feats, size=64, rx=[2048] * 16)
                for f in c.frames(c.rng.randint(0, 12)):
                    fe.send(f)
            except VhostError:
                pass
            fe.close()
        while S.recv(0.0) is not None:
            pass
        check(not S.is_closed(), "round %d: the other port's connection was closed" % i)
        if i % every == every - 1:
            fe = c.fe(side, feats)
            S.drain_rx(0.02)
            fe.drain_rx(0.02)
            c.both(*((fe, S) if side == "a" else (S, fe)), 4, "round %d: " % i)
            fe.close()
    S.close()
    if c.pid:
        time.sleep(0.3)
        now = fd_count(c.pid)
        check(now <= base + 4, "open fds of the back-end went from %d to %d" % (base, now))


# ------------------------------------------------------------------ malformed messages

def dubious(c, msgs, proto=PLAIN_P, want=("nack", "closed"), start=True, feats=BASIC, strict=True):
    """Send each (label, request, payload, fds, kwargs) on a connection of its own; whatever
    comes back must be in `want`; nothing may disturb the peer or a later front-end."""
    B = c.good_peer()
    bad = []
    seen = {}
    for label, req, payload, fds, kw in msgs:
        A = c.open("a")
        try:
            if start:
                A.bring_up(features=feats, proto=proto, rx=[2048] * 16, size=64)
            else:
                A.get_features()
                A.get_proto()
                A.set_proto(proto & A.proto_offered)
            pl = payload(A) if callable(payload) else payload
            fd = fds(A) if callable(fds) else fds
            got = A.outcome(req, pl, fd, **kw)
        except Closed:
            got = "closed"
        finally:
            A.close()
        seen[got] = seen.get(got, 0) + 1
        if got not in want:
            bad.append("%s: %s" % (label, got))
        c.lives()
    c.recovers(B)
    check(not (bad and strict), "accepted or unanswered: " + "; ".join(bad[:6]))
    return ", ".join("%d x %s" % (v, k) for k, v in sorted(seen.items()))


class SlowFE(FrontEnd):
    """Sends every message in single bytes (pieces None) or cut at the given places."""
    pause = 0.0
    pieces = [1 << 30]
    hook = None

    def raw_send(self, data, fds=()):
        if self.pieces:
            cuts = [0] + [k for k in self.pieces if k < len(data)] + [len(data)]
        else:
            cuts = list(range(len(data) + 1))
        for i in range(len(cuts) - 1):
            super().raw_send(data[cuts[i]:cuts[i + 1]], fds if i == 0 else ())
            if i == len(cuts) // 2 and self.hook:
                self.hook()
            time.sleep(self.pause)


def slow_case(c, pieces, pause, hook_every=6):
    """A talks slowly; B must get its answers and its traffic meanwhile."""
    B = c.good_peer()
    count = [0]
    worst = [0.0]

    def hook():
        count[0] += 1
        if B is not None and count[0] % hook_every == 0:
            t = time.monotonic()
            try:
                B.sync(0.5)
            except NoReply:
                raise Fail("half a message on one port keeps the other port from being "
                           "answered") from None
            worst[0] = max(worst[0], time.monotonic() - t)
    A = c.open("a", cls=SlowFE)
    A.pieces, A.pause, A.hook = pieces, pause, hook
    try:
        A.bring_up(features=BASIC, rx=[2048] * 32, size=64)
    except Closed:
        raise Fail("the connection was closed because a message came in pieces") from None
    A.pieces, A.pause, A.hook = [1 << 30], 0, None
    if B is not None:
        c.both(A, B, 8)
    return "worst answer on the other port %.1f ms" % (worst[0] * 1000)
