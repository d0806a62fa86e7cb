"""Bytes between host and guest through libchan's examples, in both directions and checked."""

import hashlib
import os
import shlex
import subprocess
import tempfile

from support.chand import BIN, wait_for

SECONDS = 90  # for one step; a guest without KVM on a busy machine is slow


def host_command(sandbox, example, *arguments):
    return [str(BIN / example), "--path", str(sandbox.path), *arguments]


def run_on_host(sandbox, example, *arguments):
    """Runs an example on the host, which must succeed; answers its output."""
    done = subprocess.run(host_command(sandbox, example, *arguments), capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL, timeout=SECONDS)
    assert done.returncode == 0, f"on the host, {example} {arguments} ended with {done.returncode}: {done.stderr}"
    return done.stdout


class InGuest:
    """An example that runs in the guest's background."""

    def __init__(self, sandbox, example, *arguments):
        self.vm = sandbox.vm
        command = shlex.join([example, "--find", *arguments])
        self.log = f"/tmp/{example}.log"
        self.vm.check(f"rm -f {self.log} {self.log}.status")
        self.vm.check(f"(echo $$ >/tmp/{example}.pid; {command}; echo $? >{self.log}.status) >{self.log} 2>&1 &")

    def wait(self):
        """Waits for its end, which must be a good one; answers its output."""
        wait_for(lambda: self.vm.run(f"test -s {self.log}.status").status == 0, SECONDS, f"the end of {self.log}")
        output = self.vm.check(f"cat {self.log}")
        status = self.vm.check(f"cat {self.log}.status").strip()
        assert status == "0", f"in the guest, {self.log} says after status {status}: {output}"
        return output


def messages(sandbox, texts):
    """Echoes each text from host to guest and back, then from guest to host and back."""
    count = str(len(texts))
    server = InGuest(sandbox, "chan-echo", "serve", "--count", count)
    assert run_on_host(sandbox, "chan-echo", "send", *texts).splitlines() == texts
    server.wait()
    with subprocess.Popen(host_command(sandbox, "chan-echo", "serve", "--count", count),
                          stdin=subprocess.DEVNULL) as host:
        try:
            answer = sandbox.vm.check(shlex.join(["chan-echo", "--find", "send", *texts]), SECONDS)
            assert answer.splitlines() == texts
            assert host.wait(SECONDS) == 0
        finally:
            host.kill()


class Stream:
    """A copy from host to guest that takes what it is fed while other things happen, in one session of the channel."""

    BLOCK = 256 << 10

    def __init__(self, sandbox):
        self.sandbox = sandbox
        self.file = f"/tmp/stream-{sandbox.id}"
        self.receiver = InGuest(sandbox, "chan-copy", "receive", self.file)
        self.sender = subprocess.Popen(host_command(sandbox, "chan-copy", "send", "-"), stdin=subprocess.PIPE)
        self.sum = hashlib.sha256()
        self.sent = 0

    def feed(self):
        """Hands on a block of new random bytes; does not wait for the guest to have them."""
        block = os.urandom(self.BLOCK)
        self.sum.update(block)
        self.sent += len(block)
        self.sender.stdin.write(block)
        self.sender.stdin.flush()

    def wait_taken(self):
        """Waits until the guest has all but what may still be in the sender's hands, less than a message."""
        least = self.sent - (64 << 10)
        wait_for(lambda: int(self.sandbox.vm.check(f"stat -c %s {self.file} || echo 0").split()[-1]) >= least, SECONDS,
                 f"the guest's {least} bytes")

    def close(self):
        """Ends the copy and compares."""
        try:
            self.sender.stdin.close()
            assert self.sender.wait(SECONDS) == 0
        finally:
            self.sender.kill()
            self.sender.wait()
        self.receiver.wait()
        assert self.sandbox.vm.check(f"sha256sum {self.file}").split()[0] == self.sum.hexdigest()
        self.sandbox.vm.check(f"rm {self.file}")


def copy_to_guest(sandbox, data):
    receiver = InGuest(sandbox, "chan-copy", "receive", "/tmp/received")
    with tempfile.NamedTemporaryFile(prefix="chan-test-") as file:
        file.write(data)
        file.flush()
        run_on_host(sandbox, "chan-copy", "send", file.name)
    receiver.wait()
    got = sandbox.vm.check("sha256sum /tmp/received; rm /tmp/received").split()[0]
    assert got == hashlib.sha256(data).hexdigest(), "the guest has other bytes than the host sent"


def copy_to_host(sandbox, size):
    expected = sandbox.vm.check(f"head -c {size} /dev/urandom >/tmp/sent; sha256sum /tmp/sent").split()[0]
    sender = InGuest(sandbox, "chan-copy", "send", "/tmp/sent")
    with tempfile.NamedTemporaryFile(prefix="chan-test-") as file:
        run_on_host(sandbox, "chan-copy", "receive", file.name)
        data = file.read()
    sender.wait()
    sandbox.vm.check("rm /tmp/sent")
    assert len(data) == size
    assert hashlib.sha256(data).hexdigest() == expected, "the host has other bytes than the guest sent"


def exchange(sandbox, size=1 << 20):
    """Messages and bulk data, both ways, checked; different ones each time."""
    messages(sandbox, [f"{sandbox.id} {os.urandom(8).hex()} {number}" for number in range(10)])
    copy_to_guest(sandbox, os.urandom(size))
    copy_to_host(sandbox, size)
