"""Dataplanes with a control socket."""

import pytest

from support.dataplane import Dataplane


@pytest.fixture
def make_dataplane():
    """Makes dataplanes with options; none is started yet, all are closed when the test ends."""
    made = []

    def make(*options, **more):
        made.append(Dataplane(*options, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def plane(make_dataplane):
    return make_dataplane().start()


@pytest.fixture
def control(plane):
    with plane.control() as client:
        yield client
