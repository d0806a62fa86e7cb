"""Cases about a guest that moves from one front-end to another at the same socket, as in a live migration within a
host."""

from cases.impl import *          # noqa: F401,F403


@case()
def status_zero_then_base(c):
    """QEMU 7 stops a device by SET_STATUS 0 and asks for the bases afterwards: they are still those of the rings."""
    c.need(proto=P.STATUS)
    A = c.fe("a", proto=PLAIN_P | P.STATUS)
    B = c.fe("b")
    for f in c.frames(20):
        A.send(f)
    check(len(B.recv_all(20, 1.0)) == 20, "frames are lost before the stop")
    A.tell(M.SET_STATUS, struct.pack("=Q", 0))
    base = A.get_vring_base(A.txq())
    check(base == 20, "the TX ring's base is %d after 20 frames" % base)


@case(fds=True)
def second_client_takes_over(c):
    """A second front-end negotiates while the first one's rings run; it is served as soon as they have stopped, or as
    the first has left, and not before. Then a third takes its turn, many times over."""
    old, B = c.pair()
    c.both(old, B, 8, "the first: ")
    for turn in range(6):
        new = c.open("a")
        new.bring_up()
        fr = c.frames(6)
        for f in fr:
            new.send(f, wait=None)
        c.both(old, B, 8, "turn %d, while the second waits: " % turn)
        if turn % 2:
            old.close()
        else:
            old.stop_rings(disable_first=True)
        c.same(fr, [p.data for p in B.recv_all(len(fr), 1.5)], "turn %d, what had waited: " % turn)
        c.both(new, B, 8, "turn %d, taken over: " % turn)
        if not turn % 2:
            old.close()
        old = new
    old.close()


@case()
def take_over_given_back(c):
    """A migration that fails: the second front-end's rings ran, then it leaves, and the first goes on where it
    was."""
    old, B = c.pair()
    c.both(old, B, 8)
    new = c.open("a")
    new.bring_up()
    bases = old.stop_rings(disable_first=True)
    c.both(new, B, 8, "the second: ")
    new.close()
    old.restart_rings(bases)
    c.both(old, B, 8, "the first again: ")
