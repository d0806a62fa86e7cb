"""What the cases share: the context object, traffic helpers, hostile helpers.

A case is a function taking a Ctx.  It returns a short text (or None) when all is well,
raises Fail with the reason, or Skip naming the feature that the back-end lacks.
"""

import functools
import hashlib
import os
import random
import select
import signal
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from vufe import *          # noqa: E402,F401,F403
from vufe import (F, P, M, FrontEnd, GuestMemory, Region, Hdr, Closed, NoReply, Nack,
                  VhostError, bit_names, PAGE)          # noqa: E402
import netpkt               # noqa: E402

BASIC = F.VERSION_1 | F.PROTO | F.MRG_RXBUF
PLAIN_P = P.REPLY_ACK | P.MQ


class Fail(Exception):
    pass


class Skip(Exception):
    pass


def check(cond, text):
    if not cond:
        raise Fail(text)


def case(limit=10, single=False, fds=False):
    """Mark a function as a case.

    limit: seconds before it is killed.  single: also makes sense with one port and no
    peer.  fds: the number of open fds of the back-end must be back where it was
    afterwards (needs --pid or --spawn).
    """
    def deco(fn):
        fn.is_case = True
        fn.limit = limit
        fn.single = single
        fn.fds = fds
        fn.order = case.count
        case.count += 1
        return fn
    return deco


case.count = 0


def fd_count(pid):
    return len(os.listdir("/proc/%d/fd" % pid))


def cpu_ticks(pid):
    with open("/proc/%d/stat" % pid) as f:
        s = f.read().rsplit(")", 1)[1].split()
    return int(s[11]) + int(s[12])


def alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


class Ctx:
    def __init__(self, a, b, pid=None, name="x", restart=None):
        self.paths = {"a": a, "b": b}
        self.single = b is None
        self.pid = pid
        self.name = name
        self.rng = netpkt.rng_for(name)
        self.restart_backend = restart
        self.offer = {}
        self.proto_offer = {}
        self.counter = 0
        self.live = {}

    # ------------------------------------------------------------ features
    def probe(self, side="a"):
        if side not in self.offer:
            with self.open(side) as fe:
                self.offer[side] = fe.offered
                self.proto_offer[side] = fe.get_proto() if self.offer[side] & F.PROTO else 0
        return self.offer[side], self.proto_offer[side]

    def need(self, feats=0, proto=0, side="a"):
        f, p = self.probe(side)
        if feats & ~f:
            raise Skip("feature %s is not offered" % bit_names(F, feats & ~f))
        if proto & ~p:
            raise Skip("protocol feature %s is not offered" % bit_names(P, proto & ~p))

    def has(self, feats=0, proto=0, side="a"):
        f, p = self.probe(side)
        return not feats & ~f and not proto & ~p

    def need_pid(self):
        if not self.pid:
            raise Skip("no --pid or --spawn given")

    # ------------------------------------------------------------ front-ends
    def open(self, side="a", wait=3.0, cls=FrontEnd, **kw):
        """A connected front-end that has had one answer.  A back-end that turns a second client
        away may not have noticed yet that the first is gone, so this tries again for a second."""
        end = time.monotonic() + 1.0
        while True:
            fe = cls(self.paths[side], wait=wait, **kw)
            try:
                fe.get_features()
                return fe
            except Closed:
                fe.close()
                if time.monotonic() > end:
                    raise
                time.sleep(0.03)

    def fe(self, side="a", features=BASIC, wait=3.0, **kw):
        """A connected and started front-end.  The one that this case had on that side before is
        closed: a back-end may serve one client at a time."""
        old = self.live.get(side)
        if old is not None and old.sock is not None:
            old.close()
        fe = self.live[side] = self.open(side, wait)
        fe.bring_up(features=features, **kw)
        return fe

    def pair(self, fa=BASIC, fb=None, ka=None, kb=None, **kw):
        ka = dict(kw, **(ka or {}))
        kb = dict(kw, **(kb or {}))
        A = self.fe("a", fa, **ka)
        B = self.fe("b", fa if fb is None else fb, **kb)
        return A, B

    # ------------------------------------------------------------ traffic
    def frames(self, n, lo=60, hi=1514):
        out = []
        for _ in range(n):
            self.counter += 1
            size = self.rng.randint(lo, hi)
            out.append(netpkt.raw_frame(size, self.rng))
        return out

    def burst(self, src, dst, frames, timeout=1.5, what="", pair_src=0, pair_dst=0, wait=True,
              batch=None, **kw):
        """Send frames in bursts that fit the receive ring and demand each one back,
        in order and unchanged."""
        batch = batch or 32
        got = []
        for i in range(0, len(frames), batch):
            part = frames[i:i + batch]
            for f in part:
                src.send(f, publish=False, pair=pair_src, **kw)
            src.flush(pair=pair_src)
            got.extend(dst.recv_all(len(part), timeout, pair=pair_dst))
        self.same(frames, [p.data for p in got], what)
        if wait:
            check(src.tx_drain(1.0, pair_src), "%sTX buffers are not given back" % what)
        return got

    def same(self, want, got, what=""):
        if got == want:
            return
        sw = [hashlib.sha1(x).hexdigest() for x in want]
        sg = [hashlib.sha1(x).hexdigest() for x in got]
        missing = [i for i, h in enumerate(sw) if h not in set(sg)]
        alien = [i for i, h in enumerate(sg) if h not in set(sw)]
        if not missing and not alien and len(sg) == len(sw):
            raise Fail("%sframes arrived in another order" % what)
        txt = "%s%d of %d frames arrived" % (what, len(sw) - len(missing), len(sw))
        if missing:
            txt += ", first lost: #%d of %d bytes" % (missing[0], len(want[missing[0]]))
        if alien:
            k = alien[0]
            txt += ", %d arrived that were not sent (first: %d bytes)" % (len(alien), len(got[k]))
        if len(sg) - len(alien) > len(sw) - len(missing):
            txt += ", some arrived twice"
        raise Fail(txt)

    def both(self, A, B, n=8, what="", timeout=1.5):
        """n frames each way."""
        self.burst(A, B, self.frames(n), timeout, what + "A to B: ")
        self.burst(B, A, self.frames(n), timeout, what + "B to A: ")
        self.clean(A, B)

    def clean(self, *fes):
        for fe in fes:
            check(not fe.viol, "; ".join(fe.viol[:3]))

    # ------------------------------------------------------------ after trouble
    def lives(self):
        if self.pid:
            check(alive(self.pid), "the back-end process died")

    def recovers(self, B=None, what="after the fault: ", tries=3.0):
        """A fresh and well-behaved A must pass traffic, with the B that was there all the
        time (which must not have been disturbed), or with a fresh one."""
        self.lives()
        if self.single:
            self.single_ok()
            return
        if B is not None:
            check(not B.is_closed(), "the connection of the other port was closed")
        else:
            B = self.fe("b")
        A = None
        try:
            A = self.fe("a", wait=tries)
            B.drain_rx(0.02)
            A.drain_rx(0.02)
            self.both(A, B, 8, what)
        except (Closed, NoReply) as e:
            self.lives()
            raise Fail(what + str(e)) from None
        finally:
            if A is not None:
                A.close()
            B.close()

    def single_ok(self):
        """Liveness with one port only: the control side answers and a ring starts."""
        fe = self.open("a")
        fe.bring_up(features=BASIC)
        fe.get_vring_base(fe.txq())
        fe.close()

    def good_peer(self, features=BASIC, **kw):
        """The well-behaved B next to a hostile A (None with a single port)."""
        if self.single:
            return None
        return self.fe("b", features, **kw)

    def hostile(self, fn, features=BASIC, peer=None, start=True, settle=0.05, **kw):
        """Run fn(A) with a started A and a well-behaved B; then A goes away, and a fresh A
        must pass traffic with that same B.  Closed/NoReply/Nack inside fn are fine."""
        B = peer if peer is not None else self.good_peer()
        A = self.open("a")
        note = None
        try:
            if start:
                A.bring_up(features=features, **kw)
            note = fn(A)
        except Closed:
            note = "connection closed"
        except Nack:
            note = "refused"
        finally:
            time.sleep(settle)
            A.close()
        self.recovers(B)
        return note

    def raw_chain_case(self, build, features=BASIC, leak=None, probe=True, size=256, **kw):
        """Common shape of the descriptor cases on TX.

        build(A) puts hostile descriptors in A's TX ring (published, kicked).  Whatever B
        then receives must not hold anything but what build returns as allowed frames
        (a list of bytes, default none).
        """
        state = {}

        def run(A):
            allowed = build(A) or []
            time.sleep(0.1)
            self.lives()
            B = state.get("B")
            if B is not None:
                for p in B.recv_all(64, 0.05):
                    check(p.data in allowed, "a frame of %d bytes came out of a bad "
                          "descriptor chain" % len(p.data))
                self.clean(B)
            if A.is_closed():
                return "connection closed"
            note = []
            q = A.txq()
            if q.errs():
                note.append("err fd signalled")
            # does the ring go on?
            if probe and B is not None and not A.is_closed():
                try:
                    f = self.frames(1)[0]
                    A.send(f, timeout=0.3)
                    p = B.recv(0.3)
                    note.append("ring goes on" if p and p.data == f else "ring waits for a "
                                "new set-up")
                except (VhostError, OSError):
                    note.append("ring waits for a new set-up")
            return ", ".join(note)

        state["B"] = self.good_peer()
        return self.hostile(run, features, peer=state["B"], size=size, **kw)


def spread_memory(n=8, size=4 << 20, unaligned=True, gap=True, contiguous=()):
    """n regions.  unaligned: guest addresses and file offsets not on a page boundary.
    contiguous: indexes of regions that follow their predecessor without a gap."""
    regs = []
    gpa = 0x40000000
    for i in range(n):
        if i and i not in contiguous:
            gpa += (3 << 20) + i * 0x10000 if gap else 0
        # A region whose successor follows without a gap keeps its odd start.
        start = gpa + (0x230 * (i + 1) & ~0xF if unaligned and i not in contiguous else 0)
        off = (0x1000 * i + 0x4B0) & ~0xF if unaligned else 0
        regs.append(Region(start, size, offset=off))
        gpa = start + size
    return GuestMemory(regs)


def in_child(fn):
    """Run fn in a forked child; returns its pid."""
    pid = os.fork()
    if pid == 0:
        try:
            fn()
        except BaseException:
            pass
        os._exit(0)
    return pid


def reap_child(pid, timeout=5.0):
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        p, _ = os.waitpid(pid, os.WNOHANG)
        if p:
            return
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
