"""chanctl link against the real daemon and a real dataplane."""

import json
import os
import shlex
import signal
import subprocess

import pytest
import yaml

from support.chanctl import CHANCTL, chanctl
from support.link import connect, is_ours, sandboxes, wait_end
from support.tables import rows


@pytest.fixture
def ctl(chand):
    """Runs chanctl against a running daemon."""
    def run(*words, **more):
        return chanctl(chand.socket, *words, **more)
    run.chand = chand
    return run


@pytest.fixture
def link(ctl):
    """A link "net" between the sandboxes "a" and "b"."""
    sandboxes(ctl.chand, "a", "b")
    ctl("link", "create", "net", "--end", "a", "--end", "b")
    return "net"


@pytest.mark.parametrize("words", [
    ["link", "create", "net", "--end", "a", "--end", "b"], ["link", "show", "net"], ["link", "ls"], ["link", "stats", "net"],
], ids=lambda words: words[1])
def test_each_command_in_each_form(ctl, link, words):
    table = ctl(*words)
    assert "waiting" in table.out and "\x1b" not in table.out
    as_json = ctl(*words, "-o", "json")
    assert "net" in as_json.out and as_json.out.count("\n") == 1
    assert yaml.safe_load(ctl(*words, "-o", "yaml").out) == as_json.json
    assert table.err == as_json.err == ""


def test_json_is_the_apis_unchanged(ctl, link):
    for path, words in (("/v1/links/net", ["show", "net"]), ("/v1/links", ["ls"]), ("/v1/links?sandboxID=a", ["ls", "--sandbox", "a"])):
        assert ctl("link", *words, "-o", "json").out.rstrip("\n") == ctl.chand.get(path).body.decode().rstrip("\n")


def test_create_says_what_it_was_told(ctl):
    sandboxes(ctl.chand, "a")
    made = ctl("link", "create", "net", "--end", "sandbox=a,mtu=1500", "--end", "role=client,socket=/tmp/x,,y.sock",
               "--mtu", "9000", "-o", "json").json
    first, second = made["ends"]
    assert (first["sandboxID"], first["role"], first["mtu"]) == ("a", "server", 1500)
    assert (second["sandboxID"], second["role"], second["mtu"]) == (None, "client", 9000)
    assert second["socketPath"] == "/tmp/x,y.sock"
    plain = ctl("link", "put", "plain", "--end", "-", "--end", "-", "-o", "json").json
    assert [(end["sandboxID"], end["role"], end["mtu"]) for end in plain["ends"]] == [(None, "server", None)] * 2


def test_show_is_a_report_of_both_ends(ctl, link):
    answer = ctl("link", "show", link, "-o", "json").json
    head, *parts = ctl("link", "show", link).out.split("\n\n")
    assert head.splitlines()[0] == "Link net: ready" and len(parts) == 2
    for number, (part, end) in enumerate(zip(parts, answer["ends"])):
        title, *lines = part.splitlines()
        told = {name.strip(): text.strip() for name, text in (line.split(":", 1) for line in lines)}
        assert title == f"End {number}: sandbox {'ab'[number]}, vhost-user server"
        assert told["State"] == "waiting" and told["Why"] == end["reason"] and told["Socket"] == end["socketPath"]
        assert shlex.split(told["QEMU"]) == end["vmm"]["qemu"]
        assert shlex.split(told["Cloud-H."]) == end["vmm"]["cloudHypervisor"]
        assert told["Sent"] == "0 frames, 0 B; dropped: 0"


def test_show_tells_who_is_connected(ctl, link):
    with connect(ctl("link", "show", link, "-o", "json").json["ends"][0]):
        wait_end(ctl.chand, link, 0, is_ours, "connected")
        shown = ctl("link", "show", link).out
        assert f"pid {os.getpid()} (1 connection, 0 faults so far)" in shown
        assert rows(ctl("link", "ls").out)[0]["STATE-0"] == "connected"


def test_arguments_of_an_end(ctl, link):
    ends = ctl("link", "show", link, "-o", "json").json["ends"]
    for number, end in enumerate(ends):
        def part(form, number=number):
            return ctl("link", "show", link, "--end", number, "-o", form).out
        assert shlex.split(part("qemu-args")) == end["vmm"]["qemu"]
        assert shlex.split(part("cloud-hypervisor-args")) == end["vmm"]["cloudHypervisor"]
        assert part("path") == end["socketPath"] + "\n"
    refused = ctl("link", "show", link, "-o", "qemu-args", code=2)
    assert "--end 0 or --end 1" in refused.err and refused.out == ""


def test_ls(ctl, link):
    ctl("link", "create", "other", "--end", "b", "--end", "-")
    row = rows(ctl("link", "ls").out)
    assert [one["ID"] for one in row] == ["net", "other"]
    assert (row[0]["STATE"], row[0]["END-0"], row[0]["STATE-0"], row[0]["END-1"]) == ("ready", "a", "waiting", "b")
    assert row[1]["END-1"] == "-"
    assert ctl("link", "ls", "-o", "id").out == "net\nother\n"
    assert ctl("link", "ls", "-o", "id", "--sandbox", "a").out == "net\n"
    assert ctl("link", "ls", "-o", "id", "--limit", "1").out == "net\n"


def test_rm_of_several_goes_on_after_a_failure(ctl, link):
    ctl("link", "create", "other", "--end", "-", "--end", "-")
    run = ctl("link", "rm", "other", "nothing", link, code=3)
    assert run.out == "link other deleted\nlink net deleted\n"
    assert "cannot delete link nothing: " in run.err and "(link_not_found)" in run.err
    assert ctl("link", "ls", "-o", "id").out == ""


def test_if_match(ctl, link):
    revision = ctl("link", "show", link, "-o", "json").json["revision"]
    assert "(revision_stale)" in ctl("link", "rm", link, "--if-match", revision + 1, code=4).err
    ctl("link", "rm", link, "--if-match", revision)


@pytest.mark.parametrize("words, code, reason, step", [
    (["show", "nope"], 3, "link_not_found", "chanctl link ls"),
    (["stats", "nope"], 3, "link_not_found", "chanctl link ls"),
    (["create", "net", "--end", "a", "--end", "-"], 4, "link_exists", "another id"),
    (["create", "x", "--end", "a", "--end", "nobody"], 3, "sandbox_not_found", "chanctl sandbox ls"),
    (["create", "x", "--end", "a", "--end", "role=client"], 5, "invalid_field", "chanctl link create --help"),
    (["create", "../x", "--end", "a", "--end", "b"], 5, "invalid_id", "chanctl link create --help"),
])
@pytest.mark.parametrize("form", ["table", "json"])
def test_refusals(ctl, link, words, code, reason, step, form):
    run = ctl("link", *words, "-o", form, code=code)
    assert run.out == ""
    first, *steps = run.err.splitlines()
    assert first.startswith("chanctl: cannot ") and first.endswith(f"({reason})")
    assert step in steps[-1], run


def test_without_a_dataplane(make_chand):
    daemon = make_chand("--dataplane-program", "none").start()
    run = chanctl(daemon.socket, "link", "create", "net", "--end", "-", "--end", "-", code=7)
    assert "(dataplane_unavailable)" in run.err and "chanctl node show" in run.err and run.out == ""
    shown = yaml.safe_load(chanctl(daemon.socket, "node", "show", "-o", "yaml").out)
    assert shown["dataplane"]["connected"] is False and shown["dataplane"]["reason"]


# ---- again and again ----

class Watching:
    """A chanctl that runs until Ctrl-C."""

    def __init__(self, daemon, *words):
        self.process = subprocess.Popen([str(CHANCTL), "--socket", str(daemon.socket), *words], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def line(self):
        return self.process.stdout.readline()

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)
        _, err = self.process.communicate(timeout=20)
        return self.process.returncode, err

    def __exit__(self, *unused):
        self.process.kill()
        self.process.communicate()


@pytest.mark.patient
def test_watched_counters_have_rates_and_end_by_ctrl_c(ctl, link):
    with Watching(ctl.chand, "link", "stats", link, "--watch", "-o", "json") as watching:
        looks = [json.loads(watching.line()) for _ in range(3)]
        assert watching.interrupt() == (-signal.SIGINT, "")
    assert looks[0]["ends"][0]["perSecond"] is None
    for look in looks[1:]:
        assert look["linkID"] == "net"
        for end in look["ends"]:
            assert end["perSecond"] == {"frames": 0, "bytes": 0, "dropped": 0}


def test_a_watched_table_and_a_watched_report(ctl, link):
    with Watching(ctl.chand, "link", "stats", link, "-w", "--interval", "1s") as watching:
        first = rows("".join(watching.line() for _ in range(3)))
        assert watching.line() == "\n" and watching.line().startswith("END ")
    assert [row["END"] for row in first] == ["0", "1"] and {row["FRAMES/S"] for row in first} == {"-"}
    with Watching(ctl.chand, "link", "show", link, "--watch", "-o", "yaml") as watching:
        assert watching.line() == "---\n"
        assert watching.line() == "linkID: net\n"


def test_watching_ends_when_the_link_goes(ctl, link):
    with Watching(ctl.chand, "link", "show", link, "--watch") as watching:
        assert watching.line() == "Link net: ready\n"
        ctl("link", "rm", link)
        _, err = watching.process.communicate(timeout=20)
        assert watching.process.returncode == 3 and "(link_not_found)" in err


def test_watching_ends_when_nobody_reads(ctl, link):
    with Watching(ctl.chand, "link", "stats", link, "--watch") as watching:
        watching.line()
        watching.process.stdout.close()
        assert watching.process.wait(20) == -signal.SIGPIPE
        watching.process.stdout = None


@pytest.mark.patient
def test_on_a_terminal_each_look_takes_the_place_of_the_one_before(ctl, link):
    run = subprocess.run(["script", "-qec", shlex.join(["timeout", "-s", "INT", "2", str(CHANCTL), "--socket",
                                                        str(ctl.chand.socket), "link", "stats", link, "--watch"]),
                          "/dev/null"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert run.stdout.count("\x1b[H\x1b[2J") >= 2, run
