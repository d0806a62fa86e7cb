"""chan-dataplane as a process: its command line, its control socket, what it gives up, and how it ends."""

import array
import fcntl
import mmap
import os
import pathlib
import shutil
import signal
import socket
import stat
import subprocess

import pytest

from support import dataplane as dp
from support.chand import BUILD, wait_for

NINJA = (BUILD / "build.ninja").read_text()


@pytest.fixture
def make():
    """Makes dataplanes with options; none is started yet, all are closed when the test ends."""
    made = []

    def make_one(*options, **more):
        made.append(dp.Dataplane(*options, **more))
        return made[-1]

    yield make_one
    for one in made:
        one.close()


@pytest.fixture
def plane(make):
    return make().start()


@pytest.fixture
def control(plane):
    with plane.control() as client:
        yield client


def run(*arguments):
    return subprocess.run([dp.PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)


# ---- the command line ----

def test_help_names_every_option():
    answer = run("--help")
    assert (answer.returncode, answer.stderr) == (0, "")
    for word in ("--cpus", "--control", "--cable", "--poll-us", "--patience-ms", "--max-links", "--log-level",
                 "Exit status"):
        assert word in answer.stdout


def test_version():
    answer = run("--version")
    assert answer.returncode == 0
    assert answer.stdout.split()[0] == "chan-dataplane"


@pytest.mark.parametrize("arguments, part", [
    ([], "--cpus is needed"),
    (["--cpus", "0"], "--control or --cable is needed"),
    (["--cpus", "x", "--control", "c"], '--cpus: "x" is not a number'),
    (["--cpus", "0,", "--control", "c"], "--cpus:"),
    (["--cpus", "1-0", "--control", "c"], "--cpus: \"0\" is out of range: 1 to"),
    (["--cpus", "0,0", "--control", "c"], "--cpus: CPU 0 is listed twice"),
    (["--cpus", "0;1", "--control", "c"], "is not a list of CPUs"),
    (["--cpus"], "--cpus needs a value"),
    (["--cpu", "0"], '"--cpu" is not an option'),
    (["serve"], '"serve" is not an option'),
    (["--poll-us", "1000001"], "--poll-us: \"1000001\" is out of range: 0 to 1000000"),
    (["--patience-ms", "0"], "--patience-ms: \"0\" is out of range"),
    (["--max-links=-1"], "--max-links: \"-1\" is not a number"),
    (["--log-level", "loud"], "none of error, warning, info and debug"),
    (["--cable", "a.sock"], "is not two paths"),
    (["--cable", "a,b,c"], "is not two paths"),
    (["--cable", "a,"], "1 to 107 bytes"),
    (["--cable", "a," + "b" * 108], "1 to 107 bytes, not 108"),
    (["--cpus", "0", "--max-links", "1", "--cable", "a,b", "--cable", "c,d"], "more cables than --max-links"),
])
def test_a_wrong_command_line_is_refused(arguments, part):
    answer = run(*arguments)
    assert answer.returncode == 2
    assert answer.stderr.startswith("chan-dataplane: ")
    assert part in answer.stderr
    assert answer.stdout == ""


def test_a_cpu_that_may_not_be_used_is_named(tmp_path):
    answer = run("--cpus", 65000, "--control", tmp_path / "c")
    assert answer.returncode == 1
    assert "this process may not use CPU 65000" in answer.stderr
    assert list(tmp_path.iterdir()) == []


# ---- cables of the command line ----

def test_a_cable_without_control(make):
    plane = make(control=False)
    plane.options += [f"--cable={plane.path('a')},{plane.path('b')}", "--cable", f"{plane.path('c')},{plane.path('d')}"]
    plane.start()
    for name in "abcd":
        assert stat.S_IMODE(os.stat(plane.path(name)).st_mode) == 0o600
    plane.wait_log("end waiting", 4)
    with dp.vhost_user_connect(plane.path("c")) as connection:
        assert dp.vhost_user_features(connection) & (1 << 32), "VERSION_1 is offered"
        line, = plane.wait_log("end connected")
        assert "link=cable1 end=0" in line
        assert f"socket={plane.path('c')}" in line
    plane.wait_log("end waiting.*link=cable1 end=0", 2)
    plane.stop()
    assert [path.name for path in plane.directory.iterdir()] == ["dataplane.log"]


def test_the_log_says_why_an_end_is_faulted(make):
    plane = make(control=False)
    plane.options += ["--cable", f"{plane.path('a')},{plane.path('b')}"]
    plane.start()
    with dp.vhost_user_connect(plane.path("b")) as connection:
        connection.sendall(b"\xff" * 12)
        line, = plane.wait_log("end faulted")
    assert "level=warning" in line
    assert "link=cable0 end=1" in line
    assert 'why="' in line
    with dp.vhost_user_connect(plane.path("b")) as connection:  # a fresh connection works
        assert dp.vhost_user_features(connection)


def test_sockets_are_made_over_stale_ones_only(make):
    plane = make(control=False)
    plane.options += ["--cable", f"{plane.path('a')},{plane.path('b')}"]
    plane.start()
    plane.kill()
    assert os.path.exists(plane.path("a"))
    plane.start()
    plane.stop()
    pathlib.Path(plane.path("b")).write_text("precious")
    plane.start(ready=False)
    assert plane.process.wait(20) == 1
    assert "is not a socket" in plane.log()
    assert pathlib.Path(plane.path("b")).read_text() == "precious"
    assert not os.path.exists(plane.path("a")), "the first end's socket is removed with the failure"


# ---- the control socket's place ----

def test_the_control_socket_is_private(plane):
    assert stat.S_IMODE(plane.control_path.stat().st_mode) == 0o600


def test_two_never_share_a_control_socket(plane):
    answer = run("--cpus", dp.last_cpu(), "--control", plane.control_path)
    assert answer.returncode == 1
    assert "another chan-dataplane uses it" in answer.stderr
    with plane.control() as client:
        assert client.links() == []


def test_a_killed_one_is_followed_by_another(make):
    plane = make().start()
    with plane.control() as client:
        first = client.greeting.instance
    plane.kill()
    assert plane.control_path.exists()
    plane.start()
    with plane.control() as client:
        assert client.greeting.instance != first
        assert client.greeting.pid == plane.process.pid
    plane.stop()
    assert not plane.control_path.exists()


@pytest.mark.parametrize("kind", ["file", "listener", "directory missing"])
def test_nothing_else_is_replaced_by_the_control_socket(make, kind):
    plane = make()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        if kind == "file":
            plane.control_path.write_text("precious")
        elif kind == "listener":
            other.bind(str(plane.control_path))
            other.listen()
        else:
            plane.options[plane.options.index("--control") + 1] = plane.path("missing/c.sock")
        plane.start(ready=False)
        assert plane.process.wait(20) == 1
        assert {"file": "not a socket", "listener": "another program listens",
                "directory missing": "No such file"}[kind] in plane.log()
    assert kind != "file" or plane.control_path.read_text() == "precious"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_is_clean(make, number):
    plane = make().start()
    with plane.control() as client:
        client.create("l", [plane.end("a"), plane.end("b")])
        with dp.vhost_user_connect(plane.path("a")):
            plane.stop(number)
            assert client.receive() == (b"", [])
    left = sorted(path.name for path in plane.directory.iterdir())
    assert left == ["control.sock.lock", "dataplane.log"]


def test_the_service_manager_is_told(make, tmp_path):
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        manager.settimeout(60)
        plane = make(environment={"NOTIFY_SOCKET": str(path)}).start(ready=False)
        assert manager.recv(1024) == b"READY=1"
        with plane.control() as client:
            assert client.links() == []
        plane.stop()
        assert manager.recv(1024) == b"STOPPING=1"


# ---- what it gives up ----

def statuses(plane):
    """/proc/PID/status of every thread, as dictionaries."""
    for thread in pathlib.Path(f"/proc/{plane.process.pid}/task").iterdir():
        lines = (thread / "status").read_text().splitlines()
        yield {key: value.strip() for key, value in (line.split(":", 1) for line in lines)}


@pytest.mark.skipif("fsanitize=thread" in NINJA, reason="ThreadSanitizer has a thread of its own before main")
def test_no_thread_has_privileges(plane):
    threads = list(statuses(plane))
    assert len(threads) >= 2, "there is a control thread and a worker"
    for status in threads:
        for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb") + (("CapBnd",) if os.geteuid() == 0 else ()):
            assert int(status[kind], 16) == 0, f"{kind} of {status['Name']}"
        assert status["NoNewPrivs"] == "1"


@pytest.mark.skipif("fsanitize=" in NINJA, reason="builds with a sanitizer have no filter")
def test_every_thread_has_a_filter(plane):
    for status in statuses(plane):
        assert status["Seccomp"] == "2", f"of {status['Name']}"


def test_workers_are_pinned_to_their_cpus(make):
    cpus = sorted(os.sched_getaffinity(0))[-2:]
    plane = make("--cpus", ",".join(map(str, cpus))).start()
    workers = [status["Cpus_allowed_list"] for status in statuses(plane) if status["Name"] == "worker"]
    assert sorted(workers) == sorted(map(str, cpus))
    with plane.control() as client:
        assert sorted(client.greeting.cpus) == cpus
        for number in range(4):
            client.create(f"l{number}", [plane.end(f"{number}a"), plane.end(f"{number}b")])
        used = [link.worker_cpu for link in client.links()]
    for cpu in cpus:
        assert used.count(cpu) == 4 // len(cpus), f"links are shared out evenly, not {used}"


def test_the_descriptor_limit_is_raised(make):
    plane = make(prefix=["sh", "-c", 'ulimit -S -n 64 && exec "$@"', "sh"]).start()
    limits = pathlib.Path(f"/proc/{plane.process.pid}/limits").read_text()
    soft, hard = next(line.split()[3:5] for line in limits.splitlines() if line.startswith("Max open files"))
    assert soft == hard


def exercise(plane):
    """What a dataplane is for, as far as one front-end can see."""
    with plane.control() as client:
        assert client.create("l", [plane.end("a"), plane.end("b")]).created
        with dp.vhost_user_connect(plane.path("a")) as connection:
            assert dp.vhost_user_features(connection)
            wait_for(lambda: client.link("l").ends[0].state == "connected", 20, "the end's being connected")
        client.call("delete_link", id="l")


def test_it_needs_no_network(make):
    if subprocess.run(["unshare", "-r", "-n", "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("network namespaces cannot be made here")
    plane = make(prefix=["unshare", "-r", "-n"]).start()
    ours, its = (os.readlink(f"/proc/{pid}/ns/net") for pid in ("self", plane.process.pid))
    assert ours != its
    exercise(plane)


def test_an_ordinary_user_can_run_it(make):
    if os.geteuid() != 0:
        pytest.skip("the other tests are run by an ordinary user already")
    plane = make(prefix=["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"])
    shutil.chown(plane.directory, 65534, 65534)
    plane.start()
    assert plane.control_path.stat().st_uid == 65534
    exercise(plane)


# ---- the protocol ----

def test_hello(plane, control):
    greeting = control.greeting
    assert greeting.version == 1
    assert greeting.software.startswith("chan-dataplane ")
    assert len(greeting.instance) == 32 and int(greeting.instance, 16)
    assert greeting.pid == plane.process.pid
    assert greeting.max_links == 4096
    assert list(greeting.cpus) == [dp.last_cpu()]
    assert greeting.has_statistics
    line, = plane.wait_log('msg="control client"')
    assert 'name="test 1"' in line
    assert f"pid={os.getpid()} uid={os.geteuid()}" in line


def test_another_version_is_refused(plane):
    with plane.control(hello=False) as client:
        with pytest.raises(dp.Refused, match="VERSION_MISMATCH: version 2 .* version 1 is"):
            client.call("hello", version=2)
        with pytest.raises(dp.Refused, match="INVALID"):  # it did not count
            client.links()


def test_hello_comes_first(plane):
    with plane.control(hello=False) as client:
        for call in ("list_links", "create_link", "delete_link", "pause_link", "set_offloads"):
            with pytest.raises(dp.Refused, match="INVALID: the first request of a connection is hello"):
                client.call(call)


def test_a_request_for_nothing(control):
    request = dp.messages().Request(id=77)
    control.send(request.SerializeToString())
    response = dp.messages().Response.FromString(control.receive()[0])
    assert (response.id, response.code) == (77, dp.messages().INVALID)
    assert control.links() == []


@pytest.mark.parametrize("packet", [b"\xff", b"\x08", b"\x12\x7f", b"\xff" * 65536, b"x" * 65537, b"x" * 100000],
                         ids=["tag", "cut", "length", "largest", "too-large", "far-too-large"])
def test_who_does_not_speak_the_protocol_is_disconnected(plane, control, packet):
    with plane.control() as other:
        other.send(packet)
        response = dp.messages().Response.FromString(other.receive()[0])
        assert response.code == dp.messages().INVALID
        assert response.detail
        assert other.receive() == (b"", [])
    assert control.links() == []


def test_an_empty_packet_ends_the_connection(plane, control):
    with plane.control() as other:
        other.send(b"")
        assert other.receive() == (b"", [])
    assert control.links() == []


def test_what_is_not_known_is_ignored(control):
    request = control.request("list_links").SerializeToString()
    for unknown in (b"\xf2\x7d\x03new", b"x" * (65536 - len(request))):  # field 2014; field 15, many times
        control.send(request + unknown)
        response = dp.messages().Response.FromString(control.receive()[0])
        assert response.code == dp.messages().OK


def test_requests_are_answered_in_order(control):
    requests = [control.request("list_links") for _ in range(20)]
    for request in requests:
        control.send(request.SerializeToString())
    answered = [dp.messages().Response.FromString(control.receive()[0]).id for _ in requests]
    assert answered == [request.id for request in requests]


def test_who_does_not_read_is_disconnected(plane, control):
    with plane.control() as silent:
        silent.socket.settimeout(20)
        request = silent.request("list_links").SerializeToString()
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            for _ in range(100000):
                silent.send(request)
        assert control.links() == []
    assert control.links() == []


def test_too_many_clients_are_turned_away(plane):
    clients = [plane.control() for _ in range(16)]
    try:
        with plane.control(hello=False) as one_more:
            with pytest.raises((AssertionError, BrokenPipeError, ConnectionResetError)):
                one_more.links()
        assert clients[0].links() == []
        clients.pop().close()

        def try_again():
            try:
                plane.control().close()
                return True
            except (AssertionError, OSError):
                return False
        wait_for(try_again, 20, "room for a client")
    finally:
        for client in clients:
            client.close()


def test_clients_leave_nothing_behind(plane):
    with plane.control():
        before = plane.descriptors()
    for _ in range(100):
        plane.control().close()
    with plane.control():
        wait_for(lambda: plane.descriptors() == before, 20, f"{before} descriptors again")


# ---- links ----

def test_the_life_of_a_link(plane, control):
    ends = [plane.end("a"), plane.end("b", mtu=9000, offloads=1 << 11)]
    reply = control.create("l", ends)
    assert reply.created
    assert control.statistics.identifier(reply.slot) == "l"
    link, = control.links()
    assert (link.id, link.paused, link.slot, link.worker_cpu) == ("l", False, reply.slot, dp.last_cpu())
    assert [(end.type, end.role, end.socket_path, end.state, end.mtu, end.offloads) for end in link.ends] == [
        ("vhost-user", 0, plane.path("a"), "waiting", 0, 0),
        ("vhost-user", 0, plane.path("b"), "waiting", 9000, 1 << 11)]
    for end in link.ends:
        assert end.socket_path in end.reason
        assert (end.peer_pid, end.connections, end.faults, end.queue_pairs) == (0, 0, 0, 0)
    with dp.vhost_user_connect(plane.path("a")):
        def connected():
            return control.link("l").ends[0].state == "connected"
        wait_for(connected, 20, "the end's being connected")
        end = control.link("l").ends[0]
        assert (end.peer_pid, end.connections) == (os.getpid(), 1)
        assert end.reason
    control.call("delete_link", id="l")
    assert control.links() == []
    assert control.statistics.identifiers() == []
    assert not os.path.exists(plane.path("a")) and not os.path.exists(plane.path("b"))


def test_creating_again_changes_nothing(plane, control):
    ends = [plane.end("a"), plane.end("b", mtu=1500)]
    first = control.create("l", ends)
    inode = os.stat(plane.path("a")).st_ino
    again = control.create("l", ends)
    assert (first.created, again.created) == (True, False)
    assert first.slot == again.slot
    assert os.stat(plane.path("a")).st_ino == inode
    for other in ([plane.end("c"), ends[1]], [ends[1], ends[0]], [ends[0], plane.end("b", mtu=1400)],
                  [plane.end("a", role=1), ends[1]], [plane.end("a", offloads=1), ends[1]]):
        with pytest.raises(dp.Refused, match="LINK_EXISTS"):
            control.create("l", other)
    assert len(control.links()) == 1


@pytest.mark.parametrize("identifier, change, words", [
    ("", {}, "an id is of"),
    ("-l", {}, "an id is of"),
    (".l", {}, "an id is of"),
    ("a/b", {}, "an id is of"),
    ("l\n", {}, "an id is of"),
    ("l" * 129, {}, "longer than 128"),
    ("l", {"type": "carrier-pigeon"}, 'no end of type "carrier-pigeon"'),
    ("l", {"type": "x" * 100}, "type is too long"),
    ("l", {"socket_path": "relative"}, "not absolute"),
    ("l", {"socket_path": ""}, "not absolute"),
    ("l", {"socket_path": "/" + "x" * 107}, "longer than 107"),
    ("l", {"role": 7}, "neither SERVER nor CLIENT"),
    ("l", {"mtu": 67}, "mtu of 67"),
    ("l", {"mtu": 65536}, "mtu of 65536"),
    ("l", {"has_listener": True}, "did not come along"),
])
def test_a_bad_link_is_refused_and_leaves_nothing(plane, control, identifier, change, words):
    before = plane.descriptors()
    with pytest.raises(dp.Refused) as refused:
        control.create(identifier, [plane.end("a"), {**plane.end("b"), **change}])
    assert refused.value.code == "INVALID"
    assert words in refused.value.detail
    assert plane.descriptors() == before
    assert control.links() == []
    assert control.statistics.identifiers() == []
    assert not os.path.exists(plane.path("a"))


@pytest.mark.parametrize("count", [0, 1, 3, 1000])
def test_a_link_has_two_ends(plane, control, count):
    with pytest.raises(dp.Refused, match="INVALID: .*two ends"):
        control.create("l", [plane.end("a") for _ in range(count)])


def test_a_socket_that_cannot_be_bound(plane, control):
    for path in (plane.path("missing/a"), plane.path("b")):
        with pytest.raises(dp.Refused, match="SOCKET_FAILED: link \"l\": end [01]: "):
            control.create("l", [plane.end("b"), {"type": "vhost-user", "socket_path": path}])
        assert not os.path.exists(plane.path("b"))
    assert control.create("l", [plane.end("a"), plane.end("b")]).created


def test_what_is_not_there(plane, control):
    for call in ("delete_link", "pause_link", "set_offloads"):
        with pytest.raises(dp.Refused, match='LINK_NOT_FOUND: there is no link "nope"'):
            control.call(call, id="nope")
    assert control.link("nope") is None
    control.create("l", [plane.end("a"), plane.end("b")])
    with pytest.raises(dp.Refused, match="INVALID: .*no end 2"):
        control.call("set_offloads", id="l", end=2)


def test_the_number_of_links_is_limited(make):
    plane = make("--max-links", 2).start()
    with plane.control() as control:
        assert control.greeting.max_links == control.statistics.slot_count == 2
        for name in ("one", "two"):
            control.create(name, [plane.end(name + "a"), plane.end(name + "b")])
        with pytest.raises(dp.Refused, match="LIMIT_REACHED: .*max-links"):
            control.create("three", [plane.end("3a"), plane.end("3b")])
        control.call("delete_link", id="one")
        assert control.create("three", [plane.end("3a"), plane.end("3b")]).created
        assert sorted(control.statistics.identifiers()) == ["three", "two"]


def test_pages(plane, control):
    """150 links of the longest names, so that a page is as large as it can be."""
    names = [f"{number:03}".ljust(128, "x") for number in range(150)]
    for name in reversed(names):
        control.create(name, [{"type": "vhost-user", "role": 1, "mtu": 65535, "offloads": (1 << 64) - 1,
                               "socket_path": plane.path(f"{name[:3]}{end}").ljust(107, "y")} for end in "ab"])
    seen, after = [], ""
    while True:
        page = control.call("list_links", after_id=after, limit=1000)
        assert len(page.links) == min(64, 150 - len(seen))
        seen += [link.id for link in page.links]
        after = seen[-1]
        if not page.more:
            break
    assert seen == names
    assert [link.id for link in control.links(after_id="010", limit=2)] == names[10:12]
    assert [link.id for link in control.links(only_id=names[5], after_id="zzz")] == [names[5]]
    for name in names:
        control.call("delete_link", id=name)
    assert control.links() == []


def test_pause(plane, control):
    control.create("l", [plane.end("a"), plane.end("b")])
    for paused in (True, True, False):
        control.call("pause_link", id="l", paused=paused)
        assert control.link("l").paused == paused


def test_offloads_are_not_offered_from_the_next_connection_on(plane, control):
    control.create("l", [plane.end("a"), plane.end("b")])
    tso = 1 << 7 | 1 << 11
    with dp.vhost_user_connect(plane.path("b")) as connection:
        assert dp.vhost_user_features(connection) & tso == tso
    control.call("set_offloads", id="l", end=1, offloads=tso)
    assert [end.offloads for end in control.link("l").ends] == [0, tso]
    wait_for(lambda: control.link("l").ends[1].state == "waiting", 20, "the end of the first connection")
    with dp.vhost_user_connect(plane.path("b")) as connection:
        assert dp.vhost_user_features(connection) & tso == 0
    with dp.vhost_user_connect(plane.path("a")) as connection:
        assert dp.vhost_user_features(connection) & tso == tso
    # What was set is now the link's specification.
    assert not control.create("l", [plane.end("a"), plane.end("b", offloads=tso)]).created


# ---- descriptors ----

def listener(plane, name):
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(plane.path(name))
    listening.listen()
    return listening


def test_listeners_come_along(plane, control):
    with listener(plane, "a") as first, listener(plane, "b") as second:
        ends = [plane.end("a", has_listener=True), plane.end("b", has_listener=True)]
        assert control.create("l", ends, [first.fileno(), second.fileno()]).created
    with dp.vhost_user_connect(plane.path("b")) as connection:
        assert dp.vhost_user_features(connection)
        wait_for(lambda: control.link("l").ends[1].state == "connected", 20, "the second end's being connected")
        assert control.link("l").ends[0].state == "waiting"
    wait_for(lambda: control.link("l").ends[1].state == "waiting", 20, "the end of that connection")
    with listener(plane, "c") as surplus:  # the link is there already: what comes along is closed
        before = plane.descriptors()
        assert not control.create("l", ends, [surplus.fileno(), surplus.fileno()]).created
        assert plane.descriptors() == before
    control.call("delete_link", id="l")
    assert os.path.exists(plane.path("a")), "a socket that others made is theirs to remove"


def test_only_the_second_end_has_a_listener(plane, control):
    with listener(plane, "b") as second:
        control.create("l", [plane.end("a"), plane.end("b", has_listener=True)], [second.fileno()])
    for end in (0, 1):
        with dp.vhost_user_connect(plane.path("ab"[end])):
            wait_for(lambda: control.link("l").ends[end].state == "connected", 20, f"end {end}'s being connected")


def test_what_is_no_listener_is_refused(plane, control):
    before = plane.descriptors()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as idle, open("/dev/null", "rb") as null, \
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams:
        for wrong in (idle, null, datagrams):
            with pytest.raises(dp.Refused, match="SOCKET_FAILED"):
                control.create("l", [plane.end("a"), plane.end("b", has_listener=True)], [wrong.fileno()])
    assert plane.descriptors() == before
    assert control.links() == []


@pytest.mark.parametrize("count", [1, 2, 3, 253])
def test_descriptors_that_no_request_names_are_closed(plane, control, count):
    before = plane.descriptors()
    with open("/dev/null", "rb") as null:
        for call in ("list_links", "hello"):
            fields = {"version": 1} if call == "hello" else {}
            _, answered = control.call_with_descriptors(call, [null.fileno()] * count, **fields)
            for descriptor in answered:
                os.close(descriptor)
        with plane.control() as other:
            other.send(b"\xff", [null.fileno()] * count)
            assert other.receive()[0]
        with plane.control() as other:
            other.send(b"", [null.fileno()] * count)
            assert other.receive() == (b"", [])
    wait_for(lambda: plane.descriptors() == before, 20, f"{before} descriptors again")


# ---- the statistics memory ----

def test_the_statistics_memory_can_be_read_only(control):
    statistics = control.statistics
    assert (statistics.magic, statistics.version) == (0x315441545341E4C3, 1)
    assert (statistics.slot_size, statistics.slot_count, statistics.slots_offset) == (512, 4096, 4096)
    with pytest.raises(PermissionError):
        mmap.mmap(statistics.descriptor, 0, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    with pytest.raises(PermissionError):
        os.pwrite(statistics.descriptor, b"x", 0)
    with pytest.raises(PermissionError):
        os.ftruncate(statistics.descriptor, 0)
    again = os.open(f"/proc/self/fd/{statistics.descriptor}", os.O_RDWR)  # a new opening helps nobody
    try:
        with pytest.raises(PermissionError):
            mmap.mmap(again, 0, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    finally:
        os.close(again)
    assert fcntl.fcntl(statistics.descriptor, fcntl.F_GETFD) & fcntl.FD_CLOEXEC


def test_a_slot_is_used_anew_with_counters_of_zero(plane, control):
    first = control.create("first", [plane.end("a"), plane.end("b")]).slot

    def words():
        offset = control.statistics.slots_offset + first * 512 + 136
        return array.array("Q", control.statistics.memory[offset:offset + 512 - 136])
    wait_for(lambda: words()[0] > 0, 20, "the link's going to sleep, which is counted")
    control.call("delete_link", id="first")
    assert control.statistics.identifier(first) == ""
    second = control.create("2", [plane.end("a"), plane.end("b")]).slot
    assert second == first
    assert control.statistics.identifier(second) == "2"
    assert sum(words()[1:]) <= 2, "frames of the link before are not this one's"
