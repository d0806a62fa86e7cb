"""The command line, the configuration file, and what a start and a stop of the daemon do."""

import os
import signal
import socket
import stat
import subprocess

import pytest

from support.chand import BIN, UnixConnection

CHAND = BIN / "chand"


def run(*arguments, **more):
    return subprocess.run([CHAND, *arguments], capture_output=True, text=True, timeout=60, check=False, **more)


def test_help_names_settings_and_exit_codes():
    answer = run("--help")
    assert answer.returncode == 0
    assert answer.stderr == ""
    for word in ("--config", "--check-config", "--state-dir", "--listen-tcp", "default 1048576", "Exit status"):
        assert word in answer.stdout


def test_version():
    answer = run("--version")
    assert answer.returncode == 0
    assert answer.stdout.split()[0] == "chand"


@pytest.mark.parametrize("arguments, part", [
    (["--wokers", "3"], 'the nearest is "workers"'),
    (["--workers", "0"], "out of range: 1 to 256 threads"),
    (["--workers"], "needs a value"),
    (["serve"], "is not an option"),
    (["--config", "/nonexistent/chand.conf"], "/nonexistent/chand.conf"),
    (["--listen-tcp", "0.0.0.0:7880"], "allow-remote = yes"),
    (["--listen-tcp", "localhost:7880"], "not a numeric address"),
    (["--max-region-size", "3M"], "not a power of two"),
    (["--default-region-size", "16K"], "out of range: 32768 to"),  # every template without a size would be refused
])
def test_a_wrong_command_line_is_refused(arguments, part):
    answer = run(*arguments)
    assert answer.returncode == 2
    assert answer.stderr.startswith("chand: ")
    assert part in answer.stderr
    assert answer.stdout == ""


def test_check_config_prints_what_would_be_used(tmp_path):
    config = tmp_path / "chand.conf"
    config.write_text("# sizes\nmax-region-size = 64M\nworkers = 3\n")
    answer = run("--config", config, "--workers", "5", "--check-config")
    assert answer.returncode == 0, answer.stderr
    lines = answer.stdout.splitlines()
    assert "max-region-size = 67108864" in lines
    assert "workers = 5" in lines
    again = tmp_path / "again.conf"
    again.write_text(answer.stdout)
    assert run("--config", again, "--check-config").stdout == answer.stdout


def test_a_fault_in_the_file_is_named_with_its_line(tmp_path):
    config = tmp_path / "chand.conf"
    config.write_text("workers = 3\n\nstate_dir = /x\n")
    answer = run("--config", config, "--check-config")
    assert answer.returncode == 2
    assert f'{config}:3: there is no setting "state_dir"; the nearest is "state-dir"' in answer.stderr


def test_missing_directories_are_made(make_chand):
    chand = make_chand()
    chand.state.rmdir()
    chand.runtime.rmdir()
    chand.start()
    assert stat.S_IMODE(chand.state.stat().st_mode) == 0o700
    assert stat.S_IMODE(chand.runtime.stat().st_mode) == 0o755


@pytest.mark.parametrize("mask", [0o000, 0o077, 0o777])
def test_the_umask_decides_nothing(make_chand, mask):
    chand = make_chand()
    old = os.umask(mask)
    try:
        chand.start()
    finally:
        os.umask(old)
    assert chand.put("/v1/sandboxes/s", {"templateID": chand.opt_in_template()}).status == 201
    assert stat.S_IMODE((chand.shm / "ivshmem-s").stat().st_mode) == 0o600
    assert stat.S_IMODE(chand.socket.stat().st_mode) == 0o660
    for path in chand.state.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_a_directory_that_cannot_be_made_is_named(tmp_path):
    answer = run("--state-dir", tmp_path / "no" / "such", "--runtime-dir", tmp_path)
    assert answer.returncode == 1
    assert f"state-dir: cannot make the directory {tmp_path}/no/such: No such file or directory" in answer.stderr


def test_a_missing_region_directory_is_named(tmp_path):
    answer = run("--state-dir", tmp_path / "state", "--runtime-dir", tmp_path / "run", "--shm-dir", tmp_path / "shm")
    assert answer.returncode == 1
    assert f"shm-dir: cannot use {tmp_path}/shm: No such file or directory" in answer.stderr


def test_a_bad_pattern_is_refused(make_chand):
    chand = make_chand("--region-name", "no-placeholder")
    answer = subprocess.run(chand.command(), capture_output=True, text=True, timeout=60, check=False)
    assert answer.returncode == 1
    assert "no-placeholder" in answer.stderr


def test_two_daemons_never_share_a_state(chand, tmp_path):
    answer = run("--state-dir", chand.state, "--runtime-dir", tmp_path, "--shm-dir", chand.shm)
    assert answer.returncode == 1
    assert f"another chand (pid {chand.process.pid}) uses {chand.state}" in answer.stderr
    assert chand.get("/readyz").status == 200


def test_the_names_and_sizes_of_regions_follow_the_settings(make_chand):
    chand = make_chand("--region-name", "vm,{sandboxID}.mem", "--default-region-size", "128K",
                       "--max-region-size", "256K").start()
    sandbox = chand.put("/v1/sandboxes/s", {"templateID": chand.opt_in_template()}).json
    assert sandbox["ivshmem"]["path"] == str(chand.shm / "vm,s.mem")
    assert (chand.shm / "vm,s.mem").stat().st_size == 128 * 1024
    answer = chand.put("/v1/templates/large", {"enableIvshmem": True, "ivshmem": {"sizeBytes": 512 * 1024}})
    assert answer.status == 422
    assert "maximum of 262144" in answer.json["errors"][0]["detail"]


def test_a_relative_region_directory_becomes_an_absolute_path(make_chand):
    chand = make_chand()
    command = chand.command()
    command[command.index(str(chand.shm))] = os.path.relpath(chand.shm)
    chand.command = lambda: command
    chand.start()
    sandbox = chand.put("/v1/sandboxes/s", {"templateID": chand.opt_in_template()}).json
    assert sandbox["ivshmem"]["path"] == str(chand.shm / "ivshmem-s")


def test_tcp_is_served_on_loopback(make_chand):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    make_chand("--listen-tcp", str(port)).start()
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert connection.recv(1024).startswith(b"HTTP/1.1 200")


def test_the_service_manager_is_told(make_chand, tmp_path):
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        manager.settimeout(60)
        chand = make_chand(environment={"NOTIFY_SOCKET": str(path)}).start(ready=False)
        assert manager.recv(1024) == b"READY=1"
        assert chand.get("/readyz").status == 200  # ready is said only when it is true
        chand.stop()
        assert manager.recv(1024) == b"STOPPING=1"


@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT"])
def test_a_stop_is_clean(make_chand, number):
    chand = make_chand().start()
    chand.put("/v1/sandboxes/s", {"templateID": chand.opt_in_template()})
    chand.process.send_signal(getattr(signal, number))
    assert chand.process.wait(30) == 0, chand.log()
    assert not chand.socket.exists()
    assert (chand.shm / "ivshmem-s").exists()  # regions outlive the daemon
    chand.start()
    assert chand.get("/v1/sandboxes/s").status == 200


def test_idle_connections_do_not_delay_a_stop(make_chand):
    chand = make_chand("--drain-timeout", "20", "--idle-timeout", "60").start()
    connections = [UnixConnection(chand.socket) for _ in range(4)]
    for connection in connections:
        connection.request("GET", "/livez")
        assert connection.getresponse().read() is not None
    chand.stop(seconds=10)
    for connection in connections:
        connection.close()


def test_the_descriptor_limit_is_raised(make_chand):
    chand = make_chand()
    command = chand.command()
    chand.command = lambda: ["sh", "-c", 'ulimit -S -n 64 && exec "$@"', "sh", *command]
    chand.start()
    limits = open(f"/proc/{chand.process.pid}/limits", encoding="ascii").read()
    soft, hard = next(line.split()[3:5] for line in limits.splitlines() if line.startswith("Max open files"))
    assert soft == hard


def test_an_ordinary_user_can_run_it(make_chand):
    if os.geteuid() != 0:
        pytest.skip("the other tests are run by an ordinary user already")
    chand = make_chand()
    for path in (chand.directory, chand.state, chand.runtime, chand.shm):
        os.chown(path, 65534, 65534)
    command = chand.command()
    chand.command = lambda: ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command]
    chand.start()
    template = chand.opt_in_template()
    assert chand.put("/v1/sandboxes/s", {"templateID": template}).status == 201
    assert (chand.shm / "ivshmem-s").stat().st_uid == 65534
    answer = chand.put("/v1/sandboxes/r", {"templateID": template, "uid": 0})
    assert (answer.status, answer.json["reason"]) == (403, "uid_not_permitted")
    assert chand.delete("/v1/sandboxes/s").status == 204
