"""The driver's side of a packed virtqueue."""

import collections
import struct

from vufe.numbers import D_AVAIL, D_INDIRECT, D_NEXT, D_USED, D_WRITE, PAGE, VhostError
from vufe.queue import Queue, untable


class PackedQueue(Queue):
    """Driver side of a packed virtqueue."""
    packed = True

    def __init__(self, fe, index, size, region=None):
        super().__init__(fe, index, size)
        m = self.mem
        self.desc = m.alloc(16 * size, PAGE, region, exact=True)
        self.driver = m.alloc(4, PAGE, region, exact=True)
        self.device = m.alloc(4, PAGE, region, exact=True)
        m.write(self.desc, bytes(16 * size))
        m.write(self.driver, bytes(4))
        m.write(self.device, bytes(4))
        self.next_avail = 0
        self.avail_wrap = 1
        self.next_used = 0
        self.used_wrap = 1
        self.room = size
        self.ids = collections.deque(range(size))
        self.pending = []                # (slot, flags) not yet shown to the device
        self.kicked_pos = (0, 1)
        self.since_kick = 0

    def addr_payload(self, flags=0, log=0):
        m = self.mem
        return struct.pack("=IIQQQQ", self.index, flags, m.uaddr(self.desc),
                           m.uaddr(self.device), m.uaddr(self.driver), log)

    def used_bytes(self):
        return 16 * self.size

    def preset(self, slot, wrap=1):
        self.next_avail = self.next_used = slot
        self.avail_wrap = self.used_wrap = wrap

    def base(self):
        return (self.next_used | self.used_wrap << 15
                | self.next_used << 16 | self.used_wrap << 31)

    def raw_desc(self, slot, addr, length, bid, flags):
        p = self.desc + 16 * (slot % self.size)
        self.mem.write(p, struct.pack("=QIH", addr & (1 << 64) - 1,
                                      length & 0xFFFFFFFF, bid & 0xFFFF))
        self.mem.set_u16(p + 14, flags)

    def avail_flags(self, wrap=None):
        w = self.avail_wrap if wrap is None else wrap
        return D_AVAIL if w else D_USED

    def indirect_table(self, chain, gpa=None, region=None):
        tab = b"".join(struct.pack("=QIHH", a, n, 0, D_WRITE if w else 0) for a, n, w in chain)
        if gpa is None:
            gpa = self.mem.alloc(len(tab), 16, region)
        self.mem.write(gpa, tab)
        return gpa, len(tab)

    def add(self, chain, token=None, indirect=False, bid=None, extra=0):
        """Queue a chain.  bid overrides the buffer id, extra is OR-ed into every flags."""
        if indirect:
            gpa, n = self.indirect_table(chain)
            token = (token, ("table", gpa, n))
            chain = [(gpa, n, D_INDIRECT)]
        if self.room < len(chain):
            raise VhostError("ring %d is full" % self.index)
        real = self.ids.popleft()
        shown = real if bid is None else bid
        first = None
        for k, (a, n, w) in enumerate(chain):
            fl = D_INDIRECT if w == D_INDIRECT and indirect else (D_WRITE if w else 0)
            if k + 1 < len(chain):
                fl |= D_NEXT
            fl |= extra | self.avail_flags()
            p = self.desc + 16 * self.next_avail
            self.mem.write(p, struct.pack("=QIH", a & (1 << 64) - 1, n & 0xFFFFFFFF,
                                          shown & 0xFFFF))
            if first is None:
                first = (self.next_avail, fl)
            else:
                self.mem.set_u16(p + 14, fl)
            self.next_avail += 1
            if self.next_avail == self.size:
                self.next_avail = 0
                self.avail_wrap ^= 1
        self.pending.append(first)
        self.room -= len(chain)
        self.since_kick += len(chain)
        self.tokens[shown] = (len(chain), token, real)
        self.order.append(shown)
        return shown

    def publish(self):
        # The oldest head last: the device sees the whole burst at once.
        for slot, fl in reversed(self.pending):
            self.mem.set_u16(self.desc + 16 * slot + 14, fl)
        self.pending.clear()

    # ----- notification
    def set_no_interrupt(self, on):
        self.mem.set_u16(self.driver + 2, 1 if on else 0)

    def set_event(self, slot, wrap):
        """Ask for a call when slot/wrap is used (needs EVENT_IDX)."""
        self.mem.set_u16(self.driver, slot | wrap << 15)
        self.mem.set_u16(self.driver + 2, 2)

    def device_flags(self):
        return self.mem.u16(self.device + 2) & 3

    def need_kick(self):
        added, self.since_kick = self.since_kick, 0
        fl = self.device_flags()
        if fl == 1:
            return False
        if fl == 2 and self.event_idx:
            v = self.mem.u16(self.device)
            ev, wrap = v & 0x7FFF, v >> 15
            new = self.next_avail
            if wrap != self.avail_wrap:
                ev -= self.size
            return ((new - ev - 1) & 0xFFFF) < added
        return True

    # ----- completion
    def _is_used(self, slot, wrap):
        fl = self.mem.u16(self.desc + 16 * slot + 14)
        return bool(fl & D_AVAIL) == bool(wrap) and bool(fl & D_USED) == bool(wrap)

    def poll(self):
        out = []
        while self.tokens and self._is_used(self.next_used, self.used_wrap):
            p = self.desc + 16 * self.next_used
            length, bid = struct.unpack("=IH", self.mem.read(p + 8, 6))
            if bid not in self.tokens:
                self.fe.viol.append("ring %d: used descriptor names id %d, which is not "
                                    "outstanding" % (self.index, bid))
                break
            batch = [bid]
            if self.in_order:
                lst = list(self.order)
                if bid in lst:
                    batch = lst[:lst.index(bid) + 1]
            elif self.order and self.order[0] != bid:
                pass
            for b in batch:
                n, token, real = self.tokens.pop(b)
                self.order.remove(b)
                self.ids.append(real)
                self.room += n
                self.used_total += 1
                self.next_used += n
                if self.next_used >= self.size:
                    self.next_used -= self.size
                    self.used_wrap ^= 1
                out.append((untable(self.mem, token), length if b == bid else None))
        return out
