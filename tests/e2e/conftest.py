import pathlib
import shutil
import tempfile

import pytest

from support.vm import VM, build_images


@pytest.fixture(scope="session")
def images():
    """The guest's kernel and initramfs."""
    return build_images()


@pytest.fixture
def make_vm(images):
    """Makes virtual machines with further arguments for QEMU; none is started yet, all end when the test does."""
    made = []

    def make(arguments=(), accel=None, **more):
        directory = tempfile.mkdtemp(prefix="chan-vm-")
        made.append(VM(directory, *images, arguments=arguments, accel=accel, **more))
        return made[-1]

    yield make
    for vm in made:
        vm.end(hard=True)
        shutil.rmtree(vm.directory, ignore_errors=True)


class Sandbox:
    """A sandbox in a chand with its virtual machine, created and started as an orchestrator would."""

    def __init__(self, chand, make_vm, sandbox_id, template="tpl", accel=None):
        self.chand = chand
        self.id = sandbox_id
        self.make_vm = make_vm
        self.accel = accel
        answer = chand.put(f"/v1/sandboxes/{sandbox_id}", {"templateID": template})
        assert answer.status == 201, answer
        self.view = answer.json
        self.vm = None

    @property
    def url(self):
        return f"/v1/sandboxes/{self.id}"

    @property
    def path(self):
        return pathlib.Path(self.view["ivshmem"]["path"])

    def arguments(self):
        """What the API answered for QEMU, word by word; nothing without the opt-in."""
        return self.view["ivshmem"]["vmm"]["qemu"] if self.view["ivshmem"] else []

    def boot(self):
        """Starts a virtual machine and makes it the sandbox's owner: its pid is known only now."""
        self.vm = self.make_vm(self.arguments(), self.accel)
        self.vm.launch()
        self.resume({"owner": {"pid": self.vm.pid}})
        self.vm.wait_ready()
        return self

    def pause(self):
        answer = self.chand.post(f"{self.url}/pause")
        assert answer.status == 200 and answer.json["state"] == "paused", answer

    def resume(self, body=None):
        answer = self.chand.post(f"{self.url}/resume", body)
        assert answer.status == 200 and answer.json["state"] == "running", answer

    def get(self):
        answer = self.chand.get(self.url)
        assert answer.status == 200, answer
        return answer.json

    def delete(self):
        answer = self.chand.delete(self.url)
        assert answer.status == 204, answer

    def is_gone(self):
        return self.chand.get(self.url).status == 404 and not self.path.exists()


@pytest.fixture
def make_sandbox(make_vm):
    def make(chand, sandbox_id="sb", **more):
        return Sandbox(chand, make_vm, sandbox_id, **more)

    return make
