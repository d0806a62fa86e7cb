"""Bodies of cases about guests and front-ends that misbehave."""

from cases.impl.words import *          # noqa: F401,F403


# ------------------------------------------------------------------ RX-side hostility

def hostile_rx(c, post, features=BASIC, frames=8, size=256, peer_feats=BASIC, verify=None, lo=60,
               hi=1514, ind=False):
    """A posts hostile RX chains, B sends to it; then a fresh A must work with the same B."""
    B = c.good_peer(peer_feats)
    if B is None:
        raise Skip("needs two ports")
    state = {}

    def run(A):
        state["x"] = post(A)
        fr = c.frames(frames, lo, hi)
        for f in fr:
            B.send(f, timeout=1.0)
        time.sleep(0.12)
        c.lives()
        if verify:
            verify(A, state["x"], fr)
        return None
    return c.hostile(run, features, peer=B, rx=[], size=size)


def canary(A, n=4096):
    """A stretch of guest memory that nobody may write to."""
    g = A.mem.alloc(n, PAGE, exact=True)
    A.mem.write(g, b"\x5A" * n)
    return g, n


def canary_ok(A, can, what):
    g, n = can
    check(A.mem.read(g, n) == b"\x5A" * n, what)


# ------------------------------------------------------------------ further helpers

def fuzz_messages(c, seed, n):
    rng = random.Random(seed)
    B = c.good_peer()
    A = None
    conns = 0
    for i in range(n):
        if A is None:
            A = c.open("a")
            conns += 1
            try:
                A.bring_up(rx=[2048] * 8, size=64)
            except VhostError:
                A.close()
                A = None
                c.lives()
                continue
        req = rng.randrange(0, 61)
        if req in (M.SET_MEM_TABLE, M.ADD_MEM_REG, M.SET_LOG_BASE) and rng.random() < 0.5:
            pl, fds = A.mem.table()
            pl = bytearray(pl)
            for _ in range(rng.randrange(1, 4)):
                pl[rng.randrange(len(pl))] = rng.randrange(256)
            pl = bytes(pl)
        else:
            k = rng.choice((0, 4, 8, 8, 8, 16, 24, 40, 40, 72))
            pl = b"".join(rng.choice((bytes(4), b"\1\0\0\0", b"\xff\xff\xff\xff",
                                      rng.randbytes(4))) for _ in range(k // 4))
            fds = [A.mem.regions[0].fd] * rng.choice((0, 0, 1, 1, 2))
        try:
            A.send_msg(req, pl, fds, need_reply=rng.random() < 0.3)
            if rng.random() < 0.3:
                for f in c.frames(2):
                    A.send(f, timeout=0.02)
            while True:
                A.read_msg(0.002)
        except NoReply:
            pass
        except (VhostError, OSError):
            A.close()
            A = None
            c.lives()
    if A is not None:
        A.close()
    time.sleep(0.1)
    c.recovers(B)
    return "%d connections" % conns


def tx_desc(A, descs, head=0, extra=()):
    """Write raw split descriptors 0.. and push the head; they stay reserved."""
    q = A.txq()
    for i, d in enumerate(descs):
        q.raw_desc(i, *d)
        if i in q.free:
            q.free.remove(i)
    q.raw_push(head)
    for h in extra:
        q.raw_push(h)
    q.publish()
    q.kick(force=True)


def buf(A, n=200):
    a = A.mem.alloc(n)
    A.mem.write(a, bytes(12) + b"\x77" * (n - 12))
    return a


def bad_csum(c, pairs, feats=0, gso=None):
    c.need(F.CSUM)
    bad = []
    for guest in (0, F.GUEST_CSUM):
        B = c.fe("b", BASIC | guest)
        A = c.fe("a", BASIC | F.CSUM | feats)
        for s, o in pairs:
            f = raw_frame(300, c.rng, 0x0800)
            h = Hdr(flags=1, csum_start=s, csum_offset=o)
            if gso:
                h.gso_type, h.gso_size, h.hdr_len = gso
            A.send(f, h)
            p = B.recv(0.05)
            c.lives()
            if p is not None and p.hdr.flags & 1:
                if p.hdr.csum_start + p.hdr.csum_offset + 2 > len(p.data):
                    bad.append("%d+%d passed on" % (s, o))
        B.drain_rx(0.02)
        ok = c.frames(1)[0]
        A.send(ok)
        p = B.recv(0.5)
        check(p is not None and p.data == ok, "the ring stands still after a bad checksum request")
        A.close()
        c.recovers(B)
    check(not bad, "; ".join(bad))


def device_state_read(A):
    r, w = os.pipe()
    rep = A.request(M.SET_DEVICE_STATE_FD, struct.pack("=II", 0, 0), [w])
    os.close(w)
    v = struct.unpack("=Q", rep.payload)[0]
    check(v & 0xFF == 0, "SET_DEVICE_STATE_FD(save) refused: %#x" % v)
    if not v & NOFD:
        check(rep.fds, "no fd came although bit 8 is clear")
        os.close(r)
        r = rep.fds[0]
    blob = b""
    while True:
        if not select.select([r], [], [], 2.0)[0]:
            raise Fail("the state channel is never closed")
        d = os.read(r, 65536)
        if not d:
            break
        blob += d
    check(A.u64(M.CHECK_DEVICE_STATE) == 0, "CHECK_DEVICE_STATE reports an error")
    return blob


def mq_check(c, src, dst, tx, rx, n=24):
    for t in tx:
        fr = c.frames(n)
        for f in fr:
            src.send(f, pair=t, publish=False)
        src.flush(pair=t)
        got = {r: [] for r in rx}
        end = time.monotonic() + 1.0
        while sum(map(len, got.values())) < n and time.monotonic() < end:
            for r in rx:
                p = dst.recv(0.0, pair=r)
                if p:
                    got[r].append(p.data)
        flat = [d for r in rx for d in got[r]]
        c.same(sorted(fr), sorted(flat), "TX ring of pair %d: " % t)
        for r in rx:
            idx = [fr.index(d) for d in got[r]]
            check(idx == sorted(idx), "frames of one TX ring were put out of order in one RX ring")
    c.clean(src, dst)


def peer_stuck(B, limit=1.0):
    """What of B, the innocent port, does not work any more (empty text when all does)."""
    for f in ([bytes(60)] * 4):
        B.send(f, timeout=0.2)
    if not B.tx_drain(limit):
        return "its TX ring is not consumed any more"
    try:
        B.vring_enable(B.txq(), True)
        B.sync(limit)
    except NoReply:
        return "its control socket is not answered any more"
    return ""


def new_driver(A, feats, size, rx=24):
    """The rings of A are stopped: another driver takes over, in the same guest memory, with fresh
    rings, perhaps other features, on the same connection."""
    for q in A.queues:
        q.close()
    A.queues = []
    A._rx_done.clear()
    A.features = feats & A.offered
    A.set_features(A.features)
    A.make_queues(1, size)
    A.post_rx([2048] * rx, kick=False)
    A.set_mem_table()
    for q in A.queues:
        A.vring_num(q)
        A.vring_base(q)
        A.vring_addr(q)
        A.vring_kick(q)
        q.kick(force=True)
        A.vring_call(q)
    for q in A.queues:
        A.vring_enable(q, True)
    A.sync()
