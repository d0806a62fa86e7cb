"""Links over REST: what is taken, what is answered, what stands on the host. Chand.call checks every answer against the
contract."""

import contextlib
import os
import pathlib
import signal
import socket
import stat
import subprocess

import pytest

from support.chand import wait_for
from support.link import client_end, connect, create, end_of, ends, is_ours, sandboxes, wait_end


def reason(answer):
    return answer.status, answer.json["reason"]


def fields(answer):
    return {fault["field"] for fault in answer.json["errors"]}


# ---- creation ----

def test_a_link_between_two_sandboxes(chand):
    sandboxes(chand, "a", "b")
    answer = chand.put("/v1/links/net", ends("a", "b"))
    assert answer.status == 201
    assert answer.headers["Location"] == "/v1/links/net"
    link = answer.json
    assert answer.headers["ETag"] == f'"{link["revision"]}"'
    assert link["linkID"] == "net" and link["state"] == "ready" and link["paused"] is False
    assert link["workerCPU"] in os.sched_getaffinity(0)
    for number, name in enumerate("ab"):
        end = link["ends"][number]
        assert (end["type"], end["sandboxID"], end["role"], end["mtu"]) == ("vhost-user", name, "server", None)
        assert end["state"] == "waiting" and end["socketPath"] in end["reason"]
        assert end["peerPID"] is None and end["features"] == [] and end["connections"] == 0 and end["faults"] == 0
        counters = dict(end["counters"])
        assert set(counters.pop("dropped").values()) == {0} and set(counters.values()) == {0}
    assert chand.get("/v1/links/net").json == link


def test_the_same_again_is_the_same_link(chand):
    link = create(chand)
    again = chand.put("/v1/links/net", {"ends": [{"type": "vhost-user", "role": "server", "mtu": None}, {"sandboxID": None}]})
    assert again.status == 200 and again.json == link
    assert "Location" not in again.headers
    for different in ({"ends": [{"mtu": 1500}, {}]}, {"ends": [client_end("/x"), {}]}):
        refused = chand.put("/v1/links/net", different)
        assert reason(refused) == (409, "link_exists") and "ends[0]" in refused.json["detail"]
    assert chand.get("/v1/links/net").json == link


@pytest.mark.parametrize("body, named", [
    ({}, {"ends"}),
    ({"ends": None}, {"ends"}),
    ({"ends": "x"}, {"ends"}),
    ({"ends": []}, {"ends"}),
    ({"ends": [{}]}, {"ends"}),
    ({"ends": [{}, {}, {}]}, {"ends"}),
    ({"ends": [{}, 5]}, {"ends[1]"}),
    ({"ends": [{"foo": 1}, {}]}, {"ends[0].foo"}),
    ({"ends": [{}, {}], "name": "x"}, {"name"}),
    ({"ends": [{"type": "tap"}, {"role": "both"}]}, {"ends[0].type", "ends[1].role"}),
    ({"ends": [{"mtu": 67}, {"mtu": 65536}]}, {"ends[0].mtu", "ends[1].mtu"}),
    ({"ends": [{"mtu": "1500"}, {"mtu": 1.5}]}, {"ends[0].mtu", "ends[1].mtu"}),
    ({"ends": [{"sandboxID": ".."}, {"sandboxID": 7}]}, {"ends[1].sandboxID"}),
    ({"ends": [{"sandboxID": ".."}, {"sandboxID": ""}]}, {"ends[0].sandboxID", "ends[1].sandboxID"}),
    ({"ends": [{"role": "client"}, {"role": "server", "socketPath": "/x"}]},
     {"ends[0].socketPath", "ends[1].socketPath"}),
    ({"ends": [client_end("x"), client_end("/" + "x" * 107)]}, {"ends[0].socketPath", "ends[1].socketPath"}),
    ({"ends": [client_end("/x"), client_end("/x")]}, {"ends[1].socketPath"}),
])
def test_bad_fields_are_named(chand, body, named):
    answer = chand.put("/v1/links/net", body)
    assert answer.status == 422 and fields(answer) == named, answer
    assert answer.json["reason"] in ("invalid_field", "unknown_field")
    assert chand.get("/v1/links/net").status == 404
    assert not (chand.runtime / "links" / "net").exists()


def test_a_sandbox_must_be_there(chand):
    sandboxes(chand, "a")
    refused = chand.put("/v1/links/net", ends("a", "nobody"))
    assert reason(refused) == (404, "sandbox_not_found") and "nobody" in refused.json["detail"]
    assert chand.get("/v1/links").json["links"] == []


def test_an_id_that_makes_the_socket_too_long(chand):
    refused = chand.put(f"/v1/links/{'x' * 128}", ends(None, None))
    assert reason(refused) == (400, "invalid_id")
    room = 107 - len(f"{chand.runtime}/links//0/vhost-user.sock")
    assert f"{room} characters" in refused.json["detail"]
    link = create(chand, "y" * room)
    connect(link["ends"][0]).close()
    assert chand.delete(f"/v1/links/{'y' * room}").status == 204


def test_if_match(chand):
    absent = chand.put("/v1/links/net", ends(None, None), headers={"If-Match": "*"})
    assert reason(absent) == (412, "revision_stale")
    revision = create(chand)["revision"]
    stale = f'"{revision + 1}"'
    assert chand.put("/v1/links/net", ends(None, None), headers={"If-Match": stale}).status == 412
    assert chand.delete("/v1/links/net", headers={"If-Match": stale}).status == 412
    assert chand.put("/v1/links/net", ends(None, None), headers={"If-Match": f'"{revision}"'}).status == 200
    assert chand.delete("/v1/links/net", headers={"If-Match": f'"{revision}"'}).status == 204


# ---- lists ----

def ids(page):
    return [link["linkID"] for link in page["links"]]


def test_pages_and_links_of_a_sandbox(chand):
    sandboxes(chand, "a", "b")
    for number in range(7):
        create(chand, f"net-{number}", "a", "b" if number % 2 else None)
    seen, token = [], ""
    while token is not None:
        page = chand.get(f"/v1/links?limit=3{token and '&pageToken=' + token}").json
        assert len(page["links"]) <= 3
        seen += ids(page)
        token = page["nextPageToken"]
    assert seen == [f"net-{number}" for number in range(7)]
    assert chand.get("/v1/links").json["links"][3] == chand.get("/v1/links/net-3").json

    first = chand.get("/v1/links?limit=2&sandboxID=b").json
    assert ids(first) == ["net-1", "net-3"]
    assert ids(chand.get(f"/v1/links?limit=2&sandboxID=b&pageToken={first['nextPageToken']}").json) == ["net-5"]
    assert ids(chand.get("/v1/links?sandboxID=nobody").json) == []
    assert len(ids(chand.get("/v1/links?sandboxID=a").json)) == 7


@pytest.mark.parametrize("query, expected", [
    ("limit=0", "invalid_parameter"), ("limit=1001", "invalid_parameter"), ("pageToken=x", "invalid_page_token"),
    ("sandboxID=..", "invalid_id"), ("sandboxID=", "invalid_id"), ("sandbox=a", "unknown_parameter"),
])
def test_bad_queries(chand, query, expected):
    assert reason(chand.get(f"/v1/links?{query}")) == (400, expected)


# ---- what stands on the host ----

def test_sockets_are_there_at_once_and_nobody_elses(chand):
    link = create(chand)
    folders = set()
    for end in link["ends"]:
        path = pathlib.Path(end["socketPath"])
        folders.add(path.parent)
        assert stat.S_ISSOCK(path.stat().st_mode)
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        connect(end).close()
    assert len(folders) == 2
    assert chand.delete("/v1/links/net").status == 204
    assert not (chand.runtime / "links" / "net").exists()
    assert reason(chand.get("/v1/links/net")) == (404, "link_not_found")
    assert reason(chand.delete("/v1/links/net")) == (404, "link_not_found")


def test_a_sandbox_takes_its_links_along(chand):
    sandboxes(chand, "a", "b")
    create(chand, "net", "a", "b")
    create(chand, "other", "b", None)
    assert chand.delete("/v1/sandboxes/a").status == 204
    assert ids(chand.get("/v1/links").json) == ["other"]
    assert os.listdir(chand.runtime / "links") == ["other"]
    assert chand.get("/v1/node").json["links"] == 1


def test_events(chand):
    sandboxes(chand, "a", "b")
    create(chand, "net", "a", "b")
    chand.delete("/v1/links/net")
    events = [event for event in chand.get("/v1/events").json["events"] if event["objectKind"] == "link"]
    assert [event["kind"] for event in events][-1] == "link.deleted"
    assert "link.created" in [event["kind"] for event in events]
    assert {event["objectID"] for event in events} == {"net"}


@pytest.mark.parametrize("path", ["/tmp/with,comma.sock", "/tmp/plain.sock"])
def test_arguments_name_the_socket_as_each_vmm_reads_it(chand, path):
    link = chand.put("/v1/links/net", {"ends": [{"mtu": 9000}, client_end(path)]}).json
    server, client = (end["vmm"] for end in link["ends"])
    own = link["ends"][0]["socketPath"]
    assert f"path={own}," in server["qemu"][1] and "reconnect=1" in server["qemu"][1]
    assert "host_mtu=9000" in server["qemu"][-1] and "mtu=9000" in server["cloudHypervisor"][1]
    assert f"socket={own}," in server["cloudHypervisor"][1] and "vhost_mode=client" in server["cloudHypervisor"][1]
    assert f"path={path.replace(',', ',,')}," in client["qemu"][1] and "server=on" in client["qemu"][1]
    assert path in client["cloudHypervisor"][1] and "vhost_mode=server" in client["cloudHypervisor"][1]
    assert "mtu" not in client["qemu"][-1]


# ---- what the ends say ----

def test_a_connection_shows_and_its_end_too(chand):
    link = create(chand)
    with connect(link["ends"][1]):
        end = wait_end(chand, "net", 1, is_ours, "connected")
        assert end["connections"] == 1 and end["reason"]
        assert end_of(chand, "net", 0)["state"] == "waiting"
    end = wait_end(chand, "net", 1, lambda end: end["state"] == "waiting", "waiting again")
    assert end["peerPID"] is None and end["connections"] == 1 and end["faults"] == 0


def test_nonsense_shows_as_a_fault(chand):
    link = create(chand)
    with connect(link["ends"][0]) as vmm:
        with contextlib.suppress(OSError):
            vmm.sendall(b"\xff" * 4096)
        end = wait_end(chand, "net", 0, lambda end: end["faults"] > 0, "a fault")
        assert end["reason"]
        with contextlib.suppress(ConnectionResetError):
            assert vmm.recv(1) == b"", "the connection is given up"
    with connect(link["ends"][0]):
        wait_end(chand, "net", 0, is_ours, "connected again")


def test_a_client_end_connects_and_comes_back(chand, tmp_path):
    path = tmp_path / "vmm.sock"
    link = chand.put("/v1/links/net", {"ends": [client_end(path), {}]}).json
    assert link["ends"][0]["socketPath"] == str(path)
    wait_end(chand, "net", 0, lambda end: "No such file" in (end["reason"] or ""), "why it waits")
    for connections in (1, 2):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.settimeout(20)
            listener.bind(str(path))
            listener.listen()
            vmm, _ = listener.accept()
            with vmm:
                assert wait_end(chand, "net", 0, is_ours, "connected")["connections"] == connections
        path.unlink()
        wait_end(chand, "net", 0, lambda end: end["state"] == "waiting", "waiting again")


# ---- the dataplane ----

def test_the_node_tells_of_the_dataplane(chand):
    node = chand.get("/v1/node").json
    assert node["links"] == 0
    create(chand)
    node = chand.get("/v1/node").json
    assert node["links"] == 1
    dataplane = node["dataplane"]
    assert dataplane["connected"] and dataplane["startedHere"] and dataplane["reason"] is None
    assert dataplane["starts"] == 1 and dataplane["software"].startswith("chan-dataplane ")
    assert chand.dataplanes() == [dataplane["pid"]]


def test_a_killed_dataplane_is_replaced_and_has_the_link_again(chand):
    create(chand)
    first = chand.get("/v1/node").json["dataplane"]["pid"]
    os.kill(first, signal.SIGKILL)

    def again():
        dataplane = chand.get("/v1/node").json["dataplane"]
        return dataplane["connected"] and dataplane["pid"] != first
    wait_for(again, 30, "another dataplane")
    end = wait_end(chand, "net", 0, lambda end: end["state"] == "waiting", "in the new dataplane")
    with connect(end):
        wait_end(chand, "net", 0, is_ours, "connected")
    assert chand.get("/v1/node").json["dataplane"]["starts"] == 2


def test_without_a_dataplane(make_chand):
    """Nothing is made, nothing is left, and what is there says that nobody knows."""
    chand = make_chand()
    chand.start()
    link = create(chand)
    chand.stop()
    chand.end_dataplanes()
    chand.options += ["--dataplane-program", "none"]
    chand.start()
    refused = chand.put("/v1/links/other", ends(None, None))
    assert reason(refused) == (503, "dataplane_unavailable")
    assert refused.headers["Retry-After"]
    assert not (chand.runtime / "links" / "other").exists()
    now = chand.get("/v1/links/net").json
    assert now["workerCPU"] is None
    assert {end["state"] for end in now["ends"]} == {"unknown"} and all(end["reason"] for end in now["ends"])
    assert now["ends"][0]["socketPath"] == link["ends"][0]["socketPath"]
    assert ids(chand.get("/v1/links").json) == ["net"]
    dataplane = chand.get("/v1/node").json["dataplane"]
    assert not dataplane["connected"] and dataplane["pid"] is None and dataplane["reason"]
    assert chand.delete("/v1/links/net").status == 204
    assert os.listdir(chand.runtime / "links") == []


def test_a_restart_of_chand_leaves_a_connection_alone(make_chand):
    chand = make_chand().start()
    link = create(chand)
    with connect(link["ends"][0]) as vmm:
        wait_end(chand, "net", 0, is_ours, "connected")
        chand.kill()
        chand.start()
        end = wait_end(chand, "net", 0, is_ours, "still connected")
        assert end["connections"] == 1
        vmm.setblocking(False)
        with pytest.raises(BlockingIOError):
            vmm.recv(1)
        assert not chand.get("/v1/node").json["dataplane"]["startedHere"]


def test_in_the_way_of_the_sockets(chand):
    (chand.runtime / "links").mkdir(exist_ok=True)
    (chand.runtime / "links" / "net").write_text("a stranger's")
    refused = chand.put("/v1/links/net", ends(None, None))
    assert reason(refused) == (409, "socket_failed")
    assert chand.get("/v1/links/net").status == 404
    assert (chand.runtime / "links" / "net").read_text() == "a stranger's"


@pytest.mark.skipif(os.getuid() != 0, reason="mounts")
def test_a_socket_that_cannot_be_removed_now_is_removed_later(chand):
    folder = pathlib.Path(create(chand)["ends"][0]["socketPath"]).parent
    subprocess.run(["mount", "-t", "tmpfs", "chan-test", folder], check=True, timeout=20)
    try:
        refused = chand.delete("/v1/links/net")
        assert reason(refused) == (409, "socket_failed")
        assert chand.get("/v1/links/net").json["state"] == "deleting"
    finally:
        subprocess.run(["umount", folder], check=True, timeout=20)
    wait_for(lambda: chand.get("/v1/links/net").status == 404, 60, "the end of the link")
    assert not folder.parent.exists()
