"""The contract, openapi/chan.yaml: it lints clean, it is what the daemon serves and embeds, the daemon has exactly its
operations, and every answer that can be provoked is one of its answers (Chand.call checks each)."""

import copy
import email.message
import json
import os
import pathlib
import re
import shutil
import subprocess

import jsonschema
import pytest
import yaml

from support import openapi
from support.chand import TOP, VALIDATE

LINTER = pathlib.Path(__file__).parent / "openapi-lint"
REASONS_NOT_PROVOKED = {
    "internal": "would be a fault of the daemon",
    "store_failed": "needs a broken disk",
    "store_full": "tests/functional/test_chanctl.py and the store's unit tests fill disks",
    "no_space": "tests/functional/test_lifecycle.py fills a tmpfs",
    "uid_not_permitted": "tests/functional/test_settings.py runs as an ordinary user",
    "resource_limit": "tests/functional/test_rest_hostile.py uses up the memory of bodies",
    "not_ready": "tests/functional/test_rest_server.py asks before it is ready",
    "owner_unknown": "tests/functional/test_lifecycle.py hides /proc",
    "sandbox_busy": "lasts for the moment of a create or delete",
    "revision_compacted": "tests/functional/test_events.py has events pruned",
    "link_busy": "lasts for the moment of a create or delete",
}


@pytest.fixture(scope="module")
def linter(tmp_path_factory):
    """The pinned linter, installed into the build tree's cache once."""
    lock = (LINTER / "package-lock.json").read_text()
    assert '"resolved"' not in lock, "the lock file must not name a registry"
    if shutil.which("npm") is None:
        pytest.fail("npm is missing; deploy/install-packages test installs it")
    folder = TOP / ".cache" / "openapi-lint"
    stamp = folder / "installed.json"
    if not stamp.exists() or stamp.read_text() != lock:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in ("package.json", "package-lock.json", ".npmrc", "lint.js"):
            shutil.copy(LINTER / name, folder)
        subprocess.run(["npm", "ci"], cwd=folder, check=True, timeout=600)
        stamp.write_text(lock)
    shutil.copy(LINTER / "lint.js", folder)
    return folder / "lint.js"


def lint(linter, file):
    return subprocess.run(["node", linter, file], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.patient
def test_the_contract_lints_clean(linter):
    answer = lint(linter, openapi.FILE)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_the_linter_finds_faults(linter, tmp_path):
    document = yaml.safe_load(openapi.FILE.read_text())
    del document["paths"]["/livez"]["get"]["responses"]["200"]["description"]
    broken = tmp_path / "broken.yaml"
    broken.write_text(yaml.safe_dump(document))
    answer = lint(linter, broken)
    assert answer.returncode == 1
    assert "description" in answer.stdout + answer.stderr


def test_the_daemon_serves_this_very_document(chand):
    answer = chand.get("/openapi.yaml")
    assert answer.body == openapi.FILE.read_bytes()
    assert answer.headers["Content-Type"] == "application/yaml"


def test_examples_hold_to_their_schemas():
    contract = openapi.contract()
    count = 0

    def walk(node, path):
        nonlocal count
        if isinstance(node, list):
            for i, one in enumerate(node):
                walk(one, f"{path}[{i}]")
        if not isinstance(node, dict):
            return
        if "schema" in node:
            values = [node["example"]] if "example" in node else []
            values += [contract.resolve(one)["value"] for one in node.get("examples", {}).values()]
            for value in values:
                contract.validate(node["schema"], value, f"the example at {path}")
                count += 1
        elif "example" in node and ("type" in node or "properties" in node):
            contract.validate(node, node["example"], f"the example at {path}")
            count += 1
        for name, one in node.items():
            if name not in ("example", "examples"):
                walk(one, f"{path}.{name}")

    walk(contract.document, "")
    assert count > 10


def test_every_schema_is_a_schema():
    for name, schema in openapi.contract().document["components"]["schemas"].items():
        jsonschema.Draft202012Validator.check_schema(schema)
        if schema.get("type") == "object":
            assert "additionalProperties" in schema, f"{name} is open"


def test_the_limits_of_the_contract_are_the_daemons(chand):
    limits = chand.get("/v1/node").json["limits"]
    limit = openapi.contract().document["components"]["parameters"]["Limit"]["schema"]
    assert (limit["default"], limit["maximum"]) == (limits["pageDefault"], limits["pageMax"])


# ---- the same operations on both sides ----

def concrete(path):
    return re.sub(r"\{\w+\}", "x", path)


def routes_in_source():
    text = (TOP / "api" / "rest" / "routes.c").read_text()
    rows = re.findall(r'\{"([A-Z]+)",\s*"(/[^"]*)",\s*OPERATION_', text)
    assert len(rows) >= 17
    return {(method, re.sub(r"\{\w+\}", "{}", path)) for method, path in rows}


def test_the_routes_are_those_of_the_contract():
    documented = {(method, re.sub(r"\{\w+\}", "{}", path)) for method, path, _ in openapi.contract().operations()}
    assert routes_in_source() == documented


def test_the_daemon_has_every_operation_and_no_other_method(chand):
    for path in openapi.contract().document["paths"]:
        documented = {method for method, where, _ in openapi.contract().operations() if where == path}
        for method in ("GET", "PUT", "POST", "DELETE", "PATCH", "TRACE"):
            answer = chand.call(method, concrete(path))
            assert (answer.status == 405) == (method not in documented), (method, path, answer)
        allowed = set(chand.call("OPTIONS", concrete(path)).headers["Allow"].split(", "))
        assert allowed - {"HEAD", "OPTIONS"} == documented


def test_operations_are_called_as_in_metrics_and_audit():
    words = re.findall(r'^OPERATION\(\w+, "([\w.]+)"', (TOP / "daemon/operations/operations.def").read_text(), re.MULTILINE)
    assert {operation["operationId"] for _, _, operation in openapi.contract().operations()} == set(words)


def test_every_reason_is_in_the_contract():
    text = json.dumps(openapi.contract().document)
    for word in openapi.reasons():
        assert re.search(rf"\b{word}\b", text), f"{word} of base/reasons.def is not in the contract"


# ---- every answer ----

# What an operation needs in its body, to get as far as the other faults of a request.
BODIES = {"sandbox.create": {"templateID": "t"}, "link.put": {"ends": [{}, {}]}}


class Walk:
    """Calls, and remembers which operation answered with which status and reason."""

    def __init__(self, chand):
        self.chand = chand
        self.seen = set()
        self.reasons = set()

    def __call__(self, method, target, status, body=None, reason=None, headers=None):
        answer = self.chand.call(method, target, body, headers=headers)
        assert answer.status == status, (method, target, answer)
        path = openapi.contract().match(target)
        if path is not None:
            item = openapi.contract().document["paths"][path]
            if method.lower() in item:
                self.seen.add((item[method.lower()]["operationId"], str(status)))
        if status >= 400 and "problem" in answer.headers["Content-Type"]:
            self.reasons.add(answer.json["reason"])
            assert reason is None or answer.json["reason"] == reason
        return answer


def spoil_file(chand, name):
    path = chand.shm / f"ivshmem-{name}"
    path.unlink()
    path.write_bytes(b"a stranger's")


def walk_templates(walk):
    walk("PUT", "/v1/templates/t", 201, {"enableIvshmem": True})
    walk("PUT", "/v1/templates/t", 200, {"enableIvshmem": True, "ivshmem": {"sizeBytes": 65536}})
    walk("PUT", "/v1/templates/plain", 201, {"annotations": {"a": "b"}})
    walk("GET", "/v1/templates/t", 200)
    walk("GET", "/v1/templates/none", 404, reason="template_not_found")
    walk("DELETE", "/v1/templates/none", 404, reason="template_not_found")
    walk("PUT", "/v1/templates/t", 422, {"x": 1}, reason="unknown_field")
    walk("PUT", "/v1/templates/t", 422, {"ivshmem": {"sizeBytes": 5}}, reason="invalid_field")
    walk("PUT", "/v1/templates/t", 412, {}, reason="revision_stale", headers={"If-Match": '"1000000"'})
    walk("DELETE", "/v1/templates/t", 412, headers={"If-Match": '"1000000"'})
    walk("GET", "/v1/templates", 200)
    walk("GET", "/v1/templates?limit=1", 200)
    walk("GET", "/v1/templates?pageToken=x", 400, reason="invalid_page_token")


def walk_sandboxes(walk):
    chand = walk.chand
    walk("PUT", "/v1/sandboxes/lease", 201, {"templateID": "t", "owner": {"leaseSeconds": 60}})
    walk("PUT", "/v1/sandboxes/lease", 200, {"templateID": "t", "owner": {"leaseSeconds": 60}})
    walk("PUT", "/v1/sandboxes/lease", 409, {"templateID": "plain"}, reason="sandbox_exists")
    walk("PUT", "/v1/sandboxes/lease", 412, {"templateID": "t"}, headers={"If-Match": '"1000000"'})
    walk("PUT", "/v1/sandboxes/process", 201, {"templateID": "t", "owner": {"pid": os.getpid()}})
    walk("PUT", "/v1/sandboxes/plain", 201, {"templateID": "plain"})
    walk("PUT", "/v1/sandboxes/other", 404, {"templateID": "none"}, reason="template_not_found")
    walk("PUT", "/v1/sandboxes/other", 422, {}, reason="invalid_field")
    walk("PUT", "/v1/sandboxes/other", 409, {"templateID": "t", "owner": {"pid": 2**31 - 1}}, reason="owner_gone")
    (chand.shm / "ivshmem-taken").write_bytes(b"a stranger's")
    walk("PUT", "/v1/sandboxes/taken", 409, {"templateID": "t"}, reason="file_exists")
    walk("GET", "/v1/sandboxes/lease", 200)
    walk("GET", "/v1/sandboxes/process", 200)
    walk("GET", "/v1/sandboxes/none", 404, reason="sandbox_not_found")
    walk("GET", "/v1/sandboxes", 200)
    walk("GET", "/v1/sandboxes?limit=1", 200)
    walk("DELETE", "/v1/templates/t", 409, reason="template_in_use")
    for action in ("pause", "resume", "renew"):
        walk("POST", f"/v1/sandboxes/lease/{action}", 200)
        walk("POST", f"/v1/sandboxes/none/{action}", 404, reason="sandbox_not_found")
        walk("POST", f"/v1/sandboxes/lease/{action}", 412, headers={"If-Match": '"1000000"'})
        walk("POST", f"/v1/sandboxes/lease/{action}", 422, {"x": 1}, reason="unknown_field")
        walk("POST", f"/v1/sandboxes/lease/{action}", 400, b"x", reason="invalid_json")
        walk("POST", f"/v1/sandboxes/lease/{action}", 415, b"{}", headers={"Content-Type": "text/plain"})
    walk("POST", "/v1/sandboxes/lease/renew", 200, headers={"Idempotency-Key": "k"})
    walk("POST", "/v1/sandboxes/lease/renew", 422, {"leaseSeconds": 5}, reason="idempotency_mismatch",
         headers={"Idempotency-Key": "k"})
    walk("POST", "/v1/sandboxes/plain/renew", 409, reason="not_leased")
    walk("POST", "/v1/sandboxes/process/pause", 200)
    spoil_file(chand, "process")
    walk("POST", "/v1/sandboxes/process/resume", 409, reason="region_lost")
    walk("POST", "/v1/sandboxes/plain/pause", 200)
    walk("POST", "/v1/sandboxes/plain/resume", 200, {"owner": {"pid": os.getpid()}})
    walk("DELETE", "/v1/sandboxes/lease", 412, headers={"If-Match": '"1000000"'})
    for name in ("lease", "process", "plain", "never-was"):
        walk("DELETE", f"/v1/sandboxes/{name}", 204)
    walk("DELETE", "/v1/templates/t", 204)


def walk_links(walk):
    cable = {"ends": [{"sandboxID": "a"}, {}]}
    walk("PUT", "/v1/templates/plain", 200, {"annotations": {"a": "b"}})
    walk("PUT", "/v1/sandboxes/a", 201, {"templateID": "plain"})
    walk("PUT", "/v1/links/l", 201, cable)
    walk("PUT", "/v1/links/l", 200, cable)
    walk("PUT", "/v1/links/l", 409, {"ends": [{}, {}]}, reason="link_exists")
    walk("PUT", "/v1/links/l", 412, cable, headers={"If-Match": '"1000000"'})
    walk("PUT", "/v1/links/l", 422, {}, reason="invalid_field")
    walk("PUT", "/v1/links/l", 422, {"ends": [{"x": 1}, {}]}, reason="unknown_field")
    walk("PUT", "/v1/links/m", 404, {"ends": [{"sandboxID": "none"}, {}]}, reason="sandbox_not_found")
    (walk.chand.runtime / "links" / "taken").write_text("a stranger's")
    walk("PUT", "/v1/links/taken", 409, {"ends": [{}, {}]}, reason="socket_failed")
    walk("GET", "/v1/links/l", 200)
    walk("GET", "/v1/links/none", 404, reason="link_not_found")
    walk("GET", "/v1/links", 200)
    walk("GET", "/v1/links?limit=1&sandboxID=a", 200)
    walk("DELETE", "/v1/links/l", 412, headers={"If-Match": '"1000000"'})
    walk("DELETE", "/v1/links/l", 204)
    walk("DELETE", "/v1/links/l", 404, reason="link_not_found")


def walk_everything(walk):
    """What can be wrong with a request of any operation."""
    for method, path, operation in openapi.contract().operations():
        target = concrete(path)
        body = None
        if "requestBody" in operation:
            body = BODIES.get(operation["operationId"], {})
        walk(method, f"{target}?unknown=1", 400, body, reason="unknown_parameter")
        walk(method, target, 431, body, reason="headers_too_large", headers={"X-Padding": "x" * 33000})
        walk(method, target, 413, reason="body_too_large",
             headers={"Content-Type": "application/json", "Content-Length": "1048577"})
        if "{" in path:
            walk(method, path.replace("{", "-{"), 400, body, reason="invalid_id")
        if body is not None:
            walk(method, target, 415, b"{}", headers={"Content-Type": "text/plain"})
            walk(method, target, 400, b"[]", reason="invalid_json")
            walk(method, target, 400, body, reason="invalid_request", headers={"If-Match": "x"})
        for parameter in openapi.contract().parameters(path, operation):
            if parameter["in"] == "query" and parameter["schema"].get("type") == "integer":
                walk(method, f"{target}?{parameter['name']}=x", 400, reason="invalid_parameter")


def test_every_answer_that_can_be_provoked(chand, make_chand):
    assert VALIDATE, "CHAN_VALIDATE=0 leaves nothing to this test"
    walk = Walk(chand)
    walk_templates(walk)
    walk_sandboxes(walk)
    walk_links(walk)
    walk_everything(walk)
    for target in ("/v1/events", "/v1/events?since=1&limit=1", "/v1/node", "/livez", "/readyz", "/metrics", "/openapi.yaml"):
        walk("GET", target, 200)
        walk("HEAD", target, 200)
    walk("GET", "/nowhere", 404, reason="route_not_found")
    walk("PATCH", "/livez", 405, reason="method_not_allowed")
    small = Walk(make_chand("--node-regions", "1", "--dataplane-program", "none").start())
    small("PUT", "/v1/links/l", 503, {"ends": [{}, {}]}, reason="dataplane_unavailable")
    small("PUT", "/v1/templates/t", 201, {"enableIvshmem": True})
    small("PUT", "/v1/sandboxes/a", 201, {"templateID": "t"})
    small("PUT", "/v1/sandboxes/b", 429, {"templateID": "t"}, reason="quota_exceeded")

    reasons = walk.reasons | small.reasons
    assert reasons | set(REASONS_NOT_PROVOKED) == set(openapi.reasons())
    assert not reasons & set(REASONS_NOT_PROVOKED), "these can be provoked after all"

    seen = walk.seen | small.seen
    documented = {(operation["operationId"], status) for _, _, operation in openapi.contract().operations()
                  for status in operation["responses"]}
    server_side = {(name, status) for name, status in documented - seen if status in ("500", "503", "507")}
    # An ordinary user's daemon, pruned events, an orphan whose region is lost, a socket that cannot be removed: tests of
    # their own.
    elsewhere = {("sandbox.create", "403"), ("event.list", "410"), ("sandbox.pause", "409"), ("link.delete", "409")}
    assert documented - seen == server_side | elsewhere


# ---- the validating client itself ----

def answer_of(status, document, kind="application/json", **headers):
    message = email.message.Message()
    message["X-Request-ID"] = "r"
    if kind is not None:
        message["Content-Type"] = kind
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    return status, message, document if isinstance(document, bytes) else json.dumps(document).encode()


def sandbox_example():
    return copy.deepcopy(openapi.contract().document["components"]["schemas"]["Sandbox"]["example"])


def check(status, headers, body, method="GET", target="/v1/sandboxes/x"):
    openapi.contract().check(method, target, status, headers, body)


def problem(status, reason, **changes):
    return {"type": f"urn:chan:problem:{reason}", "title": "T", "status": status, "detail": "D", "reason": reason,
            "requestID": "r", "errors": [], **changes}


def test_the_client_takes_what_is_right():
    check(*answer_of(200, sandbox_example(), ETag='"18"'))
    check(*answer_of(404, problem(404, "sandbox_not_found"), "application/problem+json"))
    check(*answer_of(404, problem(404, "route_not_found"), "application/problem+json"), target="/v1/x")
    check(*answer_of(204, b"", None), method="DELETE")


def broken_sandboxes():
    for name in sandbox_example():
        broken = sandbox_example()
        del broken[name]
        yield f"without {name}", broken
    for path, value in ((("state",), "dead"), (("uid",), -1), (("uid",), 1.5), (("createdAt",), "today"), (("owner",), {}),
                        (("ivshmem", "epoch"), 0), (("ivshmem", "vmm", "qemu"), []), (("extra",), 1), (("ivshmem", "extra"), 1)):
        broken = sandbox_example()
        place = broken
        for name in path[:-1]:
            place = place[name]
        place[path[-1]] = value
        yield f"{path} is {value!r}", broken


@pytest.mark.parametrize("what, document", broken_sandboxes(), ids=lambda value: value if isinstance(value, str) else "")
def test_the_client_refuses_a_broken_sandbox(what, document):
    with pytest.raises(openapi.Violation):
        check(*answer_of(200, document, ETag='"18"'))


@pytest.mark.parametrize("arguments", [
    {"status": 200},                                                         # no ETag
    {"status": 200, "ETag": "18"},                                           # not a quoted one
    {"status": 202, "ETag": '"18"'},                                         # a status that is not documented
    {"status": 200, "ETag": '"18"', "Location": "/v1/sandboxes/x"},          # a header that is not
    {"status": 200, "ETag": '"18"', "kind": "text/plain"},
    {"status": 200, "ETag": '"18"', "kind": None},
    {"status": 200, "ETag": '"18"', "document": b"{"},
    {"status": 204, "document": b"", "kind": None},
    {"status": 201, "ETag": '"18"', "Location": "/v1/sandboxes/x"},          # of PUT, not of GET
])
def test_the_client_refuses_a_broken_answer(arguments):
    arguments.setdefault("document", sandbox_example())
    with pytest.raises(openapi.Violation):
        check(*answer_of(**arguments))


@pytest.mark.parametrize("status, document", [
    (404, problem(404, "template_gone")),
    (404, problem(409, "sandbox_not_found")),
    (404, problem(404, "sandbox_not_found", requestID="other")),
    (404, problem(404, "sandbox_not_found", type="about:blank")),
    (404, problem(404, "sandbox_not_found", extra=1)),
    (404, problem(404, "sandbox_not_found", errors=[{"field": "x"}])),
    (404, problem(404, "route_not_found")),        # the path does exist
    (500, problem(500, "sandbox_not_found")),
    (429, problem(429, "quota_exceeded")),         # not of GET
])
def test_the_client_refuses_a_broken_problem(status, document):
    with pytest.raises(openapi.Violation):
        check(*answer_of(status, document, "application/problem+json"))


def test_the_client_refuses_wrong_allow_and_bodies():
    refused = problem(405, "method_not_allowed")
    right = answer_of(405, refused, "application/problem+json", Allow="GET, HEAD, OPTIONS")
    check(*right, method="PUT", target="/livez")
    for allow in ("GET", "GET, HEAD, OPTIONS, PUT", "GET, GET, HEAD, OPTIONS"):
        with pytest.raises(openapi.Violation):
            check(*answer_of(405, refused, "application/problem+json", Allow=allow), method="PUT", target="/livez")
    with pytest.raises(openapi.Violation):
        check(*answer_of(204, b"x", None), method="DELETE")
    with pytest.raises(openapi.Violation):
        check(*answer_of(200, b"x", "application/json", ETag='"1"'), method="HEAD")


def test_the_client_refuses_a_request_that_is_not_in_the_contract():
    arguments = answer_of(201, sandbox_example(), ETag='"18"', Location="/v1/sandboxes/x")
    openapi.contract().check("PUT", "/v1/sandboxes/x", *arguments, b'{"templateID":"t"}')
    with pytest.raises(openapi.Violation):
        openapi.contract().check("PUT", "/v1/sandboxes/x", *arguments, b'{"templateID":"t","colour":"red"}')
