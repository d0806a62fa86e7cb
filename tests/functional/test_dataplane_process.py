"""chan-dataplane as a process: its command line, its sockets, what it gives up, and how it ends."""

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

@pytest.mark.patient
def test_a_cable_without_control(make_dataplane):
    plane = make_dataplane(control=False)
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


def test_the_log_says_why_an_end_is_faulted(make_dataplane):
    plane = make_dataplane(control=False)
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


def test_sockets_are_made_over_stale_ones_only(make_dataplane):
    plane = make_dataplane(control=False)
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


def test_a_killed_one_is_followed_by_another(make_dataplane):
    plane = make_dataplane().start()
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
def test_nothing_else_is_replaced_by_the_control_socket(make_dataplane, kind):
    plane = make_dataplane()
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
def test_a_stop_is_clean(make_dataplane, number):
    plane = make_dataplane().start()
    with plane.control() as client:
        client.create("l", [plane.end("a"), plane.end("b")])
        with dp.vhost_user_connect(plane.path("a")):
            plane.stop(number)
            assert client.receive() == (b"", [])
    left = sorted(path.name for path in plane.directory.iterdir())
    assert left == ["control.sock.lock", "dataplane.log"]


def test_the_service_manager_is_told(make_dataplane, tmp_path):
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        manager.settimeout(60)
        plane = make_dataplane(environment={"NOTIFY_SOCKET": str(path)}).start(ready=False)
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


def test_workers_are_pinned_to_their_cpus(make_dataplane):
    cpus = sorted(os.sched_getaffinity(0))[-2:]
    plane = make_dataplane("--cpus", ",".join(map(str, cpus))).start()
    workers = [status["Cpus_allowed_list"] for status in statuses(plane) if status["Name"] == "worker"]
    assert sorted(workers) == sorted(map(str, cpus))
    with plane.control() as client:
        assert sorted(client.greeting.cpus) == cpus
        for number in range(4):
            client.create(f"l{number}", [plane.end(f"{number}a"), plane.end(f"{number}b")])
        used = [link.worker_cpu for link in client.links()]
    for cpu in cpus:
        assert used.count(cpu) == 4 // len(cpus), f"links are shared out evenly, not {used}"


def test_the_descriptor_limit_is_raised(make_dataplane):
    plane = make_dataplane(prefix=["sh", "-c", 'ulimit -S -n 64 && exec "$@"', "sh"]).start()
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


def test_it_needs_no_network(make_dataplane):
    if subprocess.run(["unshare", "-r", "-n", "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("network namespaces cannot be made here")
    plane = make_dataplane(prefix=["unshare", "-r", "-n"]).start()
    ours, its = (os.readlink(f"/proc/{pid}/ns/net") for pid in ("self", plane.process.pid))
    assert ours != its
    exercise(plane)


def test_an_ordinary_user_can_run_it(make_dataplane):
    if os.geteuid() != 0:
        pytest.skip("the other tests are run by an ordinary user already")
    plane = make_dataplane(prefix=["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"])
    shutil.chown(plane.directory, 65534, 65534)
    plane.start()
    assert plane.control_path.stat().st_uid == 65534
    exercise(plane)
