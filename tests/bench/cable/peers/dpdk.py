"""DPDK's testpmd as a cable between two vhost ports, and as a generator on two virtio-user ports. Needs root."""

import pathlib
import re
import subprocess
import tempfile
import time

HUGE_PAGES = 1024  # 512 MiB for each testpmd, and the lean generator's guests
PROMPT = "testpmd> "


class PeerError(Exception):
    pass


def reserve_huge_pages():
    """DPDK wants pages of 2 MiB, and finds them in a mounted hugetlbfs."""
    count = pathlib.Path("/proc/sys/vm/nr_hugepages")
    if int(count.read_text()) < HUGE_PAGES:
        count.write_text(str(HUGE_PAGES))
    if int(count.read_text()) < HUGE_PAGES // 2:
        raise PeerError(f"only {count.read_text().strip()} huge pages could be reserved")
    where = pathlib.Path("/dev/hugepages")
    if not where.is_mount():
        where.mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "hugetlbfs", "nodev", str(where)], check=True)


class Testpmd:
    """One dpdk-testpmd with a command line, its worker on one CPU and the rest of it on another."""

    def __init__(self, prefix, worker_cpu, other_cpu, devices, options, single_file=False):
        self.log = tempfile.NamedTemporaryFile(prefix=f"chan-{prefix}-", suffix=".log")
        # stdbuf: its prompt is not buffered, what it prints would be.
        command = ["stdbuf", "-oL", "dpdk-testpmd", "--lcores", f"0@{other_cpu},1@{worker_cpu}", "--main-lcore",
                   "0", "--no-pci",
                   "--file-prefix", prefix, "-m", "512", "--no-telemetry"]
        command += ["--single-file-segments"] if single_file else []
        command += [word for device in devices for word in ("--vdev", device)]
        command += ["--", "--forward-mode=io", "--total-num-mbufs=16384", "--nb-cores=1", "-i", *options]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=self.log, stderr=self.log, text=True)

    def text(self):
        return pathlib.Path(self.log.name).read_text(errors="replace")

    def wait_for(self, condition, what, seconds=30):
        end = time.monotonic() + seconds
        while not condition():
            if self.process.poll() is not None or time.monotonic() > end:
                raise PeerError(f"{what} did not come:\n{self.text()[-3000:]}")
            time.sleep(0.02)

    def command(self, line):
        """Types a line; returns what is printed until the next prompt."""
        before = self.text()
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        self.wait_for(lambda: self.text()[len(before):].endswith(PROMPT), f"the answer to \"{line}\"")
        return self.text()[len(before):]

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if self.process.poll() is None:
            try:
                self.process.stdin.write("quit\n")
                self.process.stdin.close()
                self.process.wait(10)
            except (BrokenPipeError, subprocess.TimeoutExpired):
                self.process.kill()
        self.process.wait()
        self.log.close()


class DpdkCable(Testpmd):
    """Its sockets are as a Dataplane's of tests/support/cable.py."""

    def __init__(self, cpu, other_cpu):
        self.directory = tempfile.TemporaryDirectory(prefix="chan-dpdk-")
        self.sockets = [tuple(pathlib.Path(self.directory.name) / name for name in ("a.sock", "b.sock"))]
        super().__init__("cable", cpu, other_cpu, [f"net_vhost{side},iface={path}" for side, path in
                                                  enumerate(self.sockets[0])], ["--auto-start"])
        self.wait_for(lambda: all(path.exists() for path in self.sockets[0]) and PROMPT in self.text(), "the cable")

    def __exit__(self, *unused):
        super().__exit__()
        self.directory.cleanup()


def generate(sockets, size, seconds, cpu, other_cpu, options=""):
    """256 packets of `size` bytes bounce between two virtio-user ports; answers the packets a second of both.

    options are those of the device: ,packed_vq=1 or ,mrg_rxbuf=0,in_order=1 and so on."""
    devices = [f"net_virtio_user{side},path={path},queue_size=1024{options}" for side, path in enumerate(sockets)]
    with Testpmd("generator", cpu, other_cpu, devices, [], single_file=True) as testpmd:
        testpmd.wait_for(lambda: testpmd.text().endswith(PROMPT), "the generator")
        testpmd.command(f"set txpkts {size}")
        testpmd.command("start tx_first 8")
        time.sleep(1)
        before, begun = received(testpmd), time.monotonic()
        time.sleep(seconds)
        return (received(testpmd) - before) / (time.monotonic() - begun)


def received(testpmd):
    found = re.findall(r"RX-packets: (\d+)", testpmd.command("show port stats all"))
    if len(found) != 2:
        raise PeerError(f"no statistics:\n{testpmd.text()[-3000:]}")
    return sum(int(count) for count in found)
