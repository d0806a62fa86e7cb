"""Cases about live migration: the log of dirty pages, the state of a device, and two front-ends of one guest."""

import mmap

from cases.impl import *          # noqa: F401,F403

LOGGED = PLAIN_P | P.LOG_SHMFD


def logged_pair(c, feats=BASIC, rx=None, **kw):
    c.need(F.LOG_ALL, P.LOG_SHMFD)
    return c.pair(feats, proto=LOGGED, kb=dict(kw, rx=rx or [2048] * 60))


# ================================================================ the log

@case()
def log_packed_rings(c):
    """Dirty logging with packed rings: data pages and the pages of used descriptors."""
    A, B = logged_pair(c, BASIC | F.PACKED, size=256)
    lg = Log(B.mem.max_gpa())
    log_on(B, lg)
    log_traffic(c, A, B, lg, hi=1500)


@case()
def log_mergeable(c):
    """Dirty logging of frames over many buffers, chains of several pieces and indirect tables: every page."""
    for feats in (BASIC, BASIC | F.INDIRECT, BASIC | F.PACKED):
        A, B = logged_pair(c, feats, rx=[(100, 5000, 3000)] * 30 if not feats & F.INDIRECT else [900] * 100)
        lg = Log(B.mem.max_gpa())
        log_on(B, lg)
        log_traffic(c, A, B, lg, n=6, lo=3000, hi=20000)


@case()
def log_software_offloads(c):
    """Dirty logging of frames whose checksum is completed and of segments made in software."""
    A, B = c.pair(BASIC | F.CSUM | F.HOST_TSO4, BASIC, kb={"rx": [1800] * 100, "proto": LOGGED})
    lg = Log(B.mem.max_gpa())
    log_on(B, lg)
    B.autofill = False
    b = build(payload=c.rng.randbytes(30000), partial=True)
    A.send(b.frame, csum_hdr(b, GSO_TCPV4, 1448))
    b = build(payload=c.rng.randbytes(1000), partial=True)
    A.send(b.frame, csum_hdr(b))
    end = time.monotonic() + 1.5
    while B.rx_scan() or not B._rx_done[0] or len(B._rx_done[0]) < 22:
        check(time.monotonic() < end, "%d buffers were used, expected 22" % len(B._rx_done[0]))
        time.sleep(0.002)
    missing = rx_pages_marked(B, lg, list(B._rx_done[0]))
    check(not missing, "%d written pages are not in the log" % len(missing))


@case()
def log_used_ring_elsewhere(c):
    """log_guest_addr of the used ring lies outside of the memory table (trap 5), but inside the log: there it is marked."""
    A, B = logged_pair(c)
    lg = Log(B.mem.max_gpa() + (64 << 20))
    far = B.mem.max_gpa() + (16 << 20) & ~(PAGE - 1)
    log_on(B, lg, log_gpa={0: far, 1: far + 65536})
    log_traffic(c, A, B, lg, hi=1500, used_gpa=far)
    for f in c.frames(4):
        B.send(f)
        A.recv(0.5)
    check(lg.marked(far + 65536 + 2), "the TX ring's used index is not marked")


@case()
def log_with_offset(c):
    """A log at an offset of its file, not on a page: only there bits are set."""
    A, B = logged_pair(c)
    for offset in (4096, 4096 + 64, 12288 + 8):
        lg = Log(B.mem.max_gpa(), offset=offset)
        log_on(B, lg)
        log_traffic(c, A, B, lg, n=4, hi=1500)
        check(not any(lg.mm[:offset]), "bits were set before the log's offset")
        B.drain_rx(0.01)
        B.post_rx([2048] * 4)
        B.features &= ~F.LOG_ALL
        B.tell(M.SET_FEATURES, struct.pack("=Q", B.features))


@case()
def log_lies(c):
    """SET_LOG_BASE with sizes and offsets that wrap, end beyond the file or are 0 (CVE-2020-10722): refused or closed."""
    lg = Log(1 << 30)
    msgs = []
    for size, offset in ((0, 0), (1 << 63, 1 << 63), ((1 << 64) - 1, 1), (4096, (1 << 64) - 4096), (1 << 40, 0), (lg.size, 1 << 40),
                         ((1 << 64) - 4096, 8192)):
        msgs.append(("size %#x, offset %#x" % (size, offset), M.SET_LOG_BASE, struct.pack("=QQ", size, offset), [lg.fd], {}))
    msgs.append(("no descriptor", M.SET_LOG_BASE, struct.pack("=QQ", lg.size, 0), (), {}))
    return dubious(c, msgs, proto=LOGGED, want=("nack", "closed", "reply0"))


@case()
def log_too_small(c):
    """A log of one page for memory that needs more: what is beyond it is not marked and not written; nothing breaks."""
    A, B = logged_pair(c)
    total = 8 * PAGE
    lg = Log(0, size=8)
    os.ftruncate(lg.fd, total)
    big = mmap.mmap(lg.fd, total)
    B.set_log_base(lg.fd, 8)
    B.features |= F.LOG_ALL
    B.tell(M.SET_FEATURES, struct.pack("=Q", B.features))
    for i in (0, 1):
        B.vring_addr(B.queues[i], 1, 1 << 50)
    c.both(A, B, 20)
    check(not any(big[8:]), "bytes behind the log were written")


@case()
def log_switched_off(c):
    """After LOG_ALL is gone no page is marked any more, and after it came again they are; a new SET_LOG_BASE is used from its
    answer on, and the old log no longer."""
    A, B = logged_pair(c)
    old = Log(B.mem.max_gpa())
    log_on(B, old)
    c.both(A, B, 4)
    check(old.count() > 0, "nothing is marked")
    B.features &= ~F.LOG_ALL
    B.tell(M.SET_FEATURES, struct.pack("=Q", B.features))
    old.clear()
    c.both(A, B, 8)
    check(old.count() == 0, "%d pages are marked after LOG_ALL was taken back" % old.count())
    B.features |= F.LOG_ALL
    B.tell(M.SET_FEATURES, struct.pack("=Q", B.features))
    c.both(A, B, 4)
    check(old.count() > 0, "nothing is marked after LOG_ALL came again")
    new = Log(B.mem.max_gpa())
    B.set_log_base(new.fd, new.size)
    old.clear()
    c.both(A, B, 8)
    check(old.count() == 0, "the old log is still written")
    check(new.count() > 0, "the new log is not written")


@case()
def log_survives_new_table(c):
    """SET_MEM_TABLE and an enable while the log is on: pages are marked as before."""
    A, B = logged_pair(c, rx=[2048] * 30)
    lg = Log(B.mem.max_gpa() + (64 << 20))
    log_on(B, lg)
    B.set_mem_table()
    B.vring_enable(B.rxq(), False)
    B.vring_enable(B.rxq(), True)
    lg.clear()
    log_traffic(c, A, B, lg, n=6, hi=1500)


@case()
def log_keeps_bits(c):
    """Bits of the log that others have set stay, and nothing is marked that was not written."""
    A, B = logged_pair(c, rx=[2048] * 30)
    lg = Log(B.mem.max_gpa() + (64 << 20))
    first = B.mem.max_gpa() // PAGE // 8 + 1
    for i in range(first, lg.size):
        lg.mm[i] = 0xA5
    log_on(B, lg)
    log_traffic(c, A, B, lg, n=6, hi=1500)
    check(all(v == 0xA5 for v in lg.mm[first:lg.size]), "bits of pages that nobody wrote have changed")


@case(limit=15)
def truncate_log(c):
    """The log's file shrinks to nothing while frames flow: that end is dropped, or goes on; nobody else notices."""
    B = c.good_peer()

    def run(A):
        lg = Log(A.mem.max_gpa())
        log_on(A, lg)
        for f in c.frames(4):
            B.send(f)
        os.ftruncate(lg.fd, 0)
        for f in c.frames(8):
            B.send(f)
        time.sleep(0.1)
    return c.hostile(run, peer=B, proto=LOGGED)


# ================================================================ state

@case()
def device_state_load(c):
    """SET_DEVICE_STATE_FD (load) of the state that was saved, with the rings stopped: CHECK_DEVICE_STATE gives 0."""
    c.need(proto=P.DEVICE_STATE)
    A, B = c.pair(proto=PLAIN_P | P.DEVICE_STATE)
    for _ in range(3):
        c.both(A, B, 6)
        bases = A.stop_rings()
        blob = device_state_read(A)
        r, w = os.pipe()
        rep = A.request(M.SET_DEVICE_STATE_FD, struct.pack("=II", 1, 0), [r])
        os.close(r)
        v = struct.unpack("=Q", rep.payload)[0]
        check(v & 0xFF == 0, "load is refused: %#x" % v)
        if blob:
            os.write(w, blob)
        os.close(w)
        check(A.u64(M.CHECK_DEVICE_STATE) == 0, "CHECK_DEVICE_STATE reports an error")
        A.restart_rings(bases)
    c.both(A, B, 6)


@case(limit=15, fds=True)
def device_state_lies(c):
    """State transfers with running rings, other directions and phases, without a descriptor, with one that is never read, and
    loading a megabyte of nonsense: an error, or the end closed; nobody waits for it."""
    c.need(proto=P.DEVICE_STATE)
    B = c.good_peer()

    def attempt(stopped, direction, phase, fds):
        A = c.fe("a", proto=PLAIN_P | P.DEVICE_STATE)
        if stopped:
            A.stop_rings()
        try:
            A.send_msg(M.SET_DEVICE_STATE_FD, struct.pack("=II", direction, phase), fds)
            r = A.read_msg(1.0)
            A.send_msg(M.CHECK_DEVICE_STATE)
            A.read_msg(1.0)
            return struct.unpack("=Q", r.payload)[0] & 0xFF
        except Closed:
            return 1
        finally:
            A.close()
    r, w = os.pipe()
    os.set_blocking(w, False)
    try:
        while True:
            os.write(w, bytes(65536))
    except BlockingIOError:
        pass
    os.set_blocking(w, True)
    for args in ((True, 7, 0, [w]), (True, 0, 9, [w]), (True, 0, 0, ()), (True, 0, 0, [w, w])):
        check(attempt(*args) != 0, "accepted: stopped %r, direction %d, phase %d, %d descriptors" % (*args[:3], len(args[3])))
    for args in ((False, 0, 0, [w]), (True, 0, 0, [w]), (True, 1, 0, [r])):
        attempt(*args)
        stuck = peer_stuck(B)
        check(not stuck, stuck)
        B.drain_rx(0.01)
    os.close(r)
    os.close(w)
    c.recovers(B)


# ================================================================ two front-ends of one guest

class Destination(FrontEnd):
    """A second front-end with the memory and the rings of another one."""

    def adopt(self, source):
        self.features, self.mem = source.features, source.mem
        self.queues = source.queues
        self._rx_done = source._rx_done
        for q in self.queues:
            q.fe = self

    def negotiate(self, features):
        self.get_features()
        self.get_proto()
        self.set_proto(PLAIN_P & self.proto_offered)
        self.tell(M.SET_OWNER)
        self.set_features(features)


@case(limit=20)
def migration_on_one_host(c):
    """The destination's front-end connects to the same socket and negotiates while the source still runs the guest; then the
    source stops its rings, the destination starts them where they were, and the source leaves: nothing is lost but what came
    while no ring ran, in either direction, five times in a row."""
    A, B = c.pair()
    for i in range(5):
        c.both(A, B, 12, "before migration %d: " % i)
        D = Destination(c.paths["a"])
        D.negotiate(A.features)
        c.both(A, B, 12, "while the destination waits, %d: " % i)
        bases = A.stop_rings()
        fr = c.frames(6)
        for f in fr:
            A.send(f)
        D.adopt(A)
        D.set_mem_table()
        for q in D.queues:
            D.vring_enable(q, True)
        D.restart_rings(bases)
        A.queues, A.mem = [], None
        c.same(fr, [p.data for p in B.recv_all(6, 1.0)], "frames queued on the way, %d: " % i)
        c.both(D, B, 12, "at the destination, %d: " % i)
        A.close()
        c.both(D, B, 12, "after the source has left, %d: " % i)
        A = c.live["a"] = D


@case(limit=20)
def migration_that_fails(c):
    """The destination negotiates and vanishes, before and after the source has stopped its rings: the source starts them
    again and goes on."""
    A, B = c.pair()
    for i in range(4):
        D = Destination(c.paths["a"])
        D.negotiate(A.features)
        if i & 1:
            bases = A.stop_rings()
            D.close()
            A.restart_rings(bases)
        else:
            D.close()
        B.drain_rx(0.02)
        c.both(A, B, 12, "round %d: " % i)
