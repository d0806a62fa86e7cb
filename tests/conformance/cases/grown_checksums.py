"""Cases about checksums: every kind of packet and layout, completed or passed."""

from cases.impl import *          # noqa: F401,F403


def kinds(c, protocols=((TCP, "TCP"), (UDP, "UDP")), lengths=(0, 1, 2, 3, 100, 1399), **kw):
    return [("%s, %d bytes" % (name, n), dict(kw, proto=proto, payload=c.rng.randbytes(n)))
            for proto, name in protocols for n in lengths]


@case()
def csum_complete_v6(c):
    """TCP, UDP and ICMPv6 over IPv6 with a partial checksum, to a guest without GUEST_CSUM: completed."""
    return csum_complete(c, kinds(c, ((TCP, "TCP"), (UDP, "UDP"), (ICMP6, "ICMPv6")), v6=True))


@case()
def csum_complete_tagged(c):
    """The same behind one VLAN tag, and behind an 802.1ad and an 802.1Q tag (QinQ)."""
    specs = []
    for v6 in (False, True):
        specs += kinds(c, v6=v6, vlan=(0x2005,)) + kinds(c, v6=v6, vlan=(7, 0x1064), tpid=0x88A8)
    return csum_complete(c, specs)


@case()
def csum_complete_options(c):
    """The same with IPv4 options, TCP options, and IPv6 extension headers in front of the transport header."""
    specs = kinds(c, ipopts=b"\1" * 8) + kinds(c, ((TCP, "TCP"),), tcpopts=b"\1\1\x08\x0a" + bytes(8))
    specs += kinds(c, v6=True, ext=(("hop", 8),)) + kinds(c, v6=True, ext=(("hop", 16), ("route", 24), ("dst", 40)))
    return csum_complete(c, specs)


@case()
def csum_udp_zero(c):
    """A UDP checksum that comes out as 0 is sent as 0xffff (RFC 768), over IPv4 and IPv6; that of TCP is not
    changed."""
    return csum_complete(c, [("IPv%d" % (6 if v6 else 4), dict(v6=v6, proto=UDP, payload=zero_sum_payload(v6, c.rng)))
                             for v6 in (False, True)])


@case(limit=20)
def csum_layouts(c):
    """The bytes to sum, and the checksum itself, lie over descriptors of odd lengths, indirect or not, split or
    packed."""
    for feats in (BASIC, BASIC | F.INDIRECT, BASIC | F.PACKED, BASIC | F.PACKED | F.INDIRECT):
        A, B = c.pair(feats | F.CSUM, BASIC)
        for indirect in (False, True)[:2 if feats & F.INDIRECT else 1]:
            for n in (1, 64, 777, 1400):
                b = build(payload=c.rng.randbytes(n), partial=True)
                field = 12 + b.l4 + b.csum_off
                for layout in (None, [12], [field + 1], [field, 1], [field, 1, 1, 1, 1], [12, 14, 20, 20],
                               [7, 5, 1, 13, 3, 17, 1, 19]):
                    A.send(b.frame, csum_hdr(b), layout=layout, indirect=indirect)
                    expect_complete(B.recv(0.5), b, "%s, %d bytes, layout %r" % (bit_names(F, feats), n, layout))
        c.clean(A, B)


@case()
def csum_any_position(c):
    """The checksum is where csum_start and csum_offset say, at odd positions as well, in frames of no protocol."""
    A, B = c.pair(BASIC | F.CSUM, BASIC)
    for start, offset, n in ((14, 0, 16), (15, 4, 60), (33, 1, 61), (34, 16, 1514), (14, 1498, 1514), (255, 255, 600)):
        f = bytearray(raw_frame(n, c.rng))
        at = start + offset
        f[at:at + 2] = bytes(2)
        want = bytearray(f)
        # The sum counts from csum_start, wherever that is.
        want[at:at + 2] = netpkt.csum(bytes(f[start:])).to_bytes(2, "big")
        A.send(bytes(f), Hdr(flags=1, csum_start=start, csum_offset=offset))
        p = B.recv(0.5)
        check(p is not None, "csum %d+%d in %d bytes: nothing arrived" % (start, offset, n))
        check(p.data == bytes(want), "csum %d+%d in %d bytes: wrong" % (start, offset, n))


@case()
def csum_small_buffers(c):
    """Completed checksums into mergeable buffers of 61 bytes, and into chains of odd pieces without MRG_RXBUF."""
    for feats, rx in ((BASIC, [61] * 200), (BASIC & ~F.MRG_RXBUF, [(5, 7, 30, 9, 1600)] * 40)):
        A, B = c.pair(BASIC | F.CSUM, feats, kb={"rx": rx})
        for n in (0, 5, 300, 1399):
            b = build(payload=c.rng.randbytes(n), partial=True)
            A.send(b.frame, csum_hdr(b))
            expect_complete(B.recv(0.5), b, "%d bytes" % n)
        c.clean(A, B)


@case()
def csum_pass_all_kinds(c):
    """Every kind of packet with a partial checksum, to a guest with GUEST_CSUM: passed as it is, or completed."""
    A, B = c.pair(BASIC | F.CSUM, BASIC | F.GUEST_CSUM)
    for kw in (dict(v6=True), dict(vlan=(5,)), dict(v6=True, vlan=(5, 6), tpid=0x88A8),
               dict(v6=True, ext=(("dst", 8),)),
               dict(ipopts=b"\1" * 12)):
        for proto in (TCP, UDP):
            b = build(proto=proto, payload=c.rng.randbytes(321), partial=True, **kw)
            A.send(b.frame, csum_hdr(b))
            expect_partial_or_full(B.recv(0.5), b, repr(kw))
    c.clean(A, B)


@case()
def csum_both_ways(c):
    """Guests with different offloads: what A asks for is done for B, and what B sends to A passes, frame by frame."""
    A, B = c.pair(BASIC | F.CSUM | F.GUEST_CSUM, BASIC | F.CSUM)
    for i in range(30):
        b = build(proto=(TCP, UDP)[i & 1], payload=c.rng.randbytes(30 + i), partial=True)
        A.send(b.frame, csum_hdr(b))
        expect_complete(B.recv(0.5), b, "to the plain guest")
        B.send(b.frame, csum_hdr(b))
        expect_partial_or_full(A.recv(0.5), b, "to the guest with GUEST_CSUM")
    c.clean(A, B)


@case()
def csum_edge_of_frame(c):
    """csum_start + csum_offset + 2 is just the end of the frame (good), and one more (CVE-2024-11614: malformed)."""
    A, B = c.pair(BASIC | F.CSUM, BASIC)
    for n in (60, 61, 1514):
        for start in (14, n - 2):
            f = bytearray(raw_frame(n, c.rng))
            f[n - 2:] = bytes(2)
            A.send(bytes(f), Hdr(flags=1, csum_start=start, csum_offset=n - 2 - start))
            p = B.recv(0.5)
            check(p is not None and p.data[:n - 2] == bytes(f[:n - 2]) and len(p.data) == n,
                  "the last two bytes of %d as checksum: lost or changed" % n)
            if n % 2 == 0:
                check(netpkt.ones_sum(p.data[start:]) == 0xFFFF, "the sum over the frame does not come out")
            A.send(bytes(f), Hdr(flags=1, csum_start=start, csum_offset=n - 1 - start))
            p = B.recv(0.1)
            check(p is None or not p.hdr.flags & 1, "a checksum beyond the frame was asked of the receiver")
            c.both(A, B, 2, "after a bad request: ")


@case()
def header_flags_filtered(c):
    """DATA_VALID only reaches a guest with GUEST_CSUM; flags and fields that nobody negotiated reach no guest."""
    for guest in (0, F.GUEST_CSUM):
        A, B = c.pair(BASIC | F.CSUM, BASIC | guest)
        for flags in (2, 4, 0xFE, 0x80):
            f = c.frames(1)[0]
            A.send(f, Hdr(flags=flags, hdr_len=77, csum_start=99, csum_offset=3, num_buffers=9))
            p = B.recv(0.5)
            check(p is not None and p.data == f, "flags %#x: lost or changed" % flags)
            allowed = 2 if guest else 0
            check(p.hdr.flags & ~allowed == 0, "flags %#x reached the guest as %#x" % (flags, p.hdr.flags))
            check(p.hdr.num_buffers == p.nbufs and p.hdr.gso_type == 0, "header %r" % (p.hdr,))
        c.clean(A, B)


@case(limit=15)
def csum_header_flipped(c):
    """The guest flips csum_start, csum_offset, flags and gso_type of a header while it is read (CVE-2024-11614: read
    once): whatever comes out, nothing asks for a checksum outside of its frame, and the process lives."""
    A, B = c.pair(BASIC | F.CSUM | F.HOST_TSO4, BASIC | F.GUEST_CSUM | F.GUEST_TSO4)
    data = bytearray(12 + 300)
    slots = [A.mem.alloc(512) for _ in range(32)]

    def flip():
        values = [Hdr(flags=1, csum_start=20, csum_offset=6).pack(),
                  Hdr(flags=1, csum_start=0xFFFF, csum_offset=0xFFFF).pack(),
                  Hdr(flags=1, gso_type=1, gso_size=100, csum_start=34, csum_offset=16, hdr_len=54).pack(), bytes(12)]
        end = time.monotonic() + 2.5
        while time.monotonic() < end:
            for v in values:
                for a in slots:
                    A.mem.write(a, v)
    for a in slots:
        A.mem.write(a, bytes(data))
    pid = in_child(flip)
    bad = []
    end = time.monotonic() + 2.0
    while time.monotonic() < end:
        for a in slots:
            if len(A.txq().free) > 1:
                A.txq().add([(a, len(data), 0)], [])
        A.txq().publish()
        A.txq().kick()
        A.reap()
        for p in B.recv_all(32, 0.0):
            if p.hdr.flags & 1 and p.hdr.csum_start + p.hdr.csum_offset + 2 > len(p.data):
                bad.append(repr(p.hdr))
    reap_child(pid)
    check(not bad, "passed on: %s" % bad[:2])
    c.lives()
    check(A.tx_drain(1.5), "the ring stands still")
    B.drain_rx(0.05)
    c.both(A, B, 8)
