"""Cases about rings: how they start, stop and start again, one by one, with other drivers, and under traffic."""

from cases.impl import *          # noqa: F401,F403

LEGACY = F.PROTO | F.ANY_LAYOUT


# ================================================================ starting

@case()
def tx_no_kick(c):
    """Frames are in the TX ring before SET_VRING_KICK, and its eventfd is never written (a ring starts at
    SET_VRING_KICK, not at the first kick).  The rings were enabled before; the frames arrive."""
    for feats in (BASIC, BASIC | F.PACKED):
        B = c.fe("b", feats)
        fr = c.frames(12)

        def fill(A):
            for f in fr:
                A.send(f, kick=False)
        A = c.fe("a", feats, kick=False,
                 order=["get_features", "get_proto", "set_proto", "owner", "set_features", "mem",
                                                fill, ("num", "base", "addr"), ("enable",), ("call", "kick")])
        c.same(fr, [p.data for p in B.recv_all(12, 1.0)], "frames from before the start: ")
        check(A.tx_drain(1.0), "TX buffers are not given back")


@case()
def nofd_kick(c):
    """SET_VRING_KICK with bit 8 and no descriptor: the rings are polled, both ways, also after a pause."""
    A, B = c.pair(nofd_kick=True)
    for _ in range(3):
        c.both(A, B, 12)
        time.sleep(0.3)


@case()
def packed_presets(c):
    """Packed rings that start at any slot and wrap counter."""
    for slot, wrap in ((0, 0), (63, 1), (63, 0), (17, 0), (1, 1)):
        A, B = c.pair(BASIC | F.PACKED, preset=(slot, wrap), size=64, rx=[2048] * 50)
        c.both(A, B, 40, "slot %d, wrap %d: " % (slot, wrap))


@case()
def legacy_headers(c):
    """Drivers from before virtio 1.0: headers of 10 bytes without MRG_RXBUF, 12 with it, in every combination with a
    modern peer, and with a TX header in a descriptor of its own."""
    for fa in (LEGACY, LEGACY | F.MRG_RXBUF, F.PROTO, BASIC):
        for fb in (LEGACY, BASIC):
            A, B = c.pair(fa, fb)
            c.both(A, B, 8, "%s and %s: " % (bit_names(F, fa), bit_names(F, fb)))
            if fa & F.ANY_LAYOUT:
                c.burst(A, B, c.frames(8), layout=[A.hlen])
                c.burst(A, B, c.frames(8), layout=[3, 2, 40])


@case()
def firmware_then_kernel(c):
    """Firmware drives the rings first, with fewer features, small rings and other addresses, then a kernel, then
    another firmware after a reboot: indexes are read anew at each start."""
    A, B = c.pair(LEGACY, BASIC, ka={"size": 16, "rx": [1600] * 8})
    c.both(A, B, 5, "firmware: ")
    for feats, size in ((BASIC, 256), (BASIC | F.PACKED, 64), (LEGACY, 16), (BASIC | F.INDIRECT | F.EVENT_IDX, 128)):
        A.stop_rings()
        new_driver(A, feats, size, rx=min(size - 1, 24))
        c.both(A, B, 8, "%s, %d: " % (bit_names(F, feats), size))


@case()
def rings_of_different_sizes(c):
    """RX of 1024 and TX of 16, and the other way round."""
    for sizes in ([1024, 16], [16, 1024]):
        A, B = c.pair(sizes=sizes, rx=[2048] * 16)
        for _ in range(20):
            c.burst(A, B, c.frames(8))
            c.burst(B, A, c.frames(8))


# ================================================================ stopping

@case()
def base_after_disable(c):
    """SET_VRING_ENABLE(0) comes before GET_VRING_BASE (QEMU since 7.2): the same answers, and a restart works."""
    for feats in (BASIC, BASIC | F.PACKED):
        A, B, bases = base_counts(c, feats, 37, disable_first=True)
        A.restart_rings(bases)
        c.both(A, B, 20)


@case()
def base_packed_zero_used_half(c):
    """After a stop the packed ring starts again with the used half of its base zero, as virtio-user sends it (trap
    4): it goes on where the available half says."""
    A, B = c.pair(BASIC | F.PACKED, size=64, rx=[2048] * 40)
    for n in (5, 30, 31, 64):
        c.burst(A, B, c.frames(n), batch=20)
        bases = A.stop_rings()
        # Only the TX ring: all that it had is used, so that both halves are equal.
        A.restart_rings([bases[0], bases[1] & 0xFFFF])
        c.both(A, B, 10, "after %d frames: " % n)


@case()
def base_avail_on_reconnect(c):
    """Cloud Hypervisor's way of reconnecting: SET_VRING_BASE holds the available index, although buffers are posted
    that were never used. used->idx in the guest's memory is the truth: none of them is lost."""
    A, B = c.pair()
    for i in range(4):
        c.both(A, B, 17, "round %d: " % i)
        A.reconnect(base="avail")
        B.drain_rx(0.02)
        c.burst(B, A, c.frames(100), what="round %d, as many as there are posted buffers: " % i)


@case()
def reconnect_keeps_rings(c):
    """A front-end reconnects and its guest goes on with the rings it has, with each kind of rings."""
    for feats in (BASIC, BASIC | F.PACKED, BASIC | F.IN_ORDER, BASIC | F.IN_ORDER | F.PACKED,
                  BASIC | F.EVENT_IDX | F.INDIRECT):
        A, B = c.pair(feats)
        for i in range(4):
            c.both(A, B, 23, "%s, round %d: " % (bit_names(F, feats), i))
            A.reconnect()
            B.drain_rx(0.02)


@case()
def stopped_while_flooded(c):
    """Rings are stopped while the peer sends without pause: after the answer of GET_VRING_BASE not one byte of the
    guest's rings or buffers changes, though the peer goes on; after a restart frames are whole and in order."""
    A, B = c.pair()
    numbered = [raw_frame(60 + i % 900, c.rng) for i in range(400)]
    at = 0
    for _ in range(8):
        for f in numbered[at:at + 24]:
            B.send(f, timeout=1.0)
        bases = A.stop_rings()
        r = A.mem.regions[0]
        before = hashlib.sha1(r.mm[:]).digest()
        for f in numbered[at + 24:at + 48]:
            B.send(f, timeout=1.0)
        time.sleep(0.03)
        check(hashlib.sha1(r.mm[:]).digest() == before, "memory of a guest whose rings are stopped was written")
        A.restart_rings(bases)
        got = [p.data for p in A.recv_all(48, 0.15)]
        check(all(f in numbered for f in got), "a frame arrived that was not sent")
        order = [numbered.index(f) for f in got]
        check(order == sorted(order), "frames arrived out of order")
        at += 48
    check(B.tx_drain(1.0), "the peer's TX ring stands still")
    c.both(A, B, 12)


@case()
def kick_descriptor_replaced(c):
    """SET_VRING_KICK with another descriptor on a running ring, again and again under traffic: nothing is lost, and
    the old descriptor no longer matters."""
    A, B = c.pair()

    def replace(i):
        for q in (A.txq(), A.rxq()):
            old = q.kickfd
            q.kickfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            A.vring_kick(q)
            q.kick(force=True)
            os.close(old)
    during(c, A, B, replace, 10, what="A to B, ")
    during(c, B, A, replace, 10, what="B to A, ")


@case()
def call_descriptor_replaced(c):
    """SET_VRING_CALL under traffic, with a descriptor and without one: the next call goes to the new descriptor
    only."""
    A, B = c.pair()
    for i in range(10):
        old = A.rxq().callfd
        A.rxq().callfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        if i % 3 == 2:
            A.vring_call(A.rxq(), None)
        A.vring_call(A.rxq())
        A.rxq().calls()
        try:
            os.eventfd_read(old)
        except BlockingIOError:
            pass
        c.burst(B, A, c.frames(3))
        check(A.rxq().wait_call(0.5), "round %d: no call on the new descriptor" % i)
        try:
            os.eventfd_read(old)
            raise Fail("round %d: a call on the descriptor from before" % i)
        except BlockingIOError:
            pass
        os.close(old)


@case()
def enable_toggled_under_traffic(c):
    """SET_VRING_ENABLE off and on, again and again, while frames flow: they arrive whole and in order, or not at all,
    and all of them once the ring stays enabled."""
    A, B = c.pair()
    for i in range(20):
        fr = c.frames(16)
        for f in fr[:8]:
            B.send(f)
        A.vring_enable(A.rxq(), False)
        for f in fr[8:]:
            B.send(f)
        A.vring_enable(A.rxq(), True)
        got = [p.data for p in A.recv_all(16, 0.03)]
        check(all(f in fr for f in got), "a frame arrived that was not sent")
        check([fr.index(f) for f in got] == sorted(fr.index(f) for f in got), "frames out of order")
        check(B.tx_drain(1.0), "the sender's buffers are not given back")
    c.both(A, B, 16)


@case()
def one_ring_reset(c):
    """RING_RESET: the TX ring alone is stopped, and started again with another size at another place, while the RX
    ring goes on; then the other way round."""
    for feats in (BASIC | F.RING_RESET, BASIC | F.RING_RESET | F.PACKED):
        A, B = c.pair(feats)
        for size in (64, 256, 32):
            for which in (1, 0):
                c.both(A, B, 6)
                old = A.queues[which]
                A.get_vring_base(old)
                c.burst(*((B, A) if which == 1 else (A, B)), c.frames(8), what="the other ring meanwhile: ")
                old.close()
                A.queues[which] = q = type(old)(A, which, size)
                if which == 0:
                    A._rx_done.clear()
                    A.post_rx([2048] * 24, kick=False)
                for step in (A.vring_num, A.vring_base, A.vring_addr, A.vring_kick, A.vring_call):
                    step(q)
                q.kick(force=True)
                A.vring_enable(q, True)
                A.sync()
        c.both(A, B, 6)


@case()
def reconfigured_while_running(c):
    """SET_VRING_NUM, BASE and ADDR on a running ring, with good and bad values: refused or obeyed, and no crash; the
    peer does not notice."""
    def run(A):
        q = A.txq()
        for _ in range(5):
            for f in c.frames(4):
                A.send(f, timeout=0.2)
            A.outcome(M.SET_VRING_NUM, struct.pack("=II", 1, 128))
            A.outcome(M.SET_VRING_BASE, struct.pack("=II", 1, 77))
            A.outcome(M.SET_VRING_ADDR, struct.pack("=IIQQQQ", 1, 0, 64, 128, 192, 0))
            A.outcome(M.SET_VRING_ADDR, q.addr_payload())
            A.outcome(M.SET_VRING_NUM, struct.pack("=II", 1, 256))
    return c.hostile(run)


# ================================================================ reset

@case()
def reset_device_running(c):
    """RESET_DEVICE while frames flow: the rings stop and are disabled, the connection stays, and a driver starts anew
    on it."""
    c.need(proto=P.RESET_DEVICE)
    A, B = c.pair(proto=PLAIN_P | P.RESET_DEVICE | P.STATUS)
    for i in range(3):
        c.both(A, B, 8)
        for f in c.frames(8):
            B.send(f)
        A.tell(M.RESET_DEVICE)
        used = A.rxq().used_mem_idx()
        for f in c.frames(8):
            B.send(f)
        time.sleep(0.03)
        check(A.rxq().used_mem_idx() == used, "the RX ring moved after RESET_DEVICE")
        new_driver(A, BASIC, 128)
        B.drain_rx(0.02)
        A.drain_rx(0.02)
    c.both(A, B, 8)


@case()
def status_zero_running(c):
    """SET_STATUS 0 while rings run (a guest's reset): they stop; after new messages and FEATURES_OK, DRIVER_OK they
    run."""
    c.need(proto=P.STATUS)
    A, B = c.pair(proto=PLAIN_P | P.STATUS)
    for i in range(3):
        c.both(A, B, 8)
        A.tell(M.SET_STATUS, struct.pack("=Q", 0))
        used = A.rxq().used_mem_idx()
        for f in c.frames(8):
            B.send(f)
        time.sleep(0.03)
        check(A.rxq().used_mem_idx() == used, "the RX ring moved after the reset")
        check(A.u64(M.GET_STATUS) == 0, "the status is not 0")
        for v in (1, 3, 11):
            A.tell(M.SET_STATUS, struct.pack("=Q", v))
        new_driver(A, BASIC, 128)
        A.tell(M.SET_STATUS, struct.pack("=Q", 15))
        B.drain_rx(0.02)
        A.drain_rx(0.02)
    c.both(A, B, 8)


@case()
def reset_owner_is_harmless(c):
    """RESET_OWNER (deprecated: at most it disables rings) leaves the connection usable."""
    A, B = c.pair()
    A.tell(M.RESET_OWNER)
    for q in A.queues:
        A.vring_enable(q, True)
    A.sync()
    B.drain_rx(0.02)
    c.both(A, B, 8)


# ================================================================ features over time

@case(limit=20)
def offer_is_constant(c):
    """What is offered stays the same whatever the peer has, over reconnects and a restart (QEMU loops where
    it gets less)."""
    def offers():
        out = []
        for side in "ab":
            with c.open(side) as fe:
                out.append((fe.get_features(), fe.get_proto(), fe.u64(M.GET_QUEUE_NUM)))
        return out
    first = offers()
    for feats in (BASIC, LEGACY, BASIC | F.PACKED | F.CSUM):
        B = c.fe("b", feats)
        with c.open("a") as fe:
            check((fe.get_features(), fe.get_proto(), fe.u64(M.GET_QUEUE_NUM)) == first[0],
                  "another offer beside a peer")
        B.close()
    if c.restart_backend:
        c.restart_backend()
    check(offers() == first, "another offer after a restart")


@case(single=True)
def offer_is_complete(c):
    """Everything that QEMU gates for network cards is offered, and nothing that is not done."""
    f, p = c.probe()
    want = (F.CSUM | F.GUEST_CSUM | F.GUEST_TSO4 | F.GUEST_TSO6 | F.GUEST_ECN | F.GUEST_UFO | F.HOST_TSO4 | F.HOST_TSO6
            | F.HOST_ECN | F.HOST_UFO | F.GUEST_USO4 | F.GUEST_USO6 | F.HOST_USO | F.MRG_RXBUF | F.MTU | F.EVENT_IDX
            | F.INDIRECT | F.ANY_LAYOUT | F.PACKED | F.IN_ORDER | F.RING_RESET | F.GUEST_ANNOUNCE | F.MQ | F.VERSION_1
            | F.PROTO | F.LOG_ALL)
    check(not want & ~f, "not offered: %s" % bit_names(F, want & ~f))
    no = F.CTRL_VQ | F.HASH_REPORT | F.IOMMU | F.CTRL_GUEST_OFFLOADS
    check(not f & no, "offered: %s" % bit_names(F, f & no))
    want = (P.MQ | P.LOG_SHMFD | P.RARP | P.REPLY_ACK | P.MTU | P.BACKEND_REQ | P.RESET_DEVICE | P.MEM_SLOTS | P.STATUS
            | P.DEVICE_STATE)
    check(not want & ~p, "protocol features not offered: %s" % bit_names(P, want & ~p))
    check(not p & (P.GPA_ADDRESSES | P.INBAND | P.PAGEFAULT), "offered: %s" % bit_names(P, p))
    with c.open("a") as fe:
        n = fe.u64(M.GET_QUEUE_NUM)
    check(n >= 16, "GET_QUEUE_NUM says %d: too few where a front-end counts rings" % n)
