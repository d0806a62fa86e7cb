"""Ten thousand sandboxes: created, listed, deleted; nothing is left and nothing has grown."""

import json
import os
import pathlib
import shutil
import threading

import pytest

from support import state
from support.chand import BUILD, UnixConnection, wait_for

SANDBOXES, CLIENTS, REGION_BYTES = 10_000, 8, 32 * 1024


def is_sanitized():
    cache = BUILD / "CMakeCache.txt"
    lines = cache.read_text(encoding="utf-8").splitlines() if cache.exists() else []
    return any(line.startswith("CHAN_SANITIZE:") and not line.endswith("=") for line in lines)


def memory(pid):
    """Resident kilobytes: now, and at the peak."""
    fields = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]), int(fields["VmHWM"].split()[0])


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def for_all(chand, method, body, expected):
    """Sends the request for every sandbox, by several clients with a connection each."""
    faults = []

    def client(number):
        connection = UnixConnection(chand.socket, timeout=120)
        headers = {"Content-Type": "application/json"} if body else {}
        try:
            for i in range(number, SANDBOXES, CLIENTS):
                connection.request(method, f"/v1/sandboxes/s{i:05}", body=body, headers=headers)
                answer = connection.getresponse()
                text = answer.read()
                if answer.status != expected:
                    faults.append((i, answer.status, text))
                    return
        except OSError as fault:
            faults.append((number, repr(fault)))
        finally:
            connection.close()

    threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, faults[:3]


def list_all(chand, limit):
    connection = UnixConnection(chand.socket, timeout=120)
    names, token = [], None
    try:
        while True:
            query = f"limit={limit}" + (f"&pageToken={token}" if token else "")
            connection.request("GET", f"/v1/sandboxes?{query}")
            page = json.loads(connection.getresponse().read())
            assert len(page["sandboxes"]) <= limit
            names += [sandbox["sandboxID"] for sandbox in page["sandboxes"]]
            token = page["nextPageToken"]
            if token is None:
                return names
    finally:
        connection.close()


@pytest.mark.slow
def test_ten_thousand_sandboxes(make_chand, record_property):
    free = shutil.disk_usage("/dev/shm").free
    if free < SANDBOXES * REGION_BYTES * 1.2:
        pytest.skip(f"/dev/shm has {free >> 20} MiB free, this needs {SANDBOXES * REGION_BYTES * 1.2 / 2**20:.0f}")
    chand = make_chand("--collect-interval", "1").start()
    chand.opt_in_template(sizeBytes=REGION_BYTES)
    for i in range(20):  # so that what is allocated once is there before it is measured
        assert chand.put(f"/v1/sandboxes/warm{i}", {"templateID": "tpl"}).status == 201
        assert chand.delete(f"/v1/sandboxes/warm{i}").status == 204
    pid = chand.process.pid
    fds = descriptors(pid)
    before, _ = memory(pid)

    for_all(chand, "PUT", json.dumps({"templateID": "tpl", "owner": {"pid": os.getpid()}}), 201)
    full, _ = memory(pid)
    expected = [f"s{i:05}" for i in range(SANDBOXES)]
    assert list_all(chand, 1000) == expected
    assert list_all(chand, 137) == expected
    assert len(chand.region_files()) == SANDBOXES
    state.check(chand)

    chand.stop()
    chand.start()
    restarted, _ = memory(chand.process.pid)
    pid = chand.process.pid
    state.check(chand)

    for_all(chand, "DELETE", None, 204)
    assert list_all(chand, 1000) == []
    assert chand.region_files() == []
    assert state.sandboxes(chand) == {}
    state.check(chand)
    wait_for(lambda: descriptors(pid) <= fds, what=f"{fds} descriptors or fewer ({descriptors(pid)} now)")
    after, peak = memory(pid)

    figures = {"before_KiB": before, "with_10000_KiB": full, "restarted_with_10000_KiB": restarted, "peak_KiB": peak,
               "after_KiB": after, "descriptors_before": fds, "descriptors_after": descriptors(pid)}
    print(figures)
    for name, value in figures.items():
        record_property(name, value)
    if not is_sanitized():  # sanitizers keep freed memory
        assert max(full, peak) < 64 * 1024, figures
        assert after < before + 16 * 1024, figures
