"""Requests for links, and the socket of a VMM that never becomes one."""

import os
import socket

from support.chand import wait_for


def ends(*sandboxes):
    """The request of a link between sandboxes; None is an end of no sandbox."""
    return {"ends": [{"sandboxID": name} if name else {} for name in sandboxes]}


def client_end(path, **more):
    return {"role": "client", "socketPath": str(path), **more}


def create(chand, name="net", *sandboxes):
    answer = chand.put(f"/v1/links/{name}", ends(*(sandboxes or (None, None))))
    assert answer.status == 201, answer
    return answer.json


def sandboxes(chand, *names):
    assert chand.put("/v1/templates/plain", {}).status in (200, 201)
    for name in names:
        assert chand.put(f"/v1/sandboxes/{name}", {"templateID": "plain"}).status == 201


def end_of(chand, name, number):
    return chand.get(f"/v1/links/{name}").json["ends"][number]


def wait_end(chand, name, number, condition, what):
    """Waits until condition is true of that end, and answers the end."""
    def look():
        end = end_of(chand, name, number)
        return end if condition(end) else None
    return wait_for(look, 20, f"end {number} of {name}: {what}")


def connect(end):
    """Connects to an end's socket as a VMM does, and says nothing."""
    vmm = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    vmm.settimeout(20)
    vmm.connect(end["socketPath"])
    return vmm


def is_ours(end):
    return end["state"] == "connected" and end["peerPID"] == os.getpid()
