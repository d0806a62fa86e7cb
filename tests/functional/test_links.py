"""Links through everything that can happen to chand and to the dataplane: kills at every step, failures at every step,
restarts of either, sandboxes that go. Each test looks at the store, the directories and the sockets for itself."""

import contextlib
import os
import re
import signal
import socket
import sqlite3
import subprocess
import threading

import pytest

from support import state
from support.chand import wait_for
from support.link import connect, create, end_of, ends, is_ours, sandboxes, wait_end
from test_crash import arm, died_by_kill, is_stopped, needs_points, points_of, status_of


def samples(chand, name):
    """The samples of a metric, by what stands in their braces."""
    text = chand.get("/metrics").body.decode()
    return {labels: int(value) for labels, value in re.findall(rf"^{name}(?:{{(.*)}})? (\d+)$", text, re.MULTILINE)}


def dataplane(chand):
    return chand.get("/v1/node").json["dataplane"]


def listens(chand, name):
    """Both sockets of the link are there, and the dataplane is behind them."""
    for number in range(2):
        with connect(end_of(chand, name, number)):
            wait_end(chand, name, number, is_ours, "connected")
        wait_end(chand, name, number, lambda end: end["state"] == "waiting", "waiting again")


# ---- kill -9 at every step ----

def prepare(chand):
    chand.start()
    sandboxes(chand, "a", "b")
    create(chand, "old", "a", "b")


def work(chand):
    """Every operation that has fault points, until the daemon dies; the answers that came."""
    blocked = chand.runtime / "links" / "blocked"
    blocked.write_text("in the way")  # a link of that name cannot be made
    calls = {
        "put": lambda: chand.put("/v1/links/new", ends("a", None)),
        "put that fails": lambda: chand.put("/v1/links/blocked", ends(None, None)),
        "delete": lambda: chand.delete("/v1/links/old"),
    }
    answers = {}
    try:
        for name, call in calls.items():
            answers[name] = status_of(call)
            if answers[name] is None:
                break
    finally:
        blocked.unlink()
    return answers


def check_after(chand, answers):
    """What was answered is true, what was not is whole or not there."""
    state.check_links(chand)
    there = state.links(chand)
    assert "blocked" not in there
    if answers.get("put") == 201:
        assert there.get("new") == "ready"
    if answers.get("delete") == 204:
        assert "old" not in there
    if "delete" not in answers:
        assert there.get("old") == "ready"
    for name in there:
        listens(chand, name)
    assert {link["linkID"] for link in chand.get("/v1/links").json["links"]} == set(there)


def check_retry(chand):
    """An orchestrator does again what was not answered, then everything goes."""
    assert chand.put("/v1/links/new", ends("a", None)).status in (200, 201)
    assert chand.put("/v1/links/old", ends("a", "b")).status in (200, 201)
    state.check_links(chand)
    listens(chand, "new")
    assert chand.delete("/v1/links/new").status == 204
    for name in ("a", "b"):
        assert chand.delete(f"/v1/sandboxes/{name}").status == 204
    assert state.links(chand) == {}
    state.check_links(chand)


@pytest.mark.parametrize("point", points_of("link_create.", "link_delete."))
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


@pytest.mark.parametrize("point", points_of("link_repair."))
def test_killed_in_the_repair(make_chand, point):
    chand = make_chand()
    prepare(chand)
    create(chand, "kept")
    chand.stop()
    state.change(chand, "UPDATE link SET state = ? WHERE id = 'old'", state.LINK_STATES.index("deleting"))
    chand.start(ready=False, environment=arm(point, "kill"))
    died_by_kill(chand)
    chand.start()
    state.check_links(chand)
    assert state.links(chand) == {"kept": "ready"}
    listens(chand, "kept")


# ---- steps that fail ----

def creating_points():
    return [point for point in points_of("link_create.")
            if point not in ("link_create.after_ready", "link_create.before_abort")]


@pytest.mark.parametrize("point", creating_points())
def test_a_step_of_create_fails(make_chand, point):
    chand = make_chand()
    chand.start(environment=arm(point, "EIO"))
    answer = chand.put("/v1/links/new", ends(None, None))
    assert answer.status in (409, 500), answer
    assert point in answer.json["detail"]
    assert state.links(chand) == {}
    state.check_links(chand)
    create(chand, "new")
    listens(chand, "new")


@needs_points
def test_an_undo_that_fails_is_done_by_the_daemon(make_chand):
    chand = make_chand()
    chand.start(environment=arm("link_create.before_abort", "EIO"))
    (chand.runtime / "links" / "net").write_text("in the way")
    answer = chand.put("/v1/links/net", ends(None, None))
    assert (answer.status, answer.json["reason"]) == (409, "socket_failed")
    assert "undone later" in answer.json["detail"]
    wait_for(lambda: state.links(chand) == {}, what="the daemon's undo")
    assert (chand.runtime / "links" / "net").read_text() == "in the way"


@needs_points
def test_a_delete_that_failed_is_finished_by_the_daemon(make_chand):
    chand = make_chand()
    chand.start(environment=arm("link_delete.after_intent", "EIO"))
    create(chand, "net")
    assert chand.delete("/v1/links/net").status == 500
    wait_for(lambda: state.links(chand) == {}, what="the daemon's delete")
    state.check_links(chand)


@pytest.mark.parametrize("point", points_of("link_delete."))
def test_a_step_of_delete_fails(make_chand, point):
    chand = make_chand()
    chand.start(environment=arm(point, "EIO"))
    create(chand, "net")
    answer = chand.delete("/v1/links/net")
    if answer.status != 204:
        assert answer.status in (409, 500) and point in answer.json["detail"], answer
        assert chand.delete("/v1/links/net").status in (204, 404)  # as an orchestrator retries
    assert state.links(chand) == {}
    state.check_links(chand)


# ---- sandboxes that go ----

def test_the_collector_takes_links_along(make_chand):
    chand = make_chand("--orphan-grace", "0", "--collect-interval", "1").start()
    chand.put("/v1/templates/plain", {})
    owner = subprocess.Popen(["sleep", "300"])
    try:
        body = {"templateID": "plain", "owner": {"pid": owner.pid}}
        assert chand.put("/v1/sandboxes/a", body).status == 201
        create(chand, "net", "a", None)
        create(chand, "other")
    finally:
        owner.kill()
        owner.wait()
    wait_for(lambda: state.links(chand) == {"other": "ready"}, what="the end of the sandbox's link")
    state.check_links(chand)
    assert state.sandboxes(chand) == {}
    events = chand.get("/v1/events").json["events"]
    assert [event["kind"] for event in events if event["objectID"] == "net"][-1] == "link.deleted"


@needs_points
def test_the_repair_takes_links_along(make_chand):
    chand = make_chand()
    chand.start(environment=arm("delete.after_unlink", "kill"))
    chand.opt_in_template()
    assert chand.put("/v1/sandboxes/a", {"templateID": "tpl"}).status == 201
    create(chand, "net", "a", None)
    assert status_of(lambda: chand.delete("/v1/sandboxes/a")) is None
    died_by_kill(chand)
    chand.start()
    assert state.sandboxes(chand) == {}
    assert state.links(chand) == {}
    state.check_links(chand)


@needs_points
def test_a_sandbox_that_goes_while_its_link_is_made(make_chand):
    chand = make_chand()
    chand.start(environment=arm("link_create.before_ready", "stop"))
    sandboxes(chand, "a")
    answers = []
    client = threading.Thread(target=lambda: answers.append(chand.put("/v1/links/net", ends("a", None))))
    client.start()
    try:
        wait_for(lambda: is_stopped(chand.process.pid), what="the stop")
        # As a delete at that moment leaves it; nobody can ask a daemon that stands still.
        with contextlib.closing(sqlite3.connect(state.database(chand))) as database, database:
            database.execute("UPDATE link SET state = ?", (state.LINK_STATES.index("deleting"),))
    finally:
        chand.process.send_signal(signal.SIGCONT)
        client.join(30)
    assert (answers[0].status, answers[0].json["reason"]) == (404, "sandbox_not_found")
    assert state.links(chand) == {}
    state.check_links(chand)


# ---- restarts of the dataplane ----

def test_a_dataplane_that_is_killed_is_replaced_each_time(chand):
    for number in range(10):
        create(chand, f"net-{number}")
    for turn in range(3):
        first = dataplane(chand)["pid"]
        connected = connect(end_of(chand, "net-7", 1))
        with connected:
            wait_end(chand, "net-7", 1, is_ours, "connected")
            os.kill(first, signal.SIGKILL)

            def again():
                """As a VMM with reconnect=1 does it."""
                try:
                    with connect(end_of(chand, "net-7", 1)) as vmm:
                        peer = vmm.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
                        return int.from_bytes(peer[:4], "little") != 0 and is_ours(end_of(chand, "net-7", 1))
                except OSError:
                    return False
            wait_for(again, 20, "a connection to the new dataplane")
            assert connected.recv(1) == b""
        assert dataplane(chand)["pid"] != first
        assert dataplane(chand)["starts"] == turn + 2
    for number in range(10):
        listens(chand, f"net-{number}")
    assert samples(chand, "chan_dataplane_starts_total") == {"": 4}
    assert samples(chand, "chan_dataplane_up") == {"": 1}


def test_what_the_dataplane_lost_or_gained_meanwhile_is_settled_by_a_start(make_chand):
    chand = make_chand().start()
    for name in ("kept", "gone"):
        create(chand, name)
    first = dataplane(chand)["pid"]
    chand.kill()
    state.change(chand, "DELETE FROM link_end WHERE link = (SELECT number FROM link WHERE id = 'gone')")
    state.change(chand, "DELETE FROM link WHERE id = 'gone'")
    chand.start()
    state.check_links(chand)
    assert dataplane(chand)["pid"] == first
    listens(chand, "kept")
    create(chand, "gone")  # the older one is not in its way
    listens(chand, "gone")
    chand.kill()
    chand.end_dataplanes(signal.SIGKILL)
    chand.start()
    assert dataplane(chand)["pid"] != first
    for name in ("kept", "gone"):
        listens(chand, name)


@pytest.mark.patient
def test_hundreds_of_links_survive_restarts_of_both(make_chand):
    chand = make_chand().start()
    count = 200
    for number in range(count):
        create(chand, f"net-{number:03}")
    first = dataplane(chand)["pid"]
    inode = os.stat(end_of(chand, "net-123", 0)["socketPath"]).st_ino
    chand.kill()
    chand.start()
    assert os.stat(end_of(chand, "net-123", 0)["socketPath"]).st_ino == inode, "a start has remade what was as wanted"
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: samples(chand, "chan_link_ends").get('state="waiting"') == 2 * count, 30, "all links")
    listens(chand, "net-123")
    state.check_links(chand)
    listed = chand.get("/v1/links?limit=1000").json["links"]
    assert len(listed) == count and all(link["ends"][0]["state"] == "waiting" for link in listed)
    of_links = samples(chand, "chan_link_frames_total")
    assert len(of_links) == 2 * 101 and 'link="(others)",end="0"' in of_links
    assert samples(chand, "chan_links")['state="ready"'] == count


@pytest.mark.patient
def test_a_dataplane_that_stands_still_costs_a_bounded_time(chand):
    create(chand, "net")
    pid = dataplane(chand)["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        refused = chand.put("/v1/links/other", ends(None, None))
        assert (refused.status, refused.json["reason"]) == (503, "dataplane_unavailable")
        assert chand.get("/readyz").status == 200
        assert {end["state"] for end in chand.get("/v1/links/net").json["ends"]} == {"unknown"}
        assert not (chand.runtime / "links" / "other").exists()
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_for(lambda: dataplane(chand)["connected"], 30, "the connection")
    assert dataplane(chand)["pid"] == pid
    listens(chand, "net")
    create(chand, "other")


# ---- what chand starts ----

def test_it_is_started_for_the_first_link_only_and_inherits_nothing(make_chand):
    chand = make_chand().start()
    assert chand.dataplanes() == []
    assert dataplane(chand)["connected"] is False
    assert "no link" in dataplane(chand)["reason"]
    create(chand, "net")
    [pid] = chand.dataplanes()
    assert os.getsid(pid) == pid
    log = os.readlink(f"/proc/{pid}/fd/1")
    assert log == os.readlink(f"/proc/{pid}/fd/2") == str(chand.runtime / "dataplane.log")
    names = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    assert not [name for name in names if "chan.db" in name or "chand" in name], names
    chand.stop()
    assert chand.dataplanes() == [pid], "the dataplane has gone with chand"
    chand.start()
    assert chand.dataplanes() == [pid]


def test_one_that_cannot_start_says_why(make_chand):
    chand = make_chand("--dataplane-cpus", "100000").start()
    refused = chand.put("/v1/links/net", ends(None, None))
    assert (refused.status, refused.json["reason"]) == (503, "dataplane_unavailable")
    assert "dataplane.log" in refused.json["detail"]
    assert (chand.runtime / "dataplane.log").stat().st_size > 0
    assert state.links(chand) == {}
    state.check_links(chand)
    assert chand.get("/readyz").status == 200


def test_a_start_with_links_and_no_dataplane_is_ready_soon(make_chand):
    chand = make_chand().start()
    create(chand, "net")
    chand.stop()
    chand.end_dataplanes()
    chand.options += ["--dataplane-program", "/nonexistent/chan-dataplane"]
    chand.start(ready=False)
    chand.wait_ready(10)
    assert "/nonexistent/chan-dataplane" in dataplane(chand)["reason"]
    assert chand.get("/v1/links/net").json["ends"][0]["state"] == "unknown"
    assert samples(chand, "chan_link_ends")['state="unknown"'] == 2


# ---- whose sockets they are ----

@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users")
def test_an_end_belongs_to_the_user_of_its_sandbox(chand):
    chand.put("/v1/templates/plain", {})
    assert chand.put("/v1/sandboxes/a", {"templateID": "plain", "uid": 1234, "gid": 2345}).status == 201
    link = create(chand, "net", "a", None)
    for number, owner in ((0, (1234, 2345)), (1, (0, 0))):
        path = link["ends"][number]["socketPath"]
        for name in (path, os.path.dirname(path)):
            status = os.stat(name)
            assert (status.st_uid, status.st_gid) == owner, name
        assert os.stat(os.path.dirname(path)).st_mode & 0o7777 == 0o700
    os.kill(dataplane(chand)["pid"], signal.SIGKILL)
    wait_end(chand, "net", 0, lambda end: end["state"] == "waiting", "in the new dataplane")
    assert os.stat(link["ends"][0]["socketPath"]).st_uid == 1234
    other = os.fork()
    if other == 0:  # another user's process
        os.setgid(2346)
        os.setuid(1235)
        try:
            connect(link["ends"][0])
        except PermissionError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(other, 0)[1] == 0, "another user can connect"
