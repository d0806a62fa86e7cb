"""An independent look at what a daemon keeps: its database, read only, and its directory of regions.

Nothing of the daemon's own code is used here. The enum values are those of store/rows.h.
"""

import os
import sqlite3
import stat

SANDBOX_STATES = ("creating", "running", "paused", "orphaned", "deleting")
REGION_STATES = ("creating", "ready", "lost", "deleting")
LINK_STATES = ("creating", "ready", "deleting")


def database(chand):
    return chand.state / "chan.db"


def query(chand, sql, *values):
    """Rows as dictionaries."""
    connection = sqlite3.connect(f"file:{database(chand)}?mode=ro", uri=True, timeout=10)
    try:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(sql, values)]
    finally:
        connection.close()


def change(chand, sql, *values):
    """Changes the database of a daemon that is down, for what cannot be provoked otherwise."""
    assert chand.process is None or chand.process.poll() is not None, "the daemon must be down"
    connection = sqlite3.connect(database(chand))
    try:
        with connection:
            changed = connection.execute(sql, values).rowcount
        assert changed > 0, f"{sql} changed nothing"
    finally:
        connection.close()


def sandboxes(chand):
    """State by id."""
    return {row["id"]: SANDBOX_STATES[row["state"]] for row in query(chand, "SELECT id, state FROM sandbox")}


def links(chand):
    """State by id."""
    return {row["id"]: LINK_STATES[row["state"]] for row in query(chand, "SELECT id, state FROM link")}


def check_links(chand):
    """Fails unless the store, the directories of links and (over REST) the dataplane say the same. At rest."""
    rows = links(chand)
    assert set(rows.values()) <= {"ready"}, f"links that are half done: {rows}"
    folder = chand.runtime / "links"
    there = set(os.listdir(folder)) if folder.exists() else set()
    assert there == set(rows), f"directories without a row: {there - set(rows)}; without one: {set(rows) - there}"
    for row in query(chand, "SELECT id, place FROM link JOIN link_end ON link = number WHERE role = 0"):
        path = folder / row["id"] / str(row["place"]) / "vhost-user.sock"
        assert stat.S_ISSOCK(os.stat(path, follow_symlinks=False).st_mode), f"{path} is no socket"


def check(chand, strangers=()):
    """Fails unless store and directory say the same: no file without a row, no row without its file, nothing half
    done. `strangers` are file names that are known not to be regions. For a daemon at rest."""
    regions = query(chand, "SELECT region.*, id AS sandbox_id FROM region LEFT JOIN sandbox ON number = sandbox")
    states = sandboxes(chand)
    half = {name: state for name, state in states.items() if state in ("creating", "deleting")}
    assert not half, f"sandboxes that are half done: {half}"
    files = set(os.listdir(chand.shm)) - set(strangers)
    names = {row["name"] for row in regions}
    assert files == names, f"files without a row: {files - names}; rows without a file: {names - files}"
    for row in regions:
        assert row["sandbox_id"] in states, f"the region {row['name']} belongs to no sandbox"
        assert REGION_STATES[row["state"]] == "ready", f"{row['name']} is {REGION_STATES[row['state']]}"
        status = os.stat(chand.shm / row["name"], follow_symlinks=False)
        seen = (stat.S_ISREG(status.st_mode), stat.S_IMODE(status.st_mode), status.st_size, status.st_nlink,
                status.st_ino, status.st_uid, status.st_gid)
        expected = (True, 0o600, row["size_bytes"], 1, row["inode"], row["uid"], row["gid"])
        assert seen == expected, f"{row['name']} is {seen}, expected {expected}"
    usage = {row["uid"]: (row["regions"], row["bytes"])
             for row in query(chand, "SELECT * FROM usage WHERE regions != 0 OR bytes != 0")}
    counted = {}
    for row in regions:
        for uid in (row["uid"], -1):  # -1 is the whole node
            count, size = counted.get(uid, (0, 0))
            counted[uid] = (count + 1, size + row["size_bytes"])
    assert usage == counted, f"the usage says {usage}, the regions say {counted}"
