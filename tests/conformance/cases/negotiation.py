"""Cases about starting a device: orders of messages, features, notification descriptors.

Every docstring names the public bug (or the rule) behind the case and the right outcome.
"""

from cases.impl import *          # noqa: F401,F403


# ================================================================ negotiation

@case()
def neg_qemu_order(c):
    """QEMU's order: CALL and ERR before SET_FEATURES, back-end request fd, ENABLE last
    (rust-vmm/vhost#41, QEMU d7dc0682f5cb).  Frames flow both ways."""
    order_case(c, ORDER_QEMU_FULL)


@case()
def neg_cloud_hypervisor_order(c):
    """Cloud Hypervisor's order: SET_OWNER first, all NUM, ADDR before BASE, CALL before KICK, the
    back-end request fd last.  Frames flow."""
    order_case(c, ORDER_CH)


@case()
def neg_virtio_user_order(c):
    """DPDK virtio-user's order (CALL of all rings before SET_FEATURES, KICK last), packed where it is
    offered with base 1<<15 only: the used half of the base is 0.  Frames flow."""
    packed = c.has(F.PACKED)
    order_case(c, ORDER_VIRTIO_USER, BASIC | (F.PACKED if packed else 0),
               base=1 << 15 if packed else None)


@case()
def neg_proto_before_features(c):
    """Protocol features and SET_OWNER come before SET_FEATURES, and SET_FEATURES is sent once
    more, with the same value, as the very last message (rust-vmm/vhost#41, VPP 545866b5b31:
    the interface stayed down).  Frames flow."""
    order_case(c, ["get_features", "get_proto", "set_proto", "owner", "set_features", "mem",
                   ("num", "base", "addr", "kick", "call"), ("enable",), "set_features"])


@case()
def neg_no_protocol_bit(c):
    """A front-end from before protocol features: bit 30 is not set in SET_FEATURES, no
    SET_VRING_ENABLE is ever sent (rust-vmm/vhost#227, OVS f3ea2ad27fd).  All rings are enabled
    from the start; frames flow."""
    order_case(c, ORDER_OLD, BASIC & ~F.PROTO)


@case()
def neg_enable_before_kick(c):
    """SET_VRING_ENABLE arrives before SET_VRING_KICK (enabled/disabled and started/stopped are
    independent states).  Frames flow once the ring is started."""
    order_case(c, ["get_features", "get_proto", "set_proto", "owner", "set_features", "mem",
                   ("num", "base", "addr"), ("enable",), ("call", "kick")])


@case()
def neg_enable_index1_without_mq(c):
    """Without F_MQ the TX ring (index 1) can still be enabled (rust-vmm/vhost#34), and a
    front-end with more queues but no MQ feature does not hang the back-end (DPDK Bugzilla 1196).
    Frames flow on pair 0."""
    A, B = c.pair(BASIC, proto=P.REPLY_ACK)
    c.both(A, B, 12)


@case(limit=15)
def neg_enable_ack_means_ready(c):
    """Frames sent right after the last SET_VRING_ENABLE was acknowledged, in either direction, are all
    delivered: the acknowledgement means that the data plane has the state (QEMU d7dc0682f5cb: the first
    request was lost)."""
    c.need(proto=P.REPLY_ACK)
    B = c.fe("b")
    lost = []
    for i in range(20):
        out, back = c.frames(4), c.frames(4)

        def at_once(fe):
            for src, fr in ((fe, out), (B, back)) if i & 1 else ((B, back), (fe, out)):
                for f in fr:
                    src.send(f, publish=False)
                src.flush()
        A = c.fe("a", order=ORDER_QEMU + [at_once])
        for dst, fr, way in ((B, out, "out"), (A, back, "in")):
            got = [p.data for p in dst.recv_all(4, 0.4)]
            if got != fr:
                lost.append("round %d, %s: %d of 4" % (i, way, len(got)))
        A.close()
        B.drain_rx(0.01)
    check(not lost, "lost right after the acknowledgement: " + "; ".join(lost[:4]))


@case(single=True)
def neg_unoffered_features(c):
    """SET_FEATURES and SET_PROTOCOL_FEATURES with bits that were never offered: refused or the
    connection is closed, not accepted; the other port and the next front-end are unharmed."""
    f, p = c.probe()
    msgs = []
    for bit in (62, 45):
        if not f >> bit & 1:
            msgs.append(("feature bit %d" % bit, M.SET_FEATURES,
                         struct.pack("=Q", BASIC & f | 1 << bit), (), {}))
    for bit in (40, 63):
        msgs.append(("protocol bit %d" % bit, M.SET_PROTOCOL_FEATURES,
                     struct.pack("=Q", P.REPLY_ACK | 1 << bit), (), {}))
    return dubious(c, msgs, start=False)


# ================================================================ notification fds

@case()
def nofd_call(c):
    """SET_VRING_CALL with bit 8 and no fd: the driver polls (rust-vmm/vhost-user-backend#77:
    the ring never started).  Frames flow."""
    A, B = c.pair(BASIC, nofd_call=True)
    c.both(A, B, 24)


@case()
def kickfd_odd_files(c):
    """SET_VRING_KICK with a regular file, /dev/null and a memfd instead of an eventfd (epoll
    refuses those): error or polling, but neither a crash nor trouble for the peer."""
    def fds(path):
        def get(A):
            fd = os.open(path, os.O_RDWR)
            A.extra_fds.append(fd)
            return [fd]
        return get
    here = "/tmp/vufe-kick-%d" % os.getpid()
    open(here, "wb").write(b"x" * 64)
    msgs = [("/dev/null", M.SET_VRING_KICK, struct.pack("=Q", 1), fds("/dev/null"), {}),
            ("file", M.SET_VRING_KICK, struct.pack("=Q", 1), fds(here), {}),
            ("memfd", M.SET_VRING_KICK, struct.pack("=Q", 0), lambda A: [A.mem.regions[0].fd], {})]
    try:
        return dubious(c, msgs, want=("ok", "nack", "closed"))
    finally:
        os.unlink(here)


@case()
def callfd_blocking_full(c):
    """A hostile guest passes a blocking call eventfd that is already at its maximum, so a plain
    write to it blocks for ever.  The other direction and the control sockets must go on."""
    B = c.fe("b")
    A = c.fe("a")
    fd = os.eventfd(0, os.EFD_CLOEXEC)
    os.eventfd_write(fd, 0xFFFFFFFFFFFFFFFE)
    A.vring_call(A.txq(), fd)
    A.vring_call(A.rxq(), fd)
    A.sync()
    for f in c.frames(8):
        A.send(f)
    for f in c.frames(8):
        B.send(f)
    time.sleep(0.1)
    stuck = peer_stuck(B)
    A.close()
    os.eventfd_read(fd)          # lets a blocked writer go, so that the rest of the run works
    check(not stuck, "with a full blocking call eventfd on the other port: %s" % stuck)
    B.drain_rx(0.05)
    c.recovers(B)


# ================================================================ SET_FEATURES under traffic

@case(limit=15)
def setfeat_log_toggle_traffic(c):
    """SET_FEATURES with LOG_ALL switched on and off under traffic, as at the start of a migration
    (rust-vmm/vhost#210: all rings were disabled).  No loss."""
    c.need(F.LOG_ALL, P.LOG_SHMFD)
    setfeat_traffic(c, BASIC, logall=True)


@case(limit=15)
def setfeat_same_traffic(c):
    """The same SET_FEATURES again and again under traffic (VPP-1406, rust-vmm/vhost#210).
    No loss, rings stay enabled."""
    setfeat_traffic(c, BASIC | F.INDIRECT, logall=False, both=True)
