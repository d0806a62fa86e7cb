"""Cases about receive buffers, and receivers that are absent or slow.

Every docstring names the public bug (or the rule) behind the case and the right outcome.
"""

from cases.impl import *          # noqa: F401,F403


# ================================================================ RX buffers

@case()
def rx_too_small_no_mrg(c):
    """Without mergeable buffers, frames larger than the RX buffer: dropped whole, never cut and
    never written past the end; smaller frames still arrive afterwards."""
    A, B = c.pair(BASIC & ~F.MRG_RXBUF, kb={"rx": [140] * 64})
    for big in (129, 200, 1514, 9000):
        A.send(raw_frame(big, c.rng), wait=1.0)
        p = B.recv(0.15)
        check(p is None, "a frame of %d bytes was delivered as %d into a 128-byte room"
              % (big, len(p.data) if p else 0))
        for n in (60, 128):
            f = raw_frame(n, c.rng)
            A.send(f, wait=1.0)
            p = B.recv(0.6)
            check(p is not None and p.data == f, "a frame of %d bytes that fits is lost after a "
                  "%d-byte one" % (n, big))
    c.clean(A, B)


@case()
def rx_tiny_mergeable(c):
    """MRG_RXBUF with buffers of 1 to 13 bytes (the header does not fit into one), and with fewer buffers than
    a frame needs: dropped whole, or delivered right; buffers are not lost, later frames arrive."""
    A = c.fe("a")
    B = c.fe("b", rx=[])
    B.autofill = False
    for tiny in (1, 5, 11, 12, 13):
        B.post_rx([tiny] * 8)
        A.send(raw_frame(60, c.rng), wait=0.5)
        A.send(raw_frame(300, c.rng), wait=0.5)
        time.sleep(0.03)
        c.lives()
    B.close()
    B = c.fe("b", rx=[])
    B.autofill = False
    B.post_rx([500] * 3)
    first = raw_frame(4000, c.rng)
    A.send(first, wait=None)                          # needs nine
    p = B.recv(0.1)
    check(p is None, "a frame that needs nine buffers came although three were there (%d bytes)"
          % (len(p.data) if p else 0))
    B.post_rx([500] * 40)
    p = B.recv(0.1)                                   # dropped, or kept until there was room
    check(p is None or p.data == first, "the frame that had to wait for room is garbled")
    for n in (4000, 60, 1514):
        f = raw_frame(n, c.rng)
        A.send(f, wait=0.5)
        p = B.recv(0.6)
        check(p is not None and p.data == f, "after a frame without room, %d bytes: %s" % (
            n, "lost" if p is None else "garbled"))
    c.clean(B)


@case()
def rx_chain_readable(c):
    """RX chains made of device-readable descriptors only: the device must not write to them
    (virtio 2.7.4.1)."""
    def post(A):
        can = canary(A, 8192)
        q = A.rxq()
        for i in range(8):
            q.raw_desc(i, can[0] + i * 1024, 1024, 0, 0)
            q.raw_push(i)
        q.publish()
        q.kick(force=True)
        return can

    def verify(A, can, fr):
        canary_ok(A, can, "a device-readable descriptor of the RX ring was written to")
    return hostile_rx(c, post, verify=verify, hi=900)


@case()
def rx_chain_hostile(c):
    """RX chains with a loop, next out of range, and addresses outside memory; the peer sends.
    No crash, no stray write; the peer is unharmed."""
    def loop(A):
        q = A.rxq()
        q.raw_desc(0, buf(A), 100, D_WRITE | D_NEXT, 0)
        q.raw_push(0)

    def oob(A):
        q = A.rxq()
        q.raw_desc(0, buf(A), 100, D_WRITE | D_NEXT, 5000)
        q.raw_push(0)

    def out(A):
        q = A.rxq()
        q.raw_desc(0, 0xDEAD00000000, 4096, D_WRITE, 0)
        q.raw_push(0)

    def both(fn):
        def post(A):
            fn(A)
            A.rxq().publish()
            A.rxq().kick(force=True)
        return post
    for fn in (loop, oob, out):
        hostile_rx(c, both(fn))


# ================================================================ num_buffers

@case()
def num_buffers_one_without_mrg(c):
    """Without MRG_RXBUF num_buffers is 1 in every header, whatever was in the memory before
    (DPDK b9c1ec857793, passt 71a0d6cbbb0f); the rest of the header is zero."""
    c.need(F.VERSION_1)
    A, B = c.pair(BASIC & ~F.MRG_RXBUF)
    got = c.burst(A, B, c.frames(40))
    for p in got:
        check(p.hdr.num_buffers == 1, "num_buffers is %d" % p.hdr.num_buffers)
        check(p.hdr.flags == 0 and p.hdr.gso_type == 0, "header %r" % (p.hdr,))


@case()
def num_buffers_mergeable(c):
    """Mergeable buffers of 200 bytes: num_buffers is the number used, all but the last are full, and
    all become visible together."""
    A, B = c.pair(kb={"rx": [200] * 200})
    for n in (60, 187, 188, 189, 387, 388, 389, 1514, 9000):
        f = raw_frame(n, c.rng)
        A.send(f)
        p = B.recv(1.0)
        check(p is not None and p.data == f, "frame of %d bytes lost or garbled" % n)
        want = (n + 12 + 199) // 200
        check(p.nbufs == want, "%d bytes: %d buffers, expected %d" % (n, p.nbufs, want))
        check(all(x == 200 for x in p.lens[:-1]), "%d bytes: buffers filled %r" % (n, p.lens))
    c.clean(A, B)


# ================================================================ overload and starvation

@case(limit=15)
def starved_receiver(c):
    """B never refills its RX ring while A floods (ghaf#473): B to A goes on without loss, and A to
    B works again as soon as B refills."""
    A, B = c.pair(kb={"rx": [2048] * 16})
    B.autofill = False
    flood = c.frames(64)
    lost = 0
    for r in range(12):
        for f in flood:
            try:
                A.send(f, publish=False, timeout=0.02)
            except VhostError:
                lost += 1
                break
        A.flush()
        fr = c.frames(16)
        for f in fr:
            B.send(f, publish=False)
        B.flush()
        got = A.recv_all(16, 1.0)
        c.same(fr, [p.data for p in got], "the unstarved direction: ")
    # refill
    B.drain_rx(0.05)
    B.post_rx([2048] * 100)
    B.autofill = True
    end = time.monotonic() + 2
    while time.monotonic() < end:
        if not B.drain_rx(0.05):
            break
    check(A.tx_drain(1.5), "A's TX ring stays blocked after the receiver refilled")
    B.drain_rx(0.05)
    c.both(A, B, 16, "after the refill: ")


@case()
def peer_absent(c):
    """A sends while nobody is connected to B: A's TX ring keeps being consumed, and a B that comes
    later gets the frames sent from then on."""
    A = c.fe("a")
    for _ in range(8):
        for f in c.frames(100):
            A.send(f, publish=False)
        A.flush()
        check(A.tx_drain(1.5), "the TX ring stops while the peer is absent")
    B = c.fe("b")
    B.drain_rx(0.05)
    c.both(A, B, 16)


@case(limit=15)
def peer_leaves_and_returns(c):
    """B goes away in the middle of A's flood, A keeps sending, B returns (butterfly#284, a cable must not quit with
    one VM): A's TX ring is consumed all the time, and the new B gets only what it should."""
    A, B = c.pair()
    for r in range(6):
        for f in c.frames(60):
            A.send(f, publish=False)
        A.flush()
        B.close()
        for f in c.frames(150):
            A.send(f, timeout=1.5)
        check(A.tx_drain(1.5), "A's TX ring stops when B goes away")
        B = c.fe("b")
        B.drain_rx(0.03)
        c.both(A, B, 12, "round %d: " % r)
