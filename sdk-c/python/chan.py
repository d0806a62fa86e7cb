"""Channels through a shared-memory region, in Python, over libchan (no build step: ctypes loads libchan.so.0).

    with chan.Region.open("/dev/shm/ivshmem-sb1") as region, region.channel() as channel:
        channel.connect()
        channel.send(b"hello", timeout=1)
        print(channel.receive(timeout=1))

In a guest: chan.Region.find() opens the only ivshmem device. CHAN_LIBRARY names another libchan.so.

Every failure is a ChanError: an OSError whose errno says what happened, with libchan's own words. Its subclasses that
programs tell apart are Python's own: BlockingIOError (not now), TimeoutError, ConnectionResetError, BrokenPipeError.
Time-outs are seconds; 0: do not wait, None: wait for ever. A channel may be sent on by one thread while another receives;
every other use must have it to itself. chan_channel(3) has the rest.
"""

import contextlib
import ctypes
import errno
import os

__all__ = ["Channel", "ChanError", "Region", "Side"]


class _Error(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char * 512)]


class _Options(ctypes.Structure):
    _fields_ = [("side", ctypes.c_int), ("spin_us", ctypes.c_int), ("suspect_ms", ctypes.c_int)]


class _RegionOptions(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint), ("mapping", ctypes.c_int), ("vendor", ctypes.c_uint16),
                ("device", ctypes.c_uint16), ("sysfs", ctypes.c_char_p)]


class _Stats(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in (
        "sent_messages", "sent_bytes", "batches", "received_messages", "received_bytes", "send_waits", "receive_waits",
        "sleeps", "sessions")] + [("mapping", ctypes.c_int)]


class Side:
    AUTO, HOST, GUEST = 0, 1, 2


class ChanError(OSError):
    """An error of libchan: errno and its words."""


class _NotNow(ChanError, BlockingIOError):
    pass


class _TimedOut(ChanError, TimeoutError):
    pass


class _Reset(ChanError, ConnectionResetError):
    pass


class _Closed(ChanError, BrokenPipeError):
    pass


_KINDS = {errno.EAGAIN: _NotNow, errno.ETIMEDOUT: _TimedOut, errno.ECONNRESET: _Reset, errno.EPIPE: _Closed}
_POINTER = ctypes.c_void_p
_CALLS = {  # name: (result, arguments)
    "chan_error_text": (ctypes.c_char_p, [ctypes.c_int]),
    "chan_region_open_path": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_uint, ctypes.POINTER(_POINTER),
                                             ctypes.POINTER(_Error)]),
    "chan_region_open_pci": (ctypes.c_int, [ctypes.c_char_p, ctypes.POINTER(_RegionOptions), ctypes.POINTER(_POINTER),
                                            ctypes.POINTER(_Error)]),
    "chan_region_find_pci": (ctypes.c_int, [ctypes.POINTER(_RegionOptions), ctypes.POINTER(_POINTER),
                                            ctypes.POINTER(_Error)]),
    "chan_region_close": (None, [_POINTER]),
    "chan_region_base": (_POINTER, [_POINTER]),
    "chan_region_size": (ctypes.c_size_t, [_POINTER]),
    "chan_region_mapping": (ctypes.c_int, [_POINTER]),
    "chan_mapping_name": (ctypes.c_char_p, [ctypes.c_int]),
    "chan_region_path": (ctypes.c_char_p, [_POINTER]),
    "chan_open": (ctypes.c_int, [_POINTER, ctypes.POINTER(_Options), ctypes.POINTER(_POINTER), ctypes.POINTER(_Error)]),
    "chan_close": (None, [_POINTER]),
    "chan_connect": (ctypes.c_int, [_POINTER, ctypes.c_int]),
    "chan_reconnect": (ctypes.c_int, [_POINTER, ctypes.c_int]),
    "chan_send": (ctypes.c_int, [_POINTER, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int]),
    "chan_send_more": (ctypes.c_int, [_POINTER, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int]),
    "chan_flush": (ctypes.c_int, [_POINTER, ctypes.c_int]),
    "chan_peek": (ctypes.c_int, [_POINTER, ctypes.POINTER(_POINTER), ctypes.POINTER(ctypes.c_size_t), ctypes.c_int]),
    "chan_release": (ctypes.c_int, [_POINTER]),
    "chan_max_message": (ctypes.c_size_t, [_POINTER]),
    "chan_peer_state": (ctypes.c_int, [_POINTER]),
    "chan_get_stats": (None, [_POINTER, ctypes.POINTER(_Stats)]),
}
_library = None


def _lib():
    """libchan, loaded at the first use."""
    global _library
    if _library is None:
        library = ctypes.CDLL(os.environ.get("CHAN_LIBRARY", "libchan.so.0"))
        for name, (result, arguments) in _CALLS.items():
            function = getattr(library, name)
            function.restype = result
            function.argtypes = arguments
        _library = library
    return _library


def _raise(result, text=None):
    code = -result
    words = text or _lib().chan_error_text(result).decode(errors="replace")
    raise _KINDS.get(code, ChanError)(code, words)


def _milliseconds(timeout):
    return -1 if timeout is None else max(0, min(int(timeout * 1000 + 0.999), 2**31 - 1))


class _Handle(contextlib.AbstractContextManager):
    """Something of libchan's that is closed once."""

    def __init__(self, pointer):
        self._pointer = pointer

    def _use(self):
        if self._pointer is None:
            raise ValueError(f"the {type(self).__name__.lower()} is closed")
        return self._pointer

    def close(self):
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            self._free(pointer)

    def __exit__(self, *unused):
        self.close()

    def __del__(self):
        self.close()


class Region(_Handle):
    """Memory that a host and a guest share. Channels that are open on it outlive it."""

    @classmethod
    def _open(cls, call):
        pointer, error = _POINTER(), _Error()
        result = call(ctypes.byref(pointer), ctypes.byref(error))
        if result < 0:
            _raise(result, error.text.decode(errors="replace"))
        return cls(pointer)

    @classmethod
    def open(cls, path, read_only=False):
        """The region behind a file, on the host."""
        return cls._open(lambda *out: _lib().chan_region_open_path(os.fsencode(path), int(read_only), *out))

    @classmethod
    def open_pci(cls, address):
        """The memory of a PCI device, in the guest: "0000:00:04.0"."""
        return cls._open(lambda *out: _lib().chan_region_open_pci(address.encode(), None, *out))

    @classmethod
    def find(cls):
        """The only ivshmem device of this guest."""
        return cls._open(lambda *out: _lib().chan_region_find_pci(None, *out))

    @staticmethod
    def _free(pointer):
        _lib().chan_region_close(pointer)

    @property
    def path(self):
        return os.fsdecode(_lib().chan_region_path(self._use()))

    @property
    def size(self):
        return _lib().chan_region_size(self._use())

    @property
    def mapping(self):
        """"cached", "write-combining" or "uncached"."""
        return _lib().chan_mapping_name(_lib().chan_region_mapping(self._use())).decode()

    def channel(self, side=Side.AUTO, spin_us=0, suspect_ms=0):
        """Takes one side of the region's channel."""
        pointer, error = _POINTER(), _Error()
        options = _Options(side, spin_us, suspect_ms)
        result = _lib().chan_open(self._use(), ctypes.byref(options), ctypes.byref(pointer), ctypes.byref(error))
        if result < 0:
            _raise(result, error.text.decode(errors="replace"))
        return Channel(pointer)


class Channel(_Handle):
    """Messages both ways. Made by Region.channel()."""

    PEER = ("absent", "alive", "suspect", "closed")

    @staticmethod
    def _free(pointer):
        _lib().chan_close(pointer)

    def _call(self, name, *arguments):
        result = getattr(_lib(), name)(self._use(), *arguments)
        if result < 0:
            _raise(result)

    def connect(self, timeout=None):
        """Waits for the peer and agrees with it on a session."""
        self._call("chan_connect", _milliseconds(timeout))

    def reconnect(self, timeout=None):
        """Leaves the session and begins another one."""
        self._call("chan_reconnect", _milliseconds(timeout))

    def send(self, message, timeout=None):
        """Sends a copy of some bytes."""
        message = bytes(message)
        self._call("chan_send", message, len(message), _milliseconds(timeout))

    def send_more(self, message, timeout=None):
        """Sends later, together with others: see flush()."""
        message = bytes(message)
        self._call("chan_send_more", message, len(message), _milliseconds(timeout))

    def flush(self, timeout=None):
        self._call("chan_flush", _milliseconds(timeout))

    def receive(self, timeout=None):
        """The next message, as bytes."""
        place, length = _POINTER(), ctypes.c_size_t()
        self._call("chan_peek", ctypes.byref(place), ctypes.byref(length), _milliseconds(timeout))
        message = ctypes.string_at(place, length.value) if length.value else b""
        self._call("chan_release")
        return message

    @property
    def max_message(self):
        return _lib().chan_max_message(self._use())

    @property
    def peer(self):
        """"absent", "alive", "suspect" or "closed"."""
        return self.PEER[_lib().chan_peer_state(self._use())]

    @property
    def stats(self):
        stats = _Stats()
        _lib().chan_get_stats(self._use(), ctypes.byref(stats))
        return {name: getattr(stats, name) for name, *_ in _Stats._fields_ if name != "mapping"}
