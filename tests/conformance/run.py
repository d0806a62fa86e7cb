#!/usr/bin/python3
"""Run the cases against a vhost-user network back-end.

    run.py SOCK_A SOCK_B [--pid PID] [--spawn 'COMMAND ...'] [--only NAME[,NAME]]
           [--json FILE] [--skip NAME[,NAME]] [--slow FACTOR]
    run.py SOCK - --single ...      one port without a peer: protocol cases only
    run.py --names                  print the names with their first docstring line

The back-end has to listen on both sockets already, or is started by --spawn (then it is also
started again when it dies, the cases that restart it can run, and it is ended at the end).
One line for each case: PASS, FAIL or SKIP, name, detail.  After each case a fresh pair of
front-ends must pass traffic.  Exit status 0 when nothing failed.
"""

import argparse
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from backend import Backend, BackendError                       # noqa: E402
from cases import collect                                       # noqa: E402
from running import run_case                                    # noqa: E402


def options():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("sock_a", nargs="?")
    ap.add_argument("sock_b", nargs="?")
    ap.add_argument("--pid", type=int)
    ap.add_argument("--spawn")
    ap.add_argument("--log", help="file for the output of the spawned back-end")
    ap.add_argument("--only")
    ap.add_argument("--skip", default="")
    ap.add_argument("--single", action="store_true")
    ap.add_argument("--json")
    ap.add_argument("--slow", type=float, default=1.0, help="multiply every time limit")
    ap.add_argument("--names", action="store_true")
    opts = ap.parse_args()
    if not opts.names and not (opts.sock_a and opts.sock_b):
        ap.error("two sockets are needed")
    return opts


def named(name, patterns):
    return any(name == p or p.endswith("*") and name.startswith(p[:-1]) for p in patterns.split(","))


def main():
    opts = options()
    todo = [f for f in collect() if (f.single or not opts.single)
            and (not opts.only or named(f.__name__, opts.only)) and not named(f.__name__, opts.skip)]
    if opts.names:
        for f in todo:
            print("%-34s %s" % (f.__name__, " ".join(f.__doc__.split())[:150]))
        return 0
    a, b = opts.sock_a, None if opts.sock_b == "-" else opts.sock_b
    try:
        backend = Backend([a, b], opts.spawn, opts.pid, opts.log)
    except BackendError as e:
        raise SystemExit(str(e)) from None
    results = []
    counts = {"PASS": 0, "FAIL": 0, "SKIP": 0}
    try:
        for f in todo:
            verdict, detail, took = run_case(f, backend, a, b, opts.slow)
            counts[verdict] += 1
            results.append({"name": f.__name__, "verdict": verdict, "detail": detail, "seconds": round(took, 2)})
            print("%s %s: %s" % (verdict, f.__name__, detail), flush=True)
    except KeyboardInterrupt:
        print("interrupted")
    finally:
        backend.end()
    print("%d passed, %d failed, %d skipped" % (counts["PASS"], counts["FAIL"], counts["SKIP"]))
    if opts.json:
        with open(opts.json, "w") as fh:
            json.dump({"counts": counts, "results": results}, fh, indent=1)
    return 1 if counts["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
