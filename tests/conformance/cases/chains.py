"""Cases about ring geometry, descriptor chains and the layout of headers.

Every docstring names the public bug (or the rule) behind the case and the right outcome.
"""

from cases.impl import *          # noqa: F401,F403


# ================================================================ ring geometry

@case(single=True)
def ring_size_bad(c):
    """SET_VRING_NUM with 0, 3, 100, 32769, 65536 and 0xffffffff on a split ring: refused or
    closed; the specification allows powers of two up to 32768."""
    msgs = [("size %d" % n, M.SET_VRING_NUM, struct.pack("=II", 1, n), (), {})
            for n in (0, 3, 100, 32769, 65536, 0xFFFFFFFF)]
    return dubious(c, msgs)


@case(limit=15)
def ring_size_edges(c):
    """Legal but unusual sizes: 32768, 2 and 4 on split rings, 100 and 7 (no power of two) on packed rings.
    Frames flow."""
    notes = []
    for size, packed in ((32768, 0), (4, 0), (2, 0), (100, 1), (7, 1)):
        if packed and not c.has(F.PACKED):
            notes.append("no packed rings")
            continue
        A, B = c.pair(BASIC | (F.PACKED if packed else 0), size=size,
                      rx=[2048] * min(60, size))
        for k in range(12):
            c.burst(A, B, c.frames(1 if size < 16 else 8), what="size %d, out: " % size)
            c.burst(B, A, c.frames(1 if size < 16 else 8), what="size %d, in: " % size)
        A.close()
        B.close()
    return ", ".join(notes)


@case(single=True)
def ring_address_outside(c):
    """Ring parts at addresses outside of guest memory, at 0, or with the last byte beyond the end
    of a region (CVE-2018-1059), then KICK and ENABLE and kicks.  No crash; a new front-end works."""
    def at(which, where):
        def run(A):
            q = A.txq()
            r = A.mem.regions[0]
            ok = {"desc": q.desc, "used": q.used, "avail": q.avail}
            u = {k: A.mem.uaddr(v) for k, v in ok.items()}
            u[which] = {"zero": 0, "below": r.uaddr - 4096, "beyond": r.uaddr + r.size,
                        "end": r.uaddr + r.size - 16, "last": r.uaddr + r.size - 4}[where]
            A.get_vring_base(q)
            A.vring_num(q)
            A.vring_base(q, 0)
            A.tell(M.SET_VRING_ADDR, struct.pack("=IIQQQQ", 1, 0, u["desc"], u["used"],
                                                 u["avail"], 0), check=False)
            A.vring_kick(q)
            A.vring_call(q)
            A.vring_enable(q, True)
            q.kick(force=True)
            time.sleep(0.02)
            A.sync()
        return run
    notes = []
    for which in ("desc", "used", "avail"):
        for where in ("zero", "below", "beyond", "end", "last"):
            notes.append(c.hostile(at(which, where), settle=0.01) or "open")
    return ", ".join("%d x %s" % (notes.count(k), k) for k in sorted(set(notes)))


# ================================================================ descriptor chains (TX)

@case()
def chain_loop(c):
    """A TX chain that bites its own tail (self loop, and a loop of three): the port stops or drops
    it, without spinning for ever (DPDK 6ec1778134, CVE-2022-2132)."""
    r = []
    r.append(c.raw_chain_case(lambda A: tx_desc(A, [(buf(A), 100, D_NEXT, 0)])))
    r.append(c.raw_chain_case(lambda A: tx_desc(A, [(buf(A), 50, D_NEXT, 1),
                                                     (buf(A), 50, D_NEXT, 2),
                                                     (buf(A), 50, D_NEXT, 0)])))
    return " / ".join(x or "" for x in r)


@case()
def chain_next_out_of_range(c):
    """next points beyond the descriptor table (256, 0x7fff, 0xffff): no access there, frame
    dropped or ring stopped (VPP 95827e43076: recovers after a new set-up)."""
    r = [c.raw_chain_case(lambda A, n=n: tx_desc(A, [(buf(A), 100, D_NEXT, n)]))
         for n in (256, 0x7FFF, 0xFFFF)]
    return " / ".join(x or "" for x in r)


@case()
def chain_zero_length(c):
    """Zero-length descriptors: alone, first, in the middle, last (CVE-2020-10725).  No crash; what
    comes out, if anything, is the frame itself."""
    f = raw_frame(300, c.rng)
    d = bytes(12) + f
    r = []
    for cut in ((), (0,), (12, 0), (100, 0, 0), (312, 0)):
        def run(A, cut=cut):
            if not cut:
                tx_desc(A, [(buf(A), 0, 0, 0)])
                return []
            pos, segs = 0, []
            for n in cut:
                segs.append(d[pos:pos + n])
                pos += n
            segs.append(d[pos:])
            a = [buf(A, 400) for _ in segs]
            descs = []
            for i, s in enumerate(segs):
                A.mem.write(a[i], s) if s else None
                descs.append((a[i], len(s), D_NEXT if i + 1 < len(segs) else 0, i + 1))
            tx_desc(A, descs)
            return [f]
        r.append(c.raw_chain_case(run, probe=False))
    return None


@case()
def chain_huge_length(c):
    """A descriptor of 0xffffffff bytes, and one that runs past the end of its region
    (CVE-2018-1059: only the start was translated).  Nothing of it comes out."""
    def end(A):
        r = A.mem.regions[0]
        tx_desc(A, [(r.end - 64, 4096, 0, 0)])
    r = [c.raw_chain_case(lambda A: tx_desc(A, [(buf(A), 0xFFFFFFFF, 0, 0)])),
         c.raw_chain_case(end)]
    return " / ".join(x or "" for x in r)


@case()
def chain_address_outside(c):
    """Descriptor addresses in no region: 0, a user address, between two regions, the top of the
    address space (snabb#574: fatal).  Port-local error; the peer is unharmed."""
    r = []
    for addr in (0, None, 0x90000000, 0xFFFFFFFFFFFFF000):
        r.append(c.raw_chain_case(lambda A, a=addr: tx_desc(
            A, [(A.mem.regions[0].uaddr + 0x8000 if a is None else a, 100, 0, 0)])))
    return " / ".join(x or "" for x in r)


@case()
def avail_head_out_of_range(c):
    """The available ring names heads 256 and 0xffff on a ring of 256: not followed."""
    r = [c.raw_chain_case(lambda A, h=h: tx_desc(A, [(buf(A), 100, 0, 0)], head=h))
         for h in (256, 0xFFFF)]
    return " / ".join(x or "" for x in r)


@case()
def tx_chain_writable(c):
    """A TX chain of device-writable descriptors only (guest error): nothing is written to them, no
    crash, and if anything comes out it is what the guest had put there."""
    def run(A):
        a = buf(A, 300)
        A.mem.write(a, bytes(12) + b"\x66" * 288)
        A.keep = a
        tx_desc(A, [(a, 300, D_WRITE, 0)])
        time.sleep(0.05)
        check(A.mem.read(a, 300) == bytes(12) + b"\x66" * 288, "a TX descriptor was written to")
        return [b"\x66" * 288]
    return c.raw_chain_case(run)


# ================================================================ indirect descriptors

@case()
def indirect_good(c):
    """Well-formed indirect tables, 1 to 8 entries, header split in odd places.  All arrive."""
    c.need(F.INDIRECT)
    A, B = c.pair(BASIC | F.INDIRECT)
    for lay in (None, [12], [1, 11], [5, 7, 100], [12, 60, 60, 60], [2] * 7):
        f = raw_frame(400, c.rng)
        A.send(f, layout=lay, indirect=True)
        p = B.recv(1.0)
        check(p is not None and p.data == f, "indirect with layout %r: %s" % (
            lay, "lost" if p is None else "garbled"))
    c.clean(A, B)


@case()
def indirect_nested(c):
    """INDIRECT inside an indirect table, and INDIRECT together with NEXT: forbidden; dropped or
    ring stopped."""
    c.need(F.INDIRECT)

    def nested(A):
        inner, n = A.txq().indirect_table([(buf(A), 100, 0)])
        tab = A.mem.alloc(64)
        A.mem.write(tab, struct.pack("=QIHH", inner, n, D_INDIRECT, 0))
        tx_desc(A, [(tab, 16, D_INDIRECT, 0)])
        # taking the inner table for data is harmless: it is the guest's own memory
        return [A.mem.read(inner + 12, n - 12), b"\x77" * 88]

    def both(A):
        tab, n = A.txq().indirect_table([(buf(A), 100, 0)])
        tx_desc(A, [(tab, n, D_INDIRECT | D_NEXT, 1), (buf(A), 100, 0, 0)])
        return [b"\x77" * 88, b"\x77" * 88 + bytes(12) + b"\x77" * 88]
    r = [c.raw_chain_case(nested, BASIC | F.INDIRECT), c.raw_chain_case(both, BASIC | F.INDIRECT)]
    return " / ".join(x or "" for x in r)


@case()
def indirect_not_negotiated(c):
    """INDIRECT although the feature was not acknowledged (spdk#650: assertion): port error or
    drop, or served; no abort, no memory of the table itself in a frame."""
    def run(A):
        tab, n = A.txq().indirect_table([(buf(A, 300), 300, 0)])
        tx_desc(A, [(tab, n, D_INDIRECT, 0)])
        return [b"\x77" * 288]
    return c.raw_chain_case(run, BASIC)


# ================================================================ header layout

@case()
def header_split_many(c):
    """The 12-byte header in its own descriptor, and over 2 to 12 descriptors (passt 1b95bd6:
    assertion; CVE-2022-2132).  Every frame arrives."""
    c.need(F.VERSION_1)
    A, B = c.pair()
    for lay in ([12], [6, 6], [1] * 12, [4, 4, 4], [10, 2], [11, 1], [1, 11], [3] * 4):
        f = raw_frame(200, c.rng)
        A.send(f, layout=lay)
        p = B.recv(1.0)
        check(p is not None and p.data == f, "header laid out as %r: frame %s" % (
            lay, "lost" if p is None else "garbled"))


@case()
def header_split_odd(c):
    """The header shares descriptors with the payload in odd ways, with indirect tables and packed rings
    where offered (passt 1b95bd6)."""
    for feats in (BASIC, BASIC | F.PACKED, BASIC | F.INDIRECT, BASIC | F.PACKED | F.INDIRECT):
        if not c.has(feats):
            continue
        A, B = c.pair(feats)
        for ind in (False, True)[:2 if feats & F.INDIRECT else 1]:
            for lay in ([5], [13], [11, 2], [1, 1, 9, 3, 1], [2, 3, 5, 40], [12, 1, 1]):
                f = raw_frame(c.rng.randint(60, 1500), c.rng)
                A.send(f, layout=lay, indirect=ind)
                p = B.recv(1.0)
                check(p is not None and p.data == f, "%s, header as %r%s: frame %s" % (
                    bit_names(F, feats), lay, ", indirect" if ind else "",
                    "lost" if p is None else "garbled"))
        c.clean(A, B)
        A.close()
        B.close()


@case()
def header_short(c):
    """TX chains of 1, 11 and 12 bytes: no frame in them (CVE-2022-2132).  Given back as used,
    nothing is delivered, and the ring goes on."""
    A, B = c.pair()
    for n in (1, 11, 12):
        a = A.mem.alloc(64)
        A.mem.write(a, bytes(64))
        A.txq().add([(a, n, 0)], [])
        A.txq().publish()
        A.txq().kick()
        f = c.frames(1)[0]
        A.send(f)
        p = B.recv(0.6)
        if p is None:
            c.recovers(None)
            raise Fail("after a TX chain of %d bytes the ring stands still" % n)
        check(p.data == f, "a chain of %d bytes produced a frame of %d bytes" % (n, len(p.data)))
    check(A.tx_drain(0.5), "a too short chain is never given back")
