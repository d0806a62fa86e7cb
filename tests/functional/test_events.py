"""Events: what is kept, and what is answered about what is not."""

import pytest

from support.chanctl import chanctl
from support.chand import wait_for


@pytest.fixture
def pruned(make_chand):
    """A daemon with the revisions 1 to 130, of which it keeps the newest 100."""
    chand = make_chand("--keep-events", "100", "--collect-interval", "1").start()
    for number in range(130):
        assert chand.put(f"/v1/templates/t{number}", {}).status == 201
    wait_for(lambda: chand.get("/v1/events?since=29").status == 410, what="the pruning of old events")
    return chand


def revisions(page):
    return [event["revision"] for event in page["events"]]


def test_without_since_all_that_is_kept(pruned):
    everything = pruned.get("/v1/events?limit=1000").json
    assert revisions(everything) == list(range(31, 131))
    assert everything["lastRevision"] == everything["revision"] == 130
    assert revisions(pruned.get("/v1/events?limit=7").json) == list(range(31, 38))


def test_a_since_that_is_no_longer_kept_is_refused(pruned):
    assert revisions(pruned.get("/v1/events?since=30&limit=7").json) == list(range(31, 38))
    refused = pruned.get("/v1/events?since=29")
    assert (refused.status, refused.json["reason"]) == (410, "revision_compacted")


def test_chanctl_lists_what_is_kept(pruned):
    assert revisions(chanctl(pruned.socket, "event", "ls", "-o", "json").json) == list(range(31, 131))
    assert "revision_compacted" in chanctl(pruned.socket, "event", "ls", "--since", "0", code=3).err
