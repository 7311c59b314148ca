"""Boxes for tests: network namespaces with a real sshd in each, and podman named docker behind it.

A box has its own processes, mounts, network and image store; it reads this machine's images. Needs root, like
podman's containers here.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path

from tests.emulators import containers

INIT = Path(__file__).parent / "box_init.sh"
SSHD = "/usr/sbin/sshd"
NETS = 62  # of a process at once
SSHD_CONFIG = """
Port 22
ListenAddress 0.0.0.0
HostKey {etc}/host
AuthorizedKeysFile {etc}/authorized
PidFile {etc}/sshd.pid
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
Subsystem sftp internal-sftp
"""
STORAGE = """
[storage]
driver = "overlay"
graphroot = "{box}/storage"
runroot = "/run/box/root"
[storage.options]
additionalimagestores = ["/var/lib/containers/storage"]
"""
DOCKER = """#!/bin/sh
export CONTAINERS_CONF={etc}/containers.conf CONTAINERS_STORAGE_CONF={etc}/storage.conf
exec podman --tmpdir /run/box/tmp "$@"
"""
# Rented boxes are logged in to as ubuntu: here an alias of root, who alone can use this machine's containers.
UBUNTU = "ubuntu:x:0:0::/root:/bin/sh\n"

# Our Python and the checkout, if they are below /root or /tmp, which a box replaces by its own.
HIDDEN = ("/root/", "/tmp/")
OURS = [path for path in (sys.base_prefix, str(Path(__file__).parents[2])) if path.startswith(HIDDEN)]

_numbers = count(1)


def address(pid: int, number: int, host: int) -> str:
    """Return an address in a /30 network of the process: 10.64-127.x.y, unique for 16,384 processes."""
    return f"10.{64 + pid % 64}.{pid // 64 % 256}.{number % NETS * 4 + host}"


def ip(*arguments: str, check: bool = True) -> None:
    subprocess.run(["ip", *arguments], check=check, capture_output=True)


def keygen(path: Path) -> str:
    path.unlink(missing_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path.with_suffix(".pub").read_text().strip()


@dataclass
class Box:
    """A box: its address, its host keys and accepted keys, and its faults."""

    folder: Path
    number: int
    host_key: str
    _init: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return f"gb{os.getpid()}-{self.number}"[:13]

    @property
    def veth(self) -> str:
        return f"gv{os.getpid()}.{self.number}"[:15]

    @property
    def address(self) -> str:
        return address(os.getpid(), self.number, 2)

    @property
    def here(self) -> str:
        return address(os.getpid(), self.number, 1)

    @property
    def key(self) -> Path:
        return self.folder / "etc/user"

    @property
    def host(self) -> dict[str, object]:
        key = " ".join(self.host_key.split()[:2])
        return {"address": self.address, "user": "root", "key": str(self.key), "host_key": key}

    def start(self, same_kernel: bool = False) -> None:
        """Boot with a new boot id; `same_kernel` starts only the container that a box can be."""
        if not same_kernel:
            (self.folder / "etc/boot_id").write_text(f"{uuid.uuid4()}\n")
        (self.folder / "etc/sshd.pid").unlink(missing_ok=True)
        alone = ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child"]
        init = [*alone, "sh", str(INIT), str(self.folder), *OURS]
        command = ["nsenter", f"--net=/run/netns/{self.name}", *init]
        with (self.folder / "init.log").open("ab") as log:
            self._init = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )
        deadline = time.monotonic() + 120
        while not (self.folder / "etc/sshd.pid").exists():
            if self._init.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"no sshd: {(self.folder / 'init.log').read_text()}")
            time.sleep(0.02)

    def _first(self) -> list[str]:
        """Return the id of unshare's child, process 1 of the box: the kernel ends all others with it."""
        assert self._init
        listed = subprocess.run(["pgrep", "-P", str(self._init.pid)], capture_output=True, text=True)
        return listed.stdout.split()

    def stop(self) -> None:
        if self._init and self._init.poll() is None:
            for child in self._first():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(child), signal.SIGKILL)
            self._init.kill()
            self._init.wait()

    def reboot(self, same_kernel: bool = False) -> None:
        self.stop()
        self.start(same_kernel)

    def restart_sshd(self) -> None:
        self.run("pkill -KILL -f '^sshd: ' ; true", check=False)

    def cut(self) -> None:
        ip("link", "set", self.veth, "down")

    def mend(self) -> None:
        ip("link", "set", self.veth, "up")

    def run(self, command: str, check: bool = True) -> str:
        """Run a shell command inside the box, not by SSH."""
        inside = [
            "nsenter",
            "-t",
            self._first()[0],
            "--mount",
            "--uts",
            "--pid",
            "--net",
            "sh",
            "-c",
            command,
        ]
        environment = os.environ | {"HOME": "/root", "PATH": f"/usr/local/bin:{os.environ['PATH']}"}
        done = subprocess.run(inside, capture_output=True, text=True, env=environment)
        if check and done.returncode:
            raise RuntimeError(f"{command}: {done.stderr or done.stdout}")
        return done.stdout.strip()

    def containers(self) -> list[str]:
        return self.run("docker ps -a --format '{{.Names}}'").split()

    def trees(self) -> list[str]:
        marked = "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | sed -n 's/^GRIDBENCH_TREE=//p'"
        return sorted(set(self.run(marked, check=False).split()))

    def jobs(self) -> list[str]:
        return [*self.containers(), *self.trees()]

    def remove(self) -> None:
        with contextlib.suppress(Exception):
            self.run("docker rm -f -a -t 0", check=False)
        self.stop()
        ip("netns", "del", self.name, check=False)
        ip("link", "del", self.veth, check=False)
        for mounted in sorted(_mounts_below(self.folder), reverse=True):
            subprocess.run(["umount", "-l", mounted], capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def _mounts_below(folder: Path) -> list[str]:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [line.split()[1] for line in lines if line.split()[1].startswith(f"{folder}/")]


@cache
def need_tools() -> None:
    for tool in ("podman", "ip", "nsenter", "ssh-keygen"):
        containers.need(tool)
    if not Path(SSHD).exists():
        raise RuntimeError(containers.MISSING.format(tool="openssh-server"))


def make() -> Box:
    need_tools()
    number = next(_numbers)
    folder = Path(tempfile.mkdtemp(prefix="gridbench-box-", dir="/var/tmp"))  # a box has its own /tmp
    for part in ("etc", "home", "bin", "storage", "tmp"):
        (folder / part).mkdir()
    etc = folder / "etc"
    box = Box(folder, number, keygen(etc / "host"))
    (etc / "authorized").write_text(keygen(etc / "user") + "\n")
    (etc / "sshd_config").write_text(SSHD_CONFIG.format(etc=etc))
    (etc / "storage.conf").write_text(STORAGE.format(box=folder))
    (etc / "passwd").write_text(UBUNTU + Path("/etc/passwd").read_text())
    shutil.copy(containers.environment()["CONTAINERS_CONF"], etc / "containers.conf")
    docker = folder / "bin/docker"
    docker.write_text(DOCKER.format(etc=etc))
    docker.chmod(0o755)
    ip("netns", "add", box.name)
    ip("link", "add", box.veth, "type", "veth", "peer", "name", "eth0", "netns", box.name)
    ip("addr", "add", f"{box.here}/30", "dev", box.veth)
    ip("link", "set", box.veth, "up")
    ip("-n", box.name, "addr", "add", f"{box.address}/30", "dev", "eth0")
    ip("-n", box.name, "link", "set", "eth0", "up")
    ip("-n", box.name, "link", "set", "lo", "up")
    return box


def has_all_packages(box: Box) -> None:
    """Give the box our Python and no package index: nothing should be installed."""
    settings = box.folder / "home/.config/uv/uv.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text("offline = true\n")


@contextlib.contextmanager
def boxes(many: int = 1) -> Iterator[list[Box]]:
    made: list[Box] = []
    try:
        for _ in range(many):
            made.append(make())
            made[-1].start()
        yield made
    finally:
        for box in made:
            box.remove()
