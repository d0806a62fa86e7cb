"""The process under test: given by its pid, or started here."""

import os
import shlex
import signal
import subprocess
import time

from cases.lib import alive
from vufe import FrontEnd, VhostError


class BackendError(Exception):
    pass


class Backend:
    """command None: it runs already, and pid (or None) says as what."""

    def __init__(self, sockets, command=None, pid=None, log=None):
        self.sockets = [path for path in sockets if path]
        self.command = shlex.split(command) if isinstance(command, str) else command
        self.pid = pid
        self.log = log
        self.process = None
        self.starts = 0
        if self.command:
            self.start()

    def start(self):
        for path in self.sockets:
            if os.path.exists(path):
                os.unlink(path)
        log = open(self.log, "ab") if self.log else subprocess.DEVNULL
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=log, stderr=log,
                                        start_new_session=True)
        if self.log:
            log.close()
        self.pid = self.process.pid
        self.starts += 1
        if not self.wait_ready():
            raise BackendError("the back-end does not listen on its sockets")

    def wait_ready(self, limit=30.0):
        end = time.monotonic() + limit
        for path in self.sockets:
            while True:
                try:
                    FrontEnd(path, wait=0.2, timeout=2.0).close()
                    break
                except VhostError:
                    if time.monotonic() > end or self.process.poll() is not None:
                        return False
                    time.sleep(0.05)
        time.sleep(0.3)
        return True

    def dead(self):
        if self.process is not None:
            return self.process.poll() is not None
        return self.pid is not None and not alive(self.pid)

    def death_note(self):
        if self.process is not None and self.process.poll() is not None:
            code = self.process.returncode
            if code < 0:
                return "killed by %s" % signal.Signals(-code).name
            return "exited with %d" % code
        return "gone"

    def end(self, kill=True, limit=30.0):
        """Ends what was started here; returns its exit code."""
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        try:
            code = self.process.wait(limit)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        try:
            self.process.stdin.close()
        except OSError:
            pass
        return code

    def restart(self):
        self.end()
        self.start()
