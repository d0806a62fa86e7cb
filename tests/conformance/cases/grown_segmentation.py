"""Cases about segmentation: TCP behind everything, ECN, datagrams (USO), fragments (UFO), and passing whole."""

from cases.impl import *          # noqa: F401,F403
from netpkt import judge_datagrams, judge_fragments


@case()
def gso_tagged(c):
    """TSO behind a VLAN tag and behind two (QinQ), IPv4 and IPv6, to a plain guest: every segment has the tags."""
    for v6 in (False, True):
        gso_sw(c, v6, 1400, [14001], vlan=(0x2005,))
        gso_sw(c, v6, 1400, [14001], vlan=(0x2005, 9), tpid=0x88A8)


@case()
def gso_options(c):
    """TSO with IPv4 options and TCP options, and TSO6 behind extension headers: every segment has them."""
    gso_sw(c, False, 1300, [9001], ipopts=b"\1" * 12, tcpopts=b"\1\1\x08\x0a" + bytes(8))
    gso_sw(c, True, 1300, [9001], ext=(("hop", 8), ("dst", 24)))
    gso_sw(c, True, 1300, [9001], ext=(("hop", 16), ("route", 24), ("dst", 256)), tcpopts=b"\1" * 40)


@case()
def gso_edges_of_size(c):
    """Payloads of exactly one, two and 44 segments, one byte more, one byte less, and of one byte."""
    gso_sw(c, False, 1448, [1, 1447, 1448, 1449, 2895, 2896, 2897, 44 * 1448, 44 * 1448 + 1])
    gso_sw(c, True, 1428, [1, 1427, 1428, 1429, 45 * 1428])


@case()
def gso_odd_segments(c):
    """gso_size 1001 and 537: the payload of every other segment starts at an odd place of the frame."""
    gso_sw(c, False, 1001, [10010, 5003])
    gso_sw(c, True, 537, [10010, 5003])


@case()
def gso_ecn_segmented(c):
    """TSO with ECN (CWR set) to a plain guest: CWR in the first segment only, ECE and FIN where they belong."""
    for v6 in (False, True):
        gso_sw(c, v6, 1400, [9001], host=F.HOST_ECN, fa=F.HOST_ECN, flags=ACK | PSH | CWR | ECE)
        gso_sw(c, v6, 1400, [9001], host=F.HOST_ECN, fa=F.HOST_ECN, flags=ACK | FIN | CWR)


@case()
def gso_ecn_receiver_without(c):
    """A receiver with GUEST_TSO4 but without GUEST_ECN: frames with ECN are cut, others pass whole."""
    A, B = c.pair(BASIC | F.CSUM | F.HOST_TSO4 | F.HOST_ECN, BASIC | F.GUEST_CSUM | F.GUEST_TSO4)
    pay = c.rng.randbytes(9001)
    fl = ACK | CWR
    b = build(payload=pay, seq=7, ipid=3, flags=fl, partial=True)
    A.send(b.frame, csum_hdr(b, GSO_TCPV4 | GSO_ECN, 1448))
    bad = judge_segments(b, pay, 7, fl, 3, 1448, B.recv_all(8, 0.25), guest_csum=True)
    check(not bad, "; ".join(bad[:3]))
    b = build(payload=pay, flags=ACK, partial=True)
    A.send(b.frame, csum_hdr(b, GSO_TCPV4, 1448))
    p = B.recv(0.5)
    check(p is not None and p.data == b.frame and p.hdr.gso_type == GSO_TCPV4, "without ECN it does not pass whole")
    c.clean(A, B)


@case()
def gso_ecn_passed(c):
    """TSO with ECN to a guest with GUEST_ECN passes whole, its gso_type unchanged."""
    for v6 in (False, True):
        gso_pass(c, v6, 1400, (3000, 40000), fa=F.HOST_ECN, fb=F.GUEST_ECN, flags=ACK | CWR)


@case()
def gso6_passed_whole(c):
    """TSO6 to a guest with GUEST_TSO6: one frame, also behind tags and extension headers."""
    gso_pass(c, True, 1428, (4000, 60000))
    gso_pass(c, True, 1428, (4000, 20000), vlan=(3, 4), ext=(("dst", 8),))


@case()
def gso_family_of_the_receiver(c):
    """A receiver with GUEST_TSO4 only gets IPv6 cut, one with GUEST_TSO6 only gets IPv4 cut."""
    for v6, guest in ((True, F.GUEST_TSO4), (False, F.GUEST_TSO6)):
        gso_sw(c, v6, 1400, [9001], guest=guest | F.GUEST_CSUM)


@case()
def gso_whole_without_mergeable(c):
    """GUEST_TSO4 without MRG_RXBUF: into buffers of 65562 bytes frames pass whole."""
    need = F.CSUM | F.HOST_TSO4
    A, B = c.pair(BASIC | need, (BASIC & ~F.MRG_RXBUF) | F.GUEST_CSUM | F.GUEST_TSO4, kb={"rx": [65562] * 12})
    for n in (3000, 30000, 65535 - 40):
        b = build(payload=c.rng.randbytes(n), partial=True)
        A.send(b.frame, csum_hdr(b, GSO_TCPV4, 1448))
        p = B.recv(0.5)
        check(p is not None and p.data == b.frame, "%d bytes: lost or changed" % n)
        check(p.hdr.gso_type == GSO_TCPV4 and p.hdr.num_buffers == 1, "header %r" % (p.hdr,))
    c.clean(A, B)


@case()
def gso_small_buffers_without_mergeable(c):
    """GUEST_TSO4 without MRG_RXBUF, but buffers of 2000 bytes: a frame that does not fit one is cut (GUEST_TSO
    without MRG_RXBUF needs 64 KiB buffers)."""
    need = F.CSUM | F.HOST_TSO4
    A, B = c.pair(BASIC | need, (BASIC & ~F.MRG_RXBUF) | F.GUEST_CSUM | F.GUEST_TSO4, kb={"rx": [2000] * 100})
    pay = c.rng.randbytes(20000)
    b = build(payload=pay, seq=5, ipid=9, partial=True)
    A.send(b.frame, csum_hdr(b, GSO_TCPV4, 1448))
    bad = judge_segments(b, pay, 5, ACK | PSH, 9, 1448, B.recv_all(20, 0.25), guest_csum=True)
    check(not bad, "; ".join(bad[:3]))
    c.clean(A, B)


@case(limit=20)
def gso_layouts(c):
    """Large frames over descriptors of all kinds: header apart, headers split in odd places, pages, indirect,
    packed."""
    for feats in (BASIC, BASIC | F.INDIRECT | F.PACKED, BASIC | F.PACKED, BASIC | F.INDIRECT):
        A, B = c.pair(feats | F.CSUM | F.HOST_TSO4, BASIC, kb={"rx": [1800] * 120})
        for layout in (None, [12], [12, 54], [66], [5, 7, 14, 20, 20], [1] * 20, [30, 1, 1, 1, 60] + [4096] * 6,
                       [12 + 54 + 1447, 1, 1448, 2896]):
            pay = c.rng.randbytes(20001)
            b = build(payload=pay, seq=5, ipid=9, partial=True)
            A.send(b.frame, csum_hdr(b, GSO_TCPV4, 1448), layout=layout, indirect=bool(feats & F.INDIRECT))
            bad = judge_segments(b, pay, 5, ACK | PSH, 9, 1448, B.recv_all(14, 0.4))
            check(not bad, "%s, layout %r: %s" % (bit_names(F, feats), layout, "; ".join(bad[:3])))
        c.clean(A, B)


@case()
def gso_legacy_headers(c):
    """A sender and a receiver from before virtio 1.0, with headers of 10 bytes: segments, and whole frames."""
    legacy = F.PROTO | F.ANY_LAYOUT
    need = F.CSUM | F.HOST_TSO4
    A, B = c.pair(legacy | need, legacy, kb={"rx": [1600] * 100})
    check(A.hlen == 10 and B.hlen == 10, "harness: not legacy")
    pay = c.rng.randbytes(20001)
    b = build(payload=pay, seq=5, ipid=9, partial=True)
    A.send(b.frame, csum_hdr(b, GSO_TCPV4, 1448))
    bad = judge_segments(b, pay, 5, ACK | PSH, 9, 1448, B.recv_all(14, 0.3))
    check(not bad, "; ".join(bad[:3]))
    B = c.fe("b", legacy | F.GUEST_CSUM | F.GUEST_TSO4, rx=[65560] * 10)
    A.send(b.frame, csum_hdr(b, GSO_TCPV4, 1448))
    p = B.recv(0.5)
    check(p is not None and p.data == b.frame and p.hdr.gso_type == GSO_TCPV4, "the whole frame does not arrive")
    c.clean(A, B)


@case(limit=20)
def gso_many_in_a_row(c):
    """200 large frames to a plain guest with a small ring: nothing is lost, nothing comes twice, all in order."""
    A, B = c.pair(BASIC | F.CSUM | F.HOST_TSO4, BASIC, kb={"rx": [1700] * 60, "size": 64})
    seq = 1
    for i in range(200):
        pay = c.rng.randbytes(c.rng.randint(1500, 30000))
        b = build(payload=pay, seq=seq, ipid=i, partial=True)
        A.send(b.frame, csum_hdr(b, GSO_TCPV4, 1448))
        count = (len(pay) + 1447) // 1448
        bad = judge_segments(b, pay, seq, ACK | PSH, i, 1448, B.recv_all(count, 1.0))
        check(not bad, "frame %d: %s" % (i, "; ".join(bad[:3])))
        seq += len(pay)
    c.clean(A, B)


@case(limit=15)
def gso_ring_smaller_than_frame(c):
    """A large frame that becomes more segments than the receiver's ring has buffers: it may be lost in part, but the
    ring goes on, and what comes is right."""
    A, B = c.pair(BASIC | F.CSUM | F.HOST_TSO4, BASIC, kb={"rx": [1700] * 8, "size": 8})
    b = build(payload=c.rng.randbytes(60000), partial=True)
    for _ in range(4):
        A.send(b.frame, csum_hdr(b, GSO_TCPV4, 1448))
        check(A.tx_drain(2.0), "the frame is never given back")
        for p in B.recv_all(64, 0.1):
            check(Parsed(p.data).l4_ok, "a segment has a wrong checksum")
    c.both(A, B, 6, "afterwards: ")


@case()
def uso_to_plain_guest(c):
    """USO, IPv4 and IPv6, tagged or not, to guests without GUEST_USO: datagrams of gso_size with lengths and
    checksums of their own."""
    for v6 in (False, True):
        for guest in (0, F.GUEST_CSUM | F.GUEST_TSO4 | F.GUEST_TSO6, F.GUEST_CSUM | F.GUEST_UFO):
            A, B = c.pair(BASIC | F.CSUM | F.HOST_USO, BASIC | guest)
            for n, gso, kw in ((10000, 1400, {}), (1400, 1400, {}), (4201, 1400, dict(vlan=(5,))), (9000, 1001, {})):
                pay = c.rng.randbytes(n)
                b = build(v6=v6, proto=UDP, payload=pay, ipid=0xFFFE, partial=True, **kw)
                A.send(b.frame, csum_hdr(b, GSO_UDP_L4, gso))
                bad = judge_datagrams(b, pay, 0xFFFE, gso, B.recv_all((n + gso - 1) // gso + 1, 0.2))
                check(not bad, "IPv%d, %d bytes: %s" % (6 if v6 else 4, n, "; ".join(bad[:3])))
            c.clean(A, B)


@case()
def uso_passed_whole(c):
    """USO to a guest with GUEST_USO4 and GUEST_USO6: one frame with its header."""
    A, B = c.pair(BASIC | F.CSUM | F.HOST_USO, BASIC | F.GUEST_CSUM | F.GUEST_USO4 | F.GUEST_USO6)
    for v6 in (False, True):
        b = build(v6=v6, proto=UDP, payload=c.rng.randbytes(20000), partial=True)
        A.send(b.frame, csum_hdr(b, GSO_UDP_L4, 1400))
        p = B.recv(0.5)
        check(p is not None and p.data == b.frame, "lost or changed")
        check(p.hdr.gso_type == GSO_UDP_L4 and p.hdr.gso_size == 1400 and p.hdr.flags & 1, "header %r" % (p.hdr,))
    c.clean(A, B)


@case()
def ufo_to_plain_guest(c):
    """UFO, IPv4 and IPv6, tagged or not, to a guest without GUEST_UFO: IP fragments of one datagram with a whole
    checksum."""
    for v6 in (False, True):
        A, B = c.pair(BASIC | F.CSUM | F.HOST_UFO, BASIC)
        for n, gso, kw in ((10000, 1448, {}), (60000, 1448, {}), (4000, 1024, dict(vlan=(5, 6))), (1441, 1448, {})):
            b = build(v6=v6, proto=UDP, payload=c.rng.randbytes(n), ipid=77, df=False, partial=True, **kw)
            A.send(b.frame, csum_hdr(b, GSO_UDP, gso))
            bad = judge_fragments(b, gso, B.recv_all((n + 8 + gso - 1) // gso + 1, 0.2))
            check(not bad, "IPv%d, %d bytes: %s" % (6 if v6 else 4, n, "; ".join(bad[:3])))
        c.clean(A, B)


@case()
def ufo_passed_whole(c):
    """UFO to a guest with GUEST_UFO: one frame with its header."""
    A, B = c.pair(BASIC | F.CSUM | F.HOST_UFO, BASIC | F.GUEST_CSUM | F.GUEST_UFO)
    b = build(proto=UDP, payload=c.rng.randbytes(20000), partial=True)
    A.send(b.frame, csum_hdr(b, GSO_UDP, 1448))
    p = B.recv(0.5)
    check(p is not None and p.data == b.frame and p.hdr.gso_type == GSO_UDP, "lost, changed or cut")
    c.clean(A, B)


@case(limit=20)
def gso_lies_everywhere(c):
    """Hostile GSO of every type: lengths of IP, TCP and UDP headers that lie, extension headers that run out of the
    frame, csum_start elsewhere, headers only, one descriptor per byte. No crash; the next good frame is cut right."""
    A, B = c.pair(BASIC | F.CSUM | F.HOST_TSO4 | F.HOST_TSO6 | F.HOST_UFO | F.HOST_USO | F.HOST_ECN, BASIC)
    kinds = [(GSO_TCPV4, build(payload=bytes(3000), partial=True)),
             (GSO_TCPV6, build(v6=True, payload=bytes(3000), partial=True)),
             (GSO_UDP, build(proto=UDP, payload=bytes(3000), partial=True)),
             (GSO_UDP_L4, build(v6=True, proto=UDP, ext=(("hop", 8),), payload=bytes(3000), partial=True)),
             (GSO_TCPV4, build(vlan=(1, 2), payload=bytes(3000), partial=True))]
    for t, b in kinds:
        for _ in range(60):
            f = bytearray(b.frame)
            for _ in range(c.rng.randint(1, 4)):
                f[c.rng.randrange(12, b.hdr_len)] = c.rng.choice((0, 0xFF, 0x4F, 6, 17, 44, c.rng.randrange(256)))
            h = csum_hdr(b, t | c.rng.choice((0, 0, GSO_ECN)), c.rng.choice((1, 8, 100, 1448, 0xFFFF)))
            if c.rng.random() < 0.3:
                h.csum_start = c.rng.choice((0, 14, b.l4 + 1, b.hdr_len, len(f) - 2))
            cut = len(f) if c.rng.random() < 0.7 else c.rng.randrange(14, b.hdr_len + 1)
            A.send(bytes(f[:cut]), h, layout=c.rng.choice((None, [12], [1] * 60)), timeout=2.0)
            B.recv_all(64, 0.0)
        c.lives()
    check(A.tx_drain(2.0), "the ring stands still")
    B.drain_rx(0.1)
    pay = c.rng.randbytes(9000)
    b = build(payload=pay, seq=1, ipid=1, partial=True)
    A.send(b.frame, csum_hdr(b, GSO_TCPV4, 1448))
    bad = judge_segments(b, pay, 1, ACK | PSH, 1, 1448, B.recv_all(7, 0.3))
    check(not bad, "; ".join(bad[:3]))
