"""Cases about stopping, starting again, reconnecting.

Every docstring names the public bug (or the rule) behind the case and the right outcome.
"""

from cases.impl import *          # noqa: F401,F403


# ================================================================ stop and restart

@case()
def base_counts_split(c):
    """After N frames GET_VRING_BASE says N, for both rings, twice; a stopped ring is not touched,
    neither after a kick nor after SET_VRING_ENABLE (rust-vmm/vhost#154, #161, VPP f6dae05b8b5,
    DPDK 1846fe767f)."""
    A, B, bases = base_counts(c, BASIC, 37)
    fr = stopped_is_untouched(c, A, B)
    A.restart_rings(bases)
    got = B.recv_all(len(fr), 1.0)
    c.same(fr, [p.data for p in got], "frames queued while stopped, after the restart: ")


@case()
def base_counts_packed(c):
    """Packed rings: GET_VRING_BASE holds the available and the used index with their wrap bits
    (rust-vmm/vhost#154), in both halves."""
    c.need(F.PACKED)
    A, B, bases = base_counts(c, BASIC | F.PACKED, 100, size=64)
    A.restart_rings(bases)
    c.both(A, B, 20)


@case(single=True)
def base_first_message(c):
    """GET_VRING_BASE for rings that were never set up, as the first message (DPDK 3c929a0bb3e7:
    crash on reconnect).  Answered with 0 or refused; the same connection can then be set up."""
    for order in ((0, 1), (1, 0, 1)):
        A = FrontEnd(c.paths["a"])
        try:
            vals = [A.get_vring_base(i) for i in order]
            check(all(v & 0x7FFF == 0 for v in vals), "base of an unused ring is %r" % vals)
            A.bring_up()
            if not c.single:
                B = c.fe("b")
                c.both(A, B, 6)
                B.close()
        except Closed:
            pass
        A.close()


@case()
def restart_split_wrap(c):
    """Stop, queue frames, start again at the returned base, three times, with indexes that
    wrap at 65536.  Nothing is lost, posted RX buffers stay usable."""
    restart_case(c, BASIC, preset=65515, n=20)


@case()
def restart_packed(c):
    """Packed rings stopped and restarted at the returned base, at various slots and wraps."""
    c.need(F.PACKED)
    restart_case(c, BASIC | F.PACKED, rounds=4, n=27, size=64)


@case()
def restart_stale_rx_base(c):
    """SET_VRING_BASE of the RX ring says 'ring size' while used->idx is 0 and 128 buffers are
    posted (cloud-hypervisor#7964: 0 bytes received).  The used index in guest memory is the truth:
    frames arrive."""
    A, B = c.pair(BASIC, ka={"base": {0: 256, 1: 0}})
    c.both(A, B, 16)


@case()
def ring_disabled(c):
    """A started but disabled ring (vhost-user spec, Ring states): RX supplies nothing; frames in
    a disabled TX ring are consumed and thrown away, and do not come out later."""
    A, B = c.pair()
    c.both(A, B, 4)
    A.vring_enable(A.rxq(), False)
    A.sync()
    for f in c.frames(6):
        B.send(f)
    time.sleep(0.1)
    A.rx_scan()
    check(not A._rx_done.get(0), "a disabled RX ring was given frames")
    A.vring_enable(A.txq(), False)
    A.sync()
    for f in c.frames(6):
        A.send(f)
    gone = A.tx_drain(0.3)
    A.vring_enable(A.rxq(), True)
    A.vring_enable(A.txq(), True)
    A.sync()
    late = B.recv(0.15)
    A.drain_rx(0.05)
    B.drain_rx(0.02)
    A.tx_drain(0.5)
    c.both(A, B, 4)
    check(gone, "a disabled TX ring is not processed (the specification: process and discard)")
    check(late is None, "frames from a disabled TX ring came out when it was enabled again")


# ================================================================ RX without kicks

@case()
def rx_no_kick(c):
    """RX buffers are posted before the start and nobody ever kicks (rust-vmm/vhost#375: inbound
    traffic dead until the guest transmits).  The first inbound frame arrives."""
    A, B = c.pair(kick=False)
    for f in c.frames(10):
        B.send(f)
        p = A.recv(1.0)
        check(p is not None and p.data == f, "frame to a ring that was never kicked is lost")
    check(A.rxq().kicks == 0 or True, "")


# ================================================================ reconnect

@case(limit=60, fds=True)
def reconnect_a_100(c):
    """Front-end A vanishes 100 times (SIGKILL, or mid-message) and comes back, B stays
    (passt 6fae899cbb, butterfly#284, VPP-418).  Traffic after each tenth; no fd leak."""
    reconnect_loop(c, "a", 100, killed=20)


@case(limit=40, fds=True)
def reconnect_both(c):
    """Both front-ends vanish at the same time, 30 times, in either order, under traffic."""
    for i in range(30):
        A, B = c.pair(size=64, rx=[2048] * 32)
        for f in c.frames(12):
            A.send(f)
            B.send(f)
        for fe in ((A, B), (B, A))[i & 1]:
            fe.close()
        if i % 10 == 9:
            A, B = c.pair()
            c.both(A, B, 8)
            A.close()
            B.close()


@case(limit=20)
def backend_restart(c):
    """The back-end is killed (-9) and started again under connected guests which keep their rings
    (rust-vmm/vhost#375, cloud-hypervisor#8592): the first frame inbound arrives without a
    kick, posted RX buffers are not lost.  Needs --spawn."""
    if not c.restart_backend:
        raise Skip("needs --spawn")
    A, B = c.pair()
    c.both(A, B, 12)
    c.restart_backend()
    A.reconnect(wait=8.0, kick=False)
    B.reconnect(wait=8.0, kick=False)
    f = c.frames(1)[0]
    B.send(f)
    p = A.recv(1.5)
    check(p is not None and p.data == f, "the first inbound frame after the restart was lost")
    c.both(A, B, 100)


@case(fds=True)
def second_client_idle(c):
    """A second front-end connects to a socket in use, asks for the features and leaves, 50 times
    (VPP 2ae5135e4cc: fd leak, first one overwritten).  The first pair keeps every frame."""
    A, B = c.pair()
    for i in range(50):
        try:
            X = FrontEnd(c.paths["a"], wait=0.3)
            try:
                X.send_msg(M.GET_FEATURES)
                if i % 5 == 0:
                    X.read_msg(0.05)
            except VhostError:
                pass
            X.close()
        except Closed:
            pass
        if i % 5 == 0:
            c.both(A, B, 4, "with a second client: ")
    c.both(A, B, 8)
