"""Limits of the system: what they do to a request, and that they end there."""

import subprocess

from support import state
from support.chand import UnixConnection, wait_for


def limited(chand, *limits):
    command = chand.command()
    chand.command = lambda: ["prlimit", *limits, "--", *command]
    return chand


def test_too_few_descriptors_are_refused(make_chand):
    run = subprocess.run(limited(make_chand(), "--nofile=40:40").command(), capture_output=True, text=True, timeout=60)
    assert run.returncode == 1
    assert "the limit of open files is 40, at least 256 are needed" in run.stderr


def test_idle_connections_leave_descriptors_for_work(make_chand):
    """More clients than the descriptors allow for: those that wait longest are closed, and work goes on."""
    chand = limited(make_chand(), "--nofile=256:256").start()
    template = chand.opt_in_template()
    idle = [UnixConnection(chand.socket) for _ in range(300)]
    try:
        for connection in idle:
            connection.connect()
        for number in range(10):
            body = {"templateID": template, "owner": {"pid": chand.process.pid}}
            assert chand.put(f"/v1/sandboxes/s{number}", body).status == 201
    finally:
        for connection in idle:
            connection.close()
    state.check(chand)


def test_a_file_that_may_not_be_so_large(make_chand):
    """The kernel sends SIGXFSZ, which ends a process that does not ignore it."""
    chand = limited(make_chand(), f"--fsize={64 << 20}:{64 << 20}").start()
    template = chand.opt_in_template(sizeBytes=128 << 20)
    answer = chand.put("/v1/sandboxes/s", {"templateID": template})
    assert (answer.status, answer.json["reason"]) == (503, "resource_limit")
    state.check(chand)


def test_closed_standard_descriptors(make_chand):
    chand = make_chand()
    command = chand.command()
    chand.command = lambda: ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command]
    chand.start()
    for number in (0, 1, 2):
        target = subprocess.run(["readlink", f"/proc/{chand.process.pid}/fd/{number}"], capture_output=True, text=True)
        assert target.stdout == "/dev/null\n"


def test_a_directory_of_regions_that_was_replaced(make_chand, tmp_path):
    shm = tmp_path / "shm"
    shm.mkdir()
    chand = make_chand(shm=shm).start()
    template = chand.opt_in_template()
    assert chand.put("/v1/sandboxes/a", {"templateID": template}).status == 201
    shm.rename(tmp_path / "moved")
    shm.mkdir()
    answer = chand.put("/v1/sandboxes/b", {"templateID": template})
    assert answer.status == 500
    assert "is not the directory any more" in answer.json["detail"]
    assert chand.get("/v1/sandboxes/b").status == 404
    chand.stop()
    shm.rmdir()
    (tmp_path / "moved").rename(shm)
    chand.start()
    assert chand.put("/v1/sandboxes/b", {"templateID": template}).status == 201
    wait_for(lambda: len(state.sandboxes(chand)) == 2, what="both sandboxes")
    state.check(chand)
