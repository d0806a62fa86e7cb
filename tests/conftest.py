import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from support.chand import BUILD, Chand  # noqa: E402

# Python itself cannot load a library that a sanitizer has instrumented; the plain builds run these.
if "fsanitize=" in (BUILD / "build.ninja").read_text():
    collect_ignore = ["functional/test_python.py"]


@pytest.fixture
def chand():
    """A running daemon with default settings, gone with all its files when the test ends."""
    with Chand() as daemon:
        yield daemon


@pytest.fixture
def make_chand():
    """Makes daemons with options; none is started yet, all are closed when the test ends."""
    made = []

    def make(*options, **more):
        made.append(Chand(*options, **more))
        return made[-1]

    yield make
    for daemon in made:
        daemon.close()
