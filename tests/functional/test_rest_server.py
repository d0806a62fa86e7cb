"""REST: the sockets, who may use them, and how the face starts and stops."""

import contextlib
import http.client
import os
import pathlib
import signal
import socket
import sqlite3
import stat
import threading

import pytest

from support import state
from support.chand import UnixConnection, wait_for
from support.raw import JSON, Closed, Raw, request

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@contextlib.contextmanager
def writes_held_up(chand):
    """Keeps the daemon's writes waiting for the database, for up to ten seconds."""
    connection = sqlite3.connect(state.database(chand), isolation_level=None, timeout=10)
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")
    finally:
        connection.close()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def open_files(process):
    """What the descriptors of a process are, without those that it closes while we look."""
    found = set()
    for descriptor in (process / "fd").iterdir():
        try:
            found.add(os.readlink(descriptor))
        except FileNotFoundError:
            continue
    return found


def tcp_listeners(chand):
    """Every address that the daemon listens on by TCP, as (hex address, port)."""
    process = pathlib.Path("/proc") / str(chand.process.pid)
    own = open_files(process)
    found = set()
    for table in ("tcp", "tcp6"):
        if not (process / "net" / table).exists():
            continue
        for line in (process / "net" / table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in own:
                address, port = fields[1].split(":")
                found.add((address, int(port, 16)))
    return found


# ---- the unix socket ----

def test_the_socket_is_for_owner_and_group(chand):
    status = chand.socket.stat()
    assert stat.S_ISSOCK(status.st_mode)
    assert stat.S_IMODE(status.st_mode) == 0o660
    assert status.st_uid == os.geteuid()


@needs_root
def test_the_socket_group(make_chand):
    chand = make_chand("--socket-group", "daemon").start()
    status = chand.socket.stat()
    assert (status.st_gid, stat.S_IMODE(status.st_mode)) == (1, 0o660)
    chand = make_chand("--socket-group", "54321").start()
    assert chand.socket.stat().st_gid == 54321


def test_a_group_that_does_not_exist(make_chand):
    chand = make_chand("--socket-group", "no-such-group").start(ready=False)
    assert chand.process.wait(60) == 1
    assert "no-such-group" in chand.log()
    assert not chand.socket.exists()


def test_the_audit_knows_the_caller(chand):
    chand.put("/v1/templates/t", {}, headers={"X-Request-ID": "find-me"})
    rows = state.query(chand, "SELECT * FROM audit WHERE request_id = 'find-me'")
    assert len(rows) == 1
    assert f"uid={os.getuid()}" in rows[0]["who"] and f"pid={os.getpid()}" in rows[0]["who"]


def test_a_stale_socket_is_replaced(chand):
    chand.kill()
    assert chand.socket.exists()
    chand.start()
    assert chand.get("/livez").status == 200


def test_a_live_daemon_is_left_alone(chand, make_chand):
    second = make_chand()
    second.runtime.rmdir()
    second.runtime.symlink_to(chand.runtime)
    second.start(ready=False)
    assert second.process.wait(60) == 1
    assert "another daemon listens" in second.log()
    assert chand.get("/livez").status == 200
    second.runtime.unlink()


def test_a_file_that_is_no_socket_is_left_alone(make_chand):
    chand = make_chand()
    chand.socket.write_text("mine")
    chand.start(ready=False)
    assert chand.process.wait(60) == 1
    assert "not a socket" in chand.log()
    assert chand.socket.read_text() == "mine"


def test_a_path_that_no_socket_can_have(make_chand):
    chand = make_chand()
    chand.runtime = chand.directory / ("x" * 100)
    chand.start(ready=False)
    assert chand.process.wait(60) == 1
    assert "107 characters" in chand.log()


# ---- TCP ----

def test_no_tcp_unless_asked(chand):
    assert tcp_listeners(chand) == set()


def test_tcp_is_on_loopback_only(make_chand):
    port = free_port()
    chand = make_chand("--listen-tcp", str(port)).start()
    assert tcp_listeners(chand) == {("0100007F", port)}
    assert chand.get("/livez").status == 200  # the unix socket is there as well


def test_tcp_on_ipv6(make_chand):
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
            port = probe.getsockname()[1]
    except OSError:
        pytest.skip("this host has no IPv6")
    chand = make_chand("--listen-tcp", f"[::1]:{port}").start()
    assert tcp_listeners(chand) == {("00000000000000000000000001000000", port)}


def test_calls_over_tcp(make_chand):
    port = free_port()
    chand = make_chand("--listen-tcp", f"127.0.0.1:{port}").start()
    with Raw(("127.0.0.1", port)) as raw:
        raw.send(request("PUT", "/v1/templates/t", JSON, body=b'{"enableIvshmem":true}'))
        assert raw.answer().status == 201
        for i in range(100):
            raw.send(request("PUT", f"/v1/sandboxes/s{i}", JSON, body=b'{"templateID":"t"}'))
            made = raw.answer()
            assert made.status == 201
            assert made.json["uid"] == os.geteuid()  # no peer is known, so the file is the daemon's own
    rows = state.query(chand, "SELECT who FROM audit WHERE operation LIKE 'sandbox.%'")
    assert rows and not any("uid=" in row["who"] for row in rows)


def test_a_port_that_is_taken(make_chand):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        chand = make_chand("--listen-tcp", str(taken.getsockname()[1])).start(ready=False)
        assert chand.process.wait(60) == 1
    assert "cannot listen on 127.0.0.1:" in chand.log()
    assert not chand.socket.exists()


# ---- before it is ready ----

def test_before_it_is_ready(make_chand):
    chand = make_chand().start()
    chand.opt_in_template("t")
    chand.put("/v1/sandboxes/s", {"templateID": "t"})
    chand.stop()
    state.change(chand, "UPDATE sandbox SET state = ?", state.SANDBOX_STATES.index("creating"))
    with writes_held_up(chand):
        # The repair has to undo the half-made sandbox and cannot yet.
        chand.start(ready=False)
        wait_for(chand.socket.exists, what="the socket")
        wait_for(lambda: can_connect(chand), what="a listener")
        assert chand.get("/livez").status == 200
        waiting = chand.get("/readyz")
        assert waiting.status == 503 and waiting.json == {"status": "not_ready"}
        assert waiting.headers["Retry-After"] == "1"
        for method, path, body in (("GET", "/v1/templates/t", None), ("GET", "/v1/sandboxes", None),
                                   ("PUT", "/v1/sandboxes/new", {"templateID": "t"}), ("GET", "/v1/events", None),
                                   ("DELETE", "/v1/sandboxes/s", None), ("POST", "/v1/sandboxes/s/pause", None)):
            answer = chand.call(method, path, body)
            assert answer.status == 503, answer
            assert answer.json["reason"] == "not_ready"
            assert answer.headers["Retry-After"] == "1"
        assert chand.get("/v1/node").json["ready"] is False
        assert chand.get("/metrics").status == 200
        assert chand.get("/nowhere").status == 404
    chand.wait_ready()
    assert chand.get("/v1/node").json["ready"] is True
    assert chand.get("/v1/sandboxes/s").status == 404
    assert "level=error" not in chand.log()


def can_connect(chand):
    try:
        with Raw(chand.socket):
            return True
    except OSError:
        return False


# ---- the stop ----

def test_a_request_under_way_is_answered(chand):
    with Raw(chand.socket) as busy, Raw(chand.socket) as idle:
        with writes_held_up(chand):
            busy.send(request("PUT", "/v1/templates/t", JSON, body=b"{}"))
            # One thread reads all sockets, round by round: after two answers the request has been read.
            assert [chand.get("/livez").status for _ in range(2)] == [200, 200]
            chand.process.send_signal(signal.SIGTERM)
            wait_for(lambda: not chand.socket.exists(), what="the socket to go")
            assert not can_connect(chand)
        answer = busy.answer()
        assert answer.status == 201
        assert answer.headers["connection"].lower() == "close"
        assert busy.closed()
        assert idle.closed()
    assert chand.process.wait(30) == 0, chand.log()


def test_a_stop_waits_no_longer_than_it_is_told(make_chand):
    """For what is queued or half received; an operation that runs is never abandoned."""
    chand = make_chand("--drain-timeout", "1", "--idle-timeout", "600").start()
    with Raw(chand.socket) as raw:
        raw.send(request("PUT", "/v1/templates/t", JSON, body=b"{}")[:-1])
        chand.process.send_signal(signal.SIGTERM)
        assert raw.closed()
    assert chand.process.wait(30) == 0, chand.log()


@pytest.mark.parametrize("attempt", range(3))
def test_a_stop_under_load(make_chand, attempt):
    """Whoever gets an answer gets all of it, what was answered is kept, and the daemon ends cleanly."""
    chand = make_chand().start()
    chand.opt_in_template("t")
    faults, made = [], set()
    stopping = threading.Event()

    def work(number):
        count = 0
        connection = UnixConnection(chand.socket)
        while True:
            name = f"{number}-{count}"
            count += 1
            try:
                connection.request("PUT", f"/v1/sandboxes/{name}", '{"templateID":"t"}', {"Content-Type": "application/json"})
                answer = connection.getresponse()
                body = answer.read()
            except http.client.IncompleteRead as fault:
                faults.append(f"half an answer: {fault!r}")
                return
            except (OSError, http.client.HTTPException) as fault:
                if not stopping.is_set():
                    faults.append(f"before the stop: {fault!r}")
                return
            if answer.status == 201:
                made.add(name)
            elif not (answer.status == 503 and stopping.is_set()):
                faults.append((answer.status, body))
                return

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    wait_for(lambda: len(made) > 50 * (attempt + 1) or faults, what="some load")
    stopping.set()
    chand.process.send_signal(signal.SIGTERM)
    assert chand.process.wait(30) == 0, chand.log()
    for thread in threads:
        thread.join(30)
    assert faults == []
    kept = set(state.sandboxes(chand))
    assert made <= kept
    state.check(chand)
    # The worst case: done, but its answer was still on the way when the daemon ended.
    assert len(kept - made) <= len(threads)


def test_half_an_answer_is_not_left_by_a_stop(make_chand):
    """A client that reads slowly has the drain time to take its answer."""
    chand = make_chand("--drain-timeout", "20").start()
    for i in range(50):
        chand.put(f"/v1/templates/t{i}", {"annotations": {str(j): "x" * 4096 for j in range(30)}})
    with Raw(chand.socket) as raw:
        raw.send(request("GET", "/v1/templates"))
        status, headers = raw.head()
        assert status == 200
        chand.process.send_signal(signal.SIGTERM)
        wait_for(lambda: not chand.socket.exists(), what="the socket to go")
        while len(raw.buffer) < int(headers["content-length"]):
            assert raw.fill(), f"{len(raw.buffer)} of {headers['content-length']} bytes"
    assert chand.process.wait(30) == 0, chand.log()


def test_started_and_stopped_again_and_again(chand):
    for _ in range(10):
        chand.stop()
        with pytest.raises((FileNotFoundError, ConnectionRefusedError, Closed)):
            Raw(chand.socket)
        chand.start()
