"""The REST contract, openapi/chan.yaml, as a test: does an answer of the daemon hold to it?

Chand.call puts every answer through check(), unless CHAN_VALIDATE=0.
"""

import functools
import json
import pathlib
import re
import urllib.parse

import jsonschema
import yaml

FILE = pathlib.Path(__file__).resolve().parents[2] / "openapi" / "chan.yaml"

METHODS = ("get", "put", "post", "delete", "patch", "options", "head", "trace")

# Headers that the contract has to name where they are sent, and that have to be sent where it names them.
OWN_HEADERS = ("ETag", "Location", "Retry-After", "Allow")


class Violation(AssertionError):
    """An answer that the contract does not allow."""


class Contract:
    def __init__(self, text):
        self.document = yaml.safe_load(text)
        self.validators = {}

    def resolve(self, value):
        while "$ref" in value:
            assert value["$ref"].startswith("#/"), value
            found = self.document
            for part in value["$ref"][2:].split("/"):
                found = found[part.replace("~1", "/").replace("~0", "~")]
            value = found
        return value

    def operations(self):
        """Every (method, path) of the contract, with its operation."""
        for path, item in self.document["paths"].items():
            for method in METHODS:
                if method in item:
                    yield method.upper(), path, item[method]

    def parameters(self, path, operation):
        item = self.document["paths"][path]
        return [self.resolve(one) for one in item.get("parameters", []) + operation.get("parameters", [])]

    def match(self, target):
        """The path of the contract that a request's target belongs to, or None."""
        segments = target.split("?")[0].split("/")
        for path in self.document["paths"]:
            pattern = path.split("/")
            if len(pattern) == len(segments) and all(map(fits, pattern, segments)):
                return path
        return None

    def validate(self, schema, value, what):
        """The schema is a part of the document, whose references are relative to the whole."""
        key = id(schema)
        if key not in self.validators:
            whole = {"components": self.document["components"], "allOf": [schema]}
            self.validators[key] = jsonschema.Draft202012Validator(whole)
        faults = sorted(self.validators[key].iter_errors(value), key=lambda fault: fault.json_path)
        if faults:
            told = "\n".join(f"  {fault.json_path}: {fault.message}" for fault in faults)
            raise Violation(f"{what}:\n{told}")

    def check(self, method, target, status, headers, body, request_body=None):
        """Raises Violation when the answer is not one that the contract allows for this request. headers is an
        email.message.Message, bodies are bytes (or None)."""
        what = f"{method} {target} answered {status} {body[:300]!r}"
        path = self.match(target)
        if path is None:
            return self.check_refusal(404, "route_not_found", status, headers, body, what, method)
        item = self.document["paths"][path]
        allowed = {name.upper() for name in METHODS if name in item}
        if "GET" in allowed:
            allowed.add("HEAD")
        allowed.add("OPTIONS")
        if status == 431:  # is found before the path is looked at
            return self.check_refusal(431, "headers_too_large", status, headers, body, what, method)
        if method not in allowed:
            self.check_refusal(405, "method_not_allowed", status, headers, body, what, method)
            return self.check_allow(headers, allowed, what)
        if method == "OPTIONS" and status == 204:
            return self.check_allow(headers, allowed, what)
        operation = item["get" if method == "HEAD" else method.lower()]
        self.check_answer(operation, status, headers, body, what, method)
        if status < 300 and request_body and "requestBody" in operation:
            content = self.resolve(operation["requestBody"])["content"]["application/json"]
            self.validate(content["schema"], json.loads(request_body), f"{what}, but the contract has no such request")
        return None

    def check_answer(self, operation, status, headers, body, what, method):
        if str(status) not in operation["responses"]:
            raise Violation(f"{what}: the contract of {operation['operationId']} has no such status")
        response = self.resolve(operation["responses"][str(status)])
        self.check_headers(response.get("headers", {}), headers, what)
        content = response.get("content")
        if content is None:
            if body or "Content-Type" in headers:
                raise Violation(f"{what}: there must be no body")
            return
        kind = headers.get("Content-Type")
        if kind not in content:
            raise Violation(f"{what}: Content-Type is {kind!r}, the contract has {sorted(content)}")
        if method == "HEAD":
            if body:
                raise Violation(f"{what}: HEAD has no body")
            return
        if kind == "application/problem+json":
            self.check_problem(status, headers, body, what)
        if "json" in kind:
            self.validate(content[kind]["schema"], parse(body, what), what)
        else:
            self.validate(content[kind]["schema"], body.decode(), what)

    def check_headers(self, documented, headers, what):
        for name, header in documented.items():
            header = self.resolve(header)
            if name in headers:
                self.validate(header["schema"], headers[name], f"{what}: header {name}")
            elif header.get("required"):
                raise Violation(f"{what}: header {name} is missing")
        for name in OWN_HEADERS:
            if name in headers and name not in documented:
                raise Violation(f"{what}: the contract has no header {name} here")

    def check_problem(self, status, headers, body, what):
        problem = parse(body, what)
        self.validate(self.document["components"]["schemas"]["Problem"], problem, what)
        expected = {"status": status, "requestID": headers.get("X-Request-ID"),
                    "type": f"urn:chan:problem:{problem['reason']}"}
        for name, value in expected.items():
            if problem[name] != value:
                raise Violation(f"{what}: {name} must be {value!r}")
        if problem["reason"] not in reasons() or reasons()[problem["reason"]] != status:
            raise Violation(f"{what}: base/reasons.def has no such reason with this status")

    def check_refusal(self, expected, reason, status, headers, body, what, method):
        """What is not of one operation: no such path, no such method, headers too large."""
        if status != expected or headers.get("Content-Type") != "application/problem+json":
            raise Violation(f"{what}: a problem document with status {expected} was expected")
        if method != "HEAD":
            self.check_problem(status, headers, body, what)
            if parse(body, what)["reason"] != reason:
                raise Violation(f"{what}: the reason must be {reason}")

    def check_allow(self, headers, allowed, what):
        told = headers.get("Allow", "").split(", ")
        if len(told) != len(set(told)) or set(told) != allowed:
            raise Violation(f"{what}: Allow is {told}, it must be {sorted(allowed)}")


def fits(pattern, segment):
    if pattern.startswith("{"):
        return segment != ""
    return urllib.parse.unquote(segment) == pattern


def parse(body, what):
    try:
        return json.loads(body)
    except ValueError as fault:
        raise Violation(f"{what}: the body is not JSON: {fault}") from None


@functools.lru_cache(maxsize=None)
def contract():
    return Contract(FILE.read_text())


@functools.lru_cache(maxsize=None)
def reasons():
    """Word and status of every row of the one table of reasons."""
    text = (FILE.parents[1] / "base" / "reasons.def").read_text()
    rows = re.findall(r'^REASON\(\w+, "(\w+)", (\d+),', text, re.MULTILINE)
    assert len(rows) > 20, "base/reasons.def does not look as expected"
    return {word: int(status) for word, status in rows}


def check(method, target, answer, request_body=None):
    """As Contract.check, for an Answer of support.chand. A Violation tells what the contract wants instead."""
    if isinstance(request_body, str):
        request_body = request_body.encode()
    contract().check(method, target, answer.status, answer.headers, answer.body, request_body)
