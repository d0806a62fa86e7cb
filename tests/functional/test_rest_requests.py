"""REST: what requests are taken and what is said about those that are not. Every answer is checked against the contract
by Chand.call as well."""

import json
import re

import pytest

from support.raw import JSON, Raw, request

LONG_ID = "x" * 128


def reason(answer):
    assert answer.headers["Content-Type"] == "application/problem+json", answer
    return answer.json["reason"]


# ---- paths and methods ----

@pytest.mark.parametrize("path", [
    "/", "/v1", "/v1/", "/v2/templates", "/v1/templates/", "/v1/sandboxes/a/", "/v1/sandboxes/a/b",
    "/v1/sandboxes/a/pause/now", "/v1//node", "//livez", "/livez/", "/LIVEZ", "/livez%00", "/v1/sandboxes//pause",
    "/v1/sandboxes/../templates", "/a/b/c/d/e/f/g/h/i/j/k", "/%", "/v1%2Fnode",
])
def test_there_is_nothing_elsewhere(chand, path):
    answer = chand.get(path)
    assert answer.status == 404, answer
    assert reason(answer) == "route_not_found"


@pytest.mark.parametrize("method, path, allow", [
    ("POST", "/v1/templates", "GET, HEAD, OPTIONS"),
    ("DELETE", "/v1/sandboxes", "GET, HEAD, OPTIONS"),
    ("PATCH", "/v1/templates/a", "GET, HEAD, PUT, DELETE, OPTIONS"),
    ("GET", "/v1/sandboxes/a/pause", "POST, OPTIONS"),
    ("HEAD", "/v1/sandboxes/a/pause", "POST, OPTIONS"),
    ("PUT", "/v1/sandboxes/a/renew", "POST, OPTIONS"),
    ("TRACE", "/livez", "GET, HEAD, OPTIONS"),
    ("BREW", "/v1/node", "GET, HEAD, OPTIONS"),
    ("get", "/v1/node", "GET, HEAD, OPTIONS"),
])
def test_a_method_that_a_path_does_not_have(chand, method, path, allow):
    answer = chand.call(method, path)
    assert answer.status == 405
    assert answer.headers["Allow"] == allow
    if method != "HEAD":
        assert reason(answer) == "method_not_allowed"


def test_options(chand):
    answer = chand.call("OPTIONS", "/v1/templates/a")
    assert answer.status == 204
    assert answer.headers["Allow"] == "GET, HEAD, PUT, DELETE, OPTIONS"
    assert chand.call("OPTIONS", "/nowhere").status == 404


def test_head_is_get_without_a_body(chand):
    chand.opt_in_template("t")
    for path in ("/livez", "/v1/templates/t", "/v1/templates", "/v1/node", "/openapi.yaml", "/v1/templates/none"):
        whole = chand.get(path)
        with Raw(chand.socket) as raw:
            # Two on one connection: were there a body after all, the second answer would be garbled.
            raw.send(request("HEAD", path) + request("HEAD", path))
            for _ in range(2):
                head = raw.answer(to_head=True)
                assert head.status == whole.status
                assert head.headers["content-type"] == whole.headers["Content-Type"]
                assert head.headers.get("etag") == whole.headers["ETag"]
                if path != "/v1/node":  # whose numbers change from one to the next
                    assert head.headers["content-length"] == str(len(whole.body))


@pytest.mark.parametrize("encoded", [
    "..", ".", "%2e%2e", "..%2f..%2fetc%2fpasswd", "%00", "a%00b", "-a", ".a", "a..b", "a%2Fb", "a%20b", "a+b", "%C3%A4",
    "%ff", "%25", "%252e", "a%0Ab", "%", "a%4", "%zz", "x" * 129, "x" * 20000, "a;b", "a,b",
])
def test_an_id_that_is_not_allowed(chand, encoded):
    for method, path, body in (("GET", f"/v1/templates/{encoded}", None), ("DELETE", f"/v1/sandboxes/{encoded}", None),
                               ("PUT", f"/v1/templates/{encoded}", {}),
                               ("PUT", f"/v1/sandboxes/{encoded}", {"templateID": "t"}),
                               ("POST", f"/v1/sandboxes/{encoded}/pause", {})):
        answer = chand.call(method, path, body)
        assert answer.status == 400, (method, path[:100], answer)
        assert reason(answer) == "invalid_id"
    assert chand.region_files() == []


@pytest.mark.parametrize("name", ["a", "_", "0", "A.b-c_d", "a.", "pause", LONG_ID])
def test_ids_are_decoded_once(chand, name):
    encoded = "".join(f"%{ord(c):02x}" for c in name)
    answer = chand.put(f"/v1/templates/{encoded}", {})
    assert answer.status == 201
    assert answer.json["templateID"] == name
    assert chand.get(f"/v1/templates/{name}").json == answer.json


# ---- queries ----

@pytest.mark.parametrize("target, expected, named", [
    ("/v1/templates?limt=1", "unknown_parameter", "limt"),
    ("/v1/templates?since=1", "unknown_parameter", "since"),
    ("/v1/node?verbose", "unknown_parameter", "verbose"),
    ("/livez?x=1", "unknown_parameter", "x"),
    ("/v1/templates/a?pretty=1", "unknown_parameter", "pretty"),
    ("/v1/templates?%6cimit=1&limit=2", "invalid_parameter", "limit"),
    ("/v1/events?since=1&since=1", "invalid_parameter", "since"),
    ("/v1/templates?limit=0", "invalid_parameter", "limit"),
    ("/v1/templates?limit=1001", "invalid_parameter", "1000"),
    ("/v1/templates?limit=-1", "invalid_parameter", "-1"),
    ("/v1/templates?limit=1.0", "invalid_parameter", "1.0"),
    ("/v1/templates?limit=", "invalid_parameter", "limit"),
    ("/v1/templates?limit", "invalid_parameter", "limit"),
    ("/v1/templates?limit=99999999999999999999", "invalid_parameter", "limit"),
    ("/v1/templates?limit=%00", "invalid_parameter", "percent"),
    ("/v1/templates?pageToken=", "invalid_page_token", "page token"),
    ("/v1/templates?pageToken=nonsense", "invalid_page_token", "page token"),
    ("/v1/sandboxes?pageToken=%ff", "invalid_page_token", "page token"),
    ("/v1/events?since=-1", "invalid_parameter", "since"),
    ("/v1/events?since=1000000", "invalid_parameter", "since"),
])
def test_a_bad_query_is_named(chand, target, expected, named):
    answer = chand.get(target)
    assert answer.status == 400, answer
    assert reason(answer) == expected
    assert named in answer.json["detail"]


def test_unknown_parameters_of_changes_change_nothing(chand):
    assert chand.put("/v1/templates/t?dryRun=1", {}).status == 400
    assert chand.get("/v1/templates/t").status == 404


# ---- bodies ----

@pytest.mark.parametrize("kind", [
    None, "", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1",
    "application/problem+json", "text/json", "application/jsonx",
])
def test_a_wrong_content_type(chand, kind):
    for method, path in (("PUT", "/v1/templates/t"), ("PUT", "/v1/sandboxes/s"), ("POST", "/v1/sandboxes/s/pause")):
        with Raw(chand.socket) as raw:
            headers = [] if kind is None else [f"Content-Type: {kind}"]
            raw.send(request(method, path, *headers, body=b"{}") + request("GET", "/livez"))
            answer = raw.answer()
            assert answer.status == 415, (method, path, answer)
            assert answer.json["reason"] == "unsupported_media_type"
            assert raw.answer().status == 200, "the connection must live on"


@pytest.mark.parametrize("kind", ["application/json", "Application/Json", "application/json;charset=UTF-8",
                                  'application/json ; charset="utf-8"'])
def test_a_good_content_type(chand, kind):
    assert chand.put("/v1/templates/t", b"{}", headers={"Content-Type": kind}).status == 201


@pytest.mark.parametrize("body", [
    b"", b" ", b"{", b"}", b"nonsense", b"{}{}", b"{} x", b"[]", b"null", b"1", b'"x"', b'{"a":}', b"{'a':1}", b'{"a":1,}',
    b'{"enableIvshmem":true,"enableIvshmem":true}', b'{"annotations":{"a":"1","a":"1"}}', b'{"annotations":{"a":"\\u0000"}}',
    b'{"annotations":{"a":"\x00"}}', b'{"annotations":{"a":"\xff"}}', b'{"annotations":{"a":"\\ud800"}}',
    b"\xef\xbb\xbf{}", '{"annotations":{}}'.encode("utf-16"), b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}",
    b'{"ivshmem":{"sizeBytes":99999999999999999999}}', b'{"ivshmem":{"sizeBytes":1e999}}',
    b'{"ivshmem":{"sizeBytes":NaN}}', b'{"ivshmem":{"sizeBytes":0x10000}}', b'{"ivshmem":{"sizeBytes":010000}}',
])
def test_what_is_not_a_json_object(chand, body):
    answer = chand.put("/v1/templates/t", body)
    assert answer.status == 400, answer
    assert reason(answer) == "invalid_json"
    assert chand.get("/v1/templates/t").status == 404


@pytest.mark.parametrize("body, fields", [
    ({"enableIvshmem": "true"}, {"enableIvshmem"}),
    ({"enableIvshmem": 1}, {"enableIvshmem"}),
    ({"enable_ivshmem": True}, {"enable_ivshmem"}),
    ({"ivshmem": []}, {"ivshmem"}),
    ({"ivshmem": {"sizeBytes": 65536.0}}, {"ivshmem.sizeBytes"}),
    ({"ivshmem": {"sizeBytes": -65536}}, {"ivshmem.sizeBytes"}),
    ({"ivshmem": {"size": 65536, "colour": "red"}}, {"ivshmem.size", "ivshmem.colour"}),
    ({"ivshmem": {"sizeBytes": 65537, "layout": "chen", "onRollback": "keep it", "vectors": 1}},
     {"ivshmem.sizeBytes", "ivshmem.layout", "ivshmem.onRollback", "ivshmem.vectors"}),
    ({"annotations": {"a": 1, "b": None, "c": {}}}, {"annotations.a", "annotations.b", "annotations.c"}),
    ({"annotations": [], "x": 1, "enableIvshmem": {}}, {"annotations", "x", "enableIvshmem"}),
])
def test_every_bad_field_of_a_template_is_named(chand, body, fields):
    answer = chand.put("/v1/templates/t", body)
    assert answer.status == 422, answer
    assert reason(answer) in ("invalid_field", "unknown_field")
    assert {one["field"] for one in answer.json["errors"]} == fields
    assert chand.get("/v1/templates/t").status == 404


@pytest.mark.parametrize("body, fields", [
    ({}, {"templateID"}),
    ({"templateID": None}, {"templateID"}),
    ({"templateID": 5, "uid": -1, "gid": "0", "name": "x"}, {"templateID", "uid", "gid", "name"}),
    ({"templateID": "t", "owner": {}}, {"owner"}),
    ({"templateID": "t", "owner": {"pid": 1, "leaseSeconds": 1}}, {"owner"}),
    ({"templateID": "t", "owner": {"pid": 1.0}}, {"owner.pid"}),
    ({"templateID": "t", "owner": {"pid": 0}}, {"owner.pid"}),
    ({"templateID": "t", "owner": {"leaseSeconds": 0}}, {"owner.leaseSeconds"}),
    ({"templateID": "t", "owner": {"leaseSeconds": 10**15}}, {"owner.leaseSeconds"}),
    ({"templateID": "t", "uid": 2**32 - 1, "gid": 2**32}, {"uid", "gid"}),
    ({"templateID": "t", "snapshotID": "s"}, {"snapshotID"}),
])
def test_every_bad_field_of_a_sandbox_is_named(chand, body, fields):
    chand.opt_in_template("t")
    answer = chand.put("/v1/sandboxes/s", body)
    assert answer.status == 422, answer
    assert {one["field"] for one in answer.json["errors"]} == fields
    assert chand.region_files() == []


def test_more_bad_fields_than_are_named(chand):
    answer = chand.put("/v1/templates/t", {f"field{i}": i for i in range(100)})
    assert answer.status == 422
    assert len(answer.json["errors"]) == 8


def test_a_field_name_that_tries_to_break_out(chand):
    name = 'x"},{"\\\n\u20ac' + "y" * 500
    answer = chand.put("/v1/templates/t", {name: 1})
    assert answer.status == 422
    assert answer.json["errors"][0]["field"].startswith('x"},{"\\\n\u20ac')


def test_null_is_the_same_as_absent(chand):
    body = {"enableIvshmem": None, "annotations": None,
            "ivshmem": {"sizeBytes": None, "layout": None, "onRollback": None, "vectors": None}}
    plain = chand.put("/v1/templates/t", {}).json
    assert chand.put("/v1/templates/t", body).json == plain
    assert chand.put("/v1/templates/t", {"ivshmem": None}).json == plain
    sandbox = chand.put("/v1/sandboxes/s", {"templateID": "t"}).json
    assert chand.put("/v1/sandboxes/s", {"templateID": "t", "owner": None, "uid": None, "gid": None}).json == sandbox


def test_actions_take_no_body_and_an_empty_one(chand):
    chand.opt_in_template("t")
    assert chand.put("/v1/sandboxes/s", {"templateID": "t", "owner": {"leaseSeconds": 60}}).status == 201
    for action in ("pause", "resume", "renew"):
        for body, headers in ((None, {}), (b"", {}), (b"", {"Content-Type": "text/plain"}), ({}, {})):
            answer = chand.call("POST", f"/v1/sandboxes/s/{action}", body, headers=headers)
            assert answer.status == 200, (action, body, answer)
        answer = chand.post(f"/v1/sandboxes/s/{action}", {"colour": "red"})
        assert answer.status == 422 and answer.json["errors"][0]["field"] == "colour"
        assert chand.post(f"/v1/sandboxes/s/{action}", []).status == 400


def test_a_body_with_get_or_delete_is_ignored(chand):
    chand.put("/v1/templates/t", {})
    assert chand.call("GET", "/v1/templates/t", b"nonsense", headers={"Content-Type": "text/plain"}).status == 200
    assert chand.call("DELETE", "/v1/templates/t", {"x": 1}).status == 204


# ---- headers ----

@pytest.mark.parametrize("sent", ["a", "req-42", "A.b_c-9", "x" * 128])
def test_a_request_id_is_echoed(chand, sent):
    for path in ("/livez", "/nowhere", "/v1/templates/none"):
        answer = chand.get(path, headers={"X-Request-ID": sent})
        assert answer.headers["X-Request-ID"] == sent
        if answer.status != 200:
            assert answer.json["requestID"] == sent


@pytest.mark.parametrize("sent", [None, "", "a b", "a,b", "x" * 129, "\xe4", "a\tb", '"'])
def test_otherwise_one_is_made(chand, sent):
    made = set()
    for _ in range(3):
        headers = {} if sent is None else {"X-Request-ID": sent}
        answer = chand.get("/nowhere", headers=headers)
        assert re.fullmatch("[0-9a-f]{32}", answer.headers["X-Request-ID"])
        assert answer.json["requestID"] == answer.headers["X-Request-ID"]
        made.add(answer.headers["X-Request-ID"])
    assert len(made) == 3


def test_etag_and_location(chand):
    made = chand.put("/v1/templates/a%2eb", {})
    assert made.status == 201
    assert made.headers["Location"] == "/v1/templates/a%2eb"
    assert made.headers["ETag"] == f'"{made.json["revision"]}"'
    again = chand.put("/v1/templates/a.b", {})
    assert again.status == 200 and again.headers["ETag"] == made.headers["ETag"]
    assert again.headers["Location"] is None
    assert chand.get(made.headers["Location"]).headers["ETag"] == made.headers["ETag"]


def test_if_match(chand):
    first = chand.put("/v1/templates/t", {}).headers["ETag"]
    assert chand.put("/v1/templates/t", {"annotations": {"a": "1"}}, headers={"If-Match": first}).status == 200
    stale = chand.put("/v1/templates/t", {"annotations": {"a": "2"}}, headers={"If-Match": first})
    assert stale.status == 412 and reason(stale) == "revision_stale"
    assert chand.get("/v1/templates/t").json["annotations"] == {"a": "1"}
    assert chand.put("/v1/templates/t", {}, headers={"If-Match": "*"}).status == 200
    assert chand.put("/v1/templates/new", {}, headers={"If-Match": "*"}).status == 412
    assert chand.get("/v1/templates/new").status == 404
    made = chand.put("/v1/sandboxes/s", {"templateID": "t"}).headers["ETag"]
    assert chand.post("/v1/sandboxes/s/pause", headers={"If-Match": first}).status == 412
    paused = chand.post("/v1/sandboxes/s/pause", headers={"If-Match": made}).headers["ETag"]
    assert chand.delete("/v1/sandboxes/s", headers={"If-Match": made}).status == 412
    assert chand.delete("/v1/sandboxes/s", headers={"If-Match": paused}).status == 204


@pytest.mark.parametrize("value", ["", "1", '"a"', 'W/"1"', '"1", "2"', '"0"', '"-1"', '"', '"99999999999999999999"'])
def test_a_malformed_if_match(chand, value):
    chand.put("/v1/templates/t", {})
    for method, body in (("PUT", {}), ("DELETE", None)):
        answer = chand.call(method, "/v1/templates/t", body, headers={"If-Match": value})
        assert answer.status == 400, answer
        assert reason(answer) == "invalid_request"
    assert chand.get("/v1/templates/t", headers={"If-Match": value}).status == 200


def test_an_idempotency_key_is_for_actions(chand):
    chand.opt_in_template("t")
    chand.put("/v1/sandboxes/s", {"templateID": "t", "owner": {"leaseSeconds": 60}})
    key = {"Idempotency-Key": "key 1"}
    first = chand.post("/v1/sandboxes/s/renew", {"leaseSeconds": 50}, headers=key)
    again = chand.post("/v1/sandboxes/s/renew", {"leaseSeconds": 50}, headers=key)
    assert first.status == again.status == 200
    assert first.headers["ETag"] == again.headers["ETag"]
    other = chand.post("/v1/sandboxes/s/renew", {"leaseSeconds": 51}, headers=key)
    assert other.status == 422 and reason(other) == "idempotency_mismatch"
    for bad in ("x" * 129, "\xe4", ""):
        answer = chand.post("/v1/sandboxes/s/renew", headers={"Idempotency-Key": bad})
        assert answer.status == 400 and reason(answer) == "invalid_request"


# ---- answers ----

def test_lists_in_pages(chand):
    chand.put("/v1/templates/t", {})
    names = [f"s{i:02}" for i in range(25)]
    for name in reversed(names):
        assert chand.put(f"/v1/sandboxes/{name}", {"templateID": "t"}).status == 201
    seen, token, pages = [], None, 0
    while True:
        page = chand.get("/v1/sandboxes?limit=10" + (f"&pageToken={token}" if token else "")).json
        seen += [one["sandboxID"] for one in page["sandboxes"]]
        pages += 1
        token = page["nextPageToken"]
        if token is None:
            break
    assert seen == names and pages == 3
    whole = chand.get("/v1/sandboxes?limit=25").json
    assert [one["sandboxID"] for one in whole["sandboxes"]] == names and whole["nextPageToken"] is None
    assert whole["sandboxes"][7] == chand.get("/v1/sandboxes/s07").json
    # A token of one list is none of the other.
    token = chand.get("/v1/sandboxes?limit=1").json["nextPageToken"]
    assert chand.get(f"/v1/templates?pageToken={token}").status == 400


def test_events_in_pages(chand):
    for i in range(5):
        chand.put(f"/v1/templates/t{i}", {})
    seen, since = [], 0
    while True:
        page = chand.get(f"/v1/events?since={since}&limit=2").json
        seen += page["events"]
        since = page["lastRevision"]
        if since == page["revision"]:
            break
    assert [one["objectID"] for one in seen] == [f"t{i}" for i in range(5)]
    assert {one["kind"] for one in seen} == {"template.created"}
    assert chand.get(f"/v1/events?since={since}").json["events"] == []


def test_annotations_come_back_as_they_went(chand):
    texts = {"plain": "x", "quotes": '"\\/', "control": "\x01\t\n\x7f", "unicode": "\u00e4\u20ac\U0001f600",
             "key \u20ac \"": "", "html": "</script>"}
    made = chand.put("/v1/templates/t", {"annotations": texts})
    assert made.status == 201
    assert made.json["annotations"] == texts
    assert chand.get("/v1/templates/t").json["annotations"] == texts


def test_every_request_is_counted(chand):
    def counted():
        text = chand.get("/metrics").body.decode()
        rows = re.findall(r'^chan_api_requests_total\{operation="([\w.]+)",code="(\d+)"\} (\d+)$', text, re.MULTILINE)
        return {(operation, int(code)): int(count) for operation, code, count in rows}

    before = counted()
    chand.put("/v1/templates/t", {})
    chand.put("/v1/templates/t", {})
    chand.put("/v1/templates/t", {"x": 1})
    chand.get("/nowhere")
    chand.get("/nowhere")
    chand.call("PATCH", "/livez")
    chand.call("HEAD", "/livez")
    chand.put("/v1/templates/t", b"{", headers={"Content-Type": "text/plain"})
    after = counted()
    grown = {key: after[key] - before.get(key, 0) for key in after if after[key] != before.get(key, 0)}
    assert grown == {("template.put", 201): 1, ("template.put", 200): 1, ("template.put", 422): 1,
                     ("template.put", 415): 1, ("none", 404): 2, ("none", 405): 1, ("livez", 200): 1,
                     ("metrics", 200): 1}


def test_metrics_have_the_type_that_prometheus_wants(chand):
    assert chand.get("/metrics").headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"


def test_requests_are_logged_at_debug(make_chand):
    quiet = make_chand("--log-level", "info").start()
    quiet.get("/nowhere", headers={"X-Request-ID": "find-me"})
    assert "find-me" not in quiet.log()
    loud = make_chand("--log-level", "debug").start()
    loud.get("/v1/templates/none", headers={"X-Request-ID": "find-me"})
    line = next(line for line in loud.log().splitlines() if "find-me" in line)
    for part in ("level=debug", "method=GET", "path=/v1/templates/none", "status=404"):
        assert part in line


def test_a_log_line_cannot_be_forged(make_chand):
    loud = make_chand("--log-level", "debug").start()
    with Raw(loud.socket) as raw:
        raw.send(request("GET", "/%0atime=now", 'X-Request-ID: a" level=error b'))
        assert raw.answer().status == 404
    assert not any(line.startswith("time=now") for line in loud.log().splitlines())
    assert "level=error" not in loud.log()


def test_a_client_that_sends_json_of_all_sizes(chand):
    # Around the steps in which the daemon's buffer grows.
    for size in (1, 4095, 4096, 4097, 8192, 65536, 1024 * 1024):
        body = json.dumps({"annotations": {}}).encode()
        body += b" " * max(0, size - len(body))
        with Raw(chand.socket) as raw:
            raw.send(request("PUT", "/v1/templates/t", JSON, body=body))
            assert raw.answer().status in (200, 201), size
