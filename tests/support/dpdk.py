"""DPDK's testpmd as a load generator: two virtio-user ports bounce packets through whatever joins their sockets."""

import contextlib
import os
import pathlib
import re
import subprocess
import time

PAGES = 320  # of 2 MiB


@contextlib.contextmanager
def huge_pages(count=PAGES):
    """Reserves large pages and mounts hugetlbfs where DPDK looks for it; takes back what it did."""
    setting = pathlib.Path("/proc/sys/vm/nr_hugepages")
    before = int(setting.read_text())
    if before < count:
        setting.write_text(str(count))
    mount = pathlib.Path("/dev/hugepages")
    mounted = os.path.ismount(mount)
    if not mounted:
        mount.mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "hugetlbfs", "nodev", mount], check=True)
    try:
        yield int(setting.read_text())
    finally:
        if not mounted:
            subprocess.run(["umount", mount], check=False)
        setting.write_text(str(before))


class Generator:
    """testpmd with two ports. Commands go to its prompt."""

    def __init__(self, a, b, options="", queues=1, cpus=(0, 1), prefix="generator", log=None):
        main, worker = cpus
        self.log_path = pathlib.Path(log)
        ports = [word for number, path in enumerate((a, b)) for word in (
            "--vdev", f"net_virtio_user{number},path={path},queue_size=1024,queues={queues}{options}")]
        command = ["stdbuf", "-oL", "dpdk-testpmd", "--lcores", f"0@{main},1@{worker}", "--main-lcore", "0", "--no-pci", "--file-prefix",
                   f"{prefix}{os.getpid()}", "-m", "512", "--single-file-segments", "--no-telemetry", *ports,
                   "--", "--forward-mode=io", "--total-num-mbufs=16384", "--nb-cores=1", f"--rxq={queues}",
                   f"--txq={queues}", "-i"]
        with open(self.log_path, "wb") as output:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT)

    def log(self):
        return self.log_path.read_text(errors="replace")

    def say(self, *commands):
        for command in commands:
            self.process.stdin.write(command.encode() + b"\n")
        self.process.stdin.flush()

    def wait_for(self, text, seconds=30, count=1):
        deadline = time.monotonic() + seconds
        while self.log().count(text) < count:
            assert self.process.poll() is None, f"testpmd ended with {self.process.returncode}:\n{self.log()[-3000:]}"
            assert time.monotonic() < deadline, f"testpmd did not say {text!r} within {seconds} s:\n{self.log()[-3000:]}"
            time.sleep(0.02)

    def start(self, size=64, bursts=8):
        self.wait_for("testpmd>")
        self.say(f"set txpkts {size}", f"start tx_first {bursts}")
        return self

    def received(self):
        """Packets that each port has received so far."""
        before = self.log().count("Tx-pps:")  # in the last lines of each port's table
        self.say("show port stats all")
        self.wait_for("Tx-pps:", count=before + 2)
        found = re.findall(r"NIC statistics for port (\d).*?RX-packets: (\d+)", self.log(), re.DOTALL)
        latest = dict(found)
        return [int(latest["0"]), int(latest["1"])]

    def close(self):
        if self.process.poll() is None:
            with contextlib.suppress(OSError):
                self.say("stop", "quit")
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait(10)
        self.process.stdin.close()
