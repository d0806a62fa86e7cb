"""Numbers of the protocol and of virtio, and the errors that talking to a back-end may end in."""

import collections
import struct

PAGE = 4096


class Pace:
    """All waits of front-ends are multiplied by this, for back-ends that are slow by nature (sanitizers)."""
    factor = 1.0


class VhostError(Exception):
    pass


class Closed(VhostError):
    """The back-end closed the connection."""


class NoReply(VhostError):
    """The back-end did not answer in time."""


class Nack(VhostError):
    """The back-end answered with a non-zero acknowledgement."""


# --------------------------------------------------------------------------
# numbers of the protocol
# --------------------------------------------------------------------------

class M:
    """Front-end message ids."""
    GET_FEATURES = 1
    SET_FEATURES = 2
    SET_OWNER = 3
    RESET_OWNER = 4
    SET_MEM_TABLE = 5
    SET_LOG_BASE = 6
    SET_LOG_FD = 7
    SET_VRING_NUM = 8
    SET_VRING_ADDR = 9
    SET_VRING_BASE = 10
    GET_VRING_BASE = 11
    SET_VRING_KICK = 12
    SET_VRING_CALL = 13
    SET_VRING_ERR = 14
    GET_PROTOCOL_FEATURES = 15
    SET_PROTOCOL_FEATURES = 16
    GET_QUEUE_NUM = 17
    SET_VRING_ENABLE = 18
    SEND_RARP = 19
    NET_SET_MTU = 20
    SET_BACKEND_REQ_FD = 21
    IOTLB_MSG = 22
    SET_VRING_ENDIAN = 23
    GET_CONFIG = 24
    SET_CONFIG = 25
    POSTCOPY_ADVISE = 28
    POSTCOPY_LISTEN = 29
    POSTCOPY_END = 30
    GET_INFLIGHT_FD = 31
    SET_INFLIGHT_FD = 32
    RESET_DEVICE = 34
    VRING_KICK = 35
    GET_MAX_MEM_SLOTS = 36
    ADD_MEM_REG = 37
    REM_MEM_REG = 38
    SET_STATUS = 39
    GET_STATUS = 40
    SET_DEVICE_STATE_FD = 42
    CHECK_DEVICE_STATE = 43


MSG_NAME = {v: k for k, v in vars(M).items() if isinstance(v, int)}

VERSION = 1
FL_REPLY = 4
FL_NEED_REPLY = 8
NOFD = 1 << 8


class F:
    """Virtio-net and vhost feature masks."""
    CSUM = 1 << 0
    GUEST_CSUM = 1 << 1
    CTRL_GUEST_OFFLOADS = 1 << 2
    MTU = 1 << 3
    MAC = 1 << 5
    GUEST_TSO4 = 1 << 7
    GUEST_TSO6 = 1 << 8
    GUEST_ECN = 1 << 9
    GUEST_UFO = 1 << 10
    HOST_TSO4 = 1 << 11
    HOST_TSO6 = 1 << 12
    HOST_ECN = 1 << 13
    HOST_UFO = 1 << 14
    MRG_RXBUF = 1 << 15
    STATUS = 1 << 16
    CTRL_VQ = 1 << 17
    GUEST_ANNOUNCE = 1 << 21
    MQ = 1 << 22
    LOG_ALL = 1 << 26
    ANY_LAYOUT = 1 << 27
    INDIRECT = 1 << 28
    EVENT_IDX = 1 << 29
    PROTO = 1 << 30
    VERSION_1 = 1 << 32
    IOMMU = 1 << 33
    PACKED = 1 << 34
    IN_ORDER = 1 << 35
    RING_RESET = 1 << 40
    GUEST_USO4 = 1 << 54
    GUEST_USO6 = 1 << 55
    HOST_USO = 1 << 56
    HASH_REPORT = 1 << 57


class P:
    """Protocol feature masks."""
    MQ = 1 << 0
    LOG_SHMFD = 1 << 1
    RARP = 1 << 2
    REPLY_ACK = 1 << 3
    MTU = 1 << 4
    BACKEND_REQ = 1 << 5
    CROSS_ENDIAN = 1 << 6
    PAGEFAULT = 1 << 8
    CONFIG = 1 << 9
    BACKEND_SEND_FD = 1 << 10
    INFLIGHT_SHMFD = 1 << 12
    RESET_DEVICE = 1 << 13
    INBAND = 1 << 14
    MEM_SLOTS = 1 << 15
    STATUS = 1 << 16
    DEVICE_STATE = 1 << 19
    GPA_ADDRESSES = 1 << 21


def bit_names(cls, mask):
    """Readable list of the bits set in mask."""
    known = {v: k for k, v in vars(cls).items() if isinstance(v, int)}
    out = []
    for i in range(64):
        if mask >> i & 1:
            out.append(known.get(1 << i, "bit%d" % i))
    return ",".join(out)


# descriptor flags
D_NEXT = 1
D_WRITE = 2
D_INDIRECT = 4
D_AVAIL = 1 << 7
D_USED = 1 << 15

# virtio-net header
H_NEEDS_CSUM = 1
H_DATA_VALID = 2
GSO_NONE = 0
GSO_TCPV4 = 1
GSO_UDP = 3
GSO_TCPV6 = 4
GSO_UDP_L4 = 5
GSO_ECN = 0x80


class Hdr:
    """struct virtio_net_hdr (10 bytes) plus num_buffers (12 bytes in all)."""
    __slots__ = ("flags", "gso_type", "hdr_len", "gso_size", "csum_start",
                 "csum_offset", "num_buffers")

    def __init__(self, flags=0, gso_type=0, hdr_len=0, gso_size=0, csum_start=0,
                 csum_offset=0, num_buffers=0):
        self.flags = flags
        self.gso_type = gso_type
        self.hdr_len = hdr_len
        self.gso_size = gso_size
        self.csum_start = csum_start
        self.csum_offset = csum_offset
        self.num_buffers = num_buffers

    def pack(self, hlen=12):
        b = struct.pack("=BBHHHHH", self.flags, self.gso_type, self.hdr_len,
                        self.gso_size, self.csum_start, self.csum_offset,
                        self.num_buffers)
        return b[:hlen] if hlen <= 12 else b + bytes(hlen - 12)

    @classmethod
    def unpack(cls, b):
        b = bytes(b) + bytes(12)
        return cls(*struct.unpack_from("=BBHHHHH", b))

    def __repr__(self):
        return ("hdr(flags=%d gso=%d hdr_len=%d gso_size=%d csum=%d+%d nbuf=%d)"
                % (self.flags, self.gso_type, self.hdr_len, self.gso_size,
                   self.csum_start, self.csum_offset, self.num_buffers))


Pkt = collections.namedtuple("Pkt", "data hdr nbufs lens")
Reply = collections.namedtuple("Reply", "req flags payload fds")
