"""The life of a sandbox and its region, as an orchestrator sees it: owners, pause and resume, reclaim, restarts."""

import ctypes
import datetime
import os
import pathlib
import signal
import subprocess

import pytest

from support import state
from support.chand import wait_for

QUICK_COLLECTOR = ("--collect-interval", "1", "--orphan-grace", "1")


@pytest.fixture
def process():
    """Starts processes that can own sandboxes; ends those that are left."""
    started = []

    def start():
        started.append(subprocess.Popen(["sleep", "600"]))
        return started[-1]

    yield start
    for one in started:
        one.kill()
        one.wait()


def end(process):
    process.kill()
    process.wait()


def create(chand, name="s", template=None, **more):
    answer = chand.put(f"/v1/sandboxes/{name}", {"templateID": template or chand.opt_in_template(), **more})
    assert answer.status == 201, answer
    return answer.json


def get(chand, name="s"):
    answer = chand.get(f"/v1/sandboxes/{name}")
    assert answer.status == 200, answer
    return answer.json


def is_gone(chand, name="s"):
    return chand.get(f"/v1/sandboxes/{name}").status == 404


def wait_state(chand, expected, name="s"):
    wait_for(lambda: get(chand, name)["state"] == expected, what=f"state {expected} of {name}")


def wait_passes(chand, count=2):
    """Waits for whole passes of the collector."""
    def last_pass():
        return chand.get("/v1/node").json["collector"]["lastPassAt"]
    for _ in range(count):
        before = last_pass()
        wait_for(lambda: last_pass() not in (None, before), what="a pass of the collector")


def event_kinds(chand, name="s"):
    events = chand.get("/v1/events?limit=1000").json["events"]
    return [event["kind"] for event in events if event["objectID"] == name]


def put_fails(chand, name, body, status, reason):
    answer = chand.put(f"/v1/sandboxes/{name}", body)
    assert (answer.status, answer.json["reason"]) == (status, reason), answer
    return answer.json["detail"]


# ---- opt-in ----

def test_without_opt_in_nothing_changes(chand):
    assert chand.put("/v1/templates/plain", {}).status == 201
    sandbox = create(chand, template="plain")
    assert sandbox["ivshmem"] is None
    assert chand.region_files() == []
    assert state.query(chand, "SELECT * FROM region") == []
    assert state.query(chand, "SELECT * FROM usage WHERE regions != 0") == []
    assert chand.delete("/v1/sandboxes/s").status == 204
    assert state.sandboxes(chand) == {}


@pytest.mark.parametrize("value, opted_in", [("true", True), ("1", True), ("false", False), ("yes", False)])
def test_the_annotation_opts_in(chand, value, opted_in):
    body = {"annotations": {"cube.master.enable_ivshmem": value, "something.else": "kept"}}
    assert chand.put("/v1/templates/t", body).status == 201
    sandbox = create(chand, template="t")
    assert (sandbox["ivshmem"] is not None) == opted_in
    assert chand.region_files() == (["ivshmem-s"] if opted_in else [])
    assert chand.get("/v1/templates/t").json["annotations"] == body["annotations"]


# ---- idempotence ----

def test_put_twice_is_the_same_as_once(chand, process):
    owner = {"pid": process().pid}
    first = create(chand, owner=owner)
    revision = chand.get("/v1/node").json["revision"]
    inode = (chand.shm / "ivshmem-s").stat().st_ino
    again = chand.put("/v1/sandboxes/s", {"templateID": "tpl", "owner": owner})
    assert again.status == 200
    assert again.json == first
    assert (chand.shm / "ivshmem-s").stat().st_ino == inode
    template = chand.put("/v1/templates/tpl", {"enableIvshmem": True})
    assert template.status == 200
    assert chand.get("/v1/node").json["revision"] == revision


def test_another_sandbox_of_the_same_id_is_refused(chand):
    create(chand, owner={"leaseSeconds": 60})
    detail = put_fails(chand, "s", {"templateID": "tpl", "owner": {"leaseSeconds": 61}}, 409, "sandbox_exists")
    assert "a lease of 60 s, not a lease of 61 s" in detail


def test_delete_again_and_again(chand):
    create(chand)
    for _ in range(3):
        assert chand.delete("/v1/sandboxes/s").status == 204
    assert chand.delete("/v1/sandboxes/never-was").status == 204
    state.check(chand)


def test_who_did_what_is_recorded(chand):
    chand.put("/v1/templates/plain", {})
    create(chand, "plain", template="plain")
    create(chand, "s")
    chand.post("/v1/sandboxes/s/pause", headers={"X-Request-ID": "request-7"})
    (chand.shm / "ivshmem-t").mkdir()
    put_fails(chand, "t", {"templateID": "tpl"}, 409, "file_exists")
    chand.delete("/v1/sandboxes/plain")
    rows = state.query(chand, "SELECT * FROM audit ORDER BY revision")
    assert [(row["operation"], row["object_id"], row["result"]) for row in rows] == [
        ("template.put", "plain", "ok"), ("sandbox.create", "plain", "ok"), ("template.put", "tpl", "ok"),
        ("sandbox.create", "s", "intent"), ("sandbox.create", "s", "ok"), ("sandbox.pause", "s", "ok"),
        ("sandbox.create", "t", "intent"), ("sandbox.create", "t", "file_exists"), ("sandbox.delete", "plain", "ok")]
    assert {row["who"] for row in rows} == {f"uid={os.geteuid()} pid={os.getpid()}"}
    assert rows[5]["request_id"] == "request-7"


# ---- owners ----

def test_an_owner_that_ends_orphans_its_sandbox(make_chand, process):
    chand = make_chand("--collect-interval", "3600", "--orphan-grace", "3600").start()
    owner = process()
    sandbox = create(chand, owner={"pid": owner.pid})
    assert sandbox["owner"]["condition"] == "alive"
    end(owner)
    wait_state(chand, "orphaned")  # noticed at once; no pass of the collector is near
    assert get(chand)["reason"] == "owner_gone"
    assert chand.region_files() == ["ivshmem-s"]
    detail = put_fails(chand, "s", {"templateID": "tpl"}, 409, "sandbox_exists")
    assert "DELETE it first" in detail
    assert chand.delete("/v1/sandboxes/s").status == 204
    create(chand)
    state.check(chand)


@pytest.mark.patient
def test_an_orphan_is_reclaimed_after_its_grace(make_chand, process):
    chand = make_chand(*QUICK_COLLECTOR).start()
    owner = process()
    create(chand, "s", owner={"pid": owner.pid})
    create(chand, "other", owner={"pid": os.getpid()})
    create(chand, "free")
    end(owner)
    wait_for(lambda: is_gone(chand), what="the reclaim of s")
    assert chand.region_files() == ["ivshmem-free", "ivshmem-other"]
    kinds = event_kinds(chand)
    assert kinds[:3] == ["sandbox.creating", "sandbox.created", "sandbox.orphaned"]
    assert kinds[-1] == "sandbox.reclaimed"
    assert "chan_reclaimed_sandboxes_total 1" in chand.get("/metrics").body.decode()
    state.check(chand)


def test_an_owner_that_ends_while_the_daemon_is_down(make_chand, process):
    chand = make_chand(*QUICK_COLLECTOR).start()
    owner = process()
    create(chand, owner={"pid": owner.pid})
    chand.kill()
    end(owner)
    chand.start()
    wait_for(lambda: is_gone(chand), what="the reclaim of s")
    state.check(chand)


def spawn_with_pid(pid):
    """A process of exactly that pid, or None when the kernel does not let us choose (CAP_CHECKPOINT_RESTORE)."""
    last = pathlib.Path("/proc/sys/kernel/ns_last_pid")
    for _ in range(50):  # somebody else may take the pid in between
        try:
            last.write_text(str(pid - 1), encoding="ascii")
        except OSError:
            return None
        process = subprocess.Popen(["sleep", "600"])
        if process.pid == pid:
            return process
        end(process)
    return None


def test_a_pid_that_was_used_again_is_a_stranger(make_chand, process):
    chand = make_chand(*QUICK_COLLECTOR).start()
    owner = process()
    create(chand, owner={"pid": owner.pid})
    chand.stop()
    end(owner)
    stranger = spawn_with_pid(owner.pid)
    if stranger is None:
        pytest.skip("this kernel or container does not let a test choose a pid")
    try:
        chand.start()
        wait_for(lambda: is_gone(chand), what="the reclaim of s")
        assert stranger.poll() is None  # nobody touched it
    finally:
        end(stranger)
    state.check(chand)


def test_an_owner_that_is_not_there_owns_nothing(chand, process):
    owner = process()
    end(owner)
    detail = put_fails(chand, "s", {"templateID": chand.opt_in_template(), "owner": {"pid": owner.pid}}, 409,
                       "owner_gone")
    assert str(owner.pid) in detail
    put_fails(chand, "s", {"templateID": "tpl", "owner": {"pid": 2**31 - 1}}, 409, "owner_gone")
    put_fails(chand, "s", {"templateID": "tpl", "owner": {"pid": 0}}, 422, "invalid_field")
    state.check(chand)
    assert state.sandboxes(chand) == {}


@pytest.mark.patient
def test_an_owner_in_doubt_is_kept_and_reported(make_chand, process):
    """After its restart the daemon runs as an ordinary user with a /proc that hides the owner from it."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a /proc that hides processes")
    chand = make_chand(*QUICK_COLLECTOR)
    for path in (chand.directory, chand.state, chand.runtime, chand.shm):
        os.chown(path, 65534, 65534)
    drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *chand.command()]
    chand.command = lambda: drop
    chand.start()
    create(chand, owner={"pid": process().pid})
    chand.stop()
    hide = "mount -t proc -o hidepid=2 proc /proc && exec \"$@\""
    if subprocess.run(["unshare", "--mount", "sh", "-c", hide, "sh", "true"], check=False).returncode != 0:
        pytest.skip("this container does not let a test mount /proc")
    chand.command = lambda: ["unshare", "--mount", "sh", "-c", hide, "sh", *drop]
    chand.start()
    wait_passes(chand)
    sandbox = get(chand)
    assert sandbox["state"] == "running"
    assert sandbox["owner"]["condition"] == "in_doubt"
    assert chand.get("/v1/node").json["collector"]["ownersInDoubt"] == 1
    assert "chan_owners_in_doubt 1" in chand.get("/metrics").body.decode()
    state.check(chand)


# ---- leases ----

@pytest.mark.patient
def test_a_lease_that_is_renewed_lasts(make_chand):
    chand = make_chand("--collect-interval", "1", "--orphan-grace", "3600").start()
    create(chand, owner={"leaseSeconds": 2})
    end_at = datetime.datetime.now() + datetime.timedelta(seconds=5)

    def renew_until_the_end():
        answer = chand.post("/v1/sandboxes/s/renew")
        assert answer.status == 200, answer
        assert answer.json["state"] == "running"
        assert 0 < answer.json["owner"]["remainingSeconds"] <= 2
        return datetime.datetime.now() > end_at

    wait_for(renew_until_the_end, what="the end of two and a half leases")
    longer = chand.post("/v1/sandboxes/s/renew", {"leaseSeconds": 600}).json
    assert longer["owner"]["leaseSeconds"] == 600


@pytest.mark.patient
def test_a_lease_that_is_not_renewed_ends(make_chand):
    chand = make_chand(*QUICK_COLLECTOR).start()
    create(chand, owner={"leaseSeconds": 1})
    wait_for(lambda: is_gone(chand), what="the reclaim of s")
    state.check(chand)


@pytest.mark.patient
def test_renewal_saves_an_orphan(make_chand):
    chand = make_chand("--collect-interval", "1", "--orphan-grace", "3600").start()
    create(chand, owner={"leaseSeconds": 1})
    wait_state(chand, "orphaned")
    assert get(chand)["reason"] == "lease_expired"
    answer = chand.post("/v1/sandboxes/s/renew", {"leaseSeconds": 600})
    assert (answer.status, answer.json["state"], answer.json["reason"]) == (200, "running", None)
    assert answer.json["owner"]["condition"] == "alive"
    wait_passes(chand)
    assert get(chand)["state"] == "running"


@pytest.mark.patient
def test_a_daemon_that_was_down_ends_no_lease(make_chand):
    chand = make_chand("--collect-interval", "1", "--orphan-grace", "0").start()
    create(chand, owner={"leaseSeconds": 60})
    chand.stop()
    state.change(chand, "UPDATE sandbox SET owner_lease_expires_boot_ms = 1")  # long ago
    chand.start()
    wait_passes(chand)
    sandbox = get(chand)
    assert sandbox["state"] == "running"
    assert 0 < sandbox["owner"]["remainingSeconds"] <= 60


# ---- pause and resume ----

@pytest.mark.patient
def test_pause_keeps_file_and_bytes_when_the_owner_ends(make_chand, process):
    chand = make_chand(*QUICK_COLLECTOR).start()
    owner = process()
    create(chand, owner={"pid": owner.pid})
    path = chand.shm / "ivshmem-s"
    with open(path, "r+b") as region:
        region.seek(70000)
        region.write(b"still here")
    inode = path.stat().st_ino
    assert chand.post("/v1/sandboxes/s/pause").json["state"] == "paused"
    end(owner)
    wait_passes(chand, 3)
    assert get(chand)["state"] == "paused"
    chand.stop()
    chand.start()
    wait_passes(chand)
    assert get(chand)["state"] == "paused"

    answer = chand.post("/v1/sandboxes/s/resume")
    assert (answer.status, answer.json["reason"]) == (409, "owner_gone")
    successor = process()
    answer = chand.post("/v1/sandboxes/s/resume", {"owner": {"pid": successor.pid}})
    assert (answer.status, answer.json["state"], answer.json["owner"]["pid"]) == (200, "running", successor.pid)
    assert path.stat().st_ino == inode
    with open(path, "rb") as region:
        region.seek(70000)
        assert region.read(10) == b"still here"
    end(successor)
    wait_for(lambda: is_gone(chand), what="the reclaim of s")
    state.check(chand)


@pytest.mark.patient
def test_pause_saves_an_orphan(make_chand, process):
    chand = make_chand("--collect-interval", "1", "--orphan-grace", "3600").start()
    owner = process()
    create(chand, owner={"pid": owner.pid})
    end(owner)
    wait_state(chand, "orphaned")
    assert chand.post("/v1/sandboxes/s/pause").json["state"] == "paused"
    wait_passes(chand)
    assert get(chand)["state"] == "paused"


def test_resume_refuses_another_file(chand):
    create(chand)
    chand.post("/v1/sandboxes/s/pause")
    path = chand.shm / "ivshmem-s"
    path.unlink()
    path.write_bytes(bytes(1048576))
    answer = chand.post("/v1/sandboxes/s/resume")
    assert (answer.status, answer.json["reason"]) == (409, "region_lost")
    assert chand.delete("/v1/sandboxes/s").status == 204
    assert chand.region_files() == ["ivshmem-s"]  # it is not ours


def test_an_idempotency_key_does_a_request_once(chand):
    create(chand, owner={"leaseSeconds": 60})
    key = {"Idempotency-Key": "pause-1"}
    assert chand.post("/v1/sandboxes/s/pause", headers=key).json["state"] == "paused"
    assert chand.post("/v1/sandboxes/s/resume").json["state"] == "running"
    assert chand.post("/v1/sandboxes/s/pause", headers=key).json["state"] == "running"
    answer = chand.post("/v1/sandboxes/s/renew", headers=key)
    assert (answer.status, answer.json["reason"]) == (422, "idempotency_mismatch")


# ---- losses ----

def test_after_a_reboot_of_the_host_regions_are_known_to_be_lost(make_chand):
    chand = make_chand("--collect-interval", "1", "--orphan-grace", "3600").start()
    create(chand, "free")
    create(chand, "paused")
    create(chand, "owned", owner={"pid": os.getpid()})
    chand.post("/v1/sandboxes/paused/pause")
    chand.stop()
    # What a reboot does: another boot id, and an empty tmpfs.
    other_boot = "00000000-0000-4000-8000-000000000000"
    state.change(chand, "UPDATE region SET boot_id = ?", other_boot)
    state.change(chand, "UPDATE sandbox SET owner_boot_id = ? WHERE owner_kind != 0", other_boot)
    for name in chand.region_files():
        (chand.shm / name).unlink()
    chand.start()
    for name in ("free", "paused", "owned"):
        region = get(chand, name)["ivshmem"]
        assert (region["state"], region["reason"]) == ("lost", "host_reboot"), name
    wait_state(chand, "orphaned", "owned")  # its process cannot be there any more
    answer = chand.post("/v1/sandboxes/paused/resume")
    assert (answer.status, answer.json["reason"]) == (409, "region_lost")
    assert chand.region_files() == []  # never remade
    assert chand.get("/v1/templates/tpl").status == 200
    assert chand.get("/v1/node").json["regions"]["lost"] == 3
    for name in ("free", "paused", "owned"):
        assert chand.delete(f"/v1/sandboxes/{name}").status == 204
    create(chand, "free")
    state.check(chand)


def test_a_file_that_was_removed_or_replaced_is_reported(make_chand):
    chand = make_chand().start()
    create(chand, "removed")
    create(chand, "replaced")
    create(chand, "kept")
    chand.stop()
    (chand.shm / "ivshmem-removed").unlink()
    (chand.shm / "ivshmem-replaced").unlink()
    (chand.shm / "ivshmem-replaced").write_text("a stranger's", encoding="ascii")
    chand.start()
    assert get(chand, "removed")["ivshmem"]["reason"] == "file_missing"
    assert get(chand, "replaced")["ivshmem"]["reason"] == "file_replaced"
    assert get(chand, "kept")["ivshmem"]["state"] == "ready"
    assert (chand.shm / "ivshmem-replaced").read_text(encoding="ascii") == "a stranger's"


@pytest.mark.patient
def test_files_that_look_like_ours_are_reported_and_left(make_chand):
    chand = make_chand("--collect-interval", "1")
    strangers = ["ivshmem-unknown", ".chan-0123456789abcdef0123456789abcdef", "something-else"]
    for name in strangers:
        (chand.shm / name).write_text(name, encoding="ascii")
    chand.start()
    wait_passes(chand)
    assert chand.get("/v1/node").json["collector"]["foreignFiles"] == 2
    for name in strangers:
        assert (chand.shm / name).read_text(encoding="ascii") == name


# ---- limits ----

def test_quotas(make_chand):
    chand = make_chand("--node-regions", "3", "--node-bytes", "4M", "--uid-regions", "2").start()
    create(chand, "a")
    create(chand, "b")
    detail = put_fails(chand, "c", {"templateID": "tpl"}, 429, "quota_exceeded")
    assert "regions: asked 1, used 2, allowed 2" in detail
    assert chand.put("/v1/templates/plain", {}).status == 201
    create(chand, "plain", template="plain")  # no region, no quota
    if os.geteuid() == 0:
        create(chand, "c", uid=1001)
        detail = put_fails(chand, "d", {"templateID": "tpl", "uid": 1002}, 429, "quota_exceeded")
        assert "regions: asked 1, used 3, allowed 3" in detail
        assert chand.delete("/v1/sandboxes/c").status == 204
    assert chand.delete("/v1/sandboxes/a").status == 204
    create(chand, "a2")
    large = chand.opt_in_template("large", sizeBytes=4 * 1024 * 1024)
    if os.geteuid() == 0:
        detail = put_fails(chand, "e", {"templateID": large, "uid": 1003}, 429, "quota_exceeded")
        assert "bytes: asked 4194304, used 2097152, allowed 4194304" in detail
    state.check(chand)


@pytest.fixture
def small_tmpfs(tmp_path):
    """A tmpfs of 256 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", str(folder).encode(), b"tmpfs", 0, b"size=256k,mode=755") != 0:
        pytest.skip(f"cannot mount a tmpfs: {os.strerror(ctypes.get_errno())}")
    yield folder
    assert libc.umount(str(folder).encode()) == 0, os.strerror(ctypes.get_errno())


def test_a_full_tmpfs_is_told_and_leaves_nothing(small_tmpfs, make_chand):
    chand = make_chand(shm=small_tmpfs).start()
    template = chand.opt_in_template(sizeBytes=131072)
    create(chand, "a", template)
    create(chand, "b", template)
    for _ in range(3):
        put_fails(chand, "c", {"templateID": template}, 507, "no_space")
    assert chand.region_files() == ["ivshmem-a", "ivshmem-b"]
    assert sorted(state.sandboxes(chand)) == ["a", "b"]
    state.check(chand)
    assert chand.delete("/v1/sandboxes/a").status == 204
    create(chand, "c", template)
    state.check(chand)
    chand.stop()


def test_a_file_of_another_user(chand):
    if os.geteuid() != 0:
        pytest.skip("needs root, to give files away")
    sandbox = create(chand, uid=1234, gid=2345)
    status = (chand.shm / "ivshmem-s").stat()
    assert (sandbox["uid"], sandbox["gid"]) == (1234, 2345)
    assert (status.st_uid, status.st_gid, status.st_mode & 0o7777) == (1234, 2345, 0o600)
    state.check(chand)


def test_a_symlink_is_never_followed(chand, tmp_path):
    target = tmp_path / "target"
    target.write_text("precious", encoding="ascii")
    (chand.shm / "ivshmem-s").symlink_to(target)
    put_fails(chand, "s", {"templateID": chand.opt_in_template()}, 409, "file_exists")
    assert target.read_text(encoding="ascii") == "precious"
    assert (chand.shm / "ivshmem-s").is_symlink()
    assert state.sandboxes(chand) == {}


def test_signals_are_not_for_owners(chand, process):
    """A daemon that watches a process by its pidfd never signals it."""
    owner = process()
    create(chand, owner={"pid": owner.pid})
    assert chand.delete("/v1/sandboxes/s").status == 204
    chand.stop()
    assert owner.poll() is None
    owner.send_signal(signal.SIGTERM)
    assert owner.wait(10) == -signal.SIGTERM
