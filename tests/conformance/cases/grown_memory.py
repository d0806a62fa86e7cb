"""Cases about guest memory: tables that lie, slots, borders of regions, files that shrink or are exchanged."""

from cases.impl import *          # noqa: F401,F403

TOP = 1 << 64


def wire(gpa, size, uaddr, offset):
    return struct.pack("=QQQQ", gpa % TOP, size % TOP, uaddr % TOP, offset % TOP)


def table(*regions, count=None):
    return struct.pack("=II", len(regions) if count is None else count, 0) + b"".join(regions)


# ================================================================ tables

@case(limit=20, fds=True)
def memtable_lies(c):
    """SET_MEM_TABLE with no region, a size of 0, addresses and offsets that wrap, regions that overlap, a file that
    is too short, a count beyond its bytes (CVE-2018-1059): refused or closed."""
    u = 0x7E0000000000
    mib = 1 << 20
    base = Region(0, 64 * mib)
    bad = {
        "none": (table(), 0),
        "count 2 with bytes for 1": (table(wire(0, mib, u, 0), count=2), 2),
        "count 0xffffffff": (table(wire(0, mib, u, 0), count=0xFFFFFFFF), 1),
        "count 200": (table(wire(0, mib, u, 0), count=200), 200),
        "size 0": (table(wire(0, 0, u, 0)), 1),
        "guest address wraps": (table(wire(TOP - 4096, 8192, u, 0)), 1),
        "user address wraps": (table(wire(0, 8192, TOP - 4096, 0)), 1),
        "offset wraps": (table(wire(0, 8192, u, TOP - 4096)), 1),
        "size of everything": (table(wire(0, TOP - 1, 0, 0)), 1),
        "offset beyond the file": (table(wire(0, mib, u, 1 << 40)), 1),
        "end beyond the file": (table(wire(0, 65 * mib, u, 0)), 1),
        "overlap": (table(wire(0, 2 * mib, u, 0), wire(mib, mib, u + (1 << 33), 0)), 2),
        "same twice": (table(wire(0, mib, u, 0), wire(0, mib, u, 0)), 2),
        "overlap of user addresses": (table(wire(0, mib, u, 0), wire(1 << 30, mib, u + 4096, 0)), 2),
        "second one bad": (table(wire(0, mib, u, 0), wire(1 << 30, 0, u + (1 << 33), 0)), 2),
    }
    return dubious(c, [(label, M.SET_MEM_TABLE, pl, [base.fd] * n, {}) for label, (pl, n) in bad.items()], start=False)


@case(fds=True)
def memtable_odd_files(c):
    """Guest memory from a pipe, a socket, a directory, /dev/zero and a read-only descriptor: refused, or served
    without harm; no descriptor is kept."""
    r, w = os.pipe()
    a, b = socket.socketpair()
    files = {"pipe": r, "socket": a.fileno(), "directory": os.open("/tmp", os.O_RDONLY | os.O_CLOEXEC),
             "null": os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC), "zero": os.open("/dev/zero",
                                                                                     os.O_RDWR | os.O_CLOEXEC),
             "eventfd": os.eventfd(0, os.EFD_CLOEXEC)}
    pl = table(wire(0, 1 << 20, 0x7E0000000000, 0))
    try:
        return dubious(c, [(k, M.SET_MEM_TABLE, pl, [fd], {}) for k, fd in files.items()], start=False)
    finally:
        for fd in (w, *files.values()):
            if fd != a.fileno():
                os.close(fd)
        a.close()
        b.close()


@case()
def memtable_many_regions(c):
    """Forty regions in one table, all of one file: every one of them is used."""
    base = Region(0x100000, 64 << 20)
    regs = [Region(0x100000 + i * (2 << 20), 1 << 20, offset=i * (1 << 20), share=base) for i in range(40)]
    mem = GuestMemory(regs)
    A = c.fe("a", mem=mem, rx=[], ring_region=regs[0])
    B = c.fe("b")
    for r in regs[1:]:
        f = c.frames(1)[0]
        A.send(f, region=r)
        p = B.recv(1.0)
        check(p is not None and p.data == f, "a frame in a region was lost")
        A.post_rx([2048], region=r)
        B.send(f)
        p = A.recv(1.0, refill=False)
        check(p is not None and p.data == f, "a frame into a region was lost")
    c.clean(A, B)


@case()
def memtable_exchanged(c):
    """The same table with other files behind it, under the same addresses and without new ring addresses, which are
    translated again: from the acknowledgement on the new files are used, and the old ones no longer written."""
    A, B = c.pair()
    for i in range(4):
        c.both(A, B, 12, "round %d: " % i)
        old = A.mem.regions[0]
        new = Region(old.gpa, old.size, old.uaddr)
        new.mm[:] = old.mm[:]
        new.brk, new.freed = old.brk, old.freed
        A.mem.regions[0] = A.mem._last = new
        A.set_mem_table()
        before = hashlib.sha1(old.mm[:]).digest()
        c.both(A, B, 12, "round %d, other files: " % i)
        check(hashlib.sha1(old.mm[:]).digest() == before, "memory that is no longer in the table was written")


@case()
def memtable_without_rings(c):
    """A table that no longer has the rings of a running device: that end stops, the peer and the next front-end do
    not notice."""
    def run(A):
        other = Region(0x900000000, 1 << 20)
        A.keep = other
        A.outcome(M.SET_MEM_TABLE, table(other.wire()), [other.fd])
        A.txq().kick(force=True)
        time.sleep(0.05)
        A.outcome(M.GET_FEATURES)
    return c.hostile(run)


@case()
def memtable_without_buffers(c):
    """A table without the region that holds posted buffers and queued frames: they fault that end only."""
    def run(A):
        r = A.mem.regions[1]
        A.post_rx([2048] * 8, region=r)
        A.outcome(M.SET_MEM_TABLE, table(A.mem.regions[0].wire()), [A.mem.regions[0].fd])
        for f in c.frames(4):
            A.send(f, region=r, timeout=0.1)
        time.sleep(0.05)
    mem = GuestMemory([Region(0x100000, 8 << 20), Region(0x40000000, 4 << 20)])
    B = c.good_peer()
    for f in c.frames(8):
        B.send(f)
    return c.hostile(run, peer=B, mem=mem, ring_region=mem.regions[0], rx=[])


# ================================================================ slots

@case(limit=20, fds=True)
def memreg_lies(c):
    """ADD_MEM_REG with sizes, addresses and files that lie, of a region that is there in part; REM_MEM_REG of what is
    not there, or not so: refused or closed."""
    u = 0x7F0000000000
    proto = PLAIN_P | P.MEM_SLOTS
    mib = 1 << 20

    def one(A):
        return [A.mem.regions[0].fd]
    msgs = [(label, M.ADD_MEM_REG, bytes(8) + wire(*spec), one, {}) for label, spec in {
        "size 0": (1 << 40, 0, u, 0), "wraps": (TOP - 4096, 8192, u, 0), "user wraps": (1 << 40, 8192, TOP - 4096, 0),
        "offset": (1 << 40, mib, u, 1 << 50), "too long": (1 << 40, 1 << 40, u, 0),
        "overlaps": (0x100000 + mib, mib, u, 0)}.items()]
    msgs += [("no descriptor", M.ADD_MEM_REG, bytes(8) + wire(1 << 40, mib, u, 0), (), {}),
             ("two descriptors", M.ADD_MEM_REG, bytes(8) + wire(1 << 40, mib, u, 0), lambda A: one(A) * 2, {}),
             ("REM unknown", M.REM_MEM_REG, bytes(8) + wire(1 << 40, mib, u, 0), (), {}),
             ("REM part", M.REM_MEM_REG,
              lambda A: bytes(8) + wire(A.mem.regions[0].gpa, mib, A.mem.regions[0].uaddr, 0), (), {})]
    return dubious(c, msgs, proto=proto)


@case(limit=20, fds=True)
def memreg_until_full(c):
    """GET_MAX_MEM_SLOTS regions can be added, one more is refused; after removing some, others fit; frames flow
    meanwhile."""
    proto = PLAIN_P | P.MEM_SLOTS
    A, B = c.pair(ka={"proto": proto})
    most = A.u64(M.GET_MAX_MEM_SLOTS)
    check(32 <= most <= 4096, "GET_MAX_MEM_SLOTS says %d" % most)
    base = Region(1 << 40, most * 4096 + 8192)
    A.extra_fds.append(os.dup(base.fd))
    regs = [Region((1 << 40) + i * 8192, 4096, offset=i * 4096, share=base) for i in range(most)]
    for r in regs[:-1]:
        A.add_mem_reg(r)
    check(A.add_mem_reg(regs[-1], check=False) != 0, "more regions than slots")
    c.both(A, B, 8, "all slots taken: ")
    for r in regs[:most - 1:7]:
        A.rem_mem_reg(r)
    A.add_mem_reg(regs[-1])
    c.both(A, B, 8, "after removing: ")
    for r in regs + [base]:
        r.close()


@case()
def memreg_remove_in_use(c):
    """REM_MEM_REG of the region that holds running rings: that end stops or refuses; nothing of it is touched
    afterwards, and nobody else notices."""
    B = c.good_peer()

    def run(A):
        r = A.mem.regions[0]
        A.outcome(M.REM_MEM_REG, bytes(8) + r.wire())
        A.txq().kick(force=True)
        for f in c.frames(4):
            B.send(f)
        time.sleep(0.05)
    return c.hostile(run, peer=B, proto=PLAIN_P | P.MEM_SLOTS)


# ================================================================ borders

@case(limit=20)
def regions_crossing_everything(c):
    """Frames and buffers that straddle two adjacent regions at every kind of place: header, payload, both ways, split
    and packed rings."""
    for feats in (BASIC, BASIC | F.PACKED):
        A = c.fe("a", feats, mem=spread_memory(3, unaligned=False, contiguous=(1, 2)), rx=[])
        B = c.fe("b", feats)
        for r in A.mem.regions[1:]:
            r.brk = max(r.brk, 0x20000)
            cross_border(c, A, B, r.gpa)
        c.clean(A, B)


@case()
def regions_ring_crossing(c):
    """The descriptor table, the available and the used ring straddle two adjacent regions: works or is refused, and
    touches nothing else."""
    def run(A):
        q = A.txq()
        border = A.mem.regions[1].gpa
        A.get_vring_base(q)
        q.desc, q.avail, q.used = border - 256, border + 8192 - 4096, border - 8192
        A.vring_num(q)
        A.vring_base(q, 0)
        got = A.outcome(M.SET_VRING_ADDR, q.addr_payload())
        A.vring_kick(q)
        q.kick(force=True)
        A.vring_enable(q, True)
        time.sleep(0.02)
        return got
    return c.hostile(run, mem=spread_memory(2, unaligned=False, contiguous=(1,)), rx=[])


@case()
def indirect_table_crossing(c):
    """An indirect table that straddles two adjacent regions (libvhost-user, 2026): followed rightly, or refused."""
    for feats in (BASIC | F.INDIRECT, BASIC | F.INDIRECT | F.PACKED):
        A = c.fe("a", feats, mem=spread_memory(2, unaligned=False, contiguous=(1,)), rx=[])
        B = c.fe("b")
        border = A.mem.regions[1].gpa
        A.mem.regions[1].brk = 0x10000
        for back in (16, 8, 1, 20, 48):
            f = c.frames(1)[0]
            data = bytes(12) + f
            a = A.mem.alloc(len(data))
            A.mem.write(a, data)
            q = A.txq()
            tab, n = q.indirect_table([(a, 12, 0), (a + 12, 20, 0), (a + 32, len(data) - 32, 0)], gpa=border - back)
            raw_indirect(q, tab, n)
            q.publish()
            q.kick()
            p = B.recv(0.3)
            if p is None:
                check(A.is_closed() or q.errs(), "a table %d bytes before a border: lost without a word" % back)
                break
            check(p.data == f, "a table %d bytes before a border: garbled" % back)
            A.reap()


def raw_indirect(q, table_gpa, n):
    """A chain of one descriptor that refers to a table."""
    if q.packed:
        slot, flags = q.next_avail, D_INDIRECT | q.avail_flags()
        q.add([(table_gpa, n, 0)], [])
        q.pending[-1] = (slot, flags)
        return
    i = q.free.popleft()
    q.raw_desc(i, table_gpa, n, D_INDIRECT)
    q.raw_push(i, [], [i])


@case(limit=20)
def buffers_unaligned(c):
    """TX and RX buffers at every alignment from 0 to 63, headers included."""
    for feats in (BASIC, BASIC | F.PACKED):
        A, B = c.pair(feats, kb={"rx": []}, ka={"rx": []})
        for shift in range(64):
            f = raw_frame(100 + shift * 23, c.rng)
            data = bytes(12) + f
            a = A.mem.alloc(4096, 64) + shift
            b = B.mem.alloc(4096, 64) + (63 - shift)
            A.mem.write(a, data)
            B.mem.write(b + 2000, b"\xC5" * B.GUARD)
            B.rxq().add([(b, 2000, 1)], [(b, 2000)])
            B.rxq().publish()
            B.rxq().kick()
            A.txq().add([(a, len(data), 0)], [])
            A.txq().publish()
            A.txq().kick()
            p = B.recv(1.0, refill=False)
            check(p is not None and p.data == f, "at alignment %d: lost or garbled" % shift)
            A.reap()
        c.clean(A, B)


@case()
def ring_unaligned(c):
    """Ring parts at addresses that break the alignment of the specification (16, 2, 4): refused, or served; no
    crash."""
    notes = []
    for part in ("desc", "avail", "used"):
        for shift in (1, 2, 8):
            def run(A, part=part, shift=shift):
                q = A.txq()
                A.get_vring_base(q)
                setattr(q, part, getattr(q, part) + shift)
                A.vring_num(q)
                A.vring_base(q, 0)
                got = A.outcome(M.SET_VRING_ADDR, q.addr_payload())
                A.vring_kick(q)
                A.vring_enable(q, True)
                q.kick(force=True)
                time.sleep(0.01)
                return got
            notes.append(c.hostile(run, settle=0.01) or "open")
    return ", ".join("%d x %s" % (notes.count(k), k) for k in sorted(set(notes)))


# ================================================================ memory that goes away

def shrink(c, build, **kw):
    """build(A) queues what lies in regions[1]; then its file is truncated, with traffic from both sides."""
    B = c.good_peer()
    mem = GuestMemory([Region(0x100000, 8 << 20), Region(0x40000000, 4 << 20)])

    def run(A):
        build(A)
        os.ftruncate(A.mem.regions[1].fd, 0)
        for q in A.queues:
            if q.index & 1:
                q.kick(force=True)
        for f in c.frames(8):
            B.send(f)
        time.sleep(0.15)
    return c.hostile(run, peer=B, mem=mem, **kw)


@case(limit=15)
def truncate_rx_buffers(c):
    """The file that holds posted RX buffers shrinks to nothing while the peer sends (cloud-hypervisor#8841)."""
    def build(A):
        A.post_rx([2048] * 32, region=A.mem.regions[1])
    return shrink(c, build, rx=[])


@case(limit=15)
def truncate_rings(c):
    """The file that holds the rings themselves shrinks to nothing, split and packed."""
    for feats in (BASIC, BASIC | F.PACKED):
        B = c.good_peer()
        mem = GuestMemory([Region(0x100000, 8 << 20), Region(0x40000000, 4 << 20)])

        def run(A, B=B):
            os.ftruncate(A.mem.regions[1].fd, 0)
            for q in A.queues:
                os.eventfd_write(q.kickfd, 1)
            for f in c.frames(8):
                B.send(f)
            time.sleep(0.15)
        c.hostile(run, feats, peer=B, mem=mem, ring_region=mem.regions[1], rx=[])


@case(limit=15)
def truncate_indirect_table(c):
    """The file that holds an indirect table shrinks to nothing."""
    def build(A):
        r = A.mem.regions[1]
        q = A.txq()
        for _ in range(16):
            a = buf(A)
            tab, n = q.indirect_table([(a, 100, 0), (a + 100, 100, 0)], region=r)
            raw_indirect(q, tab, n)
        q.publish()
    return shrink(c, build, features=BASIC | F.INDIRECT)


@case(limit=15)
def truncate_and_grow(c):
    """A file shrinks and grows again, many times, under traffic: the pages that vanished are zeros, or the end is
    dropped; nobody else notices."""
    B = c.good_peer()
    mem = GuestMemory([Region(0x100000, 8 << 20), Region(0x40000000, 4 << 20)])

    def run(A):
        r = A.mem.regions[1]
        for _ in range(20):
            os.ftruncate(r.fd, 0)
            os.ftruncate(r.fd, 4 << 20)
            for f in c.frames(4):
                A.send(f, region=r, timeout=0.1)
                B.send(f, timeout=0.5)
            B.drain_rx(0.001)
    return c.hostile(run, peer=B, mem=mem, ring_region=mem.regions[0])


@case()
def sealed_memory(c):
    """Guest memory with F_SEAL_SHRINK works like any other."""
    A, B = c.pair(ka={"mem": GuestMemory([Region(0x100000, 32 << 20, seal=True)])})
    c.both(A, B, 20)
