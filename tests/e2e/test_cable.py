"""Two real guests joined by a cable: what a user does with it."""

import pytest

from support import cable


@pytest.fixture
def dataplane():
    with cable.Dataplane() as process:
        yield process


@pytest.fixture
def make_pair(make_vm, dataplane):
    def make(**more):
        return cable.make_pair(make_vm, dataplane.sockets[0], **more)

    return make


@pytest.mark.quick
def test_ping_and_tcp_both_ways(make_pair):
    pair = make_pair().boot()
    assert cable.ping(pair.vms[0], 0, count=5) == 5
    for sender in (0, 1):
        cable.send_file(pair.vms, sender)
        rate = cable.iperf(pair.vms, sender)
        assert rate > 10e6, f"only {rate / 1e6:.1f} Mb/s from guest {sender}"


def test_segmentation_offload_is_passed_through(make_pair):
    """Frames are larger than the MTU on the way: fewer of them than segments of 1448 bytes."""
    pair = make_pair().boot()
    name = cable.interface(pair.vms[1])
    counter = f"cat /sys/class/net/{name}/statistics/rx_packets /sys/class/net/{name}/statistics/rx_bytes"
    before = [int(word) for word in pair.vms[1].check(counter).split()]
    cable.send_file(pair.vms, 0, mebibytes=32)
    packets, count = (int(word) - old for word, old in zip(pair.vms[1].check(counter).split(), before))
    assert count > 32 << 20
    assert count / packets > 3000, f"{packets} frames of {count / packets:.0f} bytes on average"


def test_large_mtu(make_pair):
    pair = make_pair(mtu=9000).boot()
    assert cable.ping(pair.vms[0], 0, size=8900) == 3
    assert cable.ping(pair.vms[1], 1, size=60000) == 3  # in fragments
    cable.send_file(pair.vms, 1)


def test_without_offloads_in_one_guest(make_pair, make_vm, dataplane):
    """One guest's driver is denied checksum and segmentation offload, so that software does both."""
    plain = ",csum=off,guest_csum=off,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off,mrg_rxbuf=off"
    pair = make_pair()
    pair.vms[1] = make_vm(cable.card(dataplane.sockets[0][1], 1, options=plain), shared_memory=True)
    pair.boot()
    for sender in (0, 1):
        cable.send_file(pair.vms, sender)
        assert cable.ping(pair.vms[sender], sender, size=4000) == 3
    assert cable.iperf(pair.vms, 0) > 5e6


@pytest.mark.parametrize("options", ["", ",packed=on"])
def test_two_queue_pairs(make_pair, options):
    pair = make_pair(queues=2, options=options, cpus=2).boot()
    for side in (0, 1):
        name = cable.interface(pair.vms[side])
        queues = pair.vms[side].check(f"ls /sys/class/net/{name}/queues").split()
        assert sorted(queues) == ["rx-0", "rx-1", "tx-0", "tx-1"], "the driver uses one pair a CPU"
        cable.send_file(pair.vms, side)
    assert cable.iperf(pair.vms, 0, options="-P 4") > 5e6


def test_packed_and_in_order_rings(make_pair):
    pair = make_pair(options=",packed=on").boot()
    for side in (0, 1):
        cable.send_file(pair.vms, side)


def test_different_numbers_of_queue_pairs(make_vm, dataplane):
    """What the second pair sends comes out of the only one that the other side has."""
    pair = cable.make_pair(make_vm, dataplane.sockets[0])
    pair.vms[0] = make_vm(cable.card(dataplane.sockets[0][0], 0, queues=4), shared_memory=True, cpus=4)
    pair.boot()
    for side in (0, 1):
        cable.send_file(pair.vms, side)
    assert cable.iperf(pair.vms, 0, options="-P 4") > 5e6
