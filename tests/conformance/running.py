"""Runs one case: in a process of its own, with a time limit, and a look at the back-end afterwards."""

import json
import os
import select
import signal
import time
import traceback

from cases.lib import Ctx, Fail, Skip, fd_count
from vufe import Pace, VhostError


def where(error, only=None):
    frames = [f for f in traceback.extract_tb(error.__traceback__) if only is None or only in f.filename]
    return "; ".join("%s:%d" % (os.path.basename(f.filename), f.lineno) for f in frames[-4:])


def child_main(fn, w):
    """Run fn in this (forked) process and write its result to w."""
    try:
        res = ("PASS", fn() or "")
    except Skip as e:
        res = ("SKIP", str(e))
    except Fail as e:
        res = ("FAIL", str(e))
    except VhostError as e:
        res = ("FAIL", "%s: %s [%s]" % (type(e).__name__, e, where(e, "cases")))
    except BaseException as e:
        res = ("FAIL", "HARNESS %s: %s [%s]" % (type(e).__name__, e, where(e)))
    os.write(w, json.dumps(res).encode())


def in_process(fn, limit, backend):
    """Fork, run fn(pipes), wait at most `limit` seconds.  The child asks for a restart of the back-end by a byte
    on pipes[0], and reads the new pid from pipes[1]."""
    r, w = os.pipe()
    qr, qw = os.pipe()
    ar, aw = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(r)
        code = 0
        try:
            os.setpgid(0, 0)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            child_main(lambda: fn((qw, ar)), w)
        except BaseException:
            code = 1
        os._exit(code)
    try:
        os.setpgid(pid, pid)
    except OSError:
        pass
    for fd in (w, qw, ar):
        os.close(fd)
    data = b""
    end = time.monotonic() + limit
    res = None
    while res is None:
        left = end - time.monotonic()
        if left <= 0:
            res = ["FAIL", "time limit of %g s" % limit]
            break
        ready, _, _ = select.select([r, qr], [], [], left)
        if qr in ready and os.read(qr, 1):
            backend.restart()
            os.write(aw, b"%d\n" % backend.pid)
            end += 12
        if r in ready:
            d = os.read(r, 65536)
            data += d
            if not d:
                try:
                    res = json.loads(data)
                except ValueError:
                    res = ["FAIL", "the case process died"]
    # The process group of the case holds only what the case itself has forked.
    try:
        os.killpg(pid, signal.SIGKILL)
    except OSError:
        pass
    os.waitpid(pid, 0)
    for fd in (r, qr, aw):
        os.close(fd)
    return res


def descriptors_back(backend, before):
    """A complaint, when the back-end keeps more descriptors open than before."""
    now = before
    for _ in range(10):
        now = fd_count(backend.pid)
        if now <= before + 2:
            return None
        time.sleep(0.2)
    return "open fds went from %d to %d" % (before, now)


def run_case(case, backend, a, b, slow=1.0):
    """(verdict, detail, seconds).  A back-end that was started here is started again when it died."""
    Pace.factor = slow

    def body(pipes):
        def restart():
            os.write(pipes[0], b"x")
            context.pid = int(os.read(pipes[1], 32))
        context = Ctx(a, b, backend.pid, case.__name__, restart if backend.command else None)
        return case(context)

    def afterwards(pipes):
        Ctx(a, b, backend.pid, case.__name__ + "-post").recovers(None, "fresh pair: ")

    if backend.dead():
        if not backend.command:
            return "FAIL", "the back-end is gone", 0.0
        backend.restart()
    before = None
    if case.fds and backend.pid:
        time.sleep(0.1)
        before = fd_count(backend.pid)
    begun, starts = time.monotonic(), backend.starts
    verdict, detail = in_process(body, case.limit * slow, backend)
    seconds = time.monotonic() - begun
    extra = []
    if not backend.dead():
        for _ in range(2):
            v, d = in_process(afterwards, 8 * slow, backend)
            if v == "PASS" or backend.dead():
                break
            time.sleep(0.5)
        if v != "PASS":
            extra.append("afterwards no fresh pair works (%s)" % d)
        elif before is not None and starts == backend.starts:
            extra += filter(None, [descriptors_back(backend, before)])
    if backend.dead():
        extra = ["the back-end process %s" % backend.death_note()]
    if extra:
        detail = "; ".join(x for x in extra + [detail if verdict == "FAIL" else ""] if x)
        verdict = "FAIL"
        if backend.command:
            backend.restart()
    return verdict, detail, seconds
