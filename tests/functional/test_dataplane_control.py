"""The control protocol of chan-dataplane, as a client meets it: requests, links, descriptors, statistics."""

import array
import fcntl
import mmap
import os
import socket

import pytest

from support import dataplane as dp
from support.chand import wait_for


# ---- the protocol ----

def test_hello(plane, control):
    greeting = control.greeting
    assert greeting.version == 1
    assert greeting.software.startswith("chan-dataplane ")
    assert len(greeting.instance) == 32 and int(greeting.instance, 16)
    assert greeting.pid == plane.process.pid
    assert greeting.max_links == 4096
    assert list(greeting.cpus) == [dp.last_cpu()]
    assert greeting.has_statistics
    line, = plane.wait_log('msg="control client"')
    assert 'name="test 1"' in line
    assert f"pid={os.getpid()} uid={os.geteuid()}" in line


def test_another_version_is_refused(plane):
    with plane.control(hello=False) as client:
        with pytest.raises(dp.Refused, match="VERSION_MISMATCH: version 2 .* version 1 is"):
            client.call("hello", version=2)
        with pytest.raises(dp.Refused, match="INVALID"):  # it did not count
            client.links()


def test_hello_comes_first(plane):
    with plane.control(hello=False) as client:
        for call in ("list_links", "create_link", "delete_link", "pause_link", "set_offloads"):
            with pytest.raises(dp.Refused, match="INVALID: the first request of a connection is hello"):
                client.call(call)


def test_a_request_for_nothing(control):
    request = dp.messages().Request(id=77)
    control.send(request.SerializeToString())
    response = dp.messages().Response.FromString(control.receive()[0])
    assert (response.id, response.code) == (77, dp.messages().INVALID)
    assert control.links() == []


@pytest.mark.parametrize("packet", [b"\xff", b"\x08", b"\x12\x7f", b"\xff" * 65536, b"x" * 65537, b"x" * 100000],
                         ids=["tag", "cut", "length", "largest", "too-large", "far-too-large"])
def test_who_does_not_speak_the_protocol_is_disconnected(plane, control, packet):
    with plane.control() as other:
        other.send(packet)
        response = dp.messages().Response.FromString(other.receive()[0])
        assert response.code == dp.messages().INVALID
        assert response.detail
        assert other.receive() == (b"", [])
    assert control.links() == []


def test_an_empty_packet_ends_the_connection(plane, control):
    with plane.control() as other:
        other.send(b"")
        assert other.receive() == (b"", [])
    assert control.links() == []


def test_what_is_not_known_is_ignored(control):
    request = control.request("list_links").SerializeToString()
    for unknown in (b"\xf2\x7d\x03new", b"x" * (65536 - len(request))):  # field 2014; field 15, many times
        control.send(request + unknown)
        response = dp.messages().Response.FromString(control.receive()[0])
        assert response.code == dp.messages().OK


def test_requests_are_answered_in_order(control):
    requests = [control.request("list_links") for _ in range(20)]
    for request in requests:
        control.send(request.SerializeToString())
    answered = [dp.messages().Response.FromString(control.receive()[0]).id for _ in requests]
    assert answered == [request.id for request in requests]


def test_who_does_not_read_is_disconnected(plane, control):
    with plane.control() as silent:
        silent.socket.settimeout(20)
        request = silent.request("list_links").SerializeToString()
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            for _ in range(100000):
                silent.send(request)
        assert control.links() == []
    assert control.links() == []


def test_too_many_clients_are_turned_away(plane):
    clients = [plane.control() for _ in range(16)]
    try:
        with plane.control(hello=False) as one_more:
            with pytest.raises((AssertionError, BrokenPipeError, ConnectionResetError)):
                one_more.links()
        assert clients[0].links() == []
        clients.pop().close()

        def try_again():
            try:
                plane.control().close()
                return True
            except (AssertionError, OSError):
                return False
        wait_for(try_again, 20, "room for a client")
    finally:
        for client in clients:
            client.close()


def test_clients_leave_nothing_behind(plane):
    with plane.control():
        before = plane.descriptors()
    for _ in range(100):
        plane.control().close()
    with plane.control():
        wait_for(lambda: plane.descriptors() == before, 20, f"{before} descriptors again")


# ---- links ----

def test_the_life_of_a_link(plane, control):
    ends = [plane.end("a"), plane.end("b", mtu=9000, offloads=1 << 11)]
    reply = control.create("l", ends)
    assert reply.created
    assert control.statistics.identifier(reply.slot) == "l"
    link, = control.links()
    assert (link.id, link.paused, link.slot, link.worker_cpu) == ("l", False, reply.slot, dp.last_cpu())
    assert [(end.type, end.role, end.socket_path, end.state, end.mtu, end.offloads) for end in link.ends] == [
        ("vhost-user", 0, plane.path("a"), "waiting", 0, 0),
        ("vhost-user", 0, plane.path("b"), "waiting", 9000, 1 << 11)]
    for end in link.ends:
        assert end.socket_path in end.reason
        assert (end.peer_pid, end.connections, end.faults, end.queue_pairs) == (0, 0, 0, 0)
    with dp.vhost_user_connect(plane.path("a")):
        def connected():
            return control.link("l").ends[0].state == "connected"
        wait_for(connected, 20, "the end's being connected")
        end = control.link("l").ends[0]
        assert (end.peer_pid, end.connections) == (os.getpid(), 1)
        assert end.reason
    control.call("delete_link", id="l")
    assert control.links() == []
    assert control.statistics.identifiers() == []
    assert not os.path.exists(plane.path("a")) and not os.path.exists(plane.path("b"))


def test_creating_again_changes_nothing(plane, control):
    ends = [plane.end("a"), plane.end("b", mtu=1500)]
    first = control.create("l", ends)
    inode = os.stat(plane.path("a")).st_ino
    again = control.create("l", ends)
    assert (first.created, again.created) == (True, False)
    assert first.slot == again.slot
    assert os.stat(plane.path("a")).st_ino == inode
    for other in ([plane.end("c"), ends[1]], [ends[1], ends[0]], [ends[0], plane.end("b", mtu=1400)],
                  [plane.end("a", role=1), ends[1]], [plane.end("a", offloads=1), ends[1]]):
        with pytest.raises(dp.Refused, match="LINK_EXISTS"):
            control.create("l", other)
    assert len(control.links()) == 1


@pytest.mark.parametrize("identifier, change, words", [
    ("", {}, "an id is of"),
    ("-l", {}, "an id is of"),
    (".l", {}, "an id is of"),
    ("a/b", {}, "an id is of"),
    ("l\n", {}, "an id is of"),
    ("l" * 129, {}, "longer than 128"),
    ("l", {"type": "carrier-pigeon"}, 'no end of type "carrier-pigeon"'),
    ("l", {"type": "x" * 100}, "type is too long"),
    ("l", {"socket_path": "relative"}, "not absolute"),
    ("l", {"socket_path": ""}, "not absolute"),
    ("l", {"socket_path": "/" + "x" * 107}, "longer than 107"),
    ("l", {"role": 7}, "neither SERVER nor CLIENT"),
    ("l", {"mtu": 67}, "mtu of 67"),
    ("l", {"mtu": 65536}, "mtu of 65536"),
    ("l", {"has_listener": True}, "did not come along"),
])
def test_a_bad_link_is_refused_and_leaves_nothing(plane, control, identifier, change, words):
    before = plane.descriptors()
    with pytest.raises(dp.Refused) as refused:
        control.create(identifier, [plane.end("a"), {**plane.end("b"), **change}])
    assert refused.value.code == "INVALID"
    assert words in refused.value.detail
    assert plane.descriptors() == before
    assert control.links() == []
    assert control.statistics.identifiers() == []
    assert not os.path.exists(plane.path("a"))


@pytest.mark.parametrize("count", [0, 1, 3, 1000])
def test_a_link_has_two_ends(plane, control, count):
    with pytest.raises(dp.Refused, match="INVALID: .*two ends"):
        control.create("l", [plane.end("a") for _ in range(count)])


def test_a_socket_that_cannot_be_bound(plane, control):
    for path in (plane.path("missing/a"), plane.path("b")):
        with pytest.raises(dp.Refused, match="SOCKET_FAILED: link \"l\": end [01]: "):
            control.create("l", [plane.end("b"), {"type": "vhost-user", "socket_path": path}])
        assert not os.path.exists(plane.path("b"))
    assert control.create("l", [plane.end("a"), plane.end("b")]).created


def test_what_is_not_there(plane, control):
    for call in ("delete_link", "pause_link", "set_offloads"):
        with pytest.raises(dp.Refused, match='LINK_NOT_FOUND: there is no link "nope"'):
            control.call(call, id="nope")
    assert control.link("nope") is None
    control.create("l", [plane.end("a"), plane.end("b")])
    with pytest.raises(dp.Refused, match="INVALID: .*no end 2"):
        control.call("set_offloads", id="l", end=2)


def test_the_number_of_links_is_limited(make_dataplane):
    plane = make_dataplane("--max-links", 2).start()
    with plane.control() as control:
        assert control.greeting.max_links == control.statistics.slot_count == 2
        for name in ("one", "two"):
            control.create(name, [plane.end(name + "a"), plane.end(name + "b")])
        with pytest.raises(dp.Refused, match="LIMIT_REACHED: .*max-links"):
            control.create("three", [plane.end("3a"), plane.end("3b")])
        control.call("delete_link", id="one")
        assert control.create("three", [plane.end("3a"), plane.end("3b")]).created
        assert sorted(control.statistics.identifiers()) == ["three", "two"]


def test_pages(plane, control):
    """150 links of the longest names, so that a page is as large as it can be."""
    names = [f"{number:03}".ljust(128, "x") for number in range(150)]
    for name in reversed(names):
        control.create(name, [{"type": "vhost-user", "role": 1, "mtu": 65535, "offloads": (1 << 64) - 1,
                               "socket_path": plane.path(f"{name[:3]}{end}").ljust(107, "y")} for end in "ab"])
    seen, after = [], ""
    while True:
        page = control.call("list_links", after_id=after, limit=1000)
        assert len(page.links) == min(64, 150 - len(seen))
        seen += [link.id for link in page.links]
        after = seen[-1]
        if not page.more:
            break
    assert seen == names
    assert [link.id for link in control.links(after_id="010", limit=2)] == names[10:12]
    assert [link.id for link in control.links(only_id=names[5], after_id="zzz")] == [names[5]]
    for name in names:
        control.call("delete_link", id=name)
    assert control.links() == []


def test_pause(plane, control):
    control.create("l", [plane.end("a"), plane.end("b")])
    for paused in (True, True, False):
        control.call("pause_link", id="l", paused=paused)
        assert control.link("l").paused == paused


def test_offloads_are_not_offered_from_the_next_connection_on(plane, control):
    control.create("l", [plane.end("a"), plane.end("b")])
    tso = 1 << 7 | 1 << 11
    with dp.vhost_user_connect(plane.path("b")) as connection:
        assert dp.vhost_user_features(connection) & tso == tso
    control.call("set_offloads", id="l", end=1, offloads=tso)
    assert [end.offloads for end in control.link("l").ends] == [0, tso]
    wait_for(lambda: control.link("l").ends[1].state == "waiting", 20, "the end of the first connection")
    with dp.vhost_user_connect(plane.path("b")) as connection:
        assert dp.vhost_user_features(connection) & tso == 0
    with dp.vhost_user_connect(plane.path("a")) as connection:
        assert dp.vhost_user_features(connection) & tso == tso
    # What was set is now the link's specification.
    assert not control.create("l", [plane.end("a"), plane.end("b", offloads=tso)]).created


# ---- descriptors ----

def listener(plane, name):
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(plane.path(name))
    listening.listen()
    return listening


def test_listeners_come_along(plane, control):
    with listener(plane, "a") as first, listener(plane, "b") as second:
        ends = [plane.end("a", has_listener=True), plane.end("b", has_listener=True)]
        assert control.create("l", ends, [first.fileno(), second.fileno()]).created
    with dp.vhost_user_connect(plane.path("b")) as connection:
        assert dp.vhost_user_features(connection)
        wait_for(lambda: control.link("l").ends[1].state == "connected", 20, "the second end's being connected")
        assert control.link("l").ends[0].state == "waiting"
    wait_for(lambda: control.link("l").ends[1].state == "waiting", 20, "the end of that connection")
    with listener(plane, "c") as surplus:  # the link is there already: what comes along is closed
        before = plane.descriptors()
        assert not control.create("l", ends, [surplus.fileno(), surplus.fileno()]).created
        assert plane.descriptors() == before
    control.call("delete_link", id="l")
    assert os.path.exists(plane.path("a")), "a socket that others made is theirs to remove"


def test_only_the_second_end_has_a_listener(plane, control):
    with listener(plane, "b") as second:
        control.create("l", [plane.end("a"), plane.end("b", has_listener=True)], [second.fileno()])
    for end in (0, 1):
        with dp.vhost_user_connect(plane.path("ab"[end])):
            wait_for(lambda: control.link("l").ends[end].state == "connected", 20, f"end {end}'s being connected")


def test_what_is_no_listener_is_refused(plane, control):
    before = plane.descriptors()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as idle, open("/dev/null", "rb") as null, \
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams:
        for wrong in (idle, null, datagrams):
            with pytest.raises(dp.Refused, match="SOCKET_FAILED"):
                control.create("l", [plane.end("a"), plane.end("b", has_listener=True)], [wrong.fileno()])
    assert plane.descriptors() == before
    assert control.links() == []


@pytest.mark.parametrize("count", [1, 2, 3, 253])
def test_descriptors_that_no_request_names_are_closed(plane, control, count):
    before = plane.descriptors()
    with open("/dev/null", "rb") as null:
        for call in ("list_links", "hello"):
            fields = {"version": 1} if call == "hello" else {}
            _, answered = control.call_with_descriptors(call, [null.fileno()] * count, **fields)
            for descriptor in answered:
                os.close(descriptor)
        with plane.control() as other:
            other.send(b"\xff", [null.fileno()] * count)
            assert other.receive()[0]
        with plane.control() as other:
            other.send(b"", [null.fileno()] * count)
            assert other.receive() == (b"", [])
    wait_for(lambda: plane.descriptors() == before, 20, f"{before} descriptors again")


# ---- the statistics memory ----

def test_the_statistics_memory_can_be_read_only(control):
    statistics = control.statistics
    assert (statistics.magic, statistics.version) == (0x315441545341E4C3, 1)
    assert (statistics.slot_size, statistics.slot_count, statistics.slots_offset) == (512, 4096, 4096)
    with pytest.raises(PermissionError):
        mmap.mmap(statistics.descriptor, 0, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    with pytest.raises(PermissionError):
        os.pwrite(statistics.descriptor, b"x", 0)
    with pytest.raises(PermissionError):
        os.ftruncate(statistics.descriptor, 0)
    again = os.open(f"/proc/self/fd/{statistics.descriptor}", os.O_RDWR)  # a new opening helps nobody
    try:
        with pytest.raises(PermissionError):
            mmap.mmap(again, 0, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    finally:
        os.close(again)
    assert fcntl.fcntl(statistics.descriptor, fcntl.F_GETFD) & fcntl.FD_CLOEXEC


def test_a_slot_is_used_anew_with_counters_of_zero(plane, control):
    first = control.create("first", [plane.end("a"), plane.end("b")]).slot

    def words():
        offset = control.statistics.slots_offset + first * 512 + 136
        return array.array("Q", control.statistics.memory[offset:offset + 512 - 136])
    wait_for(lambda: words()[0] > 0, 20, "the link's going to sleep, which is counted")
    control.call("delete_link", id="first")
    assert control.statistics.identifier(first) == ""
    second = control.create("2", [plane.end("a"), plane.end("b")]).slot
    assert second == first
    assert control.statistics.identifier(second) == "2"
    assert sum(words()[1:]) <= 2, "frames of the link before are not this one's"
