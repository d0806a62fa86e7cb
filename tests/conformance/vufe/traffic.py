"""A guest's driver: frames into the transmit ring and out of the receive ring."""

import collections
import time

from vufe.numbers import F, Hdr, Pace, Pkt, VhostError


class Traffic:
    """Part of a FrontEnd. `viol` lists the rules of virtio that the back-end broke meanwhile."""
    GUARD = 32                 # bytes after every RX segment that must stay untouched
    POISON = 0xAA

    def __init__(self):
        self.viol = []
        self.autofill = True
        self._rx_done = {}

    # ---------------------------------------------------------- traffic
    def send(self, frame, hdr=None, layout=None, pair=0, indirect=False, kick=True,
             publish=True, region=None, wait=None, raw_header=None, timeout=2.0):
        """Put one frame into the TX ring.

        frame: bytes, or a list of bytes (then one descriptor for each, the header in
        the first of its own unless layout says otherwise).
        layout: lengths of the descriptors over header+frame; what is left over goes
        into a last one.  hdr: Hdr; raw_header: header bytes used as they are.
        """
        q = self.txq(pair)
        h = raw_header if raw_header is not None else (hdr or Hdr()).pack(self.hlen)
        if isinstance(frame, (list, tuple)):
            if layout is None:
                layout = [len(h)] + [len(s) for s in frame]
            frame = b"".join(frame)
        data = h + frame
        if layout is None:
            if self.features & (F.VERSION_1 | F.ANY_LAYOUT):
                layout = [len(data)]
            else:
                layout = [len(h), len(frame)]
        segs, pos = [], 0
        for n in layout:
            segs.append(data[pos:pos + n])
            pos += n
        if pos < len(data):
            segs.append(data[pos:])
        need = 1 if indirect else len(segs)
        end = time.monotonic() + timeout * Pace.factor
        while (q.room if q.packed else len(q.free)) < need:
            if not self.reap(pair):
                if time.monotonic() > end:
                    raise VhostError("TX ring stays full: the back-end does not consume it")
                if q.packed and q.pending or not q.packed:
                    q.publish()
                    q.kick()
                time.sleep(0.0002)
        chain = []
        for s in segs:
            a = self.mem.alloc(max(len(s), 1), 16, region)
            self.mem.write(a, s)
            chain.append((a, len(s), 0))
        q.add(chain, [(a, n) for a, n, _ in chain], indirect)
        if publish:
            q.publish()
            if kick:
                q.kick()
        if wait is not None:
            return self.tx_drain(wait, pair)
        return True

    def flush(self, pair=0, kick=True):
        q = self.txq(pair)
        q.publish()
        if kick:
            q.kick()

    def reap(self, pair=0):
        """Take back finished TX buffers; returns how many chains."""
        done = self.txq(pair).poll()
        for token, _ in done:
            for a, n in token or ():
                self.mem.free(a, max(n, 1))
        return len(done)

    def tx_drain(self, timeout=1.0, pair=0):
        """Wait until every TX chain is used.  True if so."""
        end = time.monotonic() + timeout * Pace.factor
        q = self.txq(pair)
        while q.tokens:
            if not self.reap(pair):
                if time.monotonic() > end:
                    return False
                time.sleep(0.0002)
        return True

    def post_rx(self, specs, pair=0, region=None, kick=True, publish=True, indirect=False):
        """Post RX buffers.  Each spec: a length, or a tuple of lengths (one chain)."""
        q = self.queues[2 * pair]
        for spec in specs:
            lens = (spec,) if isinstance(spec, int) else tuple(spec)
            segs = []
            for n in lens:
                a = self.mem.alloc(n + self.GUARD, 16, region)
                segs.append((a, n))
            self._rx_add(q, segs, indirect)
        if publish:
            q.publish()
            if kick:
                q.kick()

    def _rx_add(self, q, segs, indirect=False):
        left = 24
        for a, n in segs:
            if left > 0:
                k = min(n, left)
                self.mem.write(a, bytes([self.POISON]) * k)
                left -= k
            self.mem.write(a + n, b"\xC5" * self.GUARD)
        q.add([(a, n, 1) for a, n in segs], segs, indirect)

    def rx_scan(self, pair=0):
        """Move newly used RX chains into the waiting list."""
        dq = self._rx_done.setdefault(pair, collections.deque())
        got = self.queues[2 * pair].poll()
        dq.extend(got)
        return len(got)

    def _gather(self, token, length):
        out, left = [], length
        for a, n in token:
            k = min(n, left)
            out.append(self.mem.read(a, k))
            left -= k
            if self.mem.read(a + n, self.GUARD) != b"\xC5" * self.GUARD:
                self.viol.append("RX: bytes after the end of a %d-byte buffer were "
                                 "overwritten" % n)
                self.mem.write(a + n, b"\xC5" * self.GUARD)
        if left > 0:
            self.viol.append("RX: used length %d exceeds the posted %d bytes"
                             % (length, length - left))
        return b"".join(out)

    def recv(self, timeout=1.0, pair=0, refill=None):
        """Next received frame, or None.  Buffers are posted again if autofill is set."""
        refill = self.autofill if refill is None else refill
        q = self.queues[2 * pair]
        dq = self._rx_done.setdefault(pair, collections.deque())
        end = time.monotonic() + timeout * Pace.factor
        while not dq:
            if self.rx_scan(pair):
                break
            if time.monotonic() >= end:
                return None
            time.sleep(0.0002)
        token, length = dq.popleft()
        if length is None:
            length = sum(n for _, n in token)
        first = self._gather(token, length)
        used = [(token, length)]
        hl = self.hlen
        if length < hl:
            self.viol.append("RX: used length %d is shorter than the %d-byte header"
                             % (length, hl))
            hdr = Hdr.unpack(first)
            data = b""
        else:
            hdr = Hdr.unpack(first[:hl])
            data = first[hl:]
            n = hdr.num_buffers if self.features & F.MRG_RXBUF else 1
            if self.features & F.MRG_RXBUF and not 1 <= n <= q.size:
                self.viol.append("RX: num_buffers is %d" % n)
                n = 1
            parts = [data]
            while n > len(used):
                if not dq and not self.rx_scan(pair):
                    # A driver drops the frame here; give the device a moment, but note it.
                    t = time.monotonic() + 0.3 * Pace.factor
                    late = False
                    while not self.rx_scan(pair):
                        late = True
                        if time.monotonic() > t:
                            break
                        time.sleep(0.0002)
                    if late and dq:
                        self.viol.append("RX: buffers of one frame became visible one by one")
                    if not dq:
                        self.viol.append("RX: num_buffers is %d but only %d buffers came"
                                         % (n, len(used)))
                        break
                tok, ln = dq.popleft()
                if ln is None:
                    ln = sum(k for _, k in tok)
                parts.append(self._gather(tok, ln))
                used.append((tok, ln))
            data = b"".join(parts)
        if refill:
            for tok, _ in used:
                self._rx_add(q, tok)
            q.publish()
            q.kick()
        else:
            for tok, _ in used:
                for a, n in tok:
                    self.mem.free(a, n + self.GUARD)
        return Pkt(data, hdr, len(used), [ln for _, ln in used])

    def recv_all(self, n, timeout=2.0, pair=0):
        """Up to n frames; stops when nothing has come for `timeout` seconds."""
        out = []
        while len(out) < n:
            p = self.recv(timeout, pair)
            if p is None:
                break
            out.append(p)
        return out

    def drain_rx(self, quiet=0.05, pair=0):
        """Throw away whatever arrives until it has been quiet for a while."""
        n = 0
        while self.recv(quiet, pair) is not None:
            n += 1
        return n
