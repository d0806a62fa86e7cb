"""The life of a sandbox with a real guest: pause and resume, owners that end, a daemon that is killed, nothing left."""

import os
import sqlite3

import pytest

from support.chand import wait_for
from support.exchange import Stream, copy_to_guest, copy_to_host, exchange
from support.vm import RawRegion, find_devices


def rows_of(chand):
    """What the store knows of sandboxes and regions."""
    database = sqlite3.connect(f"file:{chand.state / 'chan.db'}?mode=ro", uri=True)
    try:
        return [row[0] for table in ("sandbox", "region") for row in database.execute(f"SELECT * FROM {table}")]
    finally:
        database.close()


def assert_nothing_left(chand, sandbox):
    assert sandbox.is_gone()
    assert chand.region_files() == []
    assert rows_of(chand) == []


@pytest.mark.quick
def test_exchange_then_delete_leaves_nothing(chand, make_sandbox):
    chand.opt_in_template()
    sandbox = make_sandbox(chand).boot()
    exchange(sandbox)
    sandbox.vm.end()
    sandbox.delete()
    assert_nothing_left(chand, sandbox)


def test_bulk(chand, make_sandbox):
    """Many times the region's size, both ways."""
    chand.opt_in_template()
    sandbox = make_sandbox(chand).boot()
    copy_to_guest(sandbox, os.urandom(16 << 20))
    copy_to_host(sandbox, 16 << 20)


def test_without_kvm(chand, make_sandbox):
    chand.opt_in_template()
    sandbox = make_sandbox(chand, accel="tcg").boot()
    assert sandbox.vm.qmp("query-kvm")["enabled"] is False
    exchange(sandbox)


def test_five_rounds(chand, make_sandbox):
    chand.opt_in_template()
    for _ in range(5):
        sandbox = make_sandbox(chand).boot()
        exchange(sandbox)
        sandbox.vm.end()
        sandbox.delete()
        assert_nothing_left(chand, sandbox)


def test_three_at_once(chand, make_sandbox):
    """Each has bytes of its own, and exchanges while the others do."""
    chand.opt_in_template()
    sandboxes = [make_sandbox(chand, f"sb-{number}") for number in range(3)]
    for sandbox in sandboxes:
        sandbox.boot()
    assert chand.region_files() == [f"ivshmem-sb-{number}" for number in range(3)]
    streams = [Stream(sandbox) for sandbox in sandboxes]
    for _ in range(3):
        for stream in streams:
            stream.feed()
    for stream in streams:
        stream.close()
    for sandbox in sandboxes:
        exchange(sandbox)
    sandboxes[1].delete()
    assert chand.region_files() == ["ivshmem-sb-0", "ivshmem-sb-2"]
    exchange(sandboxes[2])


def test_pause_with_the_guest_standing_still(chand, make_sandbox):
    chand.opt_in_template()
    sandbox = make_sandbox(chand).boot()
    exchange(sandbox)
    stream = Stream(sandbox)
    stream.feed()
    stream.wait_taken()
    sandbox.vm.stop()
    sandbox.pause()
    assert sandbox.path.exists()
    stream.feed()
    sandbox.resume()
    sandbox.vm.cont()
    stream.feed()
    stream.wait_taken()
    stream.close()  # all in the one session
    exchange(sandbox)


def test_pause_with_the_vmm_gone(make_chand, make_sandbox):
    """The VMM ends while paused; a new one on the same file finds every byte."""
    chand = make_chand("--orphan-grace", "0", "--collect-interval", "1").start()
    chand.opt_in_template(layout="raw")
    sandbox = make_sandbox(chand).boot()
    data = os.urandom(256)
    RawRegion(sandbox.vm, find_devices(sandbox.vm)[0]).write(65536, data)
    sandbox.vm.stop()
    sandbox.pause()
    inode = sandbox.path.stat().st_ino
    sandbox.vm.end()
    # Another sandbox whose owner ends shows that the collector has been here since, and left the paused one alone.
    witness = make_sandbox(chand, "witness").boot()
    witness.vm.end()
    wait_for(witness.is_gone, 20, "the removal of the sandbox that was not paused")
    assert sandbox.get()["state"] == "paused"
    assert sandbox.path.stat().st_ino == inode

    sandbox.boot()
    raw = RawRegion(sandbox.vm, find_devices(sandbox.vm)[0])
    assert raw.read(65536, len(data)) == data
    assert sandbox.path.stat().st_ino == inode
    sandbox.delete()
    assert chand.region_files() == []


def test_exchange_after_the_vmm_was_started_again(chand, make_sandbox):
    chand.opt_in_template()
    sandbox = make_sandbox(chand).boot()
    exchange(sandbox)
    sandbox.vm.stop()
    sandbox.pause()
    sandbox.vm.end()
    sandbox.boot()
    exchange(sandbox)


def test_a_killed_vmm_is_reclaimed_after_the_grace(make_chand, make_sandbox):
    chand = make_chand("--orphan-grace", "2", "--collect-interval", "1").start()
    chand.opt_in_template()
    sandbox = make_sandbox(chand).boot()
    assert sandbox.get()["owner"]["condition"] == "alive"
    sandbox.vm.end(hard=True)
    wait_for(lambda: chand.get(sandbox.url).status == 404 or sandbox.get()["state"] == "orphaned", 10,
             "the state orphaned")
    wait_for(sandbox.is_gone, 20, "the removal of the orphaned sandbox")
    assert_nothing_left(chand, sandbox)
    kinds = [event["kind"] for event in chand.get("/v1/events").json["events"]
             if event.get("objectID") == sandbox.id]
    assert any("orphan" in kind for kind in kinds), kinds


def test_kill_9_of_the_daemon_during_an_exchange(chand, make_sandbox):
    """The bytes never notice; the next daemon adopts what is there."""
    chand.opt_in_template()
    sandbox = make_sandbox(chand).boot()
    stream = Stream(sandbox)
    stream.feed()
    stream.wait_taken()
    inode = sandbox.path.stat().st_ino
    chand.kill()
    for _ in range(4):
        stream.feed()
        stream.wait_taken()
    chand.start()
    stream.feed()
    stream.close()
    view = sandbox.get()
    assert view["state"] == "running" and view["owner"]["condition"] == "alive"
    assert sandbox.path.stat().st_ino == inode
    exchange(sandbox)
    sandbox.vm.end()
    sandbox.delete()
    assert_nothing_left(chand, sandbox)
