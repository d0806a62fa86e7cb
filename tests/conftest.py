import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from support.chand import Chand  # noqa: E402


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
