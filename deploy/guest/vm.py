#!/usr/bin/python3
"""A small Linux guest in QEMU: boots in seconds, runs commands, is driven over QMP.

As a module: class VM. As a command (for deploy/quickstart):

    vm.py start DIRECTORY --kernel FILE --initramfs FILE [--shared-memory] [-- QEMU ARGUMENTS...]
                                              prints QEMU's pid once the guest is up
    vm.py run DIRECTORY COMMAND [SECONDS]     runs a shell command in the guest, prints its output, ends with its status
    vm.py qmp DIRECTORY COMMAND               one QMP command without arguments, such as stop, cont, quit
"""

import argparse
import base64
import errno
import fcntl
import itertools
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time


class VMError(Exception):
    pass


class Result:
    """What a command in the guest came to."""

    def __init__(self, status, output):
        self.status = status
        self.output = output

    def __repr__(self):
        return f"<status {self.status}: {self.output!r}>"


def kvm_opens():
    """May this process make a virtual machine with a CPU? That alone does not mean that it can run a guest."""
    create_vm, create_vcpu = 0xAE01, 0xAE41
    try:
        with open("/dev/kvm", "r+b", buffering=0) as kvm, open(fcntl.ioctl(kvm, create_vm, 0), "rb", buffering=0) as vm:
            os.close(fcntl.ioctl(vm, create_vcpu, 0))
        return True
    except OSError:
        return False


def accelerator(kernel, initramfs):
    """kvm where this guest boots with it, else tcg; CHAN_ACCEL forces one. The answer is kept beside the kernel, for
    this boot of the host."""
    forced = os.environ.get("CHAN_ACCEL")
    if forced:
        return forced
    if not kvm_opens():
        return "tcg"
    boot_id = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    answer_path = pathlib.Path(kernel).with_name("accelerator")
    if answer_path.exists():
        known = answer_path.read_text().split()
        if len(known) == 2 and known[0] == boot_id:
            return known[1]
    with tempfile.TemporaryDirectory(prefix="chan-kvm-") as directory:
        vm = VM(directory, kernel, initramfs, accel="kvm")
        try:
            vm.start(seconds=20)
            answer = "kvm"
        except VMError:
            answer = "tcg"
        finally:
            vm.end(hard=True)
    answer_path.write_text(f"{boot_id} {answer}\n")
    return answer


def connect(path, deadline, alive):
    """Connects to a unix socket that may not be there yet."""
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            connection.connect(str(path))
            return connection
        except OSError as problem:
            connection.close()
            if problem.errno not in (errno.ENOENT, errno.ECONNREFUSED) or time.monotonic() > deadline:
                raise VMError(f"cannot connect to {path}: {problem}") from problem
        alive()
        time.sleep(0.02)


class Lines:
    """Lines of a stream socket. Reads have a deadline."""

    def __init__(self, connection):
        self.connection = connection
        self.rest = b""

    def send(self, line):
        self.connection.settimeout(15)
        try:
            self.connection.sendall(line.encode() + b"\n")
        except (BrokenPipeError, ConnectionResetError, TimeoutError) as problem:
            raise VMError("the virtual machine does not take what is sent: it ended or hangs") from problem

    def next(self, deadline):
        """The next line without its end, or None when the deadline passes first."""
        while b"\n" not in self.rest:
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            self.connection.settimeout(left)
            try:
                more = self.connection.recv(65536)
            except TimeoutError:
                return None
            except ConnectionResetError:
                more = b""
            if not more:
                raise VMError("the virtual machine closed the connection: it ended")
            self.rest += more
        line, self.rest = self.rest.split(b"\n", 1)
        return line.strip(b"\r").decode(errors="replace")


class VM:
    """One virtual machine. Its directory holds agent.sock, qmp.sock, console.log and qemu.log, and is the caller's."""

    def __init__(self, directory, kernel=None, initramfs=None, arguments=(), accel=None, memory_mib=256,
                 shared_memory=False, reboots=False,
                 cpus=1):
        self.directory = pathlib.Path(directory)
        self.kernel = kernel
        self.initramfs = initramfs
        self.arguments = list(arguments)
        self.accel = accel  # None: what works, found out at launch
        self.memory_mib = memory_mib
        self.shared_memory = shared_memory  # as vhost-user needs it
        self.cpus = cpus
        self.reboots = reboots              # False: a guest that reboots ends QEMU
        self.process = None
        self.agent = None
        self.monitor = None
        self.ids = itertools.count(1)

    def path(self, name):
        return self.directory / name

    @property
    def pid(self):
        return self.process.pid

    def command(self):
        memory = ["-object", f"memory-backend-memfd,id=memory,size={self.memory_mib}M,share=on",
                  "-numa", "node,memdev=memory"] if self.shared_memory else []
        return ["qemu-system-x86_64", "-no-user-config", "-nodefaults", "-display", "none",
                *([] if self.reboots else ["-no-reboot"]), *memory,
                "-machine", "q35", "-accel", self.accel, "-cpu", "host" if self.accel == "kvm" else "max",
                "-m", f"{self.memory_mib}M", "-smp", str(self.cpus),
                "-kernel", str(self.kernel), "-initrd", str(self.initramfs),
                "-append",
                "console=ttyS0 quiet panic=-1 mitigations=off cryptomgr.notests no_timer_check",
                "-chardev", f"file,id=console,path={self.path('console.log')}",
                "-device", "isa-serial,chardev=console",
                "-chardev", f"socket,id=agent,path={self.path('agent.sock')},server=on,wait=off",
                "-device", "isa-serial,chardev=agent",
                "-qmp", f"unix:{self.path('qmp.sock')},server=on,wait=off",
                *self.arguments]

    def launch(self, detached=False):
        """Starts QEMU, detached: in a session of its own, to outlive us. The guest is not up yet: see wait_ready."""
        self.accel = self.accel or accelerator(self.kernel, self.initramfs)
        for name in ("agent.sock", "qmp.sock"):
            self.path(name).unlink(missing_ok=True)
        with open(self.path("qemu.log"), "ab") as log:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            start_new_session=detached)
        return self

    def start(self, seconds=None):
        self.launch()
        self.wait_ready(seconds)
        return self

    def alive(self):
        """Raises when QEMU has ended."""
        if self.process is not None and self.process.poll() is not None:
            raise VMError(f"QEMU ended with {self.process.returncode}:\n{self.logs()}")

    def logs(self):
        texts = []
        for name in ("qemu.log", "console.log"):
            if self.path(name).exists():
                texts.append(f"{name}: {self.path(name).read_text(errors='replace')[-3000:]}")
        return "\n".join(texts)

    def wait_ready(self, seconds=None):
        """Waits until the guest's agent answers: a few seconds with KVM, several times that without."""
        deadline = time.monotonic() + (seconds or (60 if self.accel == "kvm" else 180))
        self.attach(deadline)
        while True:
            try:
                if self.answers():
                    return
            except VMError:
                if self.process is not None:
                    self.process.wait(5)
                self.alive()  # says why QEMU ended
                raise
            self.alive()
            if time.monotonic() > deadline:
                raise VMError(f"the guest did not come up:\n{self.logs()}")

    def answers(self):
        """Does the guest's agent answer at once?"""
        token = f"{os.getpid()}.{next(self.ids)}"
        self.agent.send(f"hello {token}")
        ask_again = time.monotonic() + 0.2
        while (line := self.agent.next(ask_again)) is not None:
            if line == f"ready {token}":
                return True
        return False

    def attach(self, deadline):
        """Connects to the agent of a machine that runs."""
        if self.agent is None:
            self.agent = Lines(connect(self.path("agent.sock"), deadline, self.alive))

    def run(self, command, seconds=30):
        """Runs a shell command in the guest and waits for it. Output is both streams."""
        code = base64.b64encode(command.encode()).decode()
        assert len(code) < 3000, "the command is too long for the serial port's buffers"
        number = next(self.ids)
        deadline = time.monotonic() + seconds + 15
        self.attach(deadline)
        self.agent.send(f"run {number} {seconds} {code}")
        body = None
        while True:
            line = self.agent.next(deadline)
            if line is None:
                self.alive()
                raise VMError(f"the guest did not answer within {seconds} s: {command}\n{self.logs()}")
            if line == f"begin {number}":
                body = []
            elif body is not None and line.startswith(f"end {number} "):
                return Result(int(line.split()[2]), base64.b64decode("".join(body)).decode(errors="replace"))
            elif body is not None:
                body.append(line)

    def check(self, command, seconds=30):
        """Runs a shell command in the guest that must succeed; answers its output."""
        result = self.run(command, seconds)
        if result.status != 0:
            raise VMError(f"in the guest, {command!r} ended with {result.status}:\n{result.output}")
        return result.output

    def qmp(self, command, seconds=10, **arguments):
        """One QMP command; answers what it returned."""
        deadline = time.monotonic() + seconds
        if self.monitor is None:
            self.monitor = Lines(connect(self.path("qmp.sock"), deadline, self.alive))
            self.qmp_answer(deadline)  # the greeting
            self.qmp("qmp_capabilities")
        message = {"execute": command, **({"arguments": arguments} if arguments else {})}
        self.monitor.send(json.dumps(message))
        answer = self.qmp_answer(deadline)
        if "error" in answer:
            raise VMError(f"QMP {command}: {answer['error']['desc']}")
        return answer["return"]

    def qmp_answer(self, deadline):
        while True:
            line = self.monitor.next(deadline)
            if line is None:
                raise VMError("QMP did not answer")
            answer = json.loads(line)
            if "event" not in answer:
                return answer

    def stop(self):
        """The guest's CPUs stand still, as an orchestrator's pause does."""
        self.qmp("stop")

    def cont(self):
        self.qmp("cont")

    def end(self, hard=False):
        """Ends QEMU: by QMP, or at once by SIGKILL."""
        if self.process is not None and self.process.poll() is None:
            if not hard:
                try:
                    self.qmp("quit")
                    self.process.wait(10)
                except (VMError, OSError, subprocess.TimeoutExpired):
                    hard = True
            if hard:
                self.process.send_signal(signal.SIGKILL)
                self.process.wait(10)
        for lines in (self.agent, self.monitor):
            if lines is not None:
                lines.connection.close()
        self.agent = self.monitor = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *unused):
        self.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    start = verbs.add_parser("start")
    start.add_argument("directory")
    start.add_argument("--kernel", required=True)
    start.add_argument("--initramfs", required=True)
    start.add_argument("--shared-memory", action="store_true", help="guest memory that others can map: for vhost-user")
    run = verbs.add_parser("run")
    run.add_argument("directory")
    run.add_argument("command")
    run.add_argument("seconds", nargs="?", type=int, default=60)
    qmp = verbs.add_parser("qmp")
    qmp.add_argument("directory")
    qmp.add_argument("command")
    words = sys.argv[1:]
    split = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:split])

    try:
        if options.verb == "start":
            vm = VM(options.directory, options.kernel, options.initramfs, words[split + 1:],
                    shared_memory=options.shared_memory)
            try:
                vm.launch(detached=True)
                vm.wait_ready()
            except BaseException:
                vm.end(hard=True)
                raise
            print(vm.pid)
        elif options.verb == "run":
            result = VM(options.directory).run(options.command, options.seconds)
            sys.stdout.write(result.output)
            return result.status
        else:
            print(json.dumps(VM(options.directory).qmp(options.command)))
    except VMError as problem:
        print(f"vm.py: {problem}", file=sys.stderr)
        return 125
    return 0


if __name__ == "__main__":
    sys.exit(main())
