"""Runs the chanctl of the build under test."""

import json
import os
import subprocess

from support.chand import BIN

CHANCTL = BIN / "chanctl"


class Run:
    """One run of chanctl that has ended."""

    def __init__(self, words, process):
        self.words = words
        self.code = process.returncode
        self.out = process.stdout.decode()
        self.err = process.stderr.decode()

    @property
    def json(self):
        return json.loads(self.out)

    def __repr__(self):
        return f"<chanctl {' '.join(self.words)}: {self.code}\nstdout: {self.out}\nstderr: {self.err}>"


def chanctl(socket, *words, code=0, environment=None, timeout=60):
    """Runs chanctl against that socket and checks its exit code."""
    words = [str(word) for word in words]
    process = subprocess.run([str(CHANCTL), *words], stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout,
                             env=dict(os.environ, CHAN_SOCKET=str(socket), **(environment or {})))
    run = Run(words, process)
    assert run.code == code, f"expected exit code {code}: {run}"
    return run
