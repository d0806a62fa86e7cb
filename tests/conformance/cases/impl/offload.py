"""Bodies of cases about checksums, segmentation and frames of all sizes."""

from cases.impl.words import *          # noqa: F401,F403


# ------------------------------------------------------------------ offloads

def csum_hdr(b, gso_type=0, gso_size=0):
    return Hdr(flags=1, gso_type=gso_type, hdr_len=b.hdr_len if gso_type else 0,
               gso_size=gso_size, csum_start=b.l4, csum_offset=b.csum_off)


def gso_sw(c, v6, gso, paylen, host=None, guest=0, rx=None, fa=0, pad=None, **kw):
    """One big frame from A; B has no GUEST_TSO: expect correct segments."""
    need = F.CSUM | (F.HOST_TSO6 if v6 else F.HOST_TSO4) | (host or 0)
    c.need(need)
    A, B = c.pair(BASIC | need | fa, BASIC | guest, kb={"rx": rx} if rx else None)
    check(not B.features & (F.GUEST_TSO4 | F.GUEST_TSO6) or guest, "harness: B has GUEST_TSO")
    seq = kw.pop("seq", 0xFFFFF000)
    ipid = kw.pop("ipid", 0xFFFE)
    flags = kw.pop("flags", ACK | PSH)
    bad = []
    sizes = paylen if isinstance(paylen, (list, tuple)) else [paylen]
    ecn = GSO_ECN if flags & CWR else 0
    for n in sizes:
        pay = c.rng.randbytes(n)
        b = build(v6=v6, payload=pay, seq=seq, ipid=ipid, flags=flags, partial=True, **kw)
        A.send(b.frame, csum_hdr(b, (GSO_TCPV6 if v6 else GSO_TCPV4) | ecn, gso))
        got = B.recv_all((n + gso - 1) // gso + 2, 0.25)
        msg = judge_segments(b, pay, seq, flags, ipid, gso, got, bool(guest & F.GUEST_CSUM))
        if msg:
            bad.append("%d bytes of payload: %s" % (n, "; ".join(msg[:3])))
    # Ordinary traffic must go on behind it.
    c.both(A, B, 4)
    check(not bad, " / ".join(bad[:3]))


def gso_pass(c, v6, gso, paylen, vlan=(), ext=(), fa=0, fb=0, flags=ACK | PSH, rx=None):
    """One big frame from A to a B with GUEST_TSO: expect it whole, with its header."""
    need = F.CSUM | (F.HOST_TSO6 if v6 else F.HOST_TSO4) | fa
    gneed = F.GUEST_CSUM | (F.GUEST_TSO6 if v6 else F.GUEST_TSO4) | fb
    c.need(need)
    c.need(gneed, side="b")
    A, B = c.pair(BASIC | need, BASIC | gneed, kb={"rx": rx} if rx else None)
    for n in paylen:
        pay = c.rng.randbytes(n)
        b = build(v6=v6, payload=pay, vlan=vlan, ext=ext, flags=flags, partial=True)
        t = (GSO_TCPV6 if v6 else GSO_TCPV4) | (GSO_ECN if flags & CWR else 0)
        A.send(b.frame, csum_hdr(b, t, gso))
        got = B.recv_all(50, 0.25)
        check(got, "nothing arrived")
        check(len(got) == 1, "%d frames arrived, expected the one whole frame" % len(got))
        p = got[0]
        check(p.hdr.gso_type == t, "%d bytes came as one frame with gso_type %d, sent %d"
              % (len(p.data), p.hdr.gso_type, t))
        check(p.hdr.gso_size == gso, "gso_size is %d, sent %d" % (p.hdr.gso_size, gso))
        check(p.data == b.frame, "the frame of %d bytes came out different (%d bytes)"
              % (len(b.frame), len(p.data)))
        check(p.hdr.flags & 1 and p.hdr.csum_start == b.l4 and p.hdr.csum_offset == b.csum_off,
              "checksum request lost: %r" % (p.hdr,))
        check(b.l4 <= p.hdr.hdr_len <= len(b.frame) or p.hdr.hdr_len == b.hdr_len,
              "hdr_len is %d" % p.hdr.hdr_len)
    c.clean(A, B)


def expect_complete(p, b, what):
    want = complete_partial(b)
    check(p is not None, "%s: nothing arrived" % what)
    check(p.hdr.flags == 0 and p.hdr.gso_type == 0,
          "%s: header %r towards a receiver without offloads" % (what, p.hdr))
    if p.data != want:
        if p.data == b.frame:
            raise Fail("%s: the checksum was not completed" % what)
        pw, pg = Parsed(want), Parsed(p.data)
        raise Fail("%s: frame differs%s" % (what, " (checksum %#x, expected %#x)" % (
            getattr(pg, "c", -1), getattr(pw, "c", -1)) if len(want) == len(p.data) else
            ", %d bytes instead of %d" % (len(p.data), len(want))))


def csum_complete(c, specs, guest_feats=BASIC):
    """specs: list of (label, kwargs of build)."""
    c.need(F.CSUM)
    A, B = c.pair(BASIC | F.CSUM, guest_feats)
    bad = []
    for label, kw in specs:
        b = build(partial=True, **kw)
        A.send(b.frame, csum_hdr(b))
        p = B.recv(0.4)
        try:
            expect_complete(p, b, label)
        except Fail as e:
            bad.append(str(e))
            B.drain_rx(0.02)
    c.clean(A, B)
    check(not bad, " / ".join(bad[:4]))
    return "%d kinds" % len(specs)


def zero_sum_payload(v6, rng, n=64):
    """A UDP payload for which the checksum comes out as zero (must be sent as 0xffff)."""
    pay = bytearray(rng.randbytes(n))
    pay[:2] = b"\0\0"
    b = build(v6=v6, proto=UDP, payload=bytes(pay), partial=True)
    c = netpkt.csum(bytes(b.frame[b.l4:]))
    pay[:2] = c.to_bytes(2, "big")
    b = build(v6=v6, proto=UDP, payload=bytes(pay), partial=True)
    assert netpkt.csum(bytes(b.frame[b.l4:])) == 0
    return bytes(pay)


def expect_partial_or_full(p, b, what):
    check(p is not None, "%s: nothing arrived" % what)
    if p.hdr.flags & 1:
        check(p.data == b.frame, "%s: frame with NEEDS_CSUM came out different" % what)
        check((p.hdr.csum_start, p.hdr.csum_offset) == (b.l4, b.csum_off),
              "%s: csum_start/offset are %d/%d, sent %d/%d" % (
                  what, p.hdr.csum_start, p.hdr.csum_offset, b.l4, b.csum_off))
    else:
        check(p.data == complete_partial(b), "%s: neither a partial nor a right checksum" % what)
    check(p.hdr.gso_type == 0, "%s: gso_type %d" % (what, p.hdr.gso_type))


def mixed_flow(c, specs, n, guest=0):
    """Frames with and without offloads, shuffled, in bursts; every one judged."""
    c.need(F.CSUM)
    A, B = c.pair(BASIC | F.CSUM, BASIC | guest)
    todo = []
    for i in range(n):
        kind = specs[i % len(specs)]
        if kind is None:
            todo.append((None, raw_frame(c.rng.randint(60, 1514), c.rng)))
            continue
        kw = dict(kind)
        kw.setdefault("payload", c.rng.randbytes(c.rng.randint(1, 1300)))
        todo.append((kw, build(**kw)))
    c.rng.shuffle(todo)
    bad = []
    for i in range(0, len(todo), 16):
        part = todo[i:i + 16]
        for kw, x in part:
            if kw is None:
                A.send(x, publish=False)
            else:
                A.send(x.frame, csum_hdr(x) if kw.get("partial") else None, publish=False)
        A.flush()
        got = B.recv_all(len(part), 0.5)
        check(len(got) == len(part), "%d of %d frames arrived" % (len(got), len(part)))
        for (kw, x), p in zip(part, got):
            try:
                if kw is None:
                    check(p.data == x and p.hdr.flags & 1 == 0, "plain frame changed")
                elif not kw.get("partial"):
                    check(p.data == x.frame, "a frame with a finished checksum was changed: %r"
                          % ({k: v for k, v in kw.items() if k != "payload"},))
                    check(not p.hdr.flags & 1, "NEEDS_CSUM on a finished frame")
                elif guest & F.GUEST_CSUM:
                    expect_partial_or_full(p, x, repr({k: v for k, v in kw.items()
                                                       if k != "payload"}))
                else:
                    expect_complete(p, x, repr({k: v for k, v in kw.items() if k != "payload"}))
            except Fail as e:
                bad.append(str(e))
    c.clean(A, B)
    check(not bad, "%d of %d wrong: %s" % (len(bad), n, " / ".join(bad[:3])))


# ------------------------------------------------------------------ frame sizes

def sizes_case(c, sizes, feats=BASIC, rx=None, layouts=(None,), feats_b=None, size=256,
               both=True, chunk=6, indirect=False):
    """Every size in both directions, one content each."""
    A, B = c.pair(feats, feats_b, rx=rx, size=size)
    bad = []
    for src, dst, way in ((A, B, "A to B"), (B, A, "B to A"))[:2 if both else 1]:
        for i in range(0, len(sizes), chunk):
            fr = [raw_frame(n, c.rng) for n in sizes[i:i + chunk]]
            for k, f in enumerate(fr):
                lay = layouts[(i + k) % len(layouts)]
                src.send(f, layout=lay, publish=False, indirect=indirect)
            src.flush()
            got = [p.data for p in dst.recv_all(len(fr), 0.6)]
            if got != fr:
                lost = [len(f) for f in fr if f not in got]
                alien = [len(g) for g in got if g not in fr]
                bad.append("%s: sizes %s lost%s" % (way, lost, ", wrong frames of %s came" % alien
                                                    if alien else ""))
                dst.drain_rx(0.02)
            if not src.tx_drain(1.0):
                raise Fail("%s: TX chain of size %s never given back" % (way, sizes[i:i + chunk]))
    c.clean(A, B)
    check(not bad, "; ".join(bad[:4]))
    return "%d sizes, both ways" % len(sizes)


def ranges(*parts):
    out = []
    for p in parts:
        if isinstance(p, tuple):
            out.extend(range(*p))
        else:
            out.append(p)
    return out
