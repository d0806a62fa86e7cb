"""Cases about several pairs of queues, what is announced for a guest, and the order of buffers."""

from cases.impl import *          # noqa: F401,F403


@case(limit=20)
def mq_eight_pairs(c):
    """Eight pairs on both sides: each TX ring's frames come out in order."""
    A, B = c.pair(BASIC | F.MQ, pairs=8, rx=[2048] * 40, size=64)
    mq_check(c, A, B, range(8), range(8))
    mq_check(c, B, A, range(8), range(8))


@case(limit=20)
def mq_pair_to_pair(c):
    """With equal numbers, what pair i of A sends comes out of pair i of B."""
    A, B = c.pair(BASIC | F.MQ, pairs=4)
    for i in range(4):
        c.burst(A, B, c.frames(8), what="pair %d: " % i, pair_src=i, pair_dst=i)
        c.burst(B, A, c.frames(8), what="pair %d back: " % i, pair_src=i, pair_dst=i)


@case(limit=20)
def mq_different_counts(c):
    """Four pairs and one, four and two, eight and three: nothing is lost, in either direction."""
    for a, b in ((4, 1), (1, 4), (4, 2), (8, 3)):
        A, B = c.pair(BASIC | F.MQ, ka={"pairs": a}, kb={"pairs": b}, rx=[2048] * 60)
        mq_check(c, A, B, range(a), range(b))
        mq_check(c, B, A, range(b), range(a))


@case(limit=20)
def mq_pairs_enabled_later(c):
    """A guest starts with one of four pairs enabled, enables more, and disables them again (ethtool -L): frames of
    every enabled pair arrive in enabled rings."""
    A = c.fe("a", BASIC | F.MQ, pairs=4, enable=[0, 1])
    B = c.fe("b", BASIC | F.MQ, pairs=4, enable=[0, 1])
    for n in (1, 2, 4, 3, 1, 4):
        for fe in (A, B):
            for q in fe.queues:
                fe.vring_enable(q, q.index < 2 * n)
            fe.sync()
        mq_check(c, A, B, range(n), range(n))
        mq_check(c, B, A, range(n), range(n))


@case(limit=20)
def mq_one_side_fewer_enabled(c):
    """A sends on four pairs, B has enabled one of its four: all arrives there."""
    A = c.fe("a", BASIC | F.MQ, pairs=4)
    B = c.fe("b", BASIC | F.MQ, pairs=4, enable=[0, 1])
    mq_check(c, A, B, range(4), (0,))


@case(limit=20)
def mq_mixed_rings(c):
    """Packed rings with four pairs on one side, split rings with two on the other."""
    A, B = c.pair(BASIC | F.MQ | F.PACKED, BASIC | F.MQ, ka={"pairs": 4}, kb={"pairs": 2}, rx=[1000] * 60)
    mq_check(c, A, B, range(4), range(2))
    mq_check(c, B, A, range(2), range(4))


@case(limit=20)
def mq_one_pair_stopped(c):
    """One of two pairs is stopped and started again: the other goes on, and nothing of it is lost."""
    A, B = c.pair(BASIC | F.MQ, pairs=2)
    for _ in range(4):
        bases = [A.get_vring_base(q) for q in A.queues[2:]]
        c.burst(A, B, c.frames(20), what="pair 0 meanwhile: ")
        c.burst(B, A, c.frames(20), what="pair 0 meanwhile, back: ")
        for q, b in zip(A.queues[2:], bases):
            q.renew_fds()
            for step in (A.vring_num, lambda q, b=b: A.vring_base(q, b), A.vring_addr, A.vring_kick, A.vring_call):
                step(q)
            q.kick(force=True)
        A.sync()
        mq_check(c, A, B, (0, 1), (0, 1))


@case()
def mq_fault_in_one_ring(c):
    """One TX ring of two breaks (its guest names a head beyond the ring): the peer is not disturbed, and a new
    connection has both pairs."""
    B = c.fe("b", BASIC | F.MQ, pairs=2)

    def run(A):
        A.txq(1).raw_push(999)
        A.txq(1).publish()
        A.txq(1).kick(force=True)
        time.sleep(0.05)
    c.hostile(run, BASIC | F.MQ, peer=B, pairs=2)
    A, B = c.pair(BASIC | F.MQ, pairs=2)
    mq_check(c, A, B, (0, 1), (0, 1))


@case(limit=15)
def in_order_packed(c):
    """IN_ORDER on packed rings, over many wraps, with chains of one to five descriptors."""
    A, B = c.pair(BASIC | F.IN_ORDER | F.PACKED, size=64, rx=[1024] * 60)
    for i in range(10):
        c.burst(A, B, c.frames(30, 60, 900), batch=10, layout=[[12], None, [3, 9, 20], [5, 5, 5, 5]][i % 4])
        c.burst(B, A, c.frames(30, 60, 900), batch=10)
    c.clean(A, B)


@case(limit=15)
def in_order_mergeable(c):
    """IN_ORDER with frames over many mergeable buffers, on either kind of ring: lengths of all buffers are right."""
    for feats in (BASIC | F.IN_ORDER, BASIC | F.IN_ORDER | F.PACKED):
        A, B = c.pair(feats, size=128, rx=[300] * 120)
        for n in (60, 1514, 9000, 288, 289, 30000):
            c.burst(A, B, [raw_frame(n, c.rng)] * 1)
            c.burst(B, A, [raw_frame(n, c.rng)] * 1)
        c.clean(A, B)


@case()
def rarp_many(c):
    """SEND_RARP of several addresses, also while the peer is absent (no crash) and while frames flow: each comes
    out."""
    A = c.fe("a", proto=PLAIN_P | P.RARP)
    for i in range(20):
        A.tell(M.SEND_RARP, bytes([2, 0, 0, 0, 1, i, 0, 0]))
    B = c.fe("b")
    B.drain_rx(0.1)
    macs = [bytes([2, 0, 0, 0, 0, i]) for i in range(4)]
    fr = c.frames(20)
    for f in fr[:10]:
        A.send(f)
    for mac in macs:
        A.tell(M.SEND_RARP, mac + bytes(2))
    for f in fr[10:]:
        A.send(f)
    got = [p.data for p in B.recv_all(24, 0.5)]
    c.same(fr, [f for f in got if f[12:14] != b"\x80\x35"], "frames around the announcements: ")
    seen = [f[6:12] for f in got if f[12:14] == b"\x80\x35"]
    check(seen == macs, "announced: %s" % [m.hex() for m in seen])
    check(all(len(f) >= 60 for f in got if f[12:14] == b"\x80\x35"), "an announcement is a runt")


@case()
def backend_request_channel(c):
    """SET_BACKEND_REQ_FD again and again, closed by the front-end's side: no signal, no busy loop, traffic flows."""
    A, B = c.pair(proto=PLAIN_P | P.BACKEND_REQ)
    for _ in range(20):
        step_backend_req(A)
        A.req_sock.close()
    c.both(A, B, 8)
