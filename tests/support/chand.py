"""Starts a real chand in directories of its own and talks to its unix socket.

The build under test is CHAN_BUILD (default build/release below the top of the tree).
"""

import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from support import openapi

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("CHAN_BUILD", TOP / "build" / "release")).resolve()
BIN = BUILD / "bin"
VALIDATE = os.environ.get("CHAN_VALIDATE", "1") != "0"  # every answer against openapi/chan.yaml


def wait_for(condition, seconds=20, what="the condition"):
    """Calls condition until it answers something true, at most `seconds` long; returns that answer."""
    deadline = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {seconds} s")
        time.sleep(0.01)  # the pace of asking, not a wait to hope on


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout=30):
        super().__init__("localhost", timeout=timeout)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.body[:400]!r}>"


class Chand:
    """One daemon. Use as a context manager, or start() and stop() it; directories live until close()."""

    def __init__(self, *options, directory=None, shm=None, environment=None):
        self.options = list(options)
        self.directory = pathlib.Path(directory or tempfile.mkdtemp(prefix="chan-test-"))
        self.state = self.directory / "state"
        self.runtime = self.directory / "run"
        # Regions of tests live in a folder of their own, so that parallel tests never meet.
        shm_top = os.environ.get("CHAN_TEST_SHM", "/dev/shm")
        self.shm = pathlib.Path(shm or tempfile.mkdtemp(prefix="chan-test-", dir=shm_top))
        self.own_shm = shm is None
        self.log_path = self.directory / "chand.log"
        self.environment = dict(os.environ, **(environment or {}))
        self.process = None
        self.state.mkdir(exist_ok=True)
        self.runtime.mkdir(exist_ok=True)

    @property
    def socket(self):
        return self.runtime / "chand.sock"

    def command(self):
        return [str(BIN / "chand"), "--state-dir", str(self.state), "--runtime-dir", str(self.runtime),
                "--shm-dir", str(self.shm), *self.options]

    def start(self, ready=True, environment=None):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                            env=dict(self.environment, **(environment or {})))
        if ready:
            self.wait_ready()
        return self

    def wait_ready(self, seconds=60):
        def ask():
            if self.process.poll() is not None:
                raise AssertionError(f"chand ended with {self.process.returncode}:\n{self.log()}")
            try:
                return self.call("GET", "/readyz").status == 200
            except (OSError, http.client.HTTPException):
                return False
        wait_for(ask, seconds, f"/readyz of {self.socket}")

    def call(self, method, path, body=None, headers=None):
        connection = UnixConnection(self.socket)
        try:
            headers = dict(headers or {})
            if body is not None and not isinstance(body, (bytes, str)):
                body = json.dumps(body)
            if body is not None:
                headers.setdefault("Content-Type", "application/json")
            connection.request(method, path, body=body, headers=headers)
            answer = Answer(connection.getresponse())
        finally:
            connection.close()
        if VALIDATE:
            openapi.check(method, path, answer, body)
        return answer

    def get(self, path, **more):
        return self.call("GET", path, **more)

    def put(self, path, body, **more):
        return self.call("PUT", path, body, **more)

    def post(self, path, body=None, **more):
        return self.call("POST", path, {} if body is None else body, **more)

    def delete(self, path, **more):
        return self.call("DELETE", path, **more)

    def opt_in_template(self, name="tpl", **ivshmem):
        answer = self.put(f"/v1/templates/{name}", {"enableIvshmem": True, **({"ivshmem": ivshmem} if ivshmem else {})})
        assert answer.status in (200, 201), answer
        return name

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)

    def stop(self, seconds=30):
        """Ends the daemon politely and fails if that was not clean (a sanitizer's report makes it unclean)."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(seconds)
        assert code == 0, f"chand ended with {code} after SIGTERM:\n{self.log()}"

    def dataplanes(self):
        """Processes of the dataplane that serves this runtime directory; chand has started it and leaves it running."""
        control = str(self.runtime / "dataplane.sock").encode()
        found = []
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if control in (folder / "cmdline").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
            except OSError:
                pass  # it has ended meanwhile
        return found

    def end_dataplanes(self, number=signal.SIGTERM):
        for pid in self.dataplanes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        wait_for(lambda: not self.dataplanes(), 20, "the end of the dataplane")
        log = self.runtime / "dataplane.log"
        text = log.read_text(errors="replace") if log.exists() else ""
        assert "Sanitizer" not in text and "runtime error:" not in text, f"the dataplane says:\n{text[-8000:]}"

    def log(self):
        return self.log_path.read_text(errors="replace")[-8000:]

    def region_files(self):
        return sorted(os.listdir(self.shm))

    def close(self):
        try:
            self.stop()
        finally:
            if self.process is not None and self.process.poll() is None:
                self.kill()
            try:
                self.end_dataplanes()
            finally:
                if self.own_shm:
                    shutil.rmtree(self.shm, ignore_errors=True)
                shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self.start()

    def __exit__(self, *unused):
        self.close()
