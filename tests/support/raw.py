"""HTTP byte by byte, for what a well-behaved client never sends."""

import json
import socket


class Closed(Exception):
    """The daemon closed the connection before the answer was complete."""


class RawAnswer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers  # names in lower case
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.body[:300]!r}>"


class Raw:
    """One connection to a unix socket (a path) or to TCP (a pair)."""

    def __init__(self, address, timeout=30):
        family = socket.AF_INET if isinstance(address, tuple) else socket.AF_UNIX
        self.socket = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self.socket.settimeout(timeout)
        self.socket.connect(address if isinstance(address, tuple) else str(address))
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data if isinstance(data, bytes) else data.encode())

    def try_send(self, data):
        """Sends what the daemon takes; it may close its side before it has everything."""
        try:
            self.send(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def fill(self):
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            data = b""
        self.buffer += data
        return data != b""

    def head(self):
        """Status and headers of the next answer."""
        while b"\r\n\r\n" not in self.buffer:
            if not self.fill():
                raise Closed(repr(self.buffer))
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {}
        for line in lines:
            name, value = line.split(":", 1)
            assert name.lower() not in headers, f"{name} is there twice"
            headers[name.lower()] = value.strip()
        return int(first.split()[1]), headers

    def answer(self, to_head=False):
        status, headers = self.head()
        length = 0 if to_head or status in (100, 204) else int(headers["content-length"])
        while len(self.buffer) < length:
            if not self.fill():
                raise Closed(f"{len(self.buffer)} of {length} bytes")
        body, self.buffer = self.buffer[:length], self.buffer[length:]
        return RawAnswer(status, headers, body)

    def closed(self):
        """Waits for the daemon to close the connection; True when it did without a word more."""
        while self.fill():
            pass
        return self.buffer == b""


def request(method, target, *headers, body=None):
    """The bytes of a request; Content-Length comes by itself."""
    lines = [f"{method} {target} HTTP/1.1", "Host: chan", *headers]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + (body or b"")


JSON = "Content-Type: application/json"
