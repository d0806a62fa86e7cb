"""Every case against a chan-dataplane of the build under test.

CHAN_CONFORMANCE_SLOW multiplies the time limits, for builds with sanitizers.
"""

import os
import pathlib
import shutil
import sys
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from backend import Backend  # noqa: E402
from cases import collect  # noqa: E402
from running import run_case  # noqa: E402
from support.cable import last_cpu  # noqa: E402
from support.chand import BIN  # noqa: E402

SLOW = float(os.environ.get("CHAN_CONFORMANCE_SLOW", "1"))


class Cable:
    def __init__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="chan-conformance-"))
        self.sockets = [str(self.directory / name) for name in ("a.sock", "b.sock")]
        self.log_path = self.directory / "dataplane.log"
        command = [str(BIN / "chan-dataplane"), "--cpus", last_cpu(), "--cable", ",".join(self.sockets)]
        self.backend = Backend(self.sockets, command, log=self.log_path)

    def log(self, seen=0):
        with open(self.log_path, "rb") as log:
            log.seek(seen)
            return log.read().decode(errors="replace")[-20000:]

    def close(self):
        code = self.backend.end(kill=False)
        log = self.log()
        shutil.rmtree(self.directory)
        assert code == 0, f"chan-dataplane ended with {code} after SIGTERM:\n{log}"


@pytest.fixture(scope="module")
def cable():
    """One process for all cases: what one leaves behind meets the next."""
    process = Cable()
    yield process
    process.close()


@pytest.mark.parametrize("case", [pytest.param(case, id=case.__name__) for case in collect()])
def test_case(cable, case):
    seen = os.path.getsize(cable.log_path)
    verdict, detail, _ = run_case(case, cable.backend, *cable.sockets, SLOW)
    # Our cable has all that the cases ask for: to skip one is to have lost a feature.
    assert verdict == "PASS", f"{verdict}: {detail}\n{' '.join(case.__doc__.split())}\n{cable.log(seen)}"
