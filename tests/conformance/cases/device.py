"""Cases about dirty logging, status, device state, queues, RARP and MTU.

Every docstring names the public bug (or the rule) behind the case and the right outcome.
"""

from cases.impl import *          # noqa: F401,F403


# ================================================================ dirty logging

@case()
def log_rx_pages(c):
    """Dirty logging switched on at run time (rust-vmm/vhost#206): every page that received data and
    every used-ring page that changed is marked."""
    c.need(F.LOG_ALL, P.LOG_SHMFD)
    A, B = c.pair(proto=PLAIN_P | P.LOG_SHMFD, kb={"rx": [2048] * 8 + [12000] * 24})
    c.both(A, B, 4)
    lg = Log(B.mem.max_gpa())
    log_on(B, lg)
    log_traffic(c, A, B, lg, hi=11000)
    return "%d pages marked" % lg.count()


@case(single=True)
def log_base_reply(c):
    """SET_LOG_BASE has a reply of its own (rust-vmm/vhost#217, cloud-hypervisor#3503: migration hung
    for ever): exactly one, whether or not need_reply is set.  16 bytes suit every front-end; other
    sizes are noted."""
    c.need(F.LOG_ALL, P.LOG_SHMFD)
    sizes = []
    for need in (False, True):
        A = c.fe("a", proto=PLAIN_P | P.LOG_SHMFD)
        lg = Log(A.mem.max_gpa())
        r = A.request(M.SET_LOG_BASE, struct.pack("=QQ", lg.size, 0), [lg.fd], need_reply=need)
        sizes.append(len(r.payload))
        try:
            extra = A.read_msg(0.1)
            raise Fail("a second reply came for SET_LOG_BASE: %r" % (extra,))
        except NoReply:
            pass
        A.sync()
        A.close()
    return "reply payload %s bytes" % sizes


# ================================================================ status, reset, device state

@case()
def status_cycle(c):
    """SET_STATUS/GET_STATUS through ACKNOWLEDGE, DRIVER, FEATURES_OK, DRIVER_OK: read back, traffic
    flows after DRIVER_OK; 0 resets, and the device can be set up again on the same connection."""
    c.need(proto=P.STATUS)
    B = c.fe("b")

    def st(fe, v):
        fe.tell(M.SET_STATUS, struct.pack("=Q", v))

    def pre(fe):
        st(fe, 0)
        st(fe, 1)
        st(fe, 3)

    def fok(fe):
        st(fe, 11)
        check(fe.u64(M.GET_STATUS) == 11, "FEATURES_OK was not kept")
    order = ["get_features", "get_proto", "set_proto", "owner", pre, "set_features", fok, "mem",
             ("num", "base", "addr", "kick", "call"), ("enable",), lambda fe: st(fe, 15)]
    A = c.fe("a", proto=PLAIN_P | P.STATUS, order=order)
    check(A.u64(M.GET_STATUS) == 15, "status reads %d" % A.u64(M.GET_STATUS))
    c.both(A, B, 8)
    bases = A.stop_rings()
    st(A, 0)
    check(A.u64(M.GET_STATUS) == 0, "status is %d after the reset" % A.u64(M.GET_STATUS))
    st(A, 3)
    A.set_features(A.features)
    st(A, 11)
    st(A, 15)
    A.restart_rings(bases)
    c.both(A, B, 8, "after the reset: ")


@case()
def device_state_save(c):
    """SET_DEVICE_STATE_FD (save) on a suspended device, read to the end, CHECK_DEVICE_STATE gives 0;
    then the rings go on."""
    c.need(proto=P.DEVICE_STATE)
    A, B = c.pair(proto=PLAIN_P | P.DEVICE_STATE)
    c.both(A, B, 8)
    bases = A.stop_rings()
    blob = device_state_read(A)
    A.restart_rings(bases)
    c.both(A, B, 8)
    return "%d bytes of state" % len(blob)


# ================================================================ in order, multi-queue, RARP

@case()
def in_order_split(c):
    """IN_ORDER on split rings: buffers come back in order (single or batched used elements), across
    many wraps."""
    c.need(F.IN_ORDER)
    A, B = c.pair(BASIC | F.IN_ORDER, size=64, rx=[1024] * 60)
    for _ in range(8):
        c.burst(A, B, c.frames(40, 60, 900), batch=20)
        c.burst(B, A, c.frames(40, 60, 900), batch=20)
    c.clean(A, B)


@case()
def mq_two_pairs(c):
    """Two queue pairs on both sides: what A sends on either TX ring comes out on some enabled RX ring
    of B, unchanged and in order within a ring."""
    c.need(F.MQ, P.MQ)
    A, B = c.pair(BASIC | F.MQ, pairs=2)
    check(A.queue_num >= 2, "GET_QUEUE_NUM says %d" % A.queue_num)
    mq_check(c, A, B, (0, 1), (0, 1))
    mq_check(c, B, A, (0, 1), (0, 1))


@case()
def rarp_after_migration(c):
    """SEND_RARP from a front-end whose guest cannot announce itself: one RARP with that MAC comes
    out at the peer."""
    c.need(proto=P.RARP)
    A, B = c.pair(proto=PLAIN_P | P.RARP)
    mac = bytes.fromhex("5254001234aa")
    A.tell(M.SEND_RARP, mac + b"\0\0")
    p = B.recv(1.0)
    check(p is not None, "no RARP came out at the peer")
    check(p.data[6:12] == mac and p.data[12:14] == b"\x80\x35", "not a RARP from that MAC")
    check(p.data[:6] == b"\xff" * 6, "the RARP is not a broadcast")
    c.both(A, B, 4)


@case(single=True)
def mtu_values(c):
    """NET_SET_MTU: 1500 and 65535 accepted; 0, 67 and 65536 refused with REPLY_ACK (the specification: non-zero if not
    valid)."""
    c.need(F.MTU, P.MTU)
    A = c.fe("a", BASIC | F.MTU, proto=PLAIN_P | P.MTU)
    for v, want in ((1500, "ok"), (65535, "ok"), (0, "nack"), (67, "nack"), (65536, "nack"), (1 << 40, "nack")):
        got = A.outcome(M.NET_SET_MTU, struct.pack("=Q", v))
        check(got == want or want == "nack" and got == "closed", "MTU %d: %s" % (v, got))
        if got == "closed":
            A.close()
            A = c.fe("a", BASIC | F.MTU, proto=PLAIN_P | P.MTU)
