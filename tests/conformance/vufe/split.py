"""The driver's side of a split virtqueue."""

import collections
import struct

from vufe.numbers import D_INDIRECT, D_NEXT, D_WRITE, PAGE, VhostError
from vufe.queue import Queue, untable


class SplitQueue(Queue):
    """Driver side of a split virtqueue."""

    def __init__(self, fe, index, size, region=None):
        super().__init__(fe, index, size)
        m = self.mem
        # Each part on a page of its own, so that dirty logging can tell them apart.
        self.desc = m.alloc(16 * size, PAGE, region, exact=True)
        self.avail = m.alloc(6 + 2 * size, PAGE, region, exact=True)
        self.used = m.alloc(6 + 8 * size, PAGE, region, exact=True)
        self.free = collections.deque(range(size))
        self.avail_idx = 0          # shadow, published by publish()
        self.used_idx = 0
        self.kicked_at = 0
        m.write(self.desc, bytes(16 * size))
        m.write(self.avail, bytes(6 + 2 * size))
        m.write(self.used, bytes(6 + 8 * size))

    def addr_payload(self, flags=0, log=0):
        m = self.mem
        return struct.pack("=IIQQQQ", self.index, flags, m.uaddr(self.desc),
                           m.uaddr(self.used), m.uaddr(self.avail), log)

    def used_bytes(self):
        return 6 + 8 * self.size

    def preset(self, start):
        """Let the ring begin at index `start` (before it is started)."""
        self.avail_idx = self.used_idx = self.kicked_at = start & 0xFFFF
        self.mem.set_u16(self.avail + 2, start)
        self.mem.set_u16(self.used + 2, start)
        if self.event_idx:
            self.set_used_event(start)

    def base(self):
        """What SET_VRING_BASE carries for the present state (nothing in flight)."""
        return self.used_idx

    # ----- descriptors
    def raw_desc(self, i, addr, length, flags, nxt=0):
        self.mem.write(self.desc + 16 * (i % self.size),
                       struct.pack("=QIHH", addr & (1 << 64) - 1, length & 0xFFFFFFFF,
                                   flags & 0xFFFF, nxt & 0xFFFF))

    def raw_push(self, head, token=None, descs=()):
        """Put any head index into the available ring."""
        self.mem.set_u16(self.avail + 4 + 2 * (self.avail_idx % self.size), head)
        self.tokens[head] = (list(descs), token)
        self.order.append(head)
        self.avail_idx = (self.avail_idx + 1) & 0xFFFF

    def indirect_table(self, chain, gpa=None, region=None):
        tab = b""
        for k, (a, n, w) in enumerate(chain):
            last = k == len(chain) - 1
            tab += struct.pack("=QIHH", a, n, (D_WRITE if w else 0) | (0 if last else D_NEXT),
                               0 if last else k + 1)
        if gpa is None:
            gpa = self.mem.alloc(len(tab), 16, region)
        self.mem.write(gpa, tab)
        return gpa, len(tab)

    def add(self, chain, token=None, indirect=False):
        """Queue a chain of (guest address, length, device-writable)."""
        if indirect:
            gpa, n = self.indirect_table(chain)
            token = (token, ("table", gpa, n))
            chain = [(gpa, n, D_INDIRECT)]
        if len(self.free) < len(chain):
            raise VhostError("ring %d is full" % self.index)
        ids = [self.free.popleft() for _ in chain]
        for k, (a, n, w) in enumerate(chain):
            fl = D_INDIRECT if w == D_INDIRECT and indirect else (D_WRITE if w else 0)
            nxt = 0
            if k + 1 < len(chain):
                fl |= D_NEXT
                nxt = ids[k + 1]
            self.raw_desc(ids[k], a, n, fl, nxt)
        self.raw_push(ids[0], token, ids)
        return ids[0]

    def publish(self):
        self.mem.set_u16(self.avail + 2, self.avail_idx)

    # ----- notification
    def set_no_interrupt(self, on):
        self.mem.set_u16(self.avail, 1 if on else 0)

    def set_used_event(self, idx):
        self.mem.set_u16(self.avail + 4 + 2 * self.size, idx)

    def avail_event(self):
        return self.mem.u16(self.used + 4 + 8 * self.size)

    def device_flags(self):
        return self.mem.u16(self.used)

    def need_kick(self):
        old, new = self.kicked_at, self.avail_idx
        self.kicked_at = new
        if self.event_idx:
            return ((new - self.avail_event() - 1) & 0xFFFF) < ((new - old) & 0xFFFF)
        return not self.mem.u16(self.used) & 1

    # ----- completion
    def used_mem_idx(self):
        return self.mem.u16(self.used + 2)

    def poll(self):
        """List of (token, length) that the device has given back since last time."""
        out = []
        end = self.used_mem_idx()
        n = (end - self.used_idx) & 0xFFFF
        if n > self.size:
            self.fe.viol.append("ring %d: used index jumped by %d" % (self.index, n))
            self.used_idx = end
            return out
        while self.used_idx != end:
            p = self.used + 4 + 8 * (self.used_idx % self.size)
            i, length = struct.unpack("=II", self.mem.read(p, 8))
            if self.in_order:
                k = self._in_order_batch(i, (end - self.used_idx) & 0xFFFF)
                if k > 1:
                    for h in [self.order[j] for j in range(k - 1)]:
                        out.append(self._complete(h, None))
                out.append(self._complete(i, length))
                self.used_idx = (self.used_idx + k) & 0xFFFF
                continue
            out.append(self._complete(i, length))
            self.used_idx = (self.used_idx + 1) & 0xFFFF
        return [o for o in out if o is not None]

    def _in_order_batch(self, head, limit):
        for j, h in enumerate(self.order):
            if h == head:
                if j + 1 > limit:
                    self.fe.viol.append("ring %d: in-order batch larger than the used "
                                        "index says" % self.index)
                    return 1
                return j + 1
        return 1

    def _complete(self, head, length):
        ent = self.tokens.pop(head, None)
        if ent is None:
            self.fe.viol.append("ring %d: used element names %d, which is not outstanding"
                                % (self.index, head))
            return None
        if self.order and self.order[0] == head:
            self.order.popleft()
        else:
            if self.in_order:
                self.fe.viol.append("ring %d: head %d used out of order" % (self.index, head))
            try:
                self.order.remove(head)
            except ValueError:
                pass
        self.used_total += 1
        descs, token = ent
        self.free.extend(descs)
        return untable(self.mem, token), length
