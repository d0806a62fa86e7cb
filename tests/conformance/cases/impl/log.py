"""Bodies of cases about the log of dirty pages."""

import mmap

from cases.impl.words import *          # noqa: F401,F403


class Log:
    """A dirty log in a memfd of its own."""

    def __init__(self, max_gpa, offset=0, size=None):
        self.offset = offset
        self.size = size or (max_gpa // PAGE // 8 + 8 + 7) & ~7
        total = (offset + self.size + PAGE - 1) & ~(PAGE - 1)
        self.fd = os.memfd_create("log", os.MFD_CLOEXEC)
        os.ftruncate(self.fd, total)
        self.mm = mmap.mmap(self.fd, total)

    def marked(self, gpa):
        page = gpa // PAGE
        return bool(self.mm[self.offset + page // 8] >> page % 8 & 1)

    def clear(self):
        n = len(self.mm)
        self.mm[0:n] = bytes(n)

    def count(self):
        return int.from_bytes(self.mm[:], "little").bit_count()


# ------------------------------------------------------------------ logging

def log_on(fe, log, rings=(0, 1), log_gpa=None):
    """Start dirty logging the way QEMU does on a running device."""
    payload = fe.set_log_base(log.fd, log.size, log.offset)
    fe.features |= F.LOG_ALL
    fe.tell(M.SET_FEATURES, struct.pack("=Q", fe.features))
    for i in rings:
        q = fe.queues[i]
        g = log_gpa[i] if log_gpa else (q.desc if q.packed else q.used)
        fe.vring_addr(q, 1, g)
    fe.sync()
    return payload


def pages(gpa, n):
    return range(gpa // PAGE, (gpa + max(n, 1) - 1) // PAGE + 1)


def rx_pages_marked(fe, log, pkt_tokens):
    missing = []
    for token, length in pkt_tokens:
        left = length
        for a, n in token:
            k = min(left, n)
            if k:
                for pg in pages(a, k):
                    if not log.marked(pg * PAGE):
                        missing.append("data page %#x" % (pg * PAGE))
            left -= k
    return missing


def log_traffic(c, A, B, log, n=12, lo=100, hi=6000, used_gpa=None, used=True, hlen=12):
    """Frames from A to B; every page B's buffers and used ring got must be marked."""
    fr = c.frames(n, lo, hi)
    B.autofill = False
    rq = B.rxq()
    used0 = rq.used_idx if not rq.packed else rq.next_used
    for f in fr:
        A.send(f)
        time.sleep(0.001)
    dq = B._rx_done.setdefault(0, collections.deque())
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        B.rx_scan()
        total = sum(ln or 0 for _, ln in dq)
        if total >= sum(len(f) + hlen for f in fr):
            break
        time.sleep(0.002)
    time.sleep(0.03)
    tokens = list(dq)
    missing = rx_pages_marked(B, log, tokens)
    check(not missing, "%d written pages are not in the log: %s" % (len(missing),
                                                                    ", ".join(missing[:3])))
    if used:
        g = used_gpa if used_gpa is not None else (rq.desc if rq.packed else rq.used)
        miss = []
        k = len(tokens)
        if rq.packed:
            for j in range(k):
                pg = (g + 16 * ((used0 + j) % rq.size)) // PAGE
                if not log.marked(pg * PAGE):
                    miss.append("%#x" % (pg * PAGE))
        else:
            spots = [g + 2] + [g + 4 + 8 * ((used0 + j) % rq.size) for j in range(k)]
            miss = ["%#x" % s for s in spots if not log.marked(s)]
        check(not miss, "the used ring was written but its page is not in the log (%s)" % miss[0]
              if miss else "")
    got = B.recv_all(n, 0.5)
    c.same(fr, [p.data for p in got])
    return tokens
