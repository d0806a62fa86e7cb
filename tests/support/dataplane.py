"""Starts a real chan-dataplane with a control socket, and speaks the control protocol with it."""

import array
import functools
import importlib
import itertools
import mmap
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile

from support.chand import BIN, TOP, wait_for

PROGRAM = BIN / "chan-dataplane"
PACKET_MAX = 65536


def last_cpu():
    return max(os.sched_getaffinity(0))


@functools.cache
def messages():
    """The module that protoc makes of the schema."""
    with tempfile.TemporaryDirectory(prefix="chan-proto-") as folder:
        subprocess.run(["protoc", f"--python_out={folder}", f"--proto_path={TOP / 'api/proto'}", "control.proto"],
                       check=True, timeout=60)
        sys.path.insert(0, folder)
        try:
            return importlib.import_module("control_pb2")
        finally:
            sys.path.remove(folder)


class Refused(Exception):
    """An answer whose code is not OK."""

    def __init__(self, response):
        super().__init__(f"{messages().Code.Name(response.code)}: {response.detail}")
        self.code = messages().Code.Name(response.code)
        self.detail = response.detail


class Control:
    """A client of the control socket."""

    def __init__(self, path, hello=True):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(20)
        self.socket.connect(str(path))
        self.numbers = itertools.count(1)
        self.greeting = None
        self.statistics = None
        if hello:
            self.greeting, descriptors = self.call_with_descriptors("hello", version=1, client="test 1")
            assert len(descriptors) == 1, "hello's answer brings the statistics memory along"
            self.statistics = Statistics(descriptors[0])

    def send(self, packet, descriptors=()):
        self.socket.sendmsg([packet], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
                            if descriptors else [])

    def receive(self):
        """One packet and the descriptors that came along; an empty packet is the end."""
        packet, control, flags, _ = self.socket.recvmsg(PACKET_MAX + 1, socket.CMSG_SPACE(4 * 8),
                                                        socket.MSG_CMSG_CLOEXEC)
        assert flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC) == 0
        descriptors = array.array("i")
        for _, _, data in control:
            descriptors.frombytes(data)
        return packet, list(descriptors)

    def request(self, call, **fields):
        request = messages().Request(id=next(self.numbers))
        getattr(request, call).SetInParent()
        target = getattr(request, call)
        for name, value in fields.items():
            if isinstance(value, list):
                for item in value:
                    getattr(target, name).add(**item)
            else:
                setattr(target, name, value)
        return request

    def call_with_descriptors(self, call, descriptors=(), **fields):
        request = self.request(call, **fields)
        self.send(request.SerializeToString(), descriptors)
        packet, answered = self.receive()
        assert packet, "the connection was closed instead of an answer"
        response = messages().Response.FromString(packet)
        assert response.id == request.id
        if response.code != messages().OK:
            assert response.detail, "what is refused is refused with a reason"
            assert not answered
            raise Refused(response)
        return (getattr(response, response.WhichOneof("reply")) if response.WhichOneof("reply") else None), answered

    def call(self, call, **fields):
        reply, descriptors = self.call_with_descriptors(call, **fields)
        assert not descriptors
        return reply

    def create(self, identifier, ends, descriptors=()):
        return self.call_with_descriptors("create_link", descriptors, id=identifier, ends=ends)[0]

    def links(self, **fields):
        return list(self.call("list_links", **fields).links)

    def link(self, identifier):
        found = self.links(only_id=identifier)
        return found[0] if found else None

    def close(self):
        self.socket.close()
        if self.statistics is not None:
            self.statistics.close()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()


class Statistics:
    """The statistics memory, mapped as anybody would who got its descriptor."""

    HEADER = struct.Struct("<QIIII")

    def __init__(self, descriptor):
        self.descriptor = descriptor
        self.memory = mmap.mmap(descriptor, os.fstat(descriptor).st_size, mmap.MAP_SHARED, mmap.PROT_READ)
        (self.magic, self.version, self.slot_size,
         self.slot_count, self.slots_offset) = self.HEADER.unpack_from(self.memory)

    def identifier(self, slot):
        return self.memory[self.slots_offset + slot * self.slot_size:][:136].split(b"\0")[0].decode()

    def identifiers(self):
        return [self.identifier(slot) for slot in range(self.slot_count) if self.identifier(slot)]

    def close(self):
        self.memory.close()
        os.close(self.descriptor)


class Dataplane:
    """One chan-dataplane. Use as a context manager, or start() and stop() it; its directory lives until close()."""

    def __init__(self, *options, control=True, prefix=(), environment=None):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="chan-dp-"))
        self.control_path = self.directory / "control.sock"
        self.log_path = self.directory / "dataplane.log"
        self.options = [str(option) for option in options]
        if control:
            self.options += ["--control", str(self.control_path)]
        if "--cpus" not in self.options:
            self.options += ["--cpus", str(last_cpu())]
        self.prefix = list(prefix)
        self.environment = dict(os.environ, **(environment or {}))
        self.process = None

    def path(self, name):
        return str(self.directory / name)

    def end(self, name, **more):
        return {"type": "vhost-user", "socket_path": self.path(name), **more}

    def command(self):
        return [*self.prefix, str(PROGRAM), *self.options]

    def start(self, ready=True):
        with open(self.log_path, "ab") as log:
            old = self.log().count("msg=ready")
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=self.environment)
        if ready:
            wait_for(lambda: self.process.poll() is not None or self.log().count("msg=ready") > old, 20,
                     "chan-dataplane's being ready")
            assert self.process.poll() is None, f"chan-dataplane ended:\n{self.log()}"
        return self

    def control(self, hello=True):
        return Control(self.control_path, hello)

    def log(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def wait_log(self, pattern, count=1):
        """Waits for so many lines that match; answers them."""
        def look():
            lines = [line for line in self.log().splitlines() if re.search(pattern, line)]
            return lines if len(lines) >= count else None
        return wait_for(look, 20, f"{count} lines like {pattern!r} in the log of {self.directory}")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)

    def stop(self, number=signal.SIGTERM):
        """Ends it politely, and fails if that was not clean (a sanitizer's report makes it unclean)."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(number)
        code = self.process.wait(30)
        assert code == 0, f"chan-dataplane ended with {code}:\n{self.log()}"

    def close(self):
        try:
            self.stop()
        finally:
            if self.process is not None and self.process.poll() is None:
                self.kill()
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self.start()

    def __exit__(self, *unused):
        self.close()


def vhost_user_connect(path):
    """A front-end's connection, which has said nothing yet."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(20)
    connection.connect(str(path))
    return connection


def vhost_user_features(connection):
    """What GET_FEATURES answers."""
    connection.sendall(struct.pack("<III", 1, 1, 0))
    answer = connection.recv(20, socket.MSG_WAITALL)
    request, flags, size, features = struct.unpack("<IIIQ", answer)
    assert (request, flags & 7, size) == (1, 5, 8)
    return features
