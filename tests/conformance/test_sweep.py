"""A frame of every length from 14 to 65,550 bytes, both ways at once, over layouts of descriptors and kinds of
rings."""

import itertools
import os
import subprocess

import pytest

from support.cable import Dataplane
from support.chand import BUILD

SLOW = float(os.environ.get("CHAN_CONFORMANCE_SLOW", "1"))
STEP = "1" if SLOW == 1 else "13"  # with sanitizers not every length, but all remainders
RINGS = [[word for word, on in zip(("indirect", "mergeable", "packed"), chosen) if on]
         for chosen in itertools.product((False, True), repeat=3)]


@pytest.fixture(scope="module")
def sockets():
    with Dataplane() as process:
        yield [str(path) for path in process.sockets[0]]


@pytest.mark.parametrize("rings", RINGS, ids=lambda words: "-".join(words) or "plain")
@pytest.mark.parametrize("layout", ["header", "one", "twelve"])
def test_every_length(sockets, layout, rings):
    done = subprocess.run([BUILD / "bin" / "chan-conformance-sweep", layout, STEP, *sockets, *rings], check=False,
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    assert done.returncode == 0, done.stdout
