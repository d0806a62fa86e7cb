"""Runs one command with its output in a log, says that it still runs, and never leaves anything of it behind."""

import os
import signal
import subprocess
import time

HEARTBEAT_SECONDS = 10


class Running:
    """The process group that runs now, so that a signal to the runner can end it."""

    current = None


def group_lives(process):
    """Is any process of the group still there? Reaps the process itself, which would count as there."""
    process.poll()
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


def end_group(process):
    """Ends the process and all that it started in its group; each signal has 5 s to do it."""
    for kind in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, kind)
        except ProcessLookupError:
            break
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline and group_lives(process):
            time.sleep(0.02)  # the pace of asking


def last_line(log_path):
    """The last line that is no empty one, short enough for a progress line."""
    with open(log_path, "rb") as log:
        log.seek(0, os.SEEK_END)
        log.seek(max(0, log.tell() - 4096))
        lines = [line.strip() for line in log.read().decode(errors="replace").splitlines() if line.strip()]
    return lines[-1][:100] if lines else ""


def run(name, command, log_path, timeout, environment=None, say=print):
    """Runs the command, output appended to log_path. Answers its exit status, or None when it took too long."""
    began = time.monotonic()
    with open(log_path, "ab") as log:
        log.write(f"$ {' '.join(map(str, command))}\n".encode())
        log.flush()
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       env=environment, start_new_session=True)
        except OSError as problem:
            log.write(f"cannot run {command[0]}: {problem}\n".encode())
            return 127
        Running.current = process
        try:
            while True:
                elapsed = time.monotonic() - began
                if elapsed > timeout:
                    log.write(f"\nended after the limit of {timeout} s\n".encode())
                    return None
                try:
                    return process.wait(min(HEARTBEAT_SECONDS, timeout - elapsed + 0.1))
                except subprocess.TimeoutExpired:
                    say(f"   {name}: {time.monotonic() - began:.0f} s: {last_line(log_path)}")
        finally:
            end_group(process)
            Running.current = None
