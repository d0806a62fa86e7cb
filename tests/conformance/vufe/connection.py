"""The socket of a front-end: connecting, bytes, messages with descriptors, their answers."""

import array
import os
import select
import socket
import struct
import time

from vufe.numbers import (FL_NEED_REPLY, FL_REPLY, M, MSG_NAME, NOFD, P, VERSION, Closed, Nack, NoReply, Pace, Reply,
                          VhostError)


class Connection:
    """One connection to a back-end, and the messages on it."""

    def __init__(self, path, listen=False, timeout=3.0):
        self.path = path
        self.timeout = timeout
        self.sock = None
        self.listener = None
        self.mem = None
        self.queues = []
        self.offered = 0
        self.features = 0
        self.proto_offered = 0
        self.proto = 0
        self.extra_fds = []
        if listen:
            self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                os.unlink(path)
            except FileNotFoundError:
                pass
            self.listener.bind(path)
            self.listener.listen(1)

    # ---------------------------------------------------------- connection
    def connect(self, wait=3.0):
        """Connect, or accept where listen=True; tries again for `wait` seconds."""
        end = time.monotonic() + wait
        if self.listener is not None:
            self.listener.settimeout(wait)
            try:
                self.sock, _ = self.listener.accept()
            except TimeoutError:
                raise NoReply("no back-end connected to %s" % self.path) from None
        else:
            while True:
                s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                s.settimeout(max(0.05, end - time.monotonic()))
                try:
                    s.connect(self.path)
                    self.sock = s
                    break
                except (ConnectionRefusedError, FileNotFoundError, BlockingIOError,
                        TimeoutError) as e:
                    s.close()
                    if time.monotonic() >= end:
                        raise Closed("cannot connect to %s: %s" % (self.path, e)) from None
                    time.sleep(0.02)
        self.sock.settimeout(self.timeout)

    def close(self, keep_memory=False):
        if self.sock is not None:
            self.sock.close()
            self.sock = None
        if not keep_memory:
            for q in self.queues:
                q.close()
            self.queues = []
            if self.mem is not None:
                self.mem.close()
                self.mem = None
            if self.listener is not None:
                self.listener.close()
                self.listener = None
        for fd in self.extra_fds:
            try:
                os.close(fd)
            except OSError:
                pass
        self.extra_fds = []

    def __enter__(self):
        return self

    def __exit__(self, *a):
        self.close()

    def raw_send(self, data, fds=()):
        """Bytes as they are, with fds on the first of them."""
        anc = []
        if fds:
            anc = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
        try:
            n = self.sock.sendmsg([data], anc)
            if n < len(data):
                self.sock.sendall(data[n:])
        except (BrokenPipeError, ConnectionResetError) as e:
            raise Closed("back-end closed the connection (%s)" % e.strerror) from None
        except TimeoutError:
            raise NoReply("the back-end does not read its socket") from None

    @staticmethod
    def pack_msg(req, payload=b"", need_reply=False, flags=None, size=None):
        if flags is None:
            flags = VERSION | (FL_NEED_REPLY if need_reply else 0)
        return struct.pack("=III", req & 0xFFFFFFFF, flags & 0xFFFFFFFF,
                           (len(payload) if size is None else size) & 0xFFFFFFFF) + payload

    def send_msg(self, req, payload=b"", fds=(), need_reply=False, flags=None, size=None):
        self.raw_send(self.pack_msg(req, payload, need_reply, flags, size), fds)

    def _recv_exact(self, n, end, fds):
        buf = b""
        while len(buf) < n:
            left = end - time.monotonic()
            if left <= 0:
                raise NoReply("no answer from the back-end")
            self.sock.settimeout(left)
            try:
                d, anc, _, _ = self.sock.recvmsg(n - len(buf), 1024)
            except TimeoutError:
                raise NoReply("no answer from the back-end") from None
            except (ConnectionResetError, BrokenPipeError):
                raise Closed("back-end closed the connection") from None
            for lvl, typ, data in anc:
                if lvl == socket.SOL_SOCKET and typ == socket.SCM_RIGHTS:
                    a = array.array("i")
                    a.frombytes(data[:len(data) - len(data) % a.itemsize])
                    fds.extend(a)
            if not d:
                raise Closed("back-end closed the connection")
            buf += d
        return buf

    def read_msg(self, timeout=None):
        end = time.monotonic() + (self.timeout if timeout is None else timeout) * Pace.factor
        fds = []
        try:
            h = self._recv_exact(12, end, fds)
            req, flags, size = struct.unpack("=III", h)
            if size > 1 << 16:
                raise VhostError("reply to %d claims %d bytes" % (req, size))
            pl = self._recv_exact(size, end, fds) if size else b""
        finally:
            if self.sock is not None:
                self.sock.settimeout(self.timeout)
        self.extra_fds.extend(fds)
        return Reply(req, flags, pl, fds)

    def request(self, req, payload=b"", fds=(), timeout=None, need_reply=False):
        """Send a message that has a reply of its own; returns the Reply."""
        self.send_msg(req, payload, fds, need_reply=need_reply)
        r = self.read_msg(timeout)
        if r.req != req:
            raise VhostError("asked %s, answer is for %s" % (
                MSG_NAME.get(req, req), MSG_NAME.get(r.req, r.req)))
        if r.flags & 3 != VERSION or not r.flags & FL_REPLY:
            raise VhostError("answer to %s has flags %#x" % (MSG_NAME.get(req, req), r.flags))
        return r

    def u64(self, req, timeout=None):
        r = self.request(req, timeout=timeout)
        if len(r.payload) != 8:
            raise VhostError("answer to %s has %d bytes" % (MSG_NAME.get(req, req),
                                                            len(r.payload)))
        return struct.unpack("=Q", r.payload)[0]

    def tell(self, req, payload=b"", fds=(), check=True, timeout=None):
        """Send a message without a reply; with REPLY_ACK wait for the acknowledgement.

        Returns the acknowledged value (None without REPLY_ACK); raises Nack where it
        is not zero and check is set.
        """
        ack = bool(self.proto & P.REPLY_ACK)
        self.send_msg(req, payload, fds, need_reply=ack)
        if not ack:
            return None
        r = self.read_msg(timeout)
        if r.req != req or len(r.payload) != 8:
            raise VhostError("bad acknowledgement of %s: request %d, %d bytes" % (
                MSG_NAME.get(req, req), r.req, len(r.payload)))
        v = struct.unpack("=Q", r.payload)[0]
        if v and check:
            raise Nack("%s refused (%d)" % (MSG_NAME.get(req, req), v))
        return v

    def outcome(self, req, payload=b"", fds=(), timeout=1.0, flags=None, size=None):
        """Send something dubious and tell what became of it.

        Returns 'ok', 'nack', 'closed' or 'silent'; never raises for those.
        """
        ack = bool(self.proto & P.REPLY_ACK)
        try:
            if flags is None:
                flags = VERSION | (FL_NEED_REPLY if ack else 0)
            self.send_msg(req, payload, fds, flags=flags, size=size)
            if flags & FL_NEED_REPLY:
                r = self.read_msg(timeout)
                if r.req != req:
                    return "odd"
                if len(r.payload) == 8 and struct.unpack("=Q", r.payload)[0] == 0:
                    return "ok"
                if len(r.payload) == 8:
                    return "nack"
                return "reply%d" % len(r.payload)
            self.sync(timeout)
            return "ok"
        except Closed:
            return "closed"
        except NoReply:
            return "silent"

    def sync(self, timeout=None):
        """A GET_FEATURES round trip: whatever was sent before has been handled."""
        return self.u64(M.GET_FEATURES, timeout)

    def is_closed(self, timeout=0.0):
        """Has the back-end closed the connection?"""
        if self.sock is None:
            return True
        p = select.poll()
        p.register(self.sock, select.POLLIN | select.POLLRDHUP)
        end = time.monotonic() + timeout
        while True:
            for _, ev in p.poll(max(0, (end - time.monotonic()) * 1000)):
                if ev & (select.POLLHUP | select.POLLRDHUP | select.POLLERR):
                    return True
            if time.monotonic() >= end:
                return False
            time.sleep(0.01)

    # ---------------------------------------------------------- messages
    def get_features(self):
        self.offered = self.u64(M.GET_FEATURES)
        return self.offered

    def get_proto(self):
        self.proto_offered = self.u64(M.GET_PROTOCOL_FEATURES)
        return self.proto_offered

    def set_proto(self, mask):
        # The acknowledgement (if any) belongs to the features set before.
        self.send_msg(M.SET_PROTOCOL_FEATURES, struct.pack("=Q", mask))
        self.proto = mask

    def set_features(self, mask):
        self.features = mask
        return self.tell(M.SET_FEATURES, struct.pack("=Q", mask))

    def set_mem_table(self, mem=None):
        if mem is not None:
            self.mem = mem
        pl, fds = self.mem.table()
        return self.tell(M.SET_MEM_TABLE, pl, fds)

    def add_mem_reg(self, r, fds=None, check=True):
        return self.tell(M.ADD_MEM_REG, bytes(8) + r.wire(), [r.fd] if fds is None else fds,
                         check=check)

    def rem_mem_reg(self, r, fds=(), check=True):
        return self.tell(M.REM_MEM_REG, bytes(8) + r.wire(), fds, check=check)

    def state(self, req, index, num, check=True):
        return self.tell(req, struct.pack("=II", index & 0xFFFFFFFF, num & 0xFFFFFFFF),
                         check=check)

    def vring_num(self, q):
        return self.state(M.SET_VRING_NUM, q.index, q.size)

    def vring_base(self, q, base=None):
        return self.state(M.SET_VRING_BASE, q.index, q.base() if base is None else base)

    def vring_addr(self, q, flags=0, log=0):
        return self.tell(M.SET_VRING_ADDR, q.addr_payload(flags, log))

    def vring_fd(self, req, index, fd):
        if fd is None:
            return self.tell(req, struct.pack("=Q", index | NOFD))
        return self.tell(req, struct.pack("=Q", index), [fd])

    def vring_kick(self, q, fd=-1):
        return self.vring_fd(M.SET_VRING_KICK, q.index, q.kickfd if fd == -1 else fd)

    def vring_call(self, q, fd=-1):
        return self.vring_fd(M.SET_VRING_CALL, q.index, q.callfd if fd == -1 else fd)

    def vring_err(self, q, fd=-1):
        return self.vring_fd(M.SET_VRING_ERR, q.index, q.errfd if fd == -1 else fd)

    def vring_enable(self, q, on=True):
        index = q if isinstance(q, int) else q.index
        return self.state(M.SET_VRING_ENABLE, index, 1 if on else 0)

    def get_vring_base(self, q, timeout=None):
        index = q if isinstance(q, int) else q.index
        r = self.request(M.GET_VRING_BASE, struct.pack("=II", index, 0), timeout=timeout)
        if len(r.payload) != 8:
            raise VhostError("GET_VRING_BASE answered %d bytes" % len(r.payload))
        i, num = struct.unpack("=II", r.payload)
        if i != index:
            raise VhostError("GET_VRING_BASE for ring %d answered for %d" % (index, i))
        return num

    def set_log_base(self, fd, size, offset=0):
        """Returns the payload of the reply."""
        return self.request(M.SET_LOG_BASE, struct.pack("=QQ", size, offset), [fd]).payload
