"""Cables as an orchestrator makes them: links in chand, with the arguments that it answers; and its crashes."""

import os
import re
import signal

import pytest

from support import cable
from support.chand import wait_for


def qemu_arguments(end):
    """What the API answered for QEMU. vectors=0: QEMU 7.2 without KVM crashes with MSI-X."""
    return [word + ",vectors=0,romfile=" if "virtio-net-pci" in word else word for word in end["vmm"]["qemu"]]


@pytest.fixture
def joined(chand, make_vm):
    """A link with two running guests, and its view."""
    answer = chand.put("/v1/links/net1", {"ends": [{}, {}]})
    assert answer.status == 201, answer
    assert [end["state"] for end in answer.json["ends"]] == ["waiting", "waiting"]
    return cable.Pair([make_vm(qemu_arguments(end), shared_memory=True) for end in answer.json["ends"]]).boot()


def view(chand):
    answer = chand.get("/v1/links/net1")
    assert answer.status == 200, answer
    return answer.json


def dataplane_pid(chand):
    return chand.get("/v1/node").json["dataplane"]["pid"]


class Stream:
    """Pings from one guest in the background, until stop."""

    def __init__(self, pair, count, interval=0.01):
        self.vm = pair.vms[0]
        self.count = count
        self.vm.check(f"rm -f /tmp/stream; (ping -c {count} -i {interval} -s 500 -W 10 {cable.ADDRESSES[1]}"
                      " >/tmp/stream.part; mv /tmp/stream.part /tmp/stream) >/dev/null 2>&1 &")
        wait_for(lambda: "bytes from" in self.vm.check("cat /tmp/stream.part"), cable.SECONDS, "the first reply")

    def lost(self):
        wait_for(lambda: self.vm.run("test -s /tmp/stream").status == 0, cable.SECONDS, "the end of the pings")
        text = self.vm.check("tail -n 3 /tmp/stream")
        found = re.search(r"(\d+) packets transmitted, (\d+) packets received", text)
        assert found, text
        assert int(found.group(1)) == self.count
        return self.count - int(found.group(2))


def test_what_a_link_says_of_its_ends(chand, joined):
    cable.send_file(joined.vms, 0)
    link = view(chand)
    for end, vm in zip(link["ends"], joined.vms):
        assert end["state"] == "running", end
        assert end["peerPID"] == vm.pid
        assert "mrg_rxbuf" in end["features"]
        assert end["queuePairs"] == 1
    assert link["ends"][0]["counters"]["bytes"] > 8 << 20
    joined.vms[0].end(hard=True)
    gone = wait_for(lambda: (end := view(chand)["ends"][0])["state"] == "waiting" and end, 10, "the end without its guest")
    assert gone["reason"]
    assert chand.delete("/v1/links/net1").status == 204
    assert not (chand.runtime / "links" / "net1").exists()


def test_chand_ends_and_returns_under_traffic(chand, joined):
    """Not one packet is lost, and the dataplane is the same process."""
    pid = dataplane_pid(chand)
    stream = Stream(joined, 1500)
    for end in (chand.stop, chand.kill, chand.kill):
        end()
        chand.start()
        assert view(chand)["ends"][0]["state"] == "running"
        assert dataplane_pid(chand) == pid
    assert stream.lost() == 0


def test_the_dataplane_is_killed_under_traffic(chand, joined):
    """chand starts another one, with the same links, and the guests carry on."""
    for _ in range(2):
        pid = dataplane_pid(chand)
        os.kill(pid, signal.SIGKILL)
        cable.reachable(joined.vms[0], 0, seconds=15)
        assert wait_for(lambda: dataplane_pid(chand), 10, "the next dataplane") != pid
        cable.send_file(joined.vms, 1, mebibytes=1)


def test_a_sandbox_takes_its_links_along(chand):
    for name in ("a", "b"):
        assert chand.put("/v1/templates/plain", {}).status in (200, 201)
        assert chand.put(f"/v1/sandboxes/{name}", {"templateID": "plain"}).status == 201
    answer = chand.put("/v1/links/ab", {"ends": [{"sandboxID": "a"}, {"sandboxID": "b"}]})
    assert answer.status == 201, answer
    assert chand.delete("/v1/sandboxes/a").status == 204
    wait_for(lambda: chand.get("/v1/links/ab").status == 404, 10, "the end of the link")
    wait_for(lambda: not (chand.runtime / "links" / "ab").exists(), 10, "the end of its directory")
