"""Nothing that ends takes a cable along: a guest's process, the dataplane's, chand's."""

import pytest

from support import cable
from support.chand import wait_for


@pytest.fixture
def dataplane():
    with cable.Dataplane() as process:
        yield process


def test_kill_of_either_guest(make_vm, dataplane):
    """The other one keeps its link; the killed one's successor carries on. Nothing accumulates."""
    pair = cable.make_pair(make_vm, dataplane.sockets[0]).boot()
    descriptors = dataplane.descriptors()
    for number in range(4):
        side = number % 2
        pair.vms[side].end(hard=True)
        survivor = pair.vms[1 - side]
        assert cable.ping(survivor, 1 - side, count=2, seconds=3) == 0  # into the void, and it does not block
        pair.vms[side] = make_vm(cable.card(dataplane.sockets[0][side], side), shared_memory=True)
        pair.vms[side].start()
        cable.configure(pair.vms[side], side)
        cable.reachable(survivor, 1 - side)
        cable.send_file(pair.vms, side, mebibytes=1)
        wait_for(lambda: dataplane.descriptors() <= descriptors, 10, f"at most {descriptors} descriptors")


def test_kill_of_the_dataplane_under_traffic(make_vm, dataplane):
    """QEMU's reconnect=1 finds the next one; TCP carries on."""
    pair = cable.make_pair(make_vm, dataplane.sockets[0]).boot()
    for _ in range(3):
        pair.vms[1].check("iperf3 -s -1 -D && sleep 0.3")
        pair.vms[0].check(f"(iperf3 -c {cable.ADDRESSES[1]} -t 6 >/tmp/iperf 2>&1; echo $? >/tmp/iperf.status) >/dev/null 2>&1 &")
        wait_for(lambda: cable.ping(pair.vms[0], 0, count=1) == 1, cable.SECONDS, "a reply under traffic")
        dataplane.kill()
        dataplane.start()
        cable.reachable(pair.vms[0], 0, seconds=10)
        wait_for(lambda: pair.vms[0].run("test -s /tmp/iperf.status").status == 0, cable.SECONDS, "the end of iperf3")
        assert pair.vms[0].check("cat /tmp/iperf.status; rm /tmp/iperf.status").strip() == "0", \
            pair.vms[0].check("cat /tmp/iperf")
