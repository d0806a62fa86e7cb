"""chan-echo, chan-copy and chan-info on a region that a real chand made: two processes play host and guest."""

import os
import re
import subprocess

import pytest

from support.chand import BIN, wait_for


@pytest.fixture
def region(chand):
    answer = chand.put("/v1/sandboxes/s", {"templateID": chand.opt_in_template()})
    assert answer.status == 201, answer
    return answer.json["ivshmem"]["path"]


@pytest.fixture
def start():
    """Starts an example; what still runs at the end of the test is ended."""
    started = []

    def run(program, *arguments, **more):
        command = [str(BIN / program), *arguments]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()


def end_of(process, seconds=30):
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out.decode(), err.decode()


def host(region, *more):
    return ["--path", region, *more]


def guest(region, *more):
    return ["--path", region, "--side", "guest", *more]


@pytest.mark.parametrize("server_first", [True, False])
def test_echo(region, start, server_first):
    texts = ["hello", "", "two words", "ä" * 1000]
    if server_first:
        server = start("chan-echo", *guest(region, "serve", "--count", "4"))
        client = start("chan-echo", *host(region, "send", *texts))
    else:
        client = start("chan-echo", *host(region, "send", *texts))
        server = start("chan-echo", *guest(region, "serve", "--count", "4"))
    assert end_of(client) == (0, "\n".join(texts) + "\n", "")
    assert end_of(server) == (0, "", "")


def test_echo_server_outlives_its_clients(region, start):
    server = start("chan-echo", *guest(region, "serve"))
    for number in range(3):
        client = start("chan-echo", *host(region, "send", f"client {number}"))
        assert end_of(client) == (0, f"client {number}\n", "")
    dead = start("chan-echo", *host(region, "serve"))  # two servers: nobody says anything
    wait_for(lambda: "run" in states(region)["host"], what="a session")
    dead.kill()
    dead.wait()
    assert end_of(start("chan-echo", *host(region, "send", "after a kill")))[0] == 0
    assert server.poll() is None


def test_echo_gives_up(region, start):
    code, out, err = end_of(start("chan-echo", *host(region, "--timeout", "1", "send", "x")))
    assert (code, out) == (1, "")
    assert "timed out" in err


def test_one_program_per_side(region, start):
    start("chan-echo", *guest(region, "serve"))
    wait_for(lambda: "init" in states(region)["guest"], what="the server's handshake")
    code, out, err = end_of(start("chan-echo", *guest(region, "serve")))
    assert (code, out) == (1, "")
    assert "guest side" in err and "another program" in err


@pytest.mark.parametrize("size", [0, 1, 65528, 5_000_003])
def test_copy(region, start, tmp_path, size):
    (tmp_path / "in").write_bytes(os.urandom(size))
    receiver = start("chan-copy", *guest(region, "receive", str(tmp_path / "out")))
    sender = start("chan-copy", *host(region, "send", str(tmp_path / "in")))
    sent, received = end_of(sender), end_of(receiver)
    assert sent[0] == received[0] == 0, (sent, received)
    assert sent[1] == received[1]
    assert re.fullmatch(rf"{size} bytes, fnv1a64 [0-9a-f]{{16}}\n", sent[1])
    assert (tmp_path / "out").read_bytes() == (tmp_path / "in").read_bytes()


def test_copy_streams(region, start):
    data = os.urandom(300_000)
    receiver = start("chan-copy", *host(region, "receive", "-"))
    sender = start("chan-copy", *guest(region, "send", "-"), stdin=subprocess.PIPE)
    sender.stdin.write(data)
    sender.stdin.close()
    sender.stdin = None
    out, err = receiver.communicate(timeout=30)
    assert receiver.returncode == 0
    assert out == data
    assert err.decode() == end_of(sender)[1]


@pytest.mark.patient
def test_copy_says_so_when_the_sender_is_killed(region, start, tmp_path):
    receiver = start("chan-copy", *host(region, "--timeout", "2", "receive", str(tmp_path / "out")))
    sender = start("chan-copy", *guest(region, "send", "-"), stdin=subprocess.PIPE)
    sender.stdin.write(b"x" * 200_000)
    sender.stdin.flush()
    wait_for(lambda: (tmp_path / "out").exists() and (tmp_path / "out").stat().st_size > 0, what="the first data")
    sender.kill()
    code, out, err = end_of(receiver)
    assert (code, out) == (1, "")
    assert "receiving: timed out" in err


def test_copy_and_echo_do_not_mix(region, start, tmp_path):
    receiver = start("chan-copy", *guest(region, "receive", str(tmp_path / "out")))
    start("chan-echo", *host(region, "send", "this is no file"))
    code, _, err = end_of(receiver)
    assert code == 1
    assert "chan-copy send" in err


def states(region):
    code, out, err = end_of(subprocess.Popen([str(BIN / "chan-info"), "--path", region], stdout=subprocess.PIPE,
                                             stderr=subprocess.PIPE))
    assert code == 0, err
    return dict(re.findall(r"^(\w+):\s+(.*)$", out, re.M))


def test_info(region):
    shown = states(region)
    assert shown["region"] == region
    assert shown["size"] == "1048576 bytes"
    assert shown["mapping"] == "cached"
    assert shown["layout"] == "chan, version 1"
    assert shown["epoch"] == "1"
    assert shown["host"].startswith("reset") and shown["host"].endswith("no sign of life")


def test_info_of_a_raw_region(chand):
    answer = chand.put("/v1/sandboxes/raw", {"templateID": chand.opt_in_template(layout="raw")})
    assert answer.status == 201, answer
    assert states(answer.json["ivshmem"]["path"])["layout"] == "raw"


@pytest.mark.parametrize("program", ["chan-echo", "chan-copy", "chan-info"])
def test_wrong_use(start, program):
    code, out, err = end_of(start(program, "--help"))
    assert (code, err) == (0, "")
    assert out.startswith(f"usage: {program}") and "--path" in out
    assert end_of(start(program, "--nonsense"))[0] == 2
    assert end_of(start(program, "--timeout", "soon"))[0] == 2
    assert end_of(start(program, "--id", "1af4", "send", "x"))[0] == 2
    command = [] if program == "chan-info" else ["send", "/dev/null"]
    code, out, err = end_of(start(program, "--path", "/nonexistent", *command))
    assert (code, out) == (1, "")
    assert "/nonexistent" in err
