"""What REST and chanctl say of a link while frames flow, between two front-ends as the conformance tests have them."""

import json
import os
import signal
import subprocess
import sys

import pytest

from support.chand import TOP
from support.chanctl import CHANCTL, chanctl
from support.link import create, end_of, wait_end
from support.tables import rows

sys.path.insert(0, str(TOP / "tests" / "conformance"))

from vufe import FrontEnd  # noqa: E402

FRAME = bytes(12) + b"\x88\xb5" + bytes(50)


class Cable:
    """A link with a driver at each end."""

    def __init__(self, chand):
        self.chand = chand
        self.sides = []
        link = create(chand)
        for end in link["ends"]:
            side = FrontEnd(end["socketPath"])
            side.bring_up()
            self.sides.append(side)
        for number in range(2):
            wait_end(chand, "net", number, lambda end: end["state"] == "running", "running")

    def send(self, sender, count):
        """Sends frames, and waits until the link has taken them."""
        for _ in range(count):
            self.sides[sender].send(FRAME)
        assert self.sides[sender].tx_drain(20), "the link takes what is sent"

    def wait_sent(self, sender, frames, dropped=0):
        """Waits for counters, and answers the end."""
        def counted(end):
            counters = end["counters"]
            return counters["frames"] == frames and sum(counters["dropped"].values()) == dropped
        return wait_end(self.chand, "net", sender, counted, f"{frames} frames and {dropped} drops")

    def close(self):
        for side in self.sides:
            side.close()


@pytest.fixture
def cable(chand):
    made = Cable(chand)
    yield made
    made.close()


def test_ends_that_run(cable):
    for number in range(2):
        end = end_of(cable.chand, "net", number)
        assert end["queuePairs"] == 1 and end["peerPID"] == os.getpid() and end["reason"] is None
        assert {"version_1", "mrg_rxbuf"} <= set(end["features"])


def test_counters_are_of_the_sender(cable):
    cable.send(0, 5)
    assert len(cable.sides[1].recv_all(5)) == 5
    first = cable.wait_sent(0, 5)["counters"]
    assert first["bytes"] == 5 * len(FRAME) and first["segmented"] == 0
    cable.send(1, 2)
    assert cable.wait_sent(1, 2)["counters"]["bytes"] == 2 * len(FRAME)
    assert end_of(cable.chand, "net", 0)["counters"]["frames"] == 5


def test_drops_have_their_cause(cable):
    cable.sides[1].close()
    wait_end(cable.chand, "net", 1, lambda end: end["state"] == "waiting", "nobody is there")
    cable.send(0, 3)
    counters = cable.wait_sent(0, 0, 3)["counters"]
    assert counters["dropped"] == {"noReceiver": 3, "receiverFull": 0, "tooLarge": 0, "malformed": 0, "disabled": 0}
    row = rows(chanctl(cable.chand.socket, "link", "stats", "net").out)[0]
    assert (row["STATE"], row["FRAMES"], row["DROPPED"]) == ("running", "0", "3 (noReceiver 3)")
    assert "dropped: 3 (noReceiver 3)" in chanctl(cable.chand.socket, "link", "show", "net").out


def test_counters_outlive_chand(cable):
    cable.send(0, 4)
    cable.wait_sent(0, 4)
    cable.chand.kill()
    cable.send(0, 6)  # nobody but the dataplane is needed for that
    cable.chand.start()
    cable.wait_sent(0, 10)
    assert len(cable.sides[1].recv_all(10)) == 10


def test_watched_rates_rise_with_traffic(cable):
    with subprocess.Popen([str(CHANCTL), "--socket", str(cable.chand.socket), "link", "stats", "net", "-w", "-o", "json"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        try:
            first = json.loads(process.stdout.readline())
            assert first["ends"][0]["counters"]["frames"] == 0 and first["ends"][0]["perSecond"] is None
            cable.send(0, 50)
            for line in process.stdout:
                end = json.loads(line)["ends"][0]
                if end["counters"]["frames"] == 50:
                    break
            rates = end["perSecond"]
            assert rates["frames"] > 0 and rates["dropped"] == 0
            # Both are rounded to tenths.
            assert abs(rates["bytes"] - rates["frames"] * len(FRAME)) <= len(FRAME) / 10
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == -signal.SIGINT
        finally:
            process.kill()
