"""kill -9 at every step of create, delete and repair, failures at every step, and kill -9 at random moments.

The fault points come from the daemon itself, so a new one is tested by being there. Builds without them (release) only
run the random kills.
"""

import http.client
import os
import pathlib
import random
import signal
import subprocess
import threading

import pytest

from support import state
from support.chand import BIN, UnixConnection, wait_for

QUICK_COLLECTOR = ("--collect-interval", "1")


def fault_points():
    try:
        answer = subprocess.run([BIN / "chand", "--list-fault-points"], capture_output=True, text=True, timeout=60,
                                check=False)
    except OSError:
        return []
    return answer.stdout.split() if answer.returncode == 0 else []


POINTS = fault_points()
needs_points = pytest.mark.skipif(not POINTS, reason="this build of chand has no fault points")


def points_of(*prefixes):
    """The points of these operations; without any, one parameter that is skipped with the reason."""
    return [point for point in POINTS if point.startswith(prefixes)] or [pytest.param("none", marks=needs_points)]


def arm(point, action):
    return {"CHAN_FAULT": f"{point}={action}"}


def prepare(chand):
    """A running daemon with a template and the sandbox `old`, whose bytes are known."""
    chand.start()
    chand.opt_in_template()
    assert chand.put("/v1/sandboxes/old", {"templateID": "tpl"}).status == 201
    with open(chand.shm / "ivshmem-old", "r+b") as region:
        region.seek(5000)
        region.write(b"old bytes")
    (chand.shm / "ivshmem-blocked").write_text("a stranger's", encoding="ascii")


STRANGERS = ("ivshmem-blocked",)


def status_of(call):
    """The status, or None when the daemon died under the request."""
    try:
        return call().status
    except (OSError, http.client.HTTPException):
        return None


def work(chand):
    """Every operation that has fault points, until the daemon dies; the answers that came."""
    calls = {
        "create": lambda: chand.put("/v1/sandboxes/new", {"templateID": "tpl"}),
        "create that fails": lambda: chand.put("/v1/sandboxes/blocked", {"templateID": "tpl"}),
        "delete": lambda: chand.delete("/v1/sandboxes/old"),
    }
    answers = {}
    for name, call in calls.items():
        answers[name] = status_of(call)
        if answers[name] is None:
            break
    return answers


def died_by_kill(chand):
    code = chand.process.wait(30)
    assert code == -signal.SIGKILL, f"chand ended with {code}:\n{chand.log()}"


def check_after(chand, answers):
    """What was answered is true, what was not is whole or not there."""
    state.check(chand, STRANGERS)
    there = state.sandboxes(chand)
    if answers.get("create") == 201:
        assert there.get("new") == "running"
    assert "blocked" not in there
    assert (chand.shm / "ivshmem-blocked").read_text(encoding="ascii") == "a stranger's"
    if answers.get("delete") == 204:
        assert "old" not in there
    if "old" in there:
        with open(chand.shm / "ivshmem-old", "rb") as region:
            region.seek(5000)
            assert region.read(9) == b"old bytes"
    if "delete" not in answers:
        assert there.get("old") == "running"


def check_retry(chand):
    """An orchestrator does again what was not answered, then everything goes."""
    assert chand.put("/v1/sandboxes/new", {"templateID": "tpl"}).status in (200, 201)
    assert chand.put("/v1/sandboxes/old", {"templateID": "tpl"}).status in (200, 201)
    state.check(chand, STRANGERS)
    for name in ("new", "old", "blocked"):
        assert chand.delete(f"/v1/sandboxes/{name}").status == 204
    assert chand.region_files() == list(STRANGERS)
    assert state.sandboxes(chand) == {}
    assert chand.delete("/v1/templates/tpl").status == 204


@pytest.mark.parametrize("point", points_of("create.", "region.", "delete."))
def test_killed_at(make_chand, point):
    chand = make_chand()
    prepare(chand)
    chand.stop()
    chand.start(environment=arm(point, "kill"))
    answers = work(chand)
    assert None in answers.values(), f"{point} was never reached: {answers}"
    died_by_kill(chand)
    chand.start()  # waits for /readyz
    check_after(chand, answers)  # at once: ready means repaired
    check_retry(chand)


def leave_half(chand):
    """A sandbox half created, left by a kill, and one half deleted: what the unit of a delete's intent writes."""
    prepare(chand)
    chand.stop()
    chand.start(environment=arm("region.after_link", "kill"))
    assert status_of(lambda: chand.put("/v1/sandboxes/new", {"templateID": "tpl"})) is None
    died_by_kill(chand)
    state.change(chand, "UPDATE sandbox SET state = ? WHERE id = 'old'", state.SANDBOX_STATES.index("deleting"))
    state.change(chand, "UPDATE region SET state = ? WHERE sandbox = (SELECT number FROM sandbox WHERE id = 'old')",
                 state.REGION_STATES.index("deleting"))
    assert state.sandboxes(chand) == {"new": "creating", "old": "deleting"}
    assert len(chand.region_files()) == 4  # old, new, its staging name, and the stranger


@pytest.mark.parametrize("point", points_of("repair."))
def test_killed_in_the_repair(make_chand, point):
    chand = make_chand()
    leave_half(chand)
    chand.start(ready=False, environment=arm(point, "kill"))
    seen = []
    while chand.process.poll() is None:
        seen.append(status_of(lambda: chand.get("/readyz")))
    died_by_kill(chand)
    assert 200 not in seen, "ready before the repair was done"
    chand.start()
    check_after(chand, {"delete": None})
    assert state.sandboxes(chand) == {}
    check_retry(chand)


@needs_points
def test_killed_again_and_again_in_the_repair(make_chand):
    chand = make_chand()
    leave_half(chand)
    for point in points_of("repair."):
        for _ in range(2):
            chand.start(ready=False, environment=arm(point, "kill"))
            wait_for(lambda: chand.process.poll() is not None or status_of(lambda: chand.get("/readyz")) == 200,
                     what="the end of the repair")
            chand.kill()
    chand.start()
    check_after(chand, {"create": None, "delete": None})


@needs_points
def test_a_daemon_that_cannot_repair_says_so_and_is_not_ready(make_chand):
    chand = make_chand()
    leave_half(chand)
    chand.start(ready=False, environment=arm("repair.before_sandbox", "EIO"))
    wait_for(lambda: chand.process.poll() is not None or status_of(lambda: chand.get("/readyz")) is not None,
             what="the end, or an answer")
    if chand.process.poll() is not None:
        assert chand.process.returncode == 1
        assert "repair" in chand.log()
        chand.start()
    wait_for(lambda: set(state.sandboxes(chand).values()) <= {"running"}, what="the end of the repair")
    chand.wait_ready()
    check_after(chand, {"create": None, "delete": None})


# ---- steps that fail ----

ERRORS = {"ENOSPC": (507, ("no_space", "store_full")), "EIO": (500, ("internal", "store_failed")),
          "EMFILE": (503, ("resource_limit",))}
# Behind these the sandbox is on disk, so the create has succeeded whatever happens.
CANNOT_FAIL = ("create.after_ready", "create.after_unstage")


def failing_points():
    return [point for point in points_of("create.", "region.")
            if point not in (*CANNOT_FAIL, "create.before_abort")]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("point", failing_points())
def test_a_step_of_create_fails(make_chand, point, error):
    chand = make_chand("--collect-interval", "3600")  # nobody helps
    chand.start(environment=arm(point, error))
    chand.opt_in_template()
    answer = chand.put("/v1/sandboxes/new", {"templateID": "tpl"})
    status, reasons = ERRORS[error]
    assert answer.status == status, answer
    assert answer.json["reason"] in reasons
    assert answer.json["detail"]
    assert chand.region_files() == []
    assert state.sandboxes(chand) == {}
    state.check(chand)
    assert chand.put("/v1/sandboxes/new", {"templateID": "tpl"}).status == 201
    state.check(chand)
    kinds = [event["kind"] for event in chand.get("/v1/events").json["events"]]
    if point != "create.before_intent":
        assert kinds[1:3] == ["sandbox.creating", "sandbox.create_failed"]


@needs_points
@pytest.mark.parametrize("point", CANNOT_FAIL)
def test_what_is_ready_does_not_fail(make_chand, point):
    chand = make_chand()
    chand.start(environment=arm(point, "EIO"))
    chand.opt_in_template()
    assert chand.put("/v1/sandboxes/new", {"templateID": "tpl"}).status == 201
    assert chand.delete("/v1/sandboxes/new").status == 204
    assert chand.region_files() == []


@needs_points
def test_an_undo_that_fails_is_done_by_the_collector(make_chand):
    chand = make_chand(*QUICK_COLLECTOR)
    chand.start(environment=arm("create.before_abort", "EIO"))
    chand.opt_in_template()
    (chand.shm / "ivshmem-blocked").write_text("a stranger's", encoding="ascii")
    answer = chand.put("/v1/sandboxes/blocked", {"templateID": "tpl"})
    assert (answer.status, answer.json["reason"]) == (409, "file_exists")
    assert "undone later" in answer.json["detail"]
    wait_for(lambda: state.sandboxes(chand) == {}, what="the collector's undo")
    state.check(chand, STRANGERS)
    assert (chand.shm / "ivshmem-blocked").read_text(encoding="ascii") == "a stranger's"


@needs_points
def test_an_undo_that_failed_can_be_deleted_at_once(make_chand):
    chand = make_chand("--collect-interval", "3600")  # nobody helps
    chand.start(environment=arm("create.before_abort", "EIO"))
    chand.opt_in_template()
    (chand.shm / "ivshmem-blocked").write_text("a stranger's", encoding="ascii")
    assert chand.put("/v1/sandboxes/blocked", {"templateID": "tpl"}).status == 409
    answer = chand.put("/v1/sandboxes/blocked", {"templateID": "tpl"})
    assert (answer.status, answer.json["reason"]) == (409, "sandbox_busy")
    assert chand.delete("/v1/sandboxes/blocked").status == 204
    assert state.sandboxes(chand) == {}
    state.check(chand, STRANGERS)
    assert (chand.shm / "ivshmem-blocked").read_text(encoding="ascii") == "a stranger's"


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("point", points_of("delete."))
def test_a_step_of_delete_fails(make_chand, point, error):
    chand = make_chand(*QUICK_COLLECTOR)
    chand.start(environment=arm(point, error))
    chand.opt_in_template()
    assert chand.put("/v1/sandboxes/s", {"templateID": "tpl"}).status == 201
    answer = chand.delete("/v1/sandboxes/s")
    if answer.status != 204:
        assert answer.status in (500, 503, 507), answer
        assert point in answer.json["detail"]
    assert chand.delete("/v1/sandboxes/s").status == 204  # as an orchestrator retries
    assert chand.region_files() == []
    state.check(chand)


@needs_points
def test_a_delete_that_failed_is_finished_by_the_collector(make_chand):
    chand = make_chand(*QUICK_COLLECTOR)
    chand.start(environment=arm("delete.after_intent", "EIO"))
    chand.opt_in_template()
    assert chand.put("/v1/sandboxes/s", {"templateID": "tpl"}).status == 201
    assert chand.delete("/v1/sandboxes/s").status == 500
    wait_for(lambda: state.sandboxes(chand) == {}, what="the collector's delete")
    state.check(chand)


# ---- a stranger between look and create ----

def is_stopped(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0] == "T"


@needs_points
@pytest.mark.parametrize("point", ["create.after_intent", "region.after_open", "region.after_superblock"])
@pytest.mark.parametrize("kind", ["file", "symlink", "directory"])
def test_a_stranger_that_comes_in_between_stays(make_chand, tmp_path, point, kind):
    chand = make_chand()
    chand.start(environment=arm(point, "stop"))
    chand.opt_in_template()
    path = chand.shm / "ivshmem-new"
    answers = []
    client = threading.Thread(target=lambda: answers.append(chand.put("/v1/sandboxes/new", {"templateID": "tpl"})))
    client.start()
    try:
        wait_for(lambda: is_stopped(chand.process.pid), what=f"the stop at {point}")
        if kind == "file":
            path.write_text("a stranger's", encoding="ascii")
            path.chmod(0o644)
        elif kind == "symlink":
            (tmp_path / "target").write_text("precious", encoding="ascii")
            path.symlink_to(tmp_path / "target")
        else:
            path.mkdir()
        before = path.lstat()
    finally:
        chand.process.send_signal(signal.SIGCONT)
        client.join(30)
    assert (answers[0].status, answers[0].json["reason"]) == (409, "file_exists")
    after = path.lstat()
    for field in ("st_ino", "st_mode", "st_size", "st_mtime_ns", "st_nlink", "st_uid"):
        assert getattr(after, field) == getattr(before, field), field
    if kind == "symlink":
        assert (tmp_path / "target").read_text(encoding="ascii") == "precious"
    assert state.sandboxes(chand) == {}
    state.check(chand, ("ivshmem-new",))


# ---- kill -9 at random moments, under load ----

class Client(threading.Thread):
    """Creates and deletes sandboxes of its own until the daemon is gone, and remembers what was answered."""

    def __init__(self, chand, name, seed):
        super().__init__()
        self.chand, self.prefix = chand, name
        self.random = random.Random(seed)
        self.known = {}  # id: "there" or "gone", as last answered; "unknown" while a request is under way
        self.unexpected = []

    def request(self, connection, method, name, expected):
        body = '{"templateID": "tpl"}' if method == "PUT" else None
        self.known[name] = "unknown"
        connection.request(method, f"/v1/sandboxes/{name}", body=body,
                           headers={"Content-Type": "application/json"} if body else {})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status not in expected:
            self.unexpected.append((method, name, answer.status, text))
        else:
            self.known[name] = "there" if method == "PUT" else "gone"

    def run(self):
        connection = UnixConnection(self.chand.socket)
        try:
            while not self.unexpected:
                name = f"{self.prefix}-{self.random.randrange(6)}"
                if self.known.get(name) == "there":
                    self.request(connection, "DELETE", name, (204,))
                else:
                    self.request(connection, "PUT", name, (200, 201))
        except (OSError, http.client.HTTPException):
            pass  # killed
        finally:
            connection.close()


@pytest.mark.slow
def test_killed_at_random_moments_under_load(make_chand):
    rounds, clients = 20, 4
    seed = int(os.environ.get("CHAN_TEST_SEED", random.randrange(2**32)))
    print(f"CHAN_TEST_SEED={seed}")
    moments = random.Random(seed)
    chand = make_chand()
    chand.start()
    chand.opt_in_template(sizeBytes=32768)
    known = [{} for _ in range(clients)]
    done = 0
    for turn in range(rounds):
        workers = [Client(chand, f"c{i}", seed + turn * clients + i) for i in range(clients)]
        for worker, last in zip(workers, known):
            worker.known = last
            worker.start()
        killed = threading.Event()
        killed.wait(moments.uniform(0.005, 0.25))  # the moment is the input of this test, not a wait for something
        chand.kill()
        for worker in workers:
            worker.join(30)
            assert not worker.unexpected, worker.unexpected
        chand.start()
        state.check(chand)
        there = state.sandboxes(chand)
        for last in known:
            for name, what in last.items():
                if what == "there":
                    assert there.get(name) == "running", f"round {turn}: {name} was created and is not there"
                    done += 1
                elif what == "gone":
                    assert name not in there, f"round {turn}: {name} was deleted and is there"
                    done += 1
                last[name] = "there" if name in there else "gone"
    assert done > 0, "no request was ever answered, so nothing was tested"
    for name in state.sandboxes(chand):
        assert chand.delete(f"/v1/sandboxes/{name}").status == 204
    assert chand.region_files() == []
    assert state.sandboxes(chand) == {}
