"""Cases about checksums and segmentation.

Every docstring names the public bug (or the rule) behind the case and the right outcome.
"""

from cases.impl import *          # noqa: F401,F403


# ================================================================ checksum offload

@case()
def csum_start_beyond(c):
    """NEEDS_CSUM with csum_start behind the end of the frame (CVE-2024-11614).  No crash; what B
    gets never asks for a checksum outside of the frame."""
    bad_csum(c, [(2000, 0), (0xFFFF, 0), (300, 16), (0x8000, 0x7FFF), (299, 2)])


@case()
def csum_complete_v4(c):
    """TCP and UDP over IPv4 with a partial checksum, to a guest without GUEST_CSUM: completed, flags
    clear (passt 038c51e, VPP 564e1672917, smartos-live#814)."""
    specs = []
    for n in (0, 1, 2, 100, 1459):
        for pr, nm in ((TCP, "TCP"), (UDP, "UDP")):
            specs.append(("%s/IPv4, %d bytes" % (nm, n),
                          dict(proto=pr, payload=c.rng.randbytes(n))))
    return csum_complete(c, specs)


@case()
def csum_pass_partial(c):
    """TCP/UDP over IPv4 with a partial checksum, to a guest with GUEST_CSUM: either passed with the
    same csum_start/offset and the pseudo-header sum in place, or completed (DPDK 7316b4fd610f)."""
    c.need(F.CSUM)
    c.need(F.GUEST_CSUM, side="b")
    A, B = c.pair(BASIC | F.CSUM, BASIC | F.GUEST_CSUM)
    for pr in (TCP, UDP):
        for n in (1, 333, 1400):
            b = build(proto=pr, payload=c.rng.randbytes(n), partial=True)
            A.send(b.frame, csum_hdr(b))
            expect_partial_or_full(B.recv(0.5), b, "proto %d, %d bytes" % (pr, n))


@case()
def csum_generic_protocol(c):
    """NEEDS_CSUM is defined by csum_start and csum_offset, not by protocol: ICMPv6, and UDP inside
    a UDP tunnel (inner checksum).  Completed for a guest without GUEST_CSUM."""
    c.need(F.CSUM)
    A, B = c.pair(BASIC | F.CSUM, BASIC)
    b = build(v6=True, proto=ICMP6, payload=c.rng.randbytes(77), partial=True)
    A.send(b.frame, csum_hdr(b))
    expect_complete(B.recv(0.5), b, "ICMPv6")
    inner = build(proto=TCP, payload=c.rng.randbytes(200), partial=True)
    head = build(proto=UDP, payload=bytes(8) + inner.frame, dport=4789)
    f = bytearray(head.frame)
    f[head.l4 + 6:head.l4 + 8] = b"\0\0"              # outer UDP checksum: none
    base = head.l4 + 8 + 8
    h = Hdr(flags=1, csum_start=base + inner.l4, csum_offset=inner.csum_off)
    A.send(bytes(f), h)
    p = B.recv(0.5)
    want = bytes(f[:base]) + complete_partial(inner)
    check(p is not None, "tunnelled TCP: nothing arrived")
    check(p.data == want, "tunnelled TCP: the inner checksum was not completed as asked")


@case()
def mixed_flows_v4(c):
    """Offloaded and finished frames, tagged and untagged, and non-IP frames, shuffled, to a guest
    without GUEST_CSUM (VPP 564e1672917: the offload path ruined finished checksums)."""
    mixed_flow(c, [None, dict(proto=TCP, partial=True), dict(proto=TCP), dict(proto=UDP, partial=True),
                   dict(proto=UDP), dict(proto=TCP, partial=True, vlan=(7,)),
                   dict(proto=UDP, vlan=(7,)), dict(proto=TCP, tcpopts=b"\1" * 12, partial=True)], 96)


# ================================================================ segmentation

@case()
def gso4_to_plain_guest(c):
    """A 20000-byte TSO4 frame (gso_size 1448, not the port's MTU) to a guest without GUEST_TSO4
    (ovs-issues#321, 844a7cfa6; smartos-live#814): segments with right lengths, IP ids, sequence
    numbers, flags and checksums; every payload byte arrives."""
    gso_sw(c, False, 1448, [20000, 1449, 2896, 1000])


@case()
def gso4_largest(c):
    """The largest TSO4 frame (65535 bytes of IP, DF clear, so that the IP ids must differ) to a guest without
    GUEST_TSO4: 46 segments."""
    gso_sw(c, False, 1448, 65535 - 40, flags=ACK | PSH | FIN, df=False)


@case()
def gso4_tiny_segments(c):
    """gso_size 64 with 6000 bytes: 94 segments, more than the receiver has mergeable buffers at a time may drop, but
    what comes is right; and a guest with GUEST_CSUM but no GUEST_TSO4 gets segments too."""
    gso_sw(c, False, 64, [6000])
    gso_sw(c, False, 1448, [20000], guest=F.GUEST_CSUM)


@case()
def gso6_to_plain_guest(c):
    """TSO6 with TCP options (timestamps) to a guest without GUEST_TSO6."""
    gso_sw(c, True, 1428, [14280, 30001], tcpopts=b"\1\1\x08\x0a" + bytes(8))


@case()
def gso4_passed_whole(c):
    """TSO4 to a guest with GUEST_TSO4 and GUEST_CSUM: one frame, same gso_type, gso_size and
    checksum request."""
    gso_pass(c, False, 1448, (4000, 20000, 60000))


@case()
def gso4_into_small_buffers(c):
    """Segments into mergeable RX buffers of 300 bytes, and into 1526-byte buffers without MRG_RXBUF."""
    gso_sw(c, False, 1448, [14480, 20001], rx=[300] * 200)
    need = F.CSUM | F.HOST_TSO4
    A, B = c.pair(BASIC | need, BASIC & ~F.MRG_RXBUF, kb={"rx": [1526] * 100})
    pay = c.rng.randbytes(30000)
    b = build(payload=pay, seq=5, ipid=9, partial=True)
    A.send(b.frame, csum_hdr(b, GSO_TCPV4, 1448))
    bad = judge_segments(b, pay, 5, ACK | PSH, 9, 1448, B.recv_all(30, 0.25))
    check(not bad, "without MRG_RXBUF: " + "; ".join(bad[:3]))
    c.clean(B)


@case()
def gso_header_lies(c):
    """Hostile GSO headers: gso_size 0, hdr_len beyond the frame, TSO4 on a non-IP frame, unknown
    gso_type, IHL and data offset that lie.  No crash, no oversized frame without gso_type."""
    c.need(F.CSUM | F.HOST_TSO4)
    b = build(payload=c.rng.randbytes(6000), partial=True)
    lies = []
    for kw in (dict(gso_size=0), dict(hdr_len=0xFFFF), dict(gso_type=0x77), dict(hdr_len=3),
               dict(gso_size=1), dict(gso_size=0xFFFF), dict(gso_type=GSO_TCPV6)):
        h = csum_hdr(b, GSO_TCPV4, 1448)
        for k, v in kw.items():
            setattr(h, k, v)
        lies.append((b.frame, h))
    f = bytearray(b.frame)
    f[14] = 0x4F
    lies.append((bytes(f), csum_hdr(b, GSO_TCPV4, 1448)))
    f = bytearray(b.frame)
    f[14 + 20 + 12] = 0xF0
    lies.append((bytes(f), csum_hdr(b, GSO_TCPV4, 1448)))
    lies.append((raw_frame(6000, c.rng), csum_hdr(b, GSO_TCPV4, 1448)))
    lies.append((b.frame[:40], csum_hdr(b, GSO_TCPV4, 1448)))

    def run(A):
        for f, h in lies:
            A.send(f, h)
            time.sleep(0.005)
        time.sleep(0.05)
    return c.hostile(run, BASIC | F.CSUM | F.HOST_TSO4)
