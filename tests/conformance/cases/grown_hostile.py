"""Cases about guests that misbehave in their rings, and what an end says about it."""

from cases.impl import *          # noqa: F401,F403


def faults(c, build, feats=BASIC, **kw):
    """build(A) breaks A's TX ring. Its error descriptor is signalled, the peer goes on, and the same connection works
    again once the ring is set up anew."""
    B = c.good_peer()
    A = c.fe("a", feats, **kw)
    c.both(A, B, 4)
    build(A)
    end = time.monotonic() + 2.0
    while not A.txq().errs():
        check(time.monotonic() < end, "the error descriptor is not signalled")
        check(not A.is_closed(), "the connection was closed")
        time.sleep(0.005)
    check(B.recv(0.05) is None, "something came out of a broken ring")
    c.burst(B, A, c.frames(8), what="the other ring of the end with the fault: ")
    A.stop_rings()
    new_driver(A, feats, 128)
    c.both(A, B, 8, "after a new set-up: ")


# ================================================================ faults are told, and end with a new start

@case()
def fault_head(c):
    """A head beyond the ring: error descriptor, peer unharmed, a new set-up on the same connection works."""
    def build(A):
        A.txq().raw_push(4000)
        A.txq().publish()
        A.txq().kick(force=True)
    faults(c, build)


@case()
def fault_loop(c):
    """The same for a chain that bites its tail."""
    faults(c, lambda A: tx_desc(A, [(buf(A), 100, D_NEXT, 1), (buf(A), 100, D_NEXT, 0)]))


@case()
def fault_address(c):
    """The same for an address outside of memory."""
    faults(c, lambda A: tx_desc(A, [(0xDEAD00000000, 100, 0, 0)]))


@case()
def fault_index_jump(c):
    """The same for an available index that jumps by more than the ring has."""
    def build(A):
        A.mem.set_u16(A.txq().avail + 2, A.txq().avail_idx + 5000)
        A.txq().kick(force=True)
    faults(c, build)


@case()
def fault_packed(c):
    """The same on a packed ring: a chain without an end."""
    def build(A):
        q = A.txq()
        a = buf(A)
        for i in range(q.size):
            slot = (q.next_avail + q.size - 1 - i) % q.size
            wrap = q.avail_wrap ^ (slot < q.next_avail)
            q.raw_desc(slot, a, 20, 3, D_NEXT | q.avail_flags(wrap))
        q.kick(force=True)
    faults(c, build, BASIC | F.PACKED, size=64, rx=[2048] * 40)


# ================================================================ indirect tables

@case(limit=20)
def indirect_lengths(c):
    """Indirect tables of 0, 8, 15 and 17 bytes, with more entries than the ring, with a loop, with a next beyond the
    table: dropped or ring stopped; nothing of them comes out. One that claims 2^32 - 16 bytes but ends with its first
    entry may be served: what it names is the guest's own."""
    def table(A, entries, length=None):
        tab = A.mem.alloc(16 * max(1, len(entries)) + 32)
        A.mem.write(tab, b"".join(struct.pack("=QIHH", a, n, fl, nxt) for a, n, fl, nxt in entries))
        tx_desc(A, [(tab, 16 * len(entries) if length is None else length, D_INDIRECT, 0)])
        return [b"\x77" * 88] if length == 0xFFFFFFF0 else []
    one = lambda A: [(buf(A), 100, 0, 0)]                                   # noqa: E731
    for n in (0, 8, 15, 17, 0xFFFFFFF0):
        c.raw_chain_case(lambda A, n=n: table(A, one(A), n), BASIC | F.INDIRECT)
    c.raw_chain_case(lambda A: table(A, [(buf(A), 10, D_NEXT, 0)]), BASIC | F.INDIRECT)
    c.raw_chain_case(lambda A: table(A, [(buf(A), 10, D_NEXT, 1), (buf(A), 10, D_NEXT, 0)]), BASIC | F.INDIRECT)
    c.raw_chain_case(lambda A: table(A, [(buf(A), 10, D_NEXT, 7), (buf(A), 10, 0, 0)]), BASIC | F.INDIRECT)
    c.raw_chain_case(lambda A: table(A, [(buf(A), 10, D_NEXT, i + 1) for i in range(400)]), BASIC | F.INDIRECT)


@case()
def indirect_packed_lies(c):
    """The same on packed rings: lengths that are no multiple of 16, and none; with more entries than the ring nothing
    but what they name may come out."""
    def broken(A, n, entries):
        q = A.txq()
        tab = A.mem.alloc(16 * entries + 32)
        A.mem.write(tab, struct.pack("=QIHH", buf(A), 20, 0, 0) * entries)
        slot, flags = q.next_avail, D_INDIRECT | q.avail_flags()
        q.add([(tab, n, 0)], [])
        q.pending[-1] = (slot, flags)
        q.publish()
        q.kick(force=True)
        return [((bytes(12) + b"\x77" * 8) * entries)[12:]] if entries == 300 else []
    for n, entries in ((0, 1), (8, 1), (17, 2), (0xFFFFFFF0, 1), (16 * 300, 300)):
        c.raw_chain_case(lambda A, n=n, e=entries: broken(A, n, e), BASIC | F.INDIRECT | F.PACKED, size=64,
                         rx=[2048] * 20)


# ================================================================ receive rings

@case(limit=20)
def rx_packed_hostile(c):
    """Packed RX rings with readable descriptors, addresses outside, lengths of 0 and 2^32 - 1, chains without an end,
    ids out of range: no stray write, the peer unharmed."""
    def post(kind):
        def run(A):
            can = canary(A, 8192)
            q = A.rxq()
            for i in range(4):
                at = can[0] + i * 1024
                q.add([{"readable": (at, 1024, 0), "outside": (0xDEAD00000000, 1024, 1), "zero": (at, 0, 1),
                        "huge": (A.mem.regions[0].end - 64, 0xFFFFFFFF, 1), "id": (buf(A, 2000), 2000, 1)}[kind]],
                      None, bid=60000 + i if kind == "id" else None)
            q.publish()
            q.kick(force=True)
            return can
        return run

    def verify(A, can, fr):
        canary_ok(A, can, "memory was written that no good descriptor names")
    for kind in ("readable", "outside", "zero", "huge", "id"):
        hostile_rx(c, post(kind), BASIC | F.PACKED, verify=verify, size=64)


@case()
def rx_chain_mixed(c):
    """RX chains of readable and writable descriptors: the readable ones are not written to."""
    def post(A):
        can = canary(A, 1024)
        q = A.rxq()
        for i in range(8):
            q.raw_desc(2 * i, can[0] + 128 * i, 128, D_NEXT, 2 * i + 1)
            q.raw_desc(2 * i + 1, buf(A, 2000), 2000, D_WRITE, 0)
            q.raw_push(2 * i)
        q.publish()
        q.kick(force=True)
        return can

    def verify(A, can, fr):
        canary_ok(A, can, "a readable descriptor of the RX ring was written to")
    hostile_rx(c, post, verify=verify)


@case()
def rx_indirect_hostile(c):
    """Indirect RX tables: readable entries, a loop, outside of memory, a length that lies."""
    def post(entries, length=None):
        def run(A):
            can = canary(A, 4096)
            q = A.rxq()
            for i in range(4):
                tab = A.mem.alloc(256)
                rows = [(can[0] if a == 0 else a, n, fl, nxt) for a, n, fl, nxt in entries]
                A.mem.write(tab, b"".join(struct.pack("=QIHH", *r) for r in rows))
                q.raw_desc(i, tab, 16 * len(rows) if length is None else length, D_INDIRECT)
                q.raw_push(i)
            q.publish()
            q.kick(force=True)
            return can
        return run

    def verify(A, can, fr):
        canary_ok(A, can, "memory was written that no good descriptor names")
    for entries, length in (([(0, 2000, 0, 0)], None), ([(0, 5, D_WRITE | D_NEXT, 0)], None),
                            ([(0xDEAD00000000, 2000, D_WRITE, 0)], None), ([(0, 2000, D_WRITE, 0)], 8),
                            ([(0, 2000, D_WRITE | D_INDIRECT, 0)], None)):
        check_only = verify if entries[0][2] != D_WRITE | D_NEXT else None      # a loop of writable bytes may be filled
        hostile_rx(c, post(entries, length), BASIC | F.INDIRECT, verify=check_only)


@case(limit=15)
def rx_never_refilled_index(c):
    """The guest's RX available index goes backwards, then far ahead, while the peer sends."""
    def post(A):
        A.post_rx([2048] * 8)
        q = A.rxq()
        A.mem.set_u16(q.avail + 2, q.avail_idx - 3)
        q.kick(force=True)
        time.sleep(0.01)
        A.mem.set_u16(q.avail + 2, q.avail_idx + 3000)
        q.kick(force=True)
    hostile_rx(c, post)


# ================================================================ what changes while it is read

@case(limit=20)
def flip_descriptors(c):
    """A guest changes lengths, addresses, flags and next of TX and RX descriptors all the time, on split rings,
    packed rings and in indirect tables (CVE-2020-14374 to 14378: read once, used from the copy). The process lives;
    the peer gets nothing that is not the sender's memory, and nobody else notices."""
    for feats in (BASIC, BASIC | F.PACKED, BASIC | F.INDIRECT):
        B = c.good_peer()

        def run(A, feats=feats, B=B):
            A.post_rx([(700, 900)] * 10)
            q, r = A.txq(), A.rxq()
            a = A.mem.alloc(4096)
            tab, n = q.indirect_table([(a, 100, 0), (a + 100, 1000, 0)])
            places = [x.desc + 16 * i for x in (q, r) for i in range(8)] + [tab, tab + 16]
            values = [struct.pack("=QI", a, 100), struct.pack("=QI", a, 0xFFFFFFFF),
                      struct.pack("=QI", 0xDEAD00000000, 64),
                      struct.pack("=QI", A.mem.regions[0].end - 10, 4096), struct.pack("=QI", a, 0)]

            def flip():
                end = time.monotonic() + 1.2
                while time.monotonic() < end:
                    for v in values:
                        for p in places:
                            A.mem.write(p, v)
            pid = in_child(flip)
            end = time.monotonic() + 1.0
            while time.monotonic() < end:
                try:
                    for _ in range(6):
                        A.send(bytes(500), layout=[12, 100], indirect=bool(feats & F.INDIRECT), timeout=0.01)
                except VhostError:
                    time.sleep(0.005)
                for f in ([bytes(300)] * 4):
                    B.send(f, timeout=0.5)
                B.drain_rx(0.0)
            reap_child(pid)
            c.lives()
        c.hostile(run, feats, peer=B, size=64, rx=[])


@case(limit=20)
def flip_indexes(c):
    """A guest writes random values to its available index, ring entries and flags, and to the used ring."""
    for feats in (BASIC | F.EVENT_IDX, BASIC | F.PACKED | F.EVENT_IDX):
        B = c.good_peer()

        def run(A, B=B):
            q, r = A.txq(), A.rxq()
            areas = []
            for x in (q, r):
                areas += [(x.desc, 16 * x.size)] if x.packed else [(x.avail, 6 + 2 * x.size), (x.used, 6 + 8 * x.size)]
            end = time.monotonic() + 1.0
            while time.monotonic() < end:
                g, n = c.rng.choice(areas)
                at = g + 2 * c.rng.randrange(n // 2)
                A.mem.set_u16(at, c.rng.choice((0, 1, 0xFFFF, 0x8080, 0x8000, 0x80, c.rng.randrange(65536))))
                for x in (q, r):
                    os.eventfd_write(x.kickfd, 1)
                if c.rng.random() < 0.1:
                    B.send(bytes(200), timeout=0.5)
                    B.drain_rx(0.0)
                if q.errs() or r.errs():
                    for i, x in enumerate((r, q)):
                        A.get_vring_base(i)
                        A.vring_num(x)
                        A.vring_base(x)
                        A.vring_addr(x)
                        A.vring_kick(x)
        c.hostile(run, feats, peer=B, size=64, rx=[2048] * 20)


# ================================================================ descriptors of events

@case(limit=15)
def kicks_without_work(c):
    """A guest kicks without pause and without work: the other end's frames flow, and its control socket answers."""
    A, B = c.pair()

    def spin():
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            for q in A.queues:
                try:
                    os.eventfd_write(q.kickfd, 1 << 40)
                except BlockingIOError:
                    pass
    pid = in_child(spin)
    for _ in range(20):
        c.both(A, B, 4)
        B.sync(1.0)
    reap_child(pid)


@case(limit=15)
def descriptors_odd_calls(c):
    """CALL and ERR with pipes, sockets, files and read-only descriptors: refused, or served; nobody blocks and no
    signal ends the process (a pipe without a reader)."""
    r, w = os.pipe()
    r2, w2 = os.pipe()
    os.close(r2)
    a, b = socket.socketpair()
    os.set_blocking(w, True)
    files = {"pipe": w, "read end": r, "pipe without a reader": w2, "socket": a.fileno(),
             "file": os.open("/tmp", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)}
    B = c.good_peer()
    notes = []
    for req in (M.SET_VRING_CALL, M.SET_VRING_ERR, M.SET_VRING_KICK):
        for name, fd in files.items():
            A = c.fe("a")
            for i in (0, 1):
                notes.append(A.outcome(req, struct.pack("=Q", i), [fd]))
            try:
                for f in c.frames(4):
                    A.send(f, timeout=0.2)
                    B.send(f, timeout=1.0)
            except VhostError:
                pass
            stuck = peer_stuck(B)
            check(not stuck, "with a %s as descriptor: %s" % (name, stuck))
            A.close()
            B.drain_rx(0.01)
    for fd in (w, r, w2, files["file"]):
        os.close(fd)
    a.close()
    b.close()
    c.recovers(B)
    return ", ".join("%d x %s" % (notes.count(k), k) for k in sorted(set(notes)))


@case(limit=20)
def hostile_beside_good(c):
    """While one end breaks its rings, reconnects and breaks them again without pause, the other end's socket answers
    within a second, and its frames are consumed all the time."""
    B = c.good_peer()
    end = time.monotonic() + 3.0
    count = 0
    while time.monotonic() < end:
        A = c.open("a")
        try:
            A.bring_up(size=64, rx=[2048] * 8)
            A.txq().raw_push(c.rng.choice((64, 999, 0xFFFF)))
            A.txq().publish()
            A.txq().kick(force=True)
        except VhostError:
            pass
        stuck = peer_stuck(B)
        check(not stuck, stuck)
        A.close()
        count += 1
        B.drain_rx(0.0)
    c.recovers(B)
    return "%d times" % count
