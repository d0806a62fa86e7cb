"""DPDK's virtio-user as a front-end: every kind of ring that it can do, both socket roles."""

import os

import pytest

from support import cable, dpdk
from support.chand import wait_for


@pytest.fixture(scope="module", autouse=True)
def pages():
    if os.geteuid() != 0:
        pytest.skip("large pages are root's to reserve")
    with dpdk.huge_pages() as count:
        assert count >= dpdk.PAGES, f"only {count} large pages could be reserved"
        yield


def bounce(sockets, directory, **more):
    """Packets bounce between two ports until each has received many."""
    generator = dpdk.Generator(*sockets, log=directory / "testpmd.log", **more)
    try:
        generator.start()
        wait_for(lambda: min(generator.received()) > 20000, 30, "20,000 packets received on both ports")
    finally:
        generator.close()
    assert generator.process.returncode == 0, generator.log()[-3000:]


@pytest.mark.parametrize("options", ["", ",packed_vq=1", ",in_order=0", ",packed_vq=1,in_order=0", ",mrg_rxbuf=0",
                                     ",mrg_rxbuf=0,in_order=1"])
def test_rings(options, tmp_path):
    with cable.Dataplane() as dataplane:
        bounce(dataplane.sockets[0], tmp_path, options=options)
        bounce(dataplane.sockets[0], tmp_path, options=options)  # the next front-end finds all as new


@pytest.mark.parametrize("options", ["", ",packed_vq=1"])
def test_two_queue_pairs(options, tmp_path):
    with cable.Dataplane() as dataplane:
        bounce(dataplane.sockets[0], tmp_path, options=options, queues=2)


def test_large_frames_in_small_buffers(tmp_path):
    with cable.Dataplane() as dataplane:
        generator = dpdk.Generator(*dataplane.sockets[0], log=tmp_path / "testpmd.log")
        try:
            generator.start(size=1518)
            wait_for(lambda: min(generator.received()) > 20000, 30, "20,000 packets received on both ports")
        finally:
            generator.close()


@pytest.mark.parametrize("options", ["", ",packed_vq=1"])
def test_front_end_that_listens(options, chand, tmp_path):
    """virtio-user is the server of the socket; the link's ends connect, whenever it is there."""
    paths = [str(tmp_path / name) for name in ("a.sock", "b.sock")]
    answer = chand.put("/v1/links/net", {"ends": [{"role": "client", "socketPath": path} for path in paths]})
    assert answer.status == 201, answer
    for _ in range(2):
        bounce(paths, tmp_path, options=options + ",server=1")
