"""Guest memory in memfds, one for each region."""

import collections
import fcntl
import mmap
import os
import struct

from vufe.numbers import PAGE, VhostError


def page_up(n):
    return (n + PAGE - 1) & ~(PAGE - 1)


class Region:
    """One memory region: guest address, user address, and a memfd behind it.

    `offset` is where the region starts in the file (the protocol's mmap offset).
    `fd`/`share` let two regions live in one file.
    """

    def __init__(self, gpa, size, uaddr=None, offset=0, share=None, seal=False):
        self.gpa = gpa
        self.size = size
        # On purpose far from the guest address, and not a constant distance from
        # it for every region, so that a back-end which mixes the two is found out.
        if uaddr is None:
            uaddr = 0x7E0000000000 + gpa + (gpa >> 12) % 97 * 0x40000000
        self.uaddr = uaddr
        self.offset = offset
        if share is None:
            self.file_size = page_up(offset + size)
            self.fd = os.memfd_create("guest", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            os.ftruncate(self.fd, self.file_size)
            if seal:
                fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
            self.mm = mmap.mmap(self.fd, self.file_size)
        else:
            self.file_size = share.file_size
            self.fd = os.dup(share.fd)
            self.mm = share.mm
        self.mv = memoryview(self.mm)
        self.h16 = self.mv.cast("H")
        self.brk = 0
        self.freed = collections.defaultdict(list)

    @property
    def end(self):
        return self.gpa + self.size

    def pos(self, gpa):
        return gpa - self.gpa + self.offset

    def wire(self):
        return struct.pack("=QQQQ", self.gpa, self.size, self.uaddr, self.offset)

    def close(self):
        for v in (self.h16, self.mv):
            try:
                v.release()
            except (BufferError, ValueError):
                pass
        try:
            os.close(self.fd)
        except OSError:
            pass


def _size_class(n):
    c = 64
    while c < n:
        c *= 2
    return c


class GuestMemory:
    """A set of regions, addressed by guest address."""

    def __init__(self, regions=None):
        if regions is None:
            regions = [Region(0x100000, 64 << 20)]
        self.regions = list(regions)
        self._last = self.regions[0]

    def find(self, gpa):
        r = self._last
        if r.gpa <= gpa < r.gpa + r.size:
            return r
        for r in self.regions:
            if r.gpa <= gpa < r.gpa + r.size:
                self._last = r
                return r
        raise KeyError("guest address %#x is in no region" % gpa)

    def uaddr(self, gpa):
        r = self.find(gpa)
        return r.uaddr + gpa - r.gpa

    def write(self, gpa, data):
        n = len(data)
        r = self.find(gpa)
        if gpa + n <= r.end:
            p = r.pos(gpa)
            r.mv[p:p + n] = data
            return
        data = memoryview(data)
        while n:
            r = self.find(gpa)
            k = min(n, r.end - gpa)
            p = r.pos(gpa)
            r.mv[p:p + k] = data[:k]
            data = data[k:]
            gpa += k
            n -= k

    def read(self, gpa, n):
        out = b""
        while n:
            r = self.find(gpa)
            k = min(n, r.end - gpa)
            p = r.pos(gpa)
            out += r.mm[p:p + k]
            gpa += k
            n -= k
        return out

    # 16-bit accesses go through a cast memoryview, which is one plain load or
    # store of two bytes: a back-end never sees half of an index.
    def u16(self, gpa):
        r = self.find(gpa)
        return r.h16[r.pos(gpa) >> 1]

    def set_u16(self, gpa, v):
        r = self.find(gpa)
        r.h16[r.pos(gpa) >> 1] = v & 0xFFFF

    def alloc(self, size, align=16, region=None, exact=False):
        """Guest address of `size` fresh bytes.  exact: no recycling, any size."""
        cls = size if exact else _size_class(size)
        regs = [region] if region is not None else self.regions
        for r in regs:
            if not exact and r.freed[cls]:
                return r.freed[cls].pop()
        for r in regs:
            a = (r.gpa + r.brk + align - 1) // align * align - r.gpa
            if a + cls <= r.size:
                r.brk = a + cls
                return r.gpa + a
        raise VhostError("out of guest memory for %d bytes" % size)

    def free(self, gpa, size):
        try:
            self.find(gpa).freed[_size_class(size)].append(gpa)
        except KeyError:
            pass                             # its region was taken out meanwhile

    def table(self):
        """Payload and fds of SET_MEM_TABLE."""
        pl = struct.pack("=II", len(self.regions), 0)
        pl += b"".join(r.wire() for r in self.regions)
        return pl, [r.fd for r in self.regions]

    def max_gpa(self):
        return max(r.end for r in self.regions)

    def close(self):
        for r in self.regions:
            r.close()
