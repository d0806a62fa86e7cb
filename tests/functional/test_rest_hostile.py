"""REST: clients that are slow, too large, too many or malicious do not hold the daemon up."""

import socket
import threading
import time

import pytest

from support.chand import wait_for
from support.raw import JSON, Closed, Raw, request

MIB = 1024 * 1024
IDLE = 1  # seconds, where a test has to wait for the time-out


def is_well(chand):
    """A polite client is answered, and quickly."""
    begin = time.monotonic()
    answer = chand.get("/v1/templates")
    assert answer.status == 200
    assert time.monotonic() - begin < 10
    return True


@pytest.fixture
def hasty(make_chand):
    """A daemon with a short idle time-out."""
    return make_chand("--idle-timeout", str(IDLE)).start()


# ---- too large ----

@pytest.mark.parametrize("size", [MIB + 1, 2 * MIB, 10**12, 2**63])
def test_a_body_beyond_the_limit_is_refused_unread(chand, size):
    with Raw(chand.socket) as raw:
        raw.send(f"PUT /v1/templates/t HTTP/1.1\r\nHost: x\r\n{JSON}\r\nContent-Length: {size}\r\n\r\n")
        answer = raw.answer()  # not a byte of the body was sent
        assert answer.status == 413
        assert answer.json["reason"] == "body_too_large"
        assert answer.headers["connection"].lower() == "close"
        assert raw.closed()
    is_well(chand)


def test_a_body_of_exactly_the_limit(chand):
    with Raw(chand.socket) as raw:
        raw.send(request("PUT", "/v1/templates/t", JSON, body=b"{}" + b" " * (MIB - 2)))
        assert raw.answer().status == 201


def test_a_length_that_is_none(chand):
    for length in ("-1", "1x", "0x10", "1 2", "18446744073709551616", "99999999999999999999999"):
        with Raw(chand.socket) as raw:
            raw.send(f"PUT /v1/templates/t HTTP/1.1\r\nHost: x\r\n{JSON}\r\nContent-Length: {length}\r\n\r\n")
            assert raw.answer().status in (400, 413), length
            raw.closed()
    is_well(chand)


def test_expect_100_continue(chand):
    def ask(target, *headers, length=2):
        return (f"PUT {target} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: {length}\r\n"
                + "".join(f"{one}\r\n" for one in headers) + "\r\n")

    with Raw(chand.socket) as raw:
        raw.send(ask("/v1/templates/t", JSON))
        assert raw.head()[0] == 100
        raw.send(b"{}")
        assert raw.answer().status == 201
    # What is refused anyway is refused without the body.
    for target, headers, length, status in (("/v1/templates/t", [JSON], MIB + 1, 413),
                                            ("/v1/templates/t", ["Content-Type: text/plain"], 2, 415),
                                            ("/v1/templates/%00", [JSON], 2, 400), ("/nowhere", [JSON], 2, 404),
                                            ("/livez", [JSON], 2, 405)):
        with Raw(chand.socket) as raw:
            raw.send(ask(target, *headers, length=length))
            assert raw.answer().status == status


def test_headers_of_all_sizes(chand):
    """200 up to the limit of 32 KiB, 431 beyond it, with a problem document for as long as the headers fit into the
    library's buffer of 40 KiB. Just below that it has no room for an answer and closes the connection."""
    for size in [100, 16000, *range(31000, 42000, 97), 60000]:
        whole = request("GET", "/livez", "X-Padding: " + "x" * size)
        with Raw(chand.socket) as raw:
            raw.try_send(whole)
            try:
                answer = raw.answer()
            except Closed:
                assert 40000 < len(whole) < 40960
                continue
        assert answer.status == (200 if len(whole) <= 32768 else 431), len(whole)
        if answer.status == 431 and len(whole) < 40000:
            assert answer.json["reason"] == "headers_too_large"
    is_well(chand)


def test_many_small_headers(chand):
    for count in (10, 100, 1000, 3000):
        with Raw(chand.socket) as raw:
            raw.try_send(request("GET", "/livez", *(f"X-{i}: v" for i in range(count))))
            assert raw.answer().status in (200, 431)
    is_well(chand)


def test_a_target_of_all_sizes(chand):
    for size in (1000, 20000, 31000, 40000, 100000):
        with Raw(chand.socket) as raw:
            raw.try_send(request("GET", "/v1/templates/" + "x" * size))
            assert raw.answer().status in (400, 414, 431), size
    is_well(chand)


def test_headers_without_an_end(chand):
    with Raw(chand.socket) as raw:
        raw.try_send(b"GET /livez HTTP/1.1\r\nX-Padding: " + b"x" * (4 * MIB))
        assert raw.answer().status == 431
        raw.closed()
    is_well(chand)


# ---- chunked ----

def chunk(data):
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


CHUNKED = request("PUT", "/v1/templates/t", JSON, "Transfer-Encoding: chunked")


def test_a_chunked_body(chand):
    for parts in ([b"{}"], [b"{", b"}"], [b'{"annotations":', b'{"a":"', b"x" * 3000, b'"}}'], [b"{}", b" " * (MIB - 2)]):
        with Raw(chand.socket) as raw:
            raw.send(CHUNKED + b"".join(map(chunk, parts)) + b"0\r\n\r\n" + request("GET", "/livez"))
            assert raw.answer().status in (200, 201)
            assert raw.answer().status == 200


def test_a_chunked_body_beyond_the_limit(chand):
    with Raw(chand.socket) as raw:
        raw.try_send(CHUNKED + chunk(b"{}") + chunk(b" " * MIB) + b"0\r\n\r\n")
        answer = raw.answer()
        assert answer.status == 413 and answer.json["reason"] == "body_too_large"


def test_a_chunked_body_without_an_end_is_cut(chand):
    sent = 0
    with Raw(chand.socket) as raw:
        raw.send(CHUNKED)
        piece = chunk(b" " * 65536)
        try:
            while sent < 1024 * MIB:
                raw.send(piece)
                sent += len(piece)
        except (BrokenPipeError, ConnectionResetError):
            pass
    assert sent < 16 * MIB
    is_well(chand)


def test_a_malformed_chunk(chand):
    for data in (b"zz\r\n{}\r\n", b"-1\r\n", b"2\r\n{}}}\r\n0\r\n\r\n", b"fffffffffffffffff\r\n", b"\r\n\r\n"):
        with Raw(chand.socket) as raw:
            raw.try_send(CHUNKED + data)
            assert raw.answer().status in (400, 413), data
            raw.closed()
    assert chand.get("/v1/templates/t").status == 404


# ---- unusual, but allowed ----

def test_pipelined_requests_are_answered_in_order(chand):
    bodies = [f'{{"annotations":{{"n":"{i}"}}}}'.encode() for i in range(100)]
    with Raw(chand.socket) as raw:
        raw.send(b"".join(request("PUT", f"/v1/templates/t{i}", JSON, f"X-Request-ID: r{i}", body=body)
                          + request("GET", f"/v1/templates/t{i}") for i, body in enumerate(bodies)))
        for i in range(100):
            put, get = raw.answer(), raw.answer()
            assert put.status == 201 and put.headers["x-request-id"] == f"r{i}"
            assert get.json == put.json and get.json["annotations"] == {"n": str(i)}


def test_byte_by_byte(chand):
    with Raw(chand.socket) as raw:
        for byte in request("PUT", "/v1/templates/t", JSON, body=b'{"annotations":{"a":"b"}}'):
            raw.send(bytes([byte]))
        assert raw.answer().status == 201


def test_a_client_that_closes_its_sending_half(chand):
    for target in ("/livez", "/v1/templates"):
        with Raw(chand.socket) as raw:
            raw.send(request("GET", target))
            raw.socket.shutdown(socket.SHUT_WR)
            assert raw.answer().status == 200


def test_http_1_0(chand):
    with Raw(chand.socket) as raw:
        raw.send(b"GET /v1/node HTTP/1.0\r\n\r\n")
        assert raw.answer().status == 200
        assert raw.closed()


def test_a_connection_serves_many_requests(chand):
    with Raw(chand.socket) as raw:
        for i in range(500):
            raw.send(request("GET", "/livez" if i % 2 else "/v1/templates"))
            assert raw.answer().status == 200


# ---- nonsense ----

NONSENSE = {
    "zeros": b"\x00" * 100,
    "empty lines": b"\r\n" * 1000,
    "no target": b"GET\r\n\r\n",
    "no target but a space": b"GET \r\n\r\n",
    "no method": b" / HTTP/1.1\r\n\r\n",
    "HTTP 9.9": b"GET / HTTP/9.9\r\n\r\n",
    "no header name": b"GET / HTTP/1.1\r\n: x\r\n\r\n",
    "no colon": b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
    "zero in the target": b"GET /\x00 HTTP/1.1\r\n\r\n",
    "HTTP 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "star": b"GET * HTTP/1.1\r\nHost: x\r\n\r\n",
    "absolute": b"GET http://localhost/livez HTTP/1.1\r\nHost: x\r\n\r\n",
    "every byte": bytes(range(256)) * 10,
    "two lengths": b"GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("kind", NONSENSE)
def test_nonsense_is_survived(hasty, kind):
    with Raw(hasty.socket) as raw:
        raw.try_send(NONSENSE[kind])
        while raw.fill():
            pass
        assert raw.buffer == b"" or raw.buffer.startswith(b"HTTP/1.")
    is_well(hasty)


def test_clients_that_leave_at_any_byte(chand):
    whole = request("PUT", "/v1/templates/t", JSON, body=b"{}")
    for length in range(0, len(whole) + 1):
        with Raw(chand.socket) as raw:
            raw.send(whole[:length])
    is_well(chand)
    # And while the answer is on its way.
    for i in range(100):
        with Raw(chand.socket) as raw:
            raw.send(request("PUT", f"/v1/templates/u{i}", JSON, body=b"{}"))
    is_well(chand)
    wait_for(lambda: connections(chand) <= 1, what="the end of the connections of clients that left")


def connections(chand):
    text = chand.get("/metrics").body.decode()
    return int(next(line for line in text.splitlines() if line.startswith("chan_api_connections ")).split()[1])


# ---- slow ----

def test_an_idle_connection_is_closed(hasty):
    with Raw(hasty.socket) as silent, Raw(hasty.socket) as served:
        served.send(request("GET", "/livez"))
        assert served.answer().status == 200
        assert silent.closed()
        assert served.closed()


def drip(raw, data, seconds, pause=0.1):
    """Sends byte after byte; answers for how long the daemon listened."""
    begin = time.monotonic()
    for byte in data:
        if time.monotonic() - begin > seconds:
            break
        try:
            raw.send(bytes([byte]))
        except (BrokenPipeError, ConnectionResetError):
            break
        time.sleep(pause)  # the very slowness that is tested
    return time.monotonic() - begin


@pytest.mark.patient
@pytest.mark.parametrize("kind", ["first line", "headers", "body", "chunks", "pipeline"])
def test_a_client_that_drips_is_cut(hasty, kind):
    begin = {"first line": b"GET /", "headers": b"GET /livez HTTP/1.1\r\nX-Padding: ",
             "body": f"PUT /v1/templates/t HTTP/1.1\r\n{JSON}\r\nContent-Length: 100000\r\n\r\n".encode(),
             "chunks": CHUNKED + b"10000\r\n", "pipeline": request("GET", "/livez") + b"GET /livez HTTP/1.1\r\nX-Padding: "}
    with Raw(hasty.socket) as raw:
        raw.send(begin[kind])
        listened = drip(raw, b"x" * 1000, seconds=30)
    assert IDLE <= listened < 8 * IDLE
    is_well(hasty)


@pytest.mark.patient
def test_a_slow_but_steady_client_is_served(hasty):
    """The bound is for one request, not for the connection."""
    with Raw(hasty.socket) as raw:
        begin = time.monotonic()
        while time.monotonic() - begin < 5 * IDLE:
            drip(raw, request("GET", "/livez"), seconds=30, pause=0.01)
            assert raw.answer().status == 200


@pytest.mark.patient
def test_a_client_that_does_not_read_is_cut(hasty):
    for i in range(60):
        hasty.put(f"/v1/templates/t{i}", {"annotations": {str(j): "x" * 4096 for j in range(30)}})
    with Raw(hasty.socket) as raw:
        # Far more answers than the socket takes.
        raw.send(request("GET", "/v1/templates") * 20)
        wait_for(lambda: connections(hasty) <= 1, seconds=20, what="the end of the connection that nobody reads")
    is_well(hasty)


@pytest.mark.patient
def test_a_client_that_reads_in_drips_is_cut(hasty):
    for i in range(60):
        hasty.put(f"/v1/templates/t{i}", {"annotations": {str(j): "x" * 4096 for j in range(30)}})
    with Raw(hasty.socket) as raw:
        raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.send(request("GET", "/v1/templates") * 20)
        begin = time.monotonic()
        while connections(hasty) > 1:
            raw.socket.recv(4096)  # enough for the daemon to be able to send a little
            time.sleep(0.2)  # the very slowness that is tested
            assert time.monotonic() - begin < 20
    is_well(hasty)


# ---- too many ----

def hold(chand, count, data=b""):
    held = []
    for _ in range(count):
        raw = Raw(chand.socket)
        raw.send(data)
        held.append(raw)
    return held


def test_idle_connections_beyond_the_limit_shut_nobody_out(make_chand):
    chand = make_chand("--connection-limit", "64", "--idle-timeout", "600").start()
    held = []
    try:
        for _ in range(20):
            held += hold(chand, 100, b"GET /livez HTTP/1.1\r\nX-Half: ")
            is_well(chand)
        assert len(held) == 2000
        assert connections(chand) <= 64 + 1
    finally:
        for raw in held:
            raw.socket.close()


def test_two_thousand_idle_connections_at_once(make_chand):
    chand = make_chand("--connection-limit", "64", "--idle-timeout", "600").start()
    stop = threading.Event()
    faults = []
    asked = []

    def ask():
        try:
            while not stop.is_set():
                is_well(chand)
                asked.append(1)
        except BaseException as fault:  # what the main thread shall report
            faults.append(fault)

    polite = threading.Thread(target=ask)
    polite.start()
    held = []
    try:
        held = hold(chand, 2000)
        before = len(asked)
        wait_for(lambda: faults or len(asked) > before + 5, what="answers to the polite client")
    finally:
        stop.set()
        polite.join()
        for raw in held:
            raw.socket.close()
    assert faults == []


def test_many_large_bodies_at_once_are_bounded(make_chand):
    """200 bodies of 1 MiB each, all but their last bytes: the daemon keeps 64 MiB of them, refuses the rest, and serves
    on."""
    chand = make_chand("--idle-timeout", "600", "--log-level", "error").start()
    head = f"PUT /v1/templates/t HTTP/1.1\r\nHost: x\r\n{JSON}\r\nContent-Length: {MIB}\r\n\r\n".encode()

    held = hold(chand, 200, head + b" " * (MIB - 1))
    try:
        is_well(chand)
        statuses = []
        for raw in held:
            raw.try_send(b" ")
            statuses.append(raw.answer().status)
        assert set(statuses) == {400, 503}  # spaces are not JSON; and the ones that had no room
        assert 32 <= statuses.count(400) <= 64
    finally:
        for raw in held:
            raw.socket.close()
    is_well(chand)
    assert chand.put("/v1/templates/t", b"{}" + b" " * 900000).status == 201


def test_more_requests_than_workers(make_chand):
    chand = make_chand("--workers", "2").start()
    held = hold(chand, 200, request("GET", "/v1/templates"))
    for raw in held:
        assert raw.answer().status == 200
        raw.socket.close()


def test_a_storm_of_connections(chand):
    def storm():
        for i in range(200):
            with Raw(chand.socket) as raw:
                raw.send(request("GET", "/livez"))
                if i % 3:
                    assert raw.answer().status == 200

    threads = [threading.Thread(target=storm) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_for(lambda: connections(chand) <= 1, what="the end of all connections")


def test_a_truncated_answer_is_never_sent(chand):
    """Every answer is complete even if the client reads late."""
    for i in range(50):
        chand.put(f"/v1/templates/t{i}", {"annotations": {str(j): "x" * 4096 for j in range(20)}})
    with Raw(chand.socket) as raw:
        raw.send(request("GET", "/v1/templates") * 3)
        time.sleep(0.5)  # the very lateness that is tested
        try:
            answers = [raw.answer() for _ in range(3)]
        except Closed as fault:
            raise AssertionError(f"the answer broke off: {fault}") from None
    for answer in answers:  # a page of templates ends with the one that brings it to 1 MiB
        assert len(answer.body) > MIB
        assert [one["templateID"] for one in answer.json["templates"]] == sorted(f"t{i}" for i in range(50))[:13]
