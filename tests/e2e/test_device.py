"""The device as a real guest sees it, and raw bytes through it, without libchan."""

import os
import stat

import pytest

from support.vm import RawRegion, find_devices, maps_of


def read_file(path, offset, length):
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(length)


def write_file(path, offset, data):
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(data)


@pytest.mark.parametrize("options, size", [
    ([], None),
    (["--region-name", "cube,{sandboxID}.shm"], 4096),
    (["--region-name", "vm-{sandboxID}"], 4 << 20),
])
def test_device_and_backing_file(make_chand, make_sandbox, options, size):
    chand = make_chand(*options).start()
    chand.opt_in_template(layout="raw", **({"sizeBytes": size} if size else {}))
    sandbox = make_sandbox(chand, "sb-1").boot()
    size = size or 1 << 20
    pattern = options[1] if options else "ivshmem-{sandboxID}"

    assert sandbox.path == chand.shm / pattern.replace("{sandboxID}", "sb-1")
    facts = os.lstat(sandbox.path)
    assert stat.S_ISREG(facts.st_mode)
    assert stat.S_IMODE(facts.st_mode) == 0o600
    assert facts.st_size == size
    assert maps_of(sandbox.vm.pid, sandbox.path) == [size]

    devices = find_devices(sandbox.vm)
    assert len(devices) == 1
    assert sandbox.vm.check(f"cat {devices[0]}/vendor {devices[0]}/device {devices[0]}/revision").split() == [
        "0x1af4", "0x1110", "0x01"]
    sizes = sandbox.vm.check(f"stat -c %s {devices[0]}/resource2 {devices[0]}/resource2_wc").split()
    assert sizes == [str(size)] * 2
    raw = RawRegion(sandbox.vm, devices[0])
    assert raw.size == size

    data = os.urandom(128)
    write_file(sandbox.path, size - 2048, data)
    assert raw.read(size - 2048, len(data)) == data, "the guest sees other bytes than the host wrote"
    data = os.urandom(128)
    raw.write(1024, data)
    assert read_file(sandbox.path, 1024, len(data)) == data, "the host sees other bytes than the guest wrote"


def test_without_opt_in_there_is_no_device(chand, make_sandbox):
    assert chand.put("/v1/templates/plain", {}).status == 201
    sandbox = make_sandbox(chand, "sb-plain", template="plain").boot()
    assert sandbox.view["ivshmem"] is None
    assert chand.region_files() == []
    assert find_devices(sandbox.vm) == []
    assert sandbox.vm.check("ls /sys/bus/pci/devices").split(), "the guest has no PCI at all, so this shows nothing"
    sandbox.delete()
    assert chand.region_files() == []
