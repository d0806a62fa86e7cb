"""chanctl against the real daemon: every command in every form of output, every kind of failure."""

import concurrent.futures
import json
import os
import re
import shlex
import signal
import socket
import subprocess

import pytest
import yaml

from support.chand import wait_for
from support.chanctl import CHANCTL, chanctl
from support.fake_server import FakeServer
from support.tables import rows


@pytest.fixture
def ctl(chand):
    """Runs chanctl against a running daemon."""
    def run(*words, **more):
        return chanctl(chand.socket, *words, **more)
    run.chand = chand
    return run


@pytest.fixture
def sandbox(ctl):
    """A sandbox "sb" with a region, of the template "tpl"."""
    ctl("template", "put", "tpl", "--ivshmem", "--size", "64K")
    ctl("sandbox", "create", "sb", "--template", "tpl", "--lease", "10m")
    return "sb"


# ---- every command in every form ----

TREE = {
    "template put": (["template", "put", "tpl", "--ivshmem", "--size", "64K"], "tpl"),
    "template show": (["template", "show", "tpl"], "tpl"),
    "template ls": (["template", "ls"], "tpl"),
    "sandbox create": (["sandbox", "create", "sb", "--template", "tpl", "--lease", "10m"], "sb"),
    "sandbox show": (["sandbox", "show", "sb"], "sb"),
    "sandbox ls": (["sandbox", "ls"], "sb"),
    "sandbox pause": (["sandbox", "pause", "sb"], "paused"),
    "sandbox resume": (["sandbox", "resume", "sb"], "running"),
    "sandbox renew": (["sandbox", "renew", "sb"], "sb"),
    "event ls": (["event", "ls"], "sandbox.created"),
    "node show": (["node", "show"], "version"),
}


@pytest.mark.parametrize("name", TREE)
def test_each_command_in_each_form(ctl, sandbox, name):
    words, part = TREE[name]
    table = ctl(*words)
    assert part in table.out, table
    as_json = ctl(*words, "-o", "json")
    assert isinstance(as_json.json, dict)
    assert part in as_json.out
    as_yaml = ctl(*words, "-o", "yaml")
    assert part in as_yaml.out
    # The same object both times, but for what each call changes or measures.
    assert yaml.safe_load(as_yaml.out).keys() == as_json.json.keys()
    assert table.err == as_json.err == as_yaml.err == ""


@pytest.mark.parametrize("path, words", [
    ("/v1/templates/tpl", ["template", "show", "tpl"]),
    ("/v1/templates", ["template", "ls"]),
    ("/v1/events", ["event", "ls"]),
])
def test_json_is_the_apis_unchanged_and_yaml_says_the_same(ctl, sandbox, path, words):
    body = ctl.chand.get(path).body.decode()
    assert ctl(*words, "-o", "json").out.rstrip("\n") == body.rstrip("\n")
    assert yaml.safe_load(ctl(*words, "-o", "yaml").out) == json.loads(body)


def test_yaml_round_trip_of_awkward_texts(ctl):
    annotations = {
        "plain": "text", "empty": "", "yes": "no", "number": "12", "float": "1e3", "null": "~", "date": "2026-01-02",
        "colon": "a: b", "comment": "a #b", "dash": "- a", "quote": "say \"it's\" \\", "lines": "a\nb\n\n  c\t",
        "brace": "{a: [b]}", "space": " x ", "unicode": "äöü € 😀 \u2028 \u00a0", "percent": "%TAG !x", "star": "*a &b",
        "key with: colon": "1", "- key": "2", "n": "3",
    }
    words = [word for key, value in annotations.items() for word in ("--annotation", f"{key}={value}")]
    as_yaml = ctl("template", "put", "awkward", *words, "-o", "yaml")
    assert yaml.safe_load(as_yaml.out)["annotations"] == annotations
    table = ctl("template", "show", "awkward")
    assert "\x1b" not in table.out


def test_put_says_what_it_was_told(ctl):
    template = ctl("template", "create", "t", "--ivshmem", "--size", "4M", "--layout", "raw", "--on-rollback=clear",
                   "--annotation", "a=b=c", "-o", "json").json
    assert template["enableIvshmem"] is True
    assert template["ivshmem"]["sizeBytes"] == 4 << 20
    assert template["ivshmem"]["layout"] == "raw"
    assert template["ivshmem"]["onRollback"] == "clear"
    assert template["annotations"] == {"a": "b=c"}
    assert ctl("template", "put", "t", "-o", "json").json["enableIvshmem"] is False


def test_tables_are_readable(ctl, sandbox):
    ctl("template", "put", "a-template-with-a-long-name")
    ctl("sandbox", "create", "other", "--template", "a-template-with-a-long-name", "--owner-pid", os.getpid())
    listing = ctl("sandbox", "ls").out
    by_id = {row["ID"]: row for row in rows(listing)}
    assert by_id["sb"]["TEMPLATE"] == "tpl"
    assert by_id["sb"]["REGION"] == "64 KiB"
    assert by_id["sb"]["EPOCH"] == "1"
    assert re.fullmatch(r"lease, \d+s left", by_id["sb"]["OWNER"])
    assert by_id["other"]["REGION"] == "-"
    assert by_id["other"]["OWNER"] == f"pid {os.getpid()}"
    assert re.fullmatch(r"\d+s", by_id["other"]["AGE"])
    assert not any(line.endswith(" ") for line in listing.splitlines())
    templates = {row["ID"]: row for row in rows(ctl("template", "ls").out)}
    assert templates["tpl"]["IVSHMEM"] == "yes" and templates["tpl"]["SIZE"] == "64 KiB"
    assert templates["a-template-with-a-long-name"]["SIZE"] == "-"


def test_show_has_every_member(ctl, sandbox):
    def keys(value):
        if isinstance(value, dict):
            for key, member in value.items():
                yield key
                yield from keys(member)

    details = ctl("sandbox", "show", sandbox).out
    shown = {match.group(1) for match in re.finditer(r"^ *(\S+?):", details, re.MULTILINE)}
    assert shown == set(keys(ctl("sandbox", "show", sandbox, "-o", "json").json))


def test_arguments_for_the_vmms(ctl, sandbox):
    region = ctl("sandbox", "show", sandbox, "-o", "json").json["ivshmem"]
    qemu = ctl("sandbox", "show", sandbox, "-o", "qemu-args")
    assert qemu.out.count("\n") == 1
    assert shlex.split(qemu.out) == region["vmm"]["qemu"]
    hypervisor = ctl("sandbox", "show", sandbox, "-o", "cloud-hypervisor-args")
    assert shlex.split(hypervisor.out) == region["vmm"]["cloudHypervisor"]
    path = ctl("sandbox", "show", sandbox, "-o", "path").out
    assert path == region["path"] + "\n"
    assert os.stat(path.strip()).st_size == 65536
    created = ctl("sandbox", "create", "new", "--template", "tpl", "-o", "qemu-args")
    assert "ivshmem" in created.out and "new" in created.out


def test_a_sandbox_without_a_region_adds_nothing_to_a_command_line(ctl):
    ctl("template", "put", "plain")
    for form in ("qemu-args", "cloud-hypervisor-args", "path"):
        run = ctl("sandbox", "create", "sb", "--template", "plain", "-o", form)
        assert run.out == ""
        assert "no region" in run.err


def test_pause_resume_renew(ctl, sandbox):
    assert ctl("sandbox", "pause", sandbox, "-o", "json").json["state"] == "paused"
    resumed = ctl("sandbox", "resume", sandbox, "--owner-pid", os.getpid(), "--idempotency-key", "k1", "-o", "json").json
    assert resumed["state"] == "running"
    assert resumed["owner"]["pid"] == os.getpid()
    refused = ctl("sandbox", "renew", sandbox, code=4)
    assert "(not_leased)" in refused.err
    ctl("sandbox", "pause", sandbox)
    ctl("sandbox", "resume", sandbox, "--lease", "5m")
    assert ctl("sandbox", "renew", sandbox, "--lease", "2h", "-o", "json").json["owner"]["leaseSeconds"] == 7200


@pytest.mark.patient
def test_lists_of_many_pages(ctl):
    ctl("template", "put", "t")
    names = [f"sb-{number:04}" for number in range(1203)]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda name: ctl.chand.put(f"/v1/sandboxes/{name}", {"templateID": "t"}), names))
    assert {answer.status for answer in answers} == {201}
    assert ctl("sandbox", "ls", "-o", "id").out.split() == names
    everything = ctl("sandbox", "ls", "-o", "json").json
    assert [sandbox["sandboxID"] for sandbox in everything["sandboxes"]] == names
    assert everything["nextPageToken"] is None
    assert len(rows(ctl("sandbox", "ls", "--limit", "7").out)) == 7
    assert ctl("sandbox", "ls", "--limit", "1100", "-o", "id").out.split() == names[:1100]
    events = ctl("event", "ls", "-o", "json").json["events"]
    assert len(events) == 1204  # the template's, and one of each sandbox
    revisions = [event["revision"] for event in events]
    assert revisions == sorted(revisions)
    assert ctl("event", "ls", "--since", revisions[-2], "-o", "json").json["events"] == events[-1:]


def test_rm_of_several_goes_on_after_a_failure(ctl, sandbox):
    ctl("template", "put", "free")
    run = ctl("template", "rm", "tpl", "nothing", "free", code=4)
    assert run.out == "template free deleted\n"
    assert "cannot delete template tpl: " in run.err and "(template_in_use)" in run.err
    assert "cannot delete template nothing: " in run.err
    assert ctl("template", "ls", "-o", "id").out.split() == ["tpl"]
    assert ctl("sandbox", "rm", sandbox, "never-was", "-o", "json").out == ""
    assert ctl.chand.region_files() == []


def test_if_match(ctl, sandbox):
    revision = ctl("sandbox", "show", sandbox, "-o", "json").json["revision"]
    paused = ctl("sandbox", "pause", sandbox, "--if-match", revision, "-o", "json").json
    stale = ctl("sandbox", "rm", sandbox, "--if-match", revision, code=4)
    assert "(revision_stale)" in stale.err
    ctl("sandbox", "rm", sandbox, "--if-match", paused["revision"])


def test_an_idempotency_key_goes_along(ctl, sandbox):
    ctl("sandbox", "renew", sandbox, "--lease", "60s", "--idempotency-key", "k")
    other = ctl("sandbox", "renew", sandbox, "--lease", "61s", "--idempotency-key", "k", code=5)
    assert "(idempotency_mismatch)" in other.err


# ---- failures: exit code, words, next step, and never half an output ----

@pytest.mark.parametrize("words, code, reason, step", [
    (["template", "show", "nope"], 3, "template_not_found", "chanctl template ls"),
    (["sandbox", "show", "nope"], 3, "sandbox_not_found", "chanctl sandbox ls"),
    (["sandbox", "create", "x", "--template", "nope"], 3, "template_not_found", "chanctl template ls"),
    (["template", "rm", "tpl"], 4, "template_in_use", "chanctl sandbox ls"),
    (["sandbox", "create", "sb", "--template", "other"], 4, "sandbox_exists", "another id"),
    (["sandbox", "create", "x", "--template", "tpl", "--owner-pid", "2147483646"], 4, "owner_gone", "--owner-pid"),
    (["sandbox", "create", "../x", "--template", "tpl"], 5, "invalid_id", "--help"),
    (["template", "put", "x", "--ivshmem", "--size", "5000"], 5, "invalid_field", "chanctl template put --help"),
    (["event", "ls", "--since", "1000000"], 5, "invalid_parameter", "chanctl event ls --help"),
    (["template", "put", "x", "--ivshmem", "--size", "1T"], 5, "invalid_field", "--help"),
])
@pytest.mark.parametrize("form", ["table", "json", "yaml"])
def test_refusals(ctl, sandbox, words, code, reason, step, form):
    ctl("template", "put", "other", "--ivshmem")
    run = ctl(*words, "-o", form, code=code)
    assert run.out == ""
    first, *steps = run.err.splitlines()
    assert first.startswith("chanctl: cannot ") and first.endswith(f"({reason})")
    assert step in steps[-1], run


def test_every_bad_field_is_named(ctl):
    run = ctl("template", "put", "x", "--ivshmem", "--size", "5000", "--layout", "soup", code=5)
    assert "ivshmem.sizeBytes: " in run.err and "ivshmem.layout: " in run.err


def test_no_room_is_6(make_chand):
    daemon = make_chand("--node-regions", "1").start()
    chanctl(daemon.socket, "template", "put", "t", "--ivshmem")
    chanctl(daemon.socket, "sandbox", "create", "a", "--template", "t")
    run = chanctl(daemon.socket, "sandbox", "create", "b", "--template", "t", code=6)
    assert "(quota_exceeded)" in run.err and "chanctl node show" in run.err


@pytest.mark.skipif(os.getuid() != 0, reason="drops root's privileges")
def test_not_permitted_is_8_and_a_closed_socket_is_7(make_chand):
    """The daemon runs as an ordinary user, so it may not give files away; and another user may not use its socket."""
    daemon = make_chand()
    for folder in (daemon.directory, daemon.state, daemon.runtime, daemon.shm):
        os.chown(folder, 65534, 65534)
    os.chmod(daemon.directory, 0o755)
    as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    daemon.command = lambda command=daemon.command(): as_nobody + command
    daemon.start()
    chanctl(daemon.socket, "template", "put", "t", "--ivshmem")
    denied = chanctl(daemon.socket, "sandbox", "create", "a", "--template", "t", "--uid", "0", code=8)
    assert "(uid_not_permitted)" in denied.err and denied.out == ""

    stranger = ["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups", str(CHANCTL), "--socket",
                str(daemon.socket), "node", "show"]
    run = subprocess.run(stranger, capture_output=True, text=True, timeout=60)
    assert run.returncode == 7, run
    assert "Permission denied" in run.stderr and "uid 65533" in run.stderr


def test_daemon_absent_is_7(tmp_path):
    nowhere = tmp_path / "chand.sock"
    run = chanctl(nowhere, "sandbox", "ls", "-o", "json", code=7)
    assert run.out == ""
    assert f"cannot connect to {nowhere}: No such file or directory" in run.err
    assert "is chand running" in run.err and "--socket" in run.err
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(nowhere))
    refused = chanctl(nowhere, "sandbox", "rm", "a", "b", code=7)
    assert "Connection refused" in refused.err and "start it again" in refused.err
    assert "sandbox b" not in refused.err  # once is enough


def test_socket_option_wins_over_the_environment(chand, tmp_path):
    chanctl(tmp_path / "nothing", "--socket", chand.socket, "node", "show")
    chanctl(chand.socket, "node", "show", "--socket", tmp_path / "nothing", code=7)


def test_not_ready_is_7(tmp_path):
    body = b'{"title":"Busy","status":503,"detail":"repairing","reason":"not_ready","requestID":"r"}'
    answer = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\n" \
             b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    with FakeServer(tmp_path / "s", answer):
        run = chanctl(tmp_path / "s", "sandbox", "ls", code=7)
    assert "repairing (not_ready)" in run.err and "again" in run.err


def problem(status, reason):
    body = json.dumps({"title": "T", "status": status, "detail": "it is so", "reason": reason, "requestID": "r-1"})
    return f"HTTP/1.1 {status} X\r\nContent-Type: application/problem+json\r\nContent-Length: {len(body)}\r\n\r\n{body}"


@pytest.mark.parametrize("status, reason, code", [
    (500, "internal", 1), (500, "store_failed", 1), (507, "no_space", 6), (507, "store_full", 6),
    (503, "resource_limit", 7), (409, "region_lost", 4), (410, "revision_compacted", 3), (413, "body_too_large", 5),
    # Reasons of a later daemon are judged by their status.
    (404, "new_word", 3), (409, "new_word", 4), (412, "new_word", 4), (422, "new_word", 5), (429, "new_word", 6),
    (403, "new_word", 8), (502, "new_word", 7), (500, "new_word", 1),
])
def test_exit_codes_of_reasons(tmp_path, status, reason, code):
    with FakeServer(tmp_path / "s", problem(status, reason).encode()):
        run = chanctl(tmp_path / "s", "sandbox", "show", "x", code=code)
    assert run.out == ""
    assert run.err.startswith(f"chanctl: cannot show sandbox x: it is so ({reason})\n")
    if code == 1:
        assert "request id: r-1" in run.err


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


NONSENSE = {
    "nothing": (b"", 7, "ended before an answer"),
    "not-http": (b"220 smtp.example ESMTP\r\n", 1, "not HTTP"),
    "short-body": (HEAD + b"Content-Length: 100\r\n\r\n{\"sandboxes\":[", 1, "cut short"),
    "short-chunk": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n10\r\n{\"sandboxes", 1, "cut short"),
    "short-json": (HEAD + b"\r\n{\"sandboxes\":[", 1, "not valid JSON"),
    "binary": (HEAD + b"Content-Length: 10\r\n\r\n\xff\xfe\x00\x01garbage", 1, "not valid JSON"),
    "array": (HEAD + b"Content-Length: 2\r\n\r\n[]", 1, "not an object"),
    "empty-object": (HEAD + b"Content-Length: 2\r\n\r\n{}", 1, "not a page"),
    "wrong-type": (HEAD + b"Content-Length: 15\r\n\r\n{\"sandboxes\":5}", 1, "not a page"),
    # A page that leads to itself, and one that is empty and promises more: neither may go on for ever.
    "loop": (HEAD + b"\r\n{\"sandboxes\":[{}],\"nextPageToken\":\"x\"}", 1, "not a page"),
    "empty-page": (HEAD + b"\r\n{\"sandboxes\":[],\"nextPageToken\":\"x\"}", 1, "not a page"),
    "endless-headers": (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20000 + b"\r\n", 1, "too large"),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_from_the_socket(tmp_path, name):
    answer, code, words = NONSENSE[name]
    with FakeServer(tmp_path / "s", answer):
        run = chanctl(tmp_path / "s", "sandbox", "ls", "-o", "json", code=code)
    assert run.out == ""
    assert run.err.startswith("chanctl: cannot list sandboxes: ")
    assert words in run.err, run


def test_a_silent_daemon_is_given_up(tmp_path):
    with FakeServer(tmp_path / "s", b"", linger=True):
        run = chanctl(tmp_path / "s", "node", "show", "--timeout", "1s", code=7)
    assert "within 1000 ms" in run.err and "--timeout" in run.err


def test_a_wrong_command_line_is_2(ctl):
    run = ctl("sandbox", "create", "x", code=2)
    assert run.out == "" and "--template" in run.err and "chanctl sandbox create --help" in run.err
    for words in ([], ["nothing"], ["sandbox", "show"], ["sandbox", "show", "a", "b"], ["node", "show", "-o", "id"]):
        assert "try: chanctl" in ctl(*words, code=2).err


def test_a_reader_that_leaves_early(ctl, sandbox):
    """Like every filter, chanctl ends without a word when nobody reads; the signal is the shell's business."""
    read, write = os.pipe()
    os.close(read)
    process = subprocess.run([str(CHANCTL), "--socket", str(ctl.chand.socket), "sandbox", "ls"], stdout=write,
                             stderr=subprocess.PIPE, timeout=60)
    os.close(write)
    assert process.returncode == -signal.SIGPIPE
    assert process.stderr == b""


def test_a_full_disk_is_told(ctl):
    with open("/dev/full", "wb") as full:
        process = subprocess.run([str(CHANCTL), "--socket", str(ctl.chand.socket), "node", "show"], stdout=full,
                                 stderr=subprocess.PIPE, timeout=60)
    assert process.returncode == 1
    assert b"No space left on device" in process.stderr


def test_a_daemon_that_is_killed_and_started_again(make_chand):
    daemon = make_chand().start()
    chanctl(daemon.socket, "template", "put", "t")
    daemon.kill()
    chanctl(daemon.socket, "template", "ls", code=7)
    daemon.start()
    assert chanctl(daemon.socket, "template", "ls", "-o", "id").out == "t\n"


@pytest.mark.patient
def test_an_ended_lease_shows(make_chand):
    daemon = make_chand("--collect-interval", "1", "--orphan-grace", "600").start()
    chanctl(daemon.socket, "template", "put", "t", "--ivshmem")
    chanctl(daemon.socket, "sandbox", "create", "sb", "--template", "t", "--lease", "1s")

    def orphaned():
        row = rows(chanctl(daemon.socket, "sandbox", "ls").out)[0]
        return row if row["STATE"].startswith("orphaned") else None

    row = wait_for(orphaned, 30, "the sandbox is orphaned")
    assert row["STATE"] == "orphaned (lease_expired)"


# ---- completion, in a real bash ----

def complete(socket, line):
    """What bash would offer behind that line."""
    script = f"""
        set -u
        source <({CHANCTL} completion bash)
        COMP_LINE={shlex.quote(line)}
        COMP_POINT=${{#COMP_LINE}}
        read -ra COMP_WORDS <<<"${{COMP_LINE//=/ = }}"
        [[ $COMP_LINE == *[\\ =] ]] && COMP_WORDS+=("")
        [[ $COMP_LINE == *= ]] && unset 'COMP_WORDS[-1]'
        COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
        COMP_WORDS[0]={CHANCTL}
        _chanctl
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    run = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60,
                         env=dict(os.environ, CHAN_SOCKET=str(socket)))
    assert run.returncode == 0 and run.stderr == "", run
    return run.stdout.split()


def test_completion(ctl, sandbox):
    at = ctl.chand.socket
    assert complete(at, "chanctl sa") == ["sandbox"]
    assert complete(at, "chanctl ") == ["template", "sandbox", "link", "event", "node", "completion", "version"]
    assert complete(at, "chanctl sandbox re") == ["resume", "renew"]
    assert complete(at, "chanctl template put x --l") == ["--layout"]
    assert complete(at, "chanctl template put x --layout ") == ["chan", "raw"]
    assert complete(at, "chanctl template put x --layout=r") == ["raw"]
    assert complete(at, "chanctl template put x --layout=") == ["chan", "raw"]
    assert complete(at, "chanctl sandbox show -o q") == ["qemu-args"]
    assert complete(at, "chanctl sandbox show ") == ["sb"]
    assert complete(at, "chanctl sandbox create new --template t") == ["tpl"]
    ctl("link", "create", "net", "--end", sandbox, "--end", "-")
    assert complete(at, "chanctl link show ") == ["net"]
    assert complete(at, "chanctl link create other --end ") == ["sb"]
    assert str(at) in complete(at, f"chanctl --socket {at.parent}/cha")


def test_completion_without_a_daemon_offers_no_ids_and_no_noise(tmp_path):
    assert complete(tmp_path / "nothing", "chanctl sandbox show ") == []
    assert complete(tmp_path / "nothing", "chanctl sandbox sh") == ["show"]


def test_the_completion_is_registered():
    run = subprocess.run(["bash", "-c", f"source <({CHANCTL} completion bash); complete -p chanctl"],
                         capture_output=True, text=True, timeout=60)
    assert "-F _chanctl chanctl" in run.stdout
