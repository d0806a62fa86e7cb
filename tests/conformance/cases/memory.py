"""Cases about guest memory: regions, tables, memory that goes away.

Every docstring names the public bug (or the rule) behind the case and the right outcome.
"""

from cases.impl import *          # noqa: F401,F403


# ================================================================ memory

@case(limit=20)
def memtable_grow_traffic(c):
    """SET_MEM_TABLE with one more region, under traffic and without new ring addresses (memory
    hot-plug: cloud-hypervisor#941, VPP 4442f7cb2eb).  No loss; the new memory is usable at once."""
    A, B = c.pair()
    regs = list(A.mem.regions)
    extra = [Region(0x80000000 + i * (64 << 20), 1 << 20) for i in range(6)]

    def grow(i):
        k = i % 7
        A.mem.regions = regs + extra[:k]
        A.set_mem_table()

    during(c, A, B, grow, 21, what="A to B, ")
    during(c, B, A, grow, 14, what="B to A, ")
    A.mem.regions = regs + extra
    A.set_mem_table()
    for r in extra:
        f = c.frames(1)[0]
        A.send(f, region=r)
        p = B.recv(1.0)
        check(p is not None and p.data == f, "a frame in a new region did not arrive")


@case(limit=20)
def memreg_add_remove(c):
    """ADD_MEM_REG/REM_MEM_REG instead of SET_MEM_TABLE, 40 regions, frames out of and into each,
    a stray fd on REM (cloud-hypervisor#1460, kata#2795).  All work; removed ones are unmapped."""
    c.need(proto=P.MEM_SLOTS)
    proto = PLAIN_P | P.MEM_SLOTS

    def add_all(fe):
        for r in fe.mem.regions:
            fe.add_mem_reg(r)
    order = ["get_features", "get_proto", "set_proto", "slots", "owner", "set_features", add_all,
             ("num", "base", "addr", "kick", "call"), ("enable",)]
    A, B = c.pair(proto=proto, order=order)
    c.both(A, B, 8)
    n = min(40, A.max_slots - 1)
    extra = [Region(0x80000000 + i * (8 << 20), 256 << 10) for i in range(n)]
    for r in extra:
        A.add_mem_reg(r)
        A.mem.regions.append(r)
        f = c.frames(1)[0]
        A.send(f, region=r)
        p = B.recv(1.0)
        check(p is not None and p.data == f, "frame out of an added region was lost")
    for k, r in enumerate(extra):
        A.rem_mem_reg(r, [r.fd] if k % 4 == 0 else ())
        A.mem.regions.remove(r)
        if k % 5 == 0:
            c.burst(A, B, c.frames(4))
    for r in extra[:3]:
        A.add_mem_reg(r)
    c.both(A, B, 8)
    return "%d regions, max %d" % (n, A.max_slots)


@case()
def regions_eight_unaligned(c):
    """Eight regions with gaps, guest addresses and mmap offsets off the page grid; frames and RX
    buffers scattered over all of them (QEMU libvhost-user assert(fd_size < 8); CVE-2018-1059)."""
    regions_case(c, spread_memory(8), spread_memory(8))


@case()
def regions_crossing_simple(c):
    """Two adjacent regions in separate files; frames whose only descriptor lies half in the one and half in the
    other (CVE-2018-1059: only the start address was translated).  They arrive whole."""
    mem = spread_memory(2, unaligned=False, contiguous=(1,))
    A = c.fe("a", mem=mem, rx=[])
    B = c.fe("b", rx=[2048] * 64)
    border = A.mem.regions[1].gpa
    A.mem.regions[1].brk = 0x10000
    for n in (200, 1514, 9000):
        f = raw_frame(n, c.rng)
        a = border - n // 2
        A.mem.write(a, bytes(12) + f)
        A.txq().add([(a, n + 12, 0)], [])
        A.txq().publish()
        A.txq().kick()
        p = B.recv(1.0)
        check(p is not None and p.data == f, "a frame of %d bytes across two regions: %s" % (
            n, "lost" if p is None else "garbled"))
        A.reap()


# ================================================================ memory that goes away

@case(limit=15)
def truncate_tx_buffers(c):
    """ftruncate(0) of the memfd that holds A's TX buffers, then a kick (cloud-hypervisor#8841):
    SIGBUS must not kill the process; the peer stays, a new A works."""
    B = c.good_peer()
    mem = GuestMemory([Region(0x100000, 8 << 20), Region(0x40000000, 4 << 20)])

    def run(A):
        r = A.mem.regions[1]
        q = A.txq()
        for k in range(16):
            a = A.mem.alloc(2048, 16, r)
            A.mem.write(a, bytes(2048))
            q.add([(a, 1514, 0)], None)
        os.ftruncate(r.fd, 0)
        q.publish()
        q.kick(force=True)
        time.sleep(0.2)
    return c.hostile(run, peer=B, mem=mem, ring_region=mem.regions[0])
