"""Cases about malformed messages and descriptors.

Every docstring names the public bug (or the rule) behind the case and the right outcome.
"""

from cases.impl import *          # noqa: F401,F403


# ================================================================ fds

@case(limit=15, fds=True, single=True)
def fd_flood_messages(c):
    """253 fds on GET_FEATURES, SET_VRING_CALL, SET_MEM_TABLE and an unknown message; too few fds
    on SET_MEM_TABLE (CVE-2019-14818, libvhost-user assert(fd_size < 8)).  Closed or refused,
    every fd given back."""
    def many(A):
        return [A.mem.regions[0].fd] * 253

    def table2(A):
        r = A.mem.regions[0].wire()
        return struct.pack("=II", 2, 0) + r + r
    msgs = [("GET_FEATURES", M.GET_FEATURES, b"", many, {}),
            ("CALL", M.SET_VRING_CALL, struct.pack("=Q", 0), many, {}),
            ("MEM_TABLE", M.SET_MEM_TABLE, lambda A: A.mem.table()[0], many, {}),
            ("MEM_TABLE with one fd for two", M.SET_MEM_TABLE, table2,
             lambda A: [A.mem.regions[0].fd], {}),
            ("unknown", 99, bytes(8), many, {})]
    return dubious(c, msgs * 3, want=("nack", "closed", "ok", "reply8"))


# ================================================================ malformed messages

@case(limit=15, single=True)
def msg_truncated(c):
    """Half a header, half a payload, a payload shorter than its type; then the socket closes or
    stays silent.  The other port goes on meanwhile and a new front-end gets in."""
    B = c.good_peer()
    socks = []
    for data in (b"\x01", struct.pack("=II", 1, 1), struct.pack("=III", 5, 1, 200) + bytes(17),
                 struct.pack("=III", 9, 1, 40), struct.pack("=III", 2, 1, 8) + b"\0\0"):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.settimeout(2)
        s.connect(c.paths["a"])
        s.send(data)
        time.sleep(0.03)
        if B is not None:
            try:
                B.sync(0.5)
            except NoReply:
                s.close()
                raise Fail("%d bytes of a message on one port block the other port's control "
                           "socket" % len(data)) from None
        if len(socks) % 2:
            s.close()
        else:
            socks.append(s)
    for s in socks:
        s.close()
    time.sleep(0.1)
    c.recovers(B)


@case(single=True)
def msg_oversized(c):
    """The header announces more than any message has: 0x7fffffff, 0xffffffff, 4097 and 70000
    bytes.  Closed (or refused after reading); no allocation of that size, no overflow."""
    B = c.good_peer()
    for size, body in ((0x7FFFFFFF, 64), (0xFFFFFFFF, 64), (4097, 4097), (70000, 70000)):
        A = c.open("a")
        try:
            A.send_msg(M.SET_MEM_TABLE, bytes(body), size=size)
            A.is_closed(0.1)
        except VhostError:
            pass
        A.close()
        c.lives()
    c.recovers(B)


@case(limit=15, single=True)
def msg_unknown_ids(c):
    """Unknown message ids with need_reply: refused or closed (the specification: must respond), never silent
    and never acknowledged with 0."""
    return dubious(c, [("id %d" % i, i, bytes(8), (), {}) for i in (46, 47, 63, 64, 127, 200, 1000)])


@case(limit=20)
def msg_slow_bytes(c):
    """A whole negotiation in single bytes.  It works, and half a message on one port never keeps
    the other port waiting (VPP 67f935ec6eb)."""
    return slow_case(c, None, 0.0004, hook_every=40)


@case(limit=15)
def reply_flood_unread(c):
    """A sends thousands of GET_FEATURES and never reads an answer, until its socket is full.  The
    other port's control socket still answers and traffic still flows."""
    A, B = c.pair()
    A.sock.settimeout(0.3)
    msg = A.pack_msg(M.GET_FEATURES)
    try:
        for _ in range(60):
            A.sock.sendall(msg * 200)
    except OSError:
        pass
    try:
        B.sync(1.0)
    except NoReply:
        A.close()
        raise Fail("the other port's control socket is stuck behind unread replies") from None
    c.burst(B, A, c.frames(8), what="while replies are unread: ")
    A.close()
    c.recovers(B)


@case(single=True)
def queue_index_out_of_range(c):
    """Ring indexes 256, 65536, 0x80000000 and 0xffffffff in NUM, BASE, ADDR, ENABLE and
    GET_VRING_BASE (CVE-2020-10723: index cut to 16 bits).  Refused or closed, never accepted."""
    msgs = []
    for i in (256, 65536, 0x80000000, 0xFFFFFFFF):
        for name in ("SET_VRING_NUM", "SET_VRING_BASE", "SET_VRING_ENABLE", "GET_VRING_BASE"):
            msgs.append(("%s %#x" % (name, i), getattr(M, name), struct.pack("=II", i, 1), (), {}))
        msgs.append(("ADDR %#x" % i, M.SET_VRING_ADDR,
                     lambda A, i=i: struct.pack("=I", i) + A.txq().addr_payload()[4:], (), {}))
    return dubious(c, msgs)


@case(limit=20, single=True)
def fuzz_messages_1(c):
    """300 random messages (ids 0..60, random payloads, some fds) on a set-up connection, seed 1.
    The process lives, the peer is not disturbed, a new front-end gets in."""
    return fuzz_messages(c, 1, 300)


@case(single=True)
def inflight_fuzz(c):
    """GET/SET_INFLIGHT_FD with absurd counts and sizes, and the wrong number of fds (CVE-2021-3839,
    CVE-2022-0669, CVE-2020-10726).  Refused, closed or answered; no crash, no fd leak."""
    msgs = []
    # (not both counts at their largest: a careless back-end would allocate 64 GB)
    for mm, off, nq, qs in ((0, 0, 0, 0), (0, 0, 0xFFFF, 8), (0, 0, 2, 0xFFFF),
                            (1 << 62, 0, 2, 256), (4096, 1 << 63, 2, 256), (4096, 0, 300, 1024)):
        pl = struct.pack("=QQHH", mm, off, nq, qs)
        pl8 = pl + bytes(4)
        msgs.append(("GET nq=%d" % nq, M.GET_INFLIGHT_FD, pl8, (), {}))
        msgs.append(("SET nq=%d" % nq, M.SET_INFLIGHT_FD, pl8, lambda A: [A.mem.regions[0].fd], {}))
        msgs.append(("SET two fds", M.SET_INFLIGHT_FD, pl,
                     lambda A: [A.mem.regions[0].fd] * 2, {}))
    return dubious(c, msgs, want=("nack", "closed", "ok", "odd", "reply0", "reply20", "reply24"))
