"""Cases about messages: what was not offered, when an answer is due, pieces of messages, descriptors that are
spent."""

import resource

from cases.impl import *          # noqa: F401,F403


# ================================================================ what is answered

@case(limit=20, single=True)
def msg_not_offered(c):
    """Messages of protocol features that are not offered (CONFIG, CROSS_ENDIAN, postcopy, in-band kicks, crypto,
    shared memory): refused, never acknowledged with 0."""
    u64 = struct.pack("=Q", 0)
    msgs = [("SET_CONFIG", M.SET_CONFIG, struct.pack("=III", 0, 8, 0) + bytes(8), (), {}),
            ("SET_VRING_ENDIAN", M.SET_VRING_ENDIAN, struct.pack("=II", 0, 1), (), {}),
            ("POSTCOPY_LISTEN", M.POSTCOPY_LISTEN, b"", (), {}), ("POSTCOPY_END", M.POSTCOPY_END, b"", (), {}),
            ("VRING_KICK", M.VRING_KICK, struct.pack("=II", 0, 0), (), {}),
            ("CREATE_CRYPTO_SESSION", 26, bytes(64), (), {}), ("CLOSE_CRYPTO_SESSION", 27, u64, (), {}),
            ("GPU_SET_SOCKET", 33, b"", lambda A: [A.mem.regions[0].fd], {}), ("GET_SHARED_OBJECT", 41, bytes(16),
                                                                               (), {})]
    return dubious(c, msgs, want=("nack", "closed", "reply0"))


@case(single=True)
def ack_without_get(c):
    """need_reply is honoured although GET_PROTOCOL_FEATURES was never sent, for good and for bad
    requests."""
    with c.open("a") as A:
        A.set_proto(P.REPLY_ACK)
        check(A.outcome(M.SET_OWNER) == "ok", "SET_OWNER with need_reply is not acknowledged")
        check(A.outcome(M.SET_VRING_NUM, struct.pack("=II", 0, 256)) == "ok", "SET_VRING_NUM is not acknowledged")
        got = A.outcome(M.SET_VRING_NUM, struct.pack("=II", 0, 3))
        check(got in ("nack", "closed"), "a ring of 3: %s" % got)


@case(limit=20, single=True)
def answers_are_single(c):
    """A message with an answer of its own gets exactly one, with need_reply or without; one without gets an
    acknowledgement only where need_reply is set."""
    with c.open("a") as A:
        A.bring_up(rx=[2048] * 8, size=64, proto=PLAIN_P | P.STATUS | P.MEM_SLOTS)
        for need in (False, True):
            for req in (M.GET_FEATURES, M.GET_PROTOCOL_FEATURES, M.GET_QUEUE_NUM, M.GET_MAX_MEM_SLOTS, M.GET_STATUS):
                A.send_msg(req, need_reply=need)
            A.send_msg(M.GET_VRING_BASE, struct.pack("=II", 0, 0), need_reply=need)
            got = [A.read_msg().req for _ in range(6)]
            check(got == [M.GET_FEATURES, M.GET_PROTOCOL_FEATURES, M.GET_QUEUE_NUM, M.GET_MAX_MEM_SLOTS, M.GET_STATUS,
                          M.GET_VRING_BASE], "answers came as %r" % got)
            A.send_msg(M.SET_OWNER)
            A.send_msg(M.SET_VRING_ENABLE, struct.pack("=II", 0, 1))
            check(A.u64(M.GET_FEATURES) == A.offered, "a message without need_reply was answered")
            A.send_msg(M.SET_VRING_ENABLE, struct.pack("=II", 0, 1), need_reply=True)
            r = A.read_msg()
            check((r.req, r.payload) == (M.SET_VRING_ENABLE, bytes(8)) and r.flags & 7 == 5,
                  "acknowledged by %r" % (r,))
            try:
                raise Fail("something more came: %r" % (A.read_msg(0.1),))
            except NoReply:
                pass


@case(single=True)
def iotlb_is_answered(c):
    """IOTLB_MSG always gets an answer, although IOMMU_PLATFORM is not offered; or the connection is
    closed."""
    with c.open("a") as A:
        A.bring_up(rx=[2048] * 8, size=64)
        A.send_msg(M.IOTLB_MSG, struct.pack("=QQQBB", 0, 4096, 0, 3, 2) + bytes(6), need_reply=True)
        try:
            check(A.read_msg(1.0).req == M.IOTLB_MSG, "another answer")
        except Closed:
            pass


@case(limit=25, single=True)
def msg_wrong_sizes(c):
    """Every message of a fixed size with one byte less, one more, and none: refused or closed, the next one
    unharmed."""
    sizes = {M.SET_FEATURES: 8, M.SET_LOG_BASE: 16, M.SET_VRING_NUM: 8, M.SET_VRING_ADDR: 40, M.SET_VRING_BASE: 8,
             M.GET_VRING_BASE: 8, M.SET_VRING_KICK: 8, M.SET_VRING_CALL: 8, M.SET_VRING_ERR: 8,
             M.SET_PROTOCOL_FEATURES: 8,
             M.SET_VRING_ENABLE: 8, M.SEND_RARP: 8, M.NET_SET_MTU: 8, M.ADD_MEM_REG: 40, M.REM_MEM_REG: 40,
             M.SET_STATUS: 8, M.SET_DEVICE_STATE_FD: 8}
    return dubious(c, [("%s with %d bytes" % (req, n), req, bytes(n), (), {}) for req, size in sizes.items()
                       for n in (size - 1, size + 1, 0)])


@case(single=True)
def msg_wrong_versions(c):
    """Headers with version 0, 2 and 3, and a reply flag on a request: closed or refused, never taken for good and
    never answered twice."""
    B = c.good_peer()
    for flags in (0, 2, 3, 0x100, 0xFFFFFFFF, 5):
        A = c.open("a")
        try:
            A.send_msg(M.GET_FEATURES, flags=flags)
            A.read_msg(0.1)
        except (Closed, NoReply):
            pass
        A.close()
        c.lives()
    c.recovers(B)


@case(single=True)
def enable_odd_values(c):
    """SET_VRING_ENABLE with 2 and 0xffffffff: refused, or taken for 1; no crash."""
    return dubious(c, [("%#x" % v, M.SET_VRING_ENABLE, struct.pack("=II", 1, v), (), {}) for v in (2, 256, 0xFFFFFFFF)],
                   want=("nack", "closed", "ok"))


# ================================================================ pieces and bursts

@case(limit=30)
def msg_cut_anywhere(c):
    """A negotiation in which every message is cut in two, at each place in turn; descriptors come with the first
    byte."""
    for cut in (1, 4, 8, 11, 12, 13, 16, 20, 30, 51):
        A = c.open("a", cls=SlowFE)
        A.pieces, A.pause = [cut], 0.0005
        A.bring_up(rx=[2048] * 16, size=64)
        B = c.fe("b")
        A.pieces = [1 << 30]
        c.both(A, B, 4, "cut at %d: " % cut)
        A.close()


@case()
def msg_many_in_one_write(c):
    """A whole negotiation's messages in as few writes as descriptors allow: all are served, in order."""
    class Burst(FrontEnd):
        held = b""

        def raw_send(self, data, fds=()):
            # Descriptors belong to the first byte of a message: what came before goes first.
            if fds:
                if self.held:
                    held, self.held = self.held, b""
                    FrontEnd.raw_send(self, held)
                FrontEnd.raw_send(self, data, fds)
            else:
                self.held += data

        def read_msg(self, timeout=None):
            if self.held:
                held, self.held = self.held, b""
                FrontEnd.raw_send(self, held)
            return super().read_msg(timeout)
    B = c.fe("b")
    A = c.open("a", cls=Burst)
    A.bring_up(proto=P.MQ)
    c.both(A, B, 12)
    for _ in range(50):
        A.send_msg(M.SET_VRING_ENABLE, struct.pack("=II", 0, 1))
        A.send_msg(M.GET_FEATURES)
    check([A.read_msg().req for _ in range(50)] == [M.GET_FEATURES] * 50, "answers are missing")
    A.close()


@case()
def msg_descriptors_of_two_messages(c):
    """Two messages with a descriptor each are in the socket before the back-end looks: neither gets the other's."""
    A, B = c.pair()
    for _ in range(30):
        old = (A.txq().callfd, A.rxq().callfd)
        for q in A.queues:
            q.callfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        A.send_msg(M.SET_VRING_CALL, struct.pack("=Q", 0), [A.rxq().callfd])
        A.send_msg(M.SET_VRING_CALL, struct.pack("=Q", 1), [A.txq().callfd])
        A.sync()
        for fd in old:
            os.close(fd)
        for q in A.queues:
            q.calls()
        B.send(c.frames(1)[0])
        check(A.recv(1.0) is not None, "no frame")
        check(A.rxq().wait_call(0.5), "the RX ring's call does not come on its descriptor")
    c.both(A, B, 4)


# ================================================================ descriptors

@case(limit=20, fds=True)
def descriptors_replaced(c):
    """SET_VRING_CALL, ERR, KICK, SET_LOG_BASE, SET_LOG_FD, SET_BACKEND_REQ_FD and SET_MEM_TABLE a hundred times on
    one connection: the old ones are closed (CVE-2019-14818, CVE-2020-10726)."""
    c.need_pid()
    A, B = c.pair(proto=PLAIN_P | P.LOG_SHMFD | P.BACKEND_REQ)
    lg = Log(A.mem.max_gpa())
    before = None
    for i in range(100):
        for q in A.queues:
            A.vring_call(q)
            A.vring_err(q)
            A.vring_kick(q)
        A.set_log_base(lg.fd, lg.size)
        A.tell(M.SET_LOG_FD, b"", [A.txq().errfd])
        step_backend_req(A)
        A.set_mem_table()
        if i == 10:
            before = fd_count(c.pid)
    check(fd_count(c.pid) <= before, "open descriptors went from %d to %d" % (before, fd_count(c.pid)))
    c.both(A, B, 8)


@case(limit=20, fds=True)
def descriptors_surplus(c):
    """One descriptor on each message that has none, two on each that has one (CVE-2022-0669): closed or refused, none
    kept."""
    fd = os.eventfd(0, os.EFD_CLOEXEC)
    none = [(M.SET_FEATURES, struct.pack("=Q", BASIC)), (M.SET_OWNER, b""),
            (M.SET_VRING_NUM, struct.pack("=II", 0, 64)),
            (M.SET_VRING_ENABLE, struct.pack("=II", 0, 1)), (M.SET_VRING_BASE, struct.pack("=II", 0, 0)),
            (M.SET_PROTOCOL_FEATURES, struct.pack("=Q", PLAIN_P)), (M.NET_SET_MTU, struct.pack("=Q", 1500)),
            (M.SEND_RARP, bytes(8)), (M.SET_STATUS, bytes(8))]
    one = [(M.SET_VRING_CALL, struct.pack("=Q", 0)), (M.SET_VRING_KICK, struct.pack("=Q", 0)),
           (M.SET_VRING_ERR, struct.pack("=Q", 0)), (M.SET_LOG_FD, b""), (M.SET_BACKEND_REQ_FD, b"")]
    msgs = [("surplus on %s" % r, r, pl, [fd], {}) for r,
            pl in none] + [("two on %s" % r, r, pl, [fd, fd], {}) for r, pl in one]
    msgs += [("none on %s" % r, r, pl, (), {}) for r, pl in one]
    try:
        return dubious(c, msgs * 3, want=("nack", "closed", "ok"))
    finally:
        os.close(fd)


@case(limit=25, fds=True)
def descriptors_run_out(c):
    """The process may open no further descriptor (EMFILE): clients are turned away or wait, established pairs go on,
    messages with descriptors do no harm; when there are some again, a fresh client gets in."""
    c.need_pid()
    A, B = c.pair()
    soft, hard = resource.prlimit(c.pid, resource.RLIMIT_NOFILE)
    waiting = []
    try:
        resource.prlimit(c.pid, resource.RLIMIT_NOFILE, (fd_count(c.pid), hard))
        for _ in range(20):
            s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            s.settimeout(0.2)
            try:
                s.connect(c.paths["b"])
                waiting.append(s)
            except OSError:
                s.close()
        c.both(A, B, 8, "without descriptors: ")
        with FrontEnd(c.paths["a"]) as X:
            X.outcome(M.SET_VRING_CALL, struct.pack("=Q", 0), [A.txq().callfd] * 3, timeout=0.2)
        c.both(A, B, 8, "still without: ")
    finally:
        resource.prlimit(c.pid, resource.RLIMIT_NOFILE, (soft, hard))
        for s in waiting:
            s.close()
    t, w = cpu_ticks(c.pid), time.monotonic()
    time.sleep(1.0)
    share = (cpu_ticks(c.pid) - t) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - w)
    check(share < 0.3, "%.0f %% of a CPU afterwards" % (share * 100))
    A.close()
    c.recovers(B)


# ================================================================ clients

@case(limit=20, fds=True)
def second_client_busy(c):
    """A second client sends whole negotiations, with memory, descriptors and frames, at a taken socket: it is turned
    away, or waits for its turn; the pair that is there keeps every frame, and no frame of the second one comes
    out."""
    A, B = c.pair()
    alien = c.frames(4)
    for i in range(20):
        X = FrontEnd(c.paths["a"], wait=0.3)
        try:
            X.timeout = 0.3
            X.bring_up(features=BASIC, rx=[2048] * 8, size=64)
            for f in alien:
                X.send(f)
        except VhostError:
            pass
        c.both(A, B, 6, "with a second client: ")
        X.close()
        c.both(A, B, 6, "after a second client: ")


@case(limit=20)
def third_client(c):
    """Several clients beyond the first at one socket, some of which do not move: the first keeps its frames, and one
    gets in when all are gone."""
    A, B = c.pair()
    others = []
    for i in range(12):
        try:
            others.append(FrontEnd(c.paths["a"], wait=0.3))
            others[-1].send_msg(M.GET_FEATURES)
        except VhostError:
            pass
        c.both(A, B, 4, "with %d further clients: " % len(others))
    for X in others:
        X.close()
    A.close()
    c.recovers(B)


def connect(s, path, limit=2.0):
    """Connects; a full backlog has to drain first."""
    end = time.monotonic() + limit
    while True:
        try:
            return s.connect(path)
        except BlockingIOError:
            check(time.monotonic() < end, "nobody accepts connections any more")
            time.sleep(0.001)


@case(limit=25, fds=True)
def connection_storm(c):
    """500 connections that come and go at once, with a byte, a message or nothing, while the peers exchange frames on
    the other socket's side; afterwards a client gets in at once."""
    B = c.fe("b")
    for i in range(500):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.settimeout(2)
        connect(s, c.paths["a"])
        try:
            if i % 3 == 1:
                s.send(b"\x01")
            elif i % 3 == 2:
                s.send(struct.pack("=III", M.GET_FEATURES, 1, 0))
        except OSError:
            pass
        s.close()
        if i % 50 == 0:
            B.send(c.frames(1)[0])
            check(B.tx_drain(1.0), "the other side's frames are not consumed")
            B.sync(1.0)
    c.recovers(B)


@case(limit=15)
def half_closed(c):
    """A front-end that shuts down one direction of its socket: the connection ends, or goes on; the next one gets
    in."""
    for how in (socket.SHUT_WR, socket.SHUT_RD):
        B = c.fe("b")
        A = c.fe("a")
        A.sock.shutdown(how)
        try:
            A.send_msg(M.GET_FEATURES)
        except VhostError:
            pass
        time.sleep(0.05)
        A.close()
        c.recovers(B)


@case(limit=30, single=True)
def fuzz_messages_2(c):
    """400 random messages, seed 2."""
    return fuzz_messages(c, 2, 400)


@case(limit=30, single=True)
def fuzz_messages_3(c):
    """400 random messages, seed 3."""
    return fuzz_messages(c, 3, 400)


@case(limit=30)
def fuzz_stream(c):
    """Random bytes, and good messages with random bytes changed, as a stream without regard for message borders, with
    descriptors here and there.  The process lives, the peer is not disturbed."""
    B = c.fe("b")
    for i in range(120):
        A = c.open("a")
        try:
            good = [A.pack_msg(M.SET_OWNER), A.pack_msg(M.SET_FEATURES, struct.pack("=Q", BASIC)),
                    A.pack_msg(M.SET_VRING_NUM, struct.pack("=II", 0, 64)),
                    A.pack_msg(M.SET_VRING_ADDR, struct.pack("=IIQQQQ", 0, 0, 64, 128, 192, 0)),
                    A.pack_msg(M.SET_VRING_ENABLE, struct.pack("=II", 0, 1)), A.pack_msg(M.GET_FEATURES)]
            data = bytearray(b"".join(c.rng.choice(good) for _ in range(12)))
            for _ in range(c.rng.randint(0, 6)):
                data[c.rng.randrange(len(data))] = c.rng.randrange(256)
            if i % 4 == 0:
                data = bytearray(c.rng.randbytes(300))
            at = 0
            while at < len(data):
                n = c.rng.randint(1, 90)
                A.raw_send(bytes(data[at:at + n]), [B.txq().errfd] if c.rng.random() < 0.2 else ())
                at += n
        except VhostError:
            pass
        A.close()
    c.recovers(B)
