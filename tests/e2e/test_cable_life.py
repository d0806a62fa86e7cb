"""A cable while the guests at its ends change: reboot, driver, hot-plug, memory, migration."""

import pytest

from support import cable
from support.chand import wait_for
from support.vm import VMError


@pytest.fixture
def dataplane():
    with cable.Dataplane() as process:
        yield process


@pytest.fixture
def pair(make_vm, dataplane):
    return cable.make_pair(make_vm, dataplane.sockets[0], reboots=True).boot()


def works(pair):
    for side, vm in enumerate(pair.vms):
        cable.reachable(vm, side)
        cable.send_file(pair.vms, side, mebibytes=1)


def wait_agent(vm):
    """After a reboot: the guest's agent is a new one."""
    vm.wait_ready()


def test_reboot_by_the_guest(pair):
    for side in (0, 1):
        vm = pair.vms[side]
        before = vm.check("cat /proc/sys/kernel/random/boot_id")
        vm.run("(sleep 0.2; reboot -f) >/dev/null 2>&1 &")
        wait_for(lambda vm=vm, before=before: rebooted(vm, before), cable.SECONDS, "the guest's next boot")
        cable.configure(vm, side)
        works(pair)


def rebooted(vm, before):
    vm.wait_ready()
    try:
        return vm.check("cat /proc/sys/kernel/random/boot_id") != before
    except VMError:
        return False


def test_system_reset(pair):
    vm = pair.vms[0]
    for _ in range(2):
        before = vm.check("cat /proc/sys/kernel/random/boot_id")
        vm.qmp("system_reset")
        wait_for(lambda before=before: rebooted(vm, before), cable.SECONDS, "the guest's next boot")
        cable.configure(vm, 0)
        works(pair)


def test_driver_unloaded_and_loaded(pair):
    vm = pair.vms[1]
    for _ in range(3):
        vm.check("rmmod virtio_net && insmod /lib/modules/virtio_net.ko")
        cable.configure(vm, 1)
        works(pair)


def test_device_removed_and_added(make_vm, dataplane):
    """QMP device_del and device_add, behind a port that takes it."""
    port = ["-device", "pcie-root-port,id=rootport0,chassis=1"]
    pair = cable.make_pair(make_vm, dataplane.sockets[0])
    pair.vms[0] = make_vm([*port, *cable.card(dataplane.sockets[0][0], 0, options=",bus=rootport0")], shared_memory=True)
    pair.boot()
    vm = pair.vms[0]
    for number in range(2):
        vm.qmp("device_del", id="net")
        wait_for(lambda: not vm.check("ls /sys/bus/virtio/devices").split(), cable.SECONDS, "the device's removal")
        wait_for(lambda: added(vm), cable.SECONDS, "the device's return")
        cable.configure(vm, 0)
        works(pair)


def added(vm):
    try:
        vm.qmp("device_add", driver="virtio-net-pci", id="net", netdev="net-n", bus="rootport0", mac="52:54:00:c0:a7:00",
               romfile="", vectors=0)
        return True
    except VMError as problem:
        assert "Duplicate" in str(problem), problem  # the old one is not wholly gone yet
        return False


def test_memory_is_added_during_traffic(make_vm, dataplane):
    pair = cable.make_pair(make_vm, dataplane.sockets[0])
    plug = ["-m", "256M,slots=4,maxmem=1G"]
    pair.vms[0] = make_vm([*cable.card(dataplane.sockets[0][0], 0), *plug], shared_memory=True)
    pair.boot()
    vm = pair.vms[0]
    flood = Flood(pair, sender=1, count=400)
    for number in range(2):
        vm.qmp("object-add", **{"qom-type": "memory-backend-memfd", "id": f"more{number}", "size": 128 << 20,
                                "share": True})
        vm.qmp("device_add", driver="pc-dimm", id=f"dimm{number}", memdev=f"more{number}")
        before = flood.replies()
        wait_for(lambda before=before: flood.replies() >= before + 10 or flood.ended(), cable.SECONDS,
                 "ten replies over the new table, before the next change")
    lost = flood.lost()
    assert lost <= 20, f"{lost} of 400 pings were lost"  # a guest that takes memory in on a busy host may miss some
    works(pair)


class Flood:
    """Pings in the background of a guest: every one must be answered."""

    def __init__(self, pair, sender, count, interval=0.02):
        self.vm = pair.vms[sender]
        self.count = count
        self.vm.check(f"rm -f /tmp/flood; (ping -c {count} -i {interval} -s 1000 -W 5 {cable.ADDRESSES[1 - sender]}"
                      " >/tmp/flood.part; mv /tmp/flood.part /tmp/flood) >/dev/null 2>&1 &")

    def replies(self):
        return int(self.vm.run("cat /tmp/flood.part /tmp/flood 2>/dev/null | grep -c 'bytes from'").output or 0)

    def ended(self):
        return self.vm.run("test -s /tmp/flood").status == 0

    def lost(self):
        wait_for(self.ended, cable.SECONDS, "the end of the pings")
        words = self.vm.check("tail -n 3 /tmp/flood").split()
        sent, received = int(words[words.index("packets") - 1]), int(words[words.index("received,") - 2])
        assert sent == self.count
        return sent - received


def test_live_migration(make_vm, dataplane):
    """One guest moves to another QEMU process at the same end of the cable, while it is pinged and back again."""
    pair = cable.make_pair(make_vm, dataplane.sockets[0]).boot()
    for number in range(2):
        source = pair.vms[0]
        flood = Flood(pair, sender=1, count=1000)
        where = f"unix:{dataplane.directory}/migration{number}.sock"
        destination = make_vm([*cable.card(dataplane.sockets[0][0], 0), "-incoming", where], shared_memory=True)
        destination.launch()
        wait_for(lambda: destination.qmp("query-status")["status"] == "inmigrate", cable.SECONDS, "the destination")
        source.qmp("migrate", uri=where)
        wait_for(lambda: migrated(source), cable.SECONDS, "the end of the migration")
        source.end()
        pair.vms[0] = destination
        destination.wait_ready()
        # While neither process runs the guest, nobody can answer; what came in that time waits or is lost.
        lost = flood.lost()
        assert lost <= 100, f"{lost} of 1000 pings were lost"
        works(pair)


def migrated(source):
    status = source.qmp("query-migrate").get("status")
    assert status != "failed", source.qmp("query-migrate")
    return status == "completed"
