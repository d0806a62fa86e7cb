"""tests/run: chooses stages, runs them one after the other, and says what came of it."""

import argparse
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time

from . import process, results, stages


def say(line):
    print(line, flush=True)


def chosen(options):
    """The stages to run, in the order of the table, with the stages that they need."""
    if options.only:
        wanted = {stage.name for stage in stages.STAGES if any(matches(stage, only) for only in options.only)}
    elif options.quick:
        wanted = {stage.name for stage in stages.STAGES if stage.quick}
    else:
        wanted = {stage.name for stage in stages.STAGES if stage.full}
    for stage in stages.STAGES:
        if stage.name in wanted:
            wanted.update(stage.needs)
    return [stage for stage in stages.STAGES if stage.name in wanted]


def matches(stage, only):
    """By its whole name, or the part before the dash for all of that kind that a whole run has."""
    return stage.name == only or (stage.full and stage.name.split("-")[0] == only)


def run_step(step, scratch):
    log_path = stages.RESULTS / f"{step.name}.log"
    log_path.unlink(missing_ok=True)
    if step.junit is not None:
        step.junit.unlink(missing_ok=True)
    environment = dict(os.environ, TMPDIR=str(scratch.disk), CHAN_TEST_SHM=str(scratch.shm), **step.environment)
    status = process.run(step.name, step.command, log_path, step.timeout, environment, say)
    if step.junit is not None:
        return results.of_junit(step.name, step.junit, status)
    return results.of_status(step.name, status)


def show_failure(step, outcome):
    log_path = stages.RESULTS / f"{step.name}.log"
    lines = log_path.read_text(errors="replace").splitlines()
    say(f"---- the end of {log_path.relative_to(stages.TOP)}")
    for line in lines[-80:]:
        say(f"   {line[:300]}")
    for line in outcome.failed:
        say(f"FAILED {line}")


def run_stage(stage, broken, scratch):
    """Answers the stage's results."""
    total = results.Results()
    missing = [need for need in stage.needs if need in broken]
    steps = [] if missing else stage.steps()
    if not steps:
        why = f"cannot run without {', '.join(missing)}" if missing else "has nothing to run"
        total.failed.append(f"{stage.name}: {why}")
        say(f"FAILED {stage.name}: {why}")
    for step in steps:
        began = time.monotonic()
        say(f"== {step.name}")
        outcome = run_step(step, scratch)
        if outcome.failed:
            show_failure(step, outcome)
        say(f"   {step.name}: {outcome.summary()} in {time.monotonic() - began:.0f} s")
        total.add(outcome)
    return total


class Scratch:
    """Directories of this run, for temporary files and for regions; gone with all that is in them at its end."""

    def __enter__(self):
        self.disk = pathlib.Path(tempfile.mkdtemp(prefix="chan-run-"))
        self.shm = pathlib.Path(tempfile.mkdtemp(prefix="chan-run-", dir="/dev/shm"))
        for directory in (self.disk, self.shm):
            directory.chmod(0o755)  # some tests run a daemon as another user
        return self

    def __exit__(self, *unused):
        shutil.rmtree(self.disk, ignore_errors=True)
        shutil.rmtree(self.shm, ignore_errors=True)


def interrupted(number, frame):
    if process.Running.current is not None:
        process.end_group(process.Running.current)
    sys.exit(128 + number)


def main():
    parser = argparse.ArgumentParser(prog="tests/run")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", action="append", metavar="STAGE")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    for only in options.only or []:
        if not any(matches(stage, only) for stage in stages.STAGES):
            parser.error(f"no stage is called {only}; see --list")
    if options.list:
        for stage in stages.STAGES:
            marks = ", ".join(mark for mark, on in (("quick", stage.quick), ("whole run", stage.full)) if on)
            say(f"{stage.name:17} {stage.about} ({marks})")
        return 0

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    began = time.monotonic()
    os.chdir(stages.TOP)
    stages.RESULTS.mkdir(parents=True, exist_ok=True)
    total = results.Results()
    broken = set()
    with Scratch() as scratch:
        for stage in chosen(options):
            outcome = run_stage(stage, broken, scratch)
            if outcome.failed:
                broken.add(stage.name)
            total.add(outcome)
    say(f"== done in {time.monotonic() - began:.0f} s")
    for line in total.skipped:
        say(f"SKIPPED {line}")
    for line in total.failed:
        say(f"FAILED {line}")
    say(total.summary())
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
