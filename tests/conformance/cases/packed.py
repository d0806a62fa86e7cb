"""Cases about packed rings.

Every docstring names the public bug (or the rule) behind the case and the right outcome.
"""

from cases.impl import *          # noqa: F401,F403


# ================================================================ packed ring

@case()
def packed_basic(c):
    """Packed rings, several wraps, frames over 1 to 3 descriptors and buffers."""
    c.need(F.PACKED)
    A, B = c.pair(BASIC | F.PACKED, size=64, rx=[600] * 60)
    for i in range(12):
        fr = c.frames(12, 60, 1500)
        c.burst(A, B, fr, batch=12)
        c.burst(B, A, c.frames(9), layout=[7, 40], batch=9)
    c.clean(A, B)


@case()
def packed_chain_over_the_edge(c):
    """Packed chains of 5 descriptors that run over the end of an odd-sized ring, TX and RX, for several wraps;
    reserved flag bits set.  All frames arrive."""
    c.need(F.PACKED)
    A, B = c.pair(BASIC | F.PACKED, size=13 if c.rng else 13, rx=[(40, 900, 900)] * 4)
    for k in range(60):
        f = raw_frame(c.rng.randint(60, 1500), c.rng)
        A.send(f, layout=[4, 8, 20, 20])
        p = B.recv(1.0)
        check(p is not None and p.data == f, "frame %d: %s" % (k, "lost" if p is None else "garbled"))
    c.clean(A, B)


@case()
def packed_tx_id_out_of_range(c):
    """Packed TX descriptors with buffer id 0xffff and 300 on a ring of 256 (spdk#3860: used as an
    array index).  Given back with that id, or a port error; no crash."""
    c.need(F.PACKED)

    def run(A):
        q = A.txq()
        for bid in (0xFFFF, 300):
            a = buf(A, 200)
            q.add([(a, 200, 0)], [], bid=bid)
            q.publish()
            q.kick(force=True)
        time.sleep(0.05)
        A.reap()
        c.clean(A)
        return [b"\x77" * 188]
    return c.raw_chain_case(run, BASIC | F.PACKED)


@case()
def packed_chain_longer_than_ring(c):
    """A packed chain whose NEXT never ends (every descriptor of the ring): dropped or ring
    stopped, no endless loop."""
    c.need(F.PACKED)

    def run(A):
        q = A.txq()
        a = buf(A)
        for i in reversed(range(q.size)):          # the first one last: no half-written chain
            q.raw_desc(i, a, 20, 3, D_NEXT | D_AVAIL)
        q.kick(force=True)
    return c.raw_chain_case(run, BASIC | F.PACKED, probe=False)
