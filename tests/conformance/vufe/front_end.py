"""The whole front-end: how a device is started, stopped and started again."""

import time

from vufe.connection import Connection
from vufe.memory import GuestMemory
from vufe.numbers import F, M, P, Closed, VhostError, bit_names
from vufe.packed import PackedQueue
from vufe.split import SplitQueue
from vufe.traffic import Traffic

DEFAULT_FEATURES = F.VERSION_1 | F.PROTO | F.MRG_RXBUF
DEFAULT_PROTO = P.REPLY_ACK | P.MQ

# The order in which QEMU sends things.  A tuple is done ring by ring.
ORDER_QEMU = ["get_features", "get_proto", "set_proto", "queue_num", "owner",
              ("call",), ("err",), "set_features", "mem",
              ("num", "base", "addr", "kick", "call"), ("enable",)]


class FrontEnd(Connection, Traffic):
    """QEMU and the guest's driver in one."""

    def __init__(self, path, listen=False, timeout=3.0, connect=True, wait=3.0):
        Connection.__init__(self, path, listen, timeout)
        Traffic.__init__(self)
        self.queue_num = 0
        self.max_slots = 0
        if connect:
            self.connect(wait)

    # ---------------------------------------------------------- set-up
    @property
    def hlen(self):
        if self.features & (F.VERSION_1 | F.MRG_RXBUF | F.PACKED):
            return 20 if self.features & F.HASH_REPORT else 12
        return 10

    def make_queues(self, pairs=1, size=256, sizes=None, region=None):
        cls = PackedQueue if self.features & F.PACKED else SplitQueue
        for i in range(2 * pairs):
            n = sizes[i] if sizes else size
            self.queues.append(cls(self, i, n, region))
        return self.queues

    def rxq(self, pair=0):
        return self.queues[2 * pair]

    def txq(self, pair=0):
        return self.queues[2 * pair + 1]

    def bring_up(self, features=DEFAULT_FEATURES, proto=DEFAULT_PROTO, mem=None, pairs=1,
                 size=256, sizes=None, rx=None, order=None, preset=None, enable=None,
                 kick=True, exact=False, ring_region=None, base=None, nofd_call=False,
                 nofd_kick=False, rx_pairs=None):
        """The whole start of a device.

        features/proto are cut down to what is offered unless exact is set.
        rx: list of RX buffer specs for post_rx (default 128 of 2048 bytes).
        order: list of steps, see ORDER_QEMU.  preset: first ring index.
        enable: list of ring indexes to enable (default all).
        kick: write every kick eventfd once after SET_VRING_KICK.
        """
        order = ORDER_QEMU if order is None else order
        want_f, want_p = features, proto
        made = False

        def ensure():
            nonlocal made
            if made:
                return
            made = True
            if not self.features:
                self.features = want_f if exact or not self.offered else want_f & self.offered
            if self.mem is None:
                self.mem = mem if mem is not None else GuestMemory()
            self.make_queues(pairs, size, sizes, ring_region)
            if preset is not None:
                for q in self.queues:
                    if q.packed:
                        q.preset(*(preset if isinstance(preset, tuple) else (preset, 1)))
                    else:
                        q.preset(preset)
            specs = [2048] * min(128, self.queues[0].size) if rx is None else rx
            for p in range(pairs if rx_pairs is None else rx_pairs):
                if specs:
                    self.post_rx(specs, pair=p, kick=False)

        def ring_step(what, q):
            if what == "num":
                self.vring_num(q)
            elif what == "base":
                self.vring_base(q, base.get(q.index) if isinstance(base, dict) else base)
            elif what == "addr":
                self.vring_addr(q)
            elif what == "kick":
                self.vring_kick(q, None if nofd_kick else -1)
                if kick and not nofd_kick:
                    q.kick(force=True)
            elif what == "call":
                self.vring_call(q, None if nofd_call else -1)
            elif what == "err":
                self.vring_err(q)
            elif what == "enable":
                if enable is None or q.index in enable:
                    self.vring_enable(q, True)
            else:
                raise ValueError(what)

        for step in order:
            if isinstance(step, tuple):
                ensure()
                for q in self.queues:
                    for what in step:
                        if what == "enable" and not self.features & F.PROTO:
                            continue
                        ring_step(what, q)
            elif step == "get_features":
                self.get_features()
                if not exact:
                    self.features = want_f & self.offered
            elif step == "get_proto":
                if self.offered & F.PROTO:
                    self.get_proto()
            elif step == "set_proto":
                if self.offered & F.PROTO:
                    p = want_p if exact else want_p & self.proto_offered
                    self.set_proto(p)
            elif step == "queue_num":
                if self.proto & P.MQ:
                    self.queue_num = self.u64(M.GET_QUEUE_NUM)
            elif step == "slots":
                if self.proto & P.MEM_SLOTS:
                    self.max_slots = self.u64(M.GET_MAX_MEM_SLOTS)
            elif step == "owner":
                self.tell(M.SET_OWNER)
            elif step == "set_features":
                self.set_features(want_f if exact else want_f & self.offered)
            elif step == "mem":
                ensure()
                self.set_mem_table()
            elif step == "sync":
                self.sync()
            elif callable(step):
                ensure()
                step(self)
            else:
                raise ValueError(step)
        self.sync()
        return self

    # ---------------------------------------------------------- stop and start
    def stop_rings(self, disable_first=False):
        """GET_VRING_BASE for every ring; returns the answers in ring order."""
        if disable_first:
            for q in self.queues:
                self.vring_enable(q, False)
        return [self.get_vring_base(q) for q in self.queues]

    def restart_rings(self, bases, renew=True, steps=("num", "base", "addr", "kick", "call"),
                      enable=True, kick=True):
        """Start the rings again at the given bases, as after a migration."""
        for q, b in zip(self.queues, bases):
            if renew:
                q.renew_fds()
            for s in steps:
                if s == "num":
                    self.vring_num(q)
                elif s == "base":
                    self.vring_base(q, b)
                elif s == "addr":
                    self.vring_addr(q)
                elif s == "kick":
                    self.vring_kick(q)
                    if kick:
                        q.kick(force=True)
                elif s == "call":
                    self.vring_call(q)
        if enable and self.features & F.PROTO:
            for q in self.queues:
                self.vring_enable(q, True)
        self.sync()

    def reconnect(self, wait=3.0, proto=DEFAULT_PROTO, base="used", kick=True):
        """Drop the socket, keep the guest (memory, rings), connect and go on.

        base: 'used' sends each ring's used index, 'avail' the available index (split).
        """
        feats = self.features
        for q in self.queues:
            if q.index & 1:
                self.reap(q.index // 2)
            else:
                self.rx_scan(q.index // 2)
        end = time.monotonic() + wait
        while True:
            self.close(keep_memory=True)
            self.proto = 0
            self.connect(max(0.1, end - time.monotonic()))
            try:
                self.get_features()
                break
            except Closed:                   # not yet noticed that the old connection is gone
                if time.monotonic() > end:
                    raise
                time.sleep(0.03)
        if feats & ~self.offered:
            raise VhostError("after the reconnect features are missing: %s"
                             % bit_names(F, feats & ~self.offered))
        if self.offered & F.PROTO:
            self.get_proto()
            self.set_proto(proto & self.proto_offered)
        self.tell(M.SET_OWNER)
        self.set_features(feats)
        self.set_mem_table()
        for q in self.queues:
            q.renew_fds()
            self.vring_num(q)
            if base == "avail" and not q.packed:
                b = q.avail_idx
            elif q.packed:
                b = q.base()
            else:
                b = q.used_mem_idx()
            self.vring_base(q, b)
            self.vring_addr(q)
            self.vring_kick(q)
            if kick:
                q.kick(force=True)
            self.vring_call(q)
        if feats & F.PROTO:
            for q in self.queues:
                self.vring_enable(q, True)
        self.sync()
