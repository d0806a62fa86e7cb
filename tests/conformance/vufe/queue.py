"""What split and packed virtqueues share."""

import collections
import os
import select

from vufe.numbers import F, Pace


class Queue:
    """What split and packed queues share: eventfds and call counting."""
    packed = False

    def __init__(self, fe, index, size):
        self.fe = fe
        self.mem = fe.mem
        self.index = index
        self.size = size
        self.kickfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.callfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.errfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.kicks = 0
        self.tokens = {}
        self.event_idx = bool(fe.features & F.EVENT_IDX)
        self.in_order = bool(fe.features & F.IN_ORDER)
        self.order = collections.deque()       # outstanding heads, oldest first
        self.used_total = 0

    def calls(self):
        """Number of call signals since the last question."""
        try:
            return os.eventfd_read(self.callfd)
        except BlockingIOError:
            return 0

    def errs(self):
        try:
            return os.eventfd_read(self.errfd)
        except BlockingIOError:
            return 0

    def wait_call(self, timeout):
        p = select.poll()
        p.register(self.callfd, select.POLLIN)
        return bool(p.poll(timeout * 1000 * Pace.factor))

    def kick(self, force=False):
        if force or self.need_kick():
            self.kicks += 1
            try:
                os.eventfd_write(self.kickfd, 1)
            except BlockingIOError:
                pass
            return True
        return False

    def outstanding(self):
        return len(self.tokens)

    def renew_fds(self):
        """Fresh kick and call eventfds (for a restart)."""
        for n in ("kickfd", "callfd"):
            os.close(getattr(self, n))
            setattr(self, n, os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))

    def close(self):
        for fd in (self.kickfd, self.callfd, self.errfd):
            try:
                os.close(fd)
            except OSError:
                pass

    def indirect_table(self, chain):
        raise NotImplementedError


def untable(mem, token):
    """Give an indirect table back to the allocator; returns the caller's token."""
    if isinstance(token, tuple) and len(token) == 2 and isinstance(token[1], tuple) \
            and token[1][:1] == ("table",):
        mem.free(token[1][1], token[1][2])
        return token[0]
    return token
