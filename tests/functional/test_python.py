"""The Python module over libchan, on a region that a real chand made."""

import os
import subprocess
import sys
import threading

import pytest

from support.chand import BUILD, TOP

PYTHON = TOP / "sdk-c" / "python"
EXAMPLE = TOP / "sdk-c" / "examples" / "chan_ring.py"
ENVIRONMENT = dict(os.environ, PYTHONPATH=str(PYTHON), CHAN_LIBRARY=str(BUILD / "lib" / "libchan.so.0"))


@pytest.fixture
def chan(monkeypatch):
    monkeypatch.syspath_prepend(str(PYTHON))
    monkeypatch.setenv("CHAN_LIBRARY", ENVIRONMENT["CHAN_LIBRARY"])
    import chan as module
    return module


@pytest.fixture
def path(chand):
    answer = chand.put("/v1/sandboxes/s", {"templateID": chand.opt_in_template()})
    assert answer.status == 201, answer
    return answer.json["ivshmem"]["path"]


@pytest.fixture
def pair(chan, path):
    """Both sides of the region, connected."""
    with chan.Region.open(path) as one, chan.Region.open(path) as other:
        with one.channel(chan.Side.HOST) as host, other.channel(chan.Side.GUEST) as guest:
            thread = threading.Thread(target=guest.connect, args=(10,))
            thread.start()
            host.connect(10)
            thread.join()
            yield host, guest


def test_messages_both_ways(pair):
    host, guest = pair
    for message in (b"", b"hello", bytes(range(256)) * 100):
        host.send(message, timeout=1)
        assert guest.receive(timeout=1) == message
        guest.send(message, timeout=1)
        assert host.receive(timeout=1) == message
    assert host.peer == "alive"
    assert host.stats["sent_messages"] == 3


def test_batches(pair):
    host, guest = pair
    for number in range(1000):
        host.send_more(b"%d" % number, timeout=1)
    host.flush(timeout=1)
    assert [guest.receive(timeout=1) for _ in range(1000)] == [b"%d" % number for number in range(1000)]


def test_errors_are_pythons_own(chan, pair, path):
    host, guest = pair
    with pytest.raises(BlockingIOError):
        host.receive(timeout=0)
    with pytest.raises(TimeoutError) as timed_out:
        host.receive(timeout=0.01)
    assert isinstance(timed_out.value, chan.ChanError) and timed_out.value.strerror
    with pytest.raises(chan.ChanError, match="[Mm]essage"):
        host.send(b"x" * (host.max_message + 1))
    with chan.Region.open(path) as region, pytest.raises(chan.ChanError, match="another program|another"):
        region.channel(chan.Side.HOST)
    guest.send(b"last", timeout=1)
    guest.close()
    assert host.receive(timeout=1) == b"last"
    with pytest.raises(BrokenPipeError):
        host.receive(timeout=1)
    with pytest.raises(ValueError):
        guest.send(b"x")


def test_what_is_no_region(chan, tmp_path):
    with pytest.raises(chan.ChanError) as missing:
        chan.Region.open(tmp_path / "none")
    assert str(tmp_path) in missing.value.strerror
    (tmp_path / "raw").write_bytes(bytes(65536))
    with chan.Region.open(tmp_path / "raw") as region:
        assert region.size == 65536 and region.mapping == "cached"
        with pytest.raises(chan.ChanError, match="layout"):
            region.channel()


def test_the_example(path):
    serve = [sys.executable, EXAMPLE, "--path", path, "--side", "guest", "serve", "--count", "3"]
    with subprocess.Popen(serve, env=ENVIRONMENT) as server:
        try:
            client = subprocess.run([sys.executable, EXAMPLE, "--path", path, "send", "one", "", "three"],
                                    env=ENVIRONMENT, text=True, stdout=subprocess.PIPE, check=False, timeout=60)
            assert (client.returncode, client.stdout) == (0, "one\n\nthree\n")
            assert server.wait(30) == 0
        finally:
            server.kill()
