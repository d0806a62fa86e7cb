"""Real guests for tests: the VM of deploy/guest/vm.py, with images of the build under test."""

import pathlib
import subprocess
import sys

from support.chand import BUILD, TOP

sys.path.insert(0, str(TOP / "deploy" / "guest"))

from vm import VM, VMError  # noqa: E402,F401

VENDOR, DEVICE = "0x1af4", "0x1110"


def build_images():
    """The kernel's and the initramfs's path; built if they are not up to date."""
    done = subprocess.run([TOP / "deploy" / "guest" / "build-image", BUILD], check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 0, f"deploy/guest/build-image failed:\n{done.stderr}"
    kernel, initramfs = done.stdout.split()
    return kernel, initramfs


def find_devices(vm):
    """Paths of the ivshmem devices that the guest's kernel sees, in sysfs."""
    script = (f"for d in /sys/bus/pci/devices/*; do [ $(cat $d/vendor)$(cat $d/device) = {VENDOR}{DEVICE} ]"
              " && echo $d; done; true")
    return vm.check(script).split()


class RawRegion:
    """A region's bytes as the guest's processor sees them, through BAR2, by busybox devmem in words of 64 bits."""

    def __init__(self, vm, device):
        self.vm = vm
        start, end = (int(word, 16) for word in vm.check(f"sed -n 3p {device}/resource").split()[:2])
        self.start = start
        self.size = end - start + 1

    def read(self, offset, length):
        assert offset % 8 == 0 and length % 8 == 0
        words = self.vm.check("; ".join(f"devmem {self.start + at:#x} 64" for at in range(offset, offset + length, 8)))
        return b"".join(int(word, 16).to_bytes(8, "little") for word in words.split())

    def write(self, offset, data):
        assert offset % 8 == 0 and len(data) % 8 == 0
        self.vm.check("; ".join(
            f"devmem {self.start + offset + at:#x} 64 {int.from_bytes(data[at:at + 8], 'little'):#x}"
            for at in range(0, len(data), 8)))


def maps_of(pid, path):
    """The sizes in bytes of the shared mappings of that file in a process."""
    sizes = []
    for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
        words = line.split(maxsplit=5)
        if len(words) == 6 and words[5] == str(path) and words[1] == "rw-s":
            start, end = (int(word, 16) for word in words[0].split("-"))
            sizes.append(end - start)
    return sizes
