"""Two real guests joined by a cable: chan-dataplane with a cable of its own, network cards, traffic and its checks."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

from support.chand import BIN, wait_for

SECONDS = 120  # for one step; a guest without KVM on a busy machine is slow
ADDRESSES = ("10.9.0.1", "10.9.0.2")


def last_cpu():
    return str(max(os.sched_getaffinity(0)))


class Dataplane:
    """A chan-dataplane with one static cable, without chand."""

    def __init__(self, *options, cables=1):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="chan-dp-"))
        self.sockets = [(self.directory / f"{number}a.sock", self.directory / f"{number}b.sock")
                        for number in range(cables)]
        self.options = list(options)
        self.log_path = self.directory / "dataplane.log"
        self.process = None

    def start(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [str(BIN / "chan-dataplane"), "--cpus", last_cpu(),
                 *(word for pair in self.sockets for word in ("--cable", ",".join(map(str, pair)))), *self.options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for(lambda: self.process.poll() is not None or all(path.exists() for pair in self.sockets for path in pair),
                 20, f"the sockets of {self.directory}")
        assert self.process.poll() is None, f"chan-dataplane ended:\n{self.log()}"
        return self

    def log(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def resident_kib(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"^RssAnon:\s+(\d+)", text, re.MULTILINE).group(1))

    def stop(self):
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(30)
        assert code == 0, f"chan-dataplane ended with {code} after SIGTERM:\n{self.log()}"

    def __enter__(self):
        return self.start()

    def __exit__(self, *unused):
        try:
            self.stop()
        finally:
            if self.process.poll() is None:
                self.kill()
            shutil.rmtree(self.directory, ignore_errors=True)


def card(socket, number=0, queues=1, name="net", options=""):
    """QEMU's arguments for a vhost-user network card. vectors=0: QEMU 7.2 without KVM crashes with MSI-X."""
    device = f"virtio-net-pci,id={name},netdev={name}-n,mac=52:54:00:c0:a7:{number:02x},romfile=,vectors=0{options}"
    return ["-chardev", f"socket,id={name}-c,path={socket},reconnect=1",
            "-netdev", f"vhost-user,id={name}-n,chardev={name}-c,queues={queues}",
            "-device", device + (",mq=on" if queues > 1 else "")]


def interface(vm):
    """The guest's name of its virtio network card."""
    return wait_for(lambda: vm.check("ls /sys/bus/virtio/drivers/virtio_net/virtio*/net 2>/dev/null || true").split(),
                    SECONDS, "the guest's network card")[-1]


def configure(vm, side, mtu=1500):
    name = interface(vm)
    vm.check(f"ip link set {name} mtu {mtu} up && (ip addr add {ADDRESSES[side]}/24 dev {name} || true)")
    return name


def ping(vm, side, count=3, size=56, interval=0.2, seconds=20):
    """Pings the other side; answers how many replies came."""
    result = vm.run(f"ping -c {count} -s {size} -i {interval} -W 2 -w {seconds} {ADDRESSES[1 - side]}", seconds + 20)
    found = re.search(r"(\d+) packets received", result.output)
    return int(found.group(1)) if found else 0


def reachable(vm, side, seconds=SECONDS):
    wait_for(lambda: ping(vm, side, count=1, seconds=2) == 1, seconds, f"a reply from {ADDRESSES[1 - side]}")


def iperf(vms, sender, seconds=3, options=""):
    """TCP from one guest to the other; answers the rate in bits a second."""
    receiver = 1 - sender
    vms[receiver].check("rm -f /tmp/iperf.pid; iperf3 -s -1 -D -I /tmp/iperf.pid && sleep 0.3")
    output = vms[sender].check(f"iperf3 -c {ADDRESSES[receiver]} -t {seconds} -f k {options}", SECONDS)
    found = re.search(r"([\d.]+) Kbits/sec\s+receiver", output)
    assert found, f"iperf3 said: {output}"
    return float(found.group(1)) * 1000


def send_file(vms, sender, mebibytes=8):
    """Random bytes over TCP, compared by their hashes."""
    receiver = 1 - sender
    vms[receiver].check("rm -f /tmp/got /tmp/got.done;"
                        " nc -l -p 7000 -e /bin/sh -c 'cat >/tmp/got; echo done >/tmp/got.done' >/dev/null 2>&1 &")
    hashed = vms[sender].check(f"head -c {mebibytes << 20} /dev/urandom >/tmp/sent; sha256sum </tmp/sent").split()[0]
    wait_for(lambda: vms[receiver].run("netstat -ltn | grep -q :7000").status == 0, SECONDS, "the receiver's nc")
    vms[sender].check(f"nc {ADDRESSES[receiver]} 7000 </tmp/sent", SECONDS)
    wait_for(lambda: vms[receiver].run("test -s /tmp/got.done").status == 0, SECONDS, "the end of the transfer")
    got = vms[receiver].check("sha256sum </tmp/got; rm /tmp/got").split()[0]
    assert got == hashed, "the other guest has received other bytes than were sent"


class Pair:
    """Two guests and a cable between them."""

    def __init__(self, vms, mtu=1500):
        self.vms = vms
        self.mtu = mtu

    def boot(self):
        for vm in self.vms:
            vm.launch()
        for vm in self.vms:
            vm.wait_ready()
        return self.up()

    def up(self):
        for side, vm in enumerate(self.vms):
            configure(vm, side, self.mtu)
        for side, vm in enumerate(self.vms):
            reachable(vm, side)
        return self


def make_pair(make_vm, sockets, queues=1, mtu=1500, options="", **more):
    """Two guests with a card each, not yet booted."""
    return Pair([make_vm(card(sockets[side], side, queues, options=options), shared_memory=True, **more)
                 for side in range(2)], mtu)
