"""Lanes of three kinds and their faults: in containers and as processes on a box, and as jobs of Slurm."""

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from uv import find_uv_bin

from tests.emulators.boxes import Box, has_all_packages
from tests.emulators.slurm.cluster import Cluster
from tests.emulators.slurm.python import with_torch

CONTAINERS, PROCESSES, SLURM = KINDS = ("containers", "processes", "slurm")
LOCK = "/root/.gridbench/box.lock"
PATIENT = {"least_free_mib": 1, "wait_s": 120}
NEWEST_ROOT = "kill -9 $(cat $(ls -t {home}/.prefect-ssh/*/root | head -n 1))"
ONE_CPU = {"exclusive": False, "cpus": 1}  # of a node
OUTSIDE_S = 120  # until changes by others show


class Lanes(Protocol):
    """The hosts of one kind of lanes, and a test's actions on a running lane."""

    kind: str
    host: dict[str, object]  # that the worker logs in at
    variables: dict[str, object]  # job variables of every lane

    def jobs(self) -> list[str]:
        """Return the names of running and waiting jobs."""

    def kill(self) -> None:
        """Kill the lane's first process."""

    def remove(self) -> None:
        """Remove the lane's container."""

    def kill_watcher(self) -> None:
        """Kill the process that waits for the lane's end."""

    def fail(self, same_kernel: bool = False) -> None:
        """Power the machine off and on, or the container that it is."""

    def cut(self) -> None:
        """Drop the network between worker and host silently."""

    def connect(self) -> None: ...

    def restart_sshd(self) -> None:
        """Kill all sessions at the host and restart sshd."""

    def occupy(self) -> None:
        """Take all machines as another user."""

    def leave(self) -> None: ...

    def own_disk(self) -> None:
        """Put the worker's files on a small disk."""

    def fill_disk(self) -> None:
        """Leave no free byte."""

    def old_disk(self) -> None:
        """Restore the disk of before."""

    def poor_python(self) -> str:
        """Return a Python with torch alone, in which nothing can be installed."""


def wait_for(true) -> None:
    deadline = time.monotonic() + OUTSIDE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def poor_python_in(folder: Path) -> str:
    """Make an environment with torch alone, and uv without a package index."""
    made = folder / "poor"
    if not made.exists():
        ours = Path(sys.base_prefix) / f"bin/python{sys.version_info.major}.{sys.version_info.minor}"
        subprocess.run([str(ours), "-m", "venv", "--without-pip", str(made)], check=True)
        packages = next(made.glob("lib/python3*/site-packages"))
        import torch

        (packages / "torch").symlink_to(Path(torch.__file__).parent)
        (made / "bin/uv").symlink_to(find_uv_bin())
    return str(made / "bin/python")


@dataclass
class BoxLanes:
    kind: str
    box: Box
    image: str

    @property
    def host(self) -> dict[str, object]:
        return self.box.host

    @property
    def variables(self) -> dict[str, object]:
        shared = {"hosts": [self.host], **PATIENT}
        if self.kind == CONTAINERS:
            return shared | {"image": self.image}
        has_all_packages(self.box)
        return shared | {"container_command": "none", "python": sys.executable}

    def jobs(self) -> list[str]:
        return self.box.jobs()

    def kill(self) -> None:
        first = {CONTAINERS: "docker kill $(docker ps -q)", PROCESSES: NEWEST_ROOT.format(home="/root")}
        self.box.run(first[self.kind], check=False)

    def remove(self) -> None:
        self.box.run("docker rm -f $(docker ps -q)")

    def kill_watcher(self) -> None:
        self.box.run("pkill -KILL -f '[w]atch /root/.prefect-ssh/'")

    def fail(self, same_kernel: bool = False) -> None:
        self.box.reboot(same_kernel)

    def cut(self) -> None:
        self.box.cut()

    def connect(self) -> None:
        self.box.mend()

    def restart_sshd(self) -> None:
        self.box.restart_sshd()

    def occupy(self) -> None:
        self.box.run("mkdir -p -m 700 ~/.gridbench")
        self.box.run(f"setsid flock {LOCK} sleep 301 >/dev/null 2>&1 &")
        wait_for(lambda: self.box.run(f"flock -n {LOCK} true || echo taken", check=False) == "taken")

    def leave(self) -> None:
        self.box.run("pkill -f '[s]leep 301'", check=False)

    def own_disk(self) -> None:
        self.box.run("mkdir -p ~/.prefect-ssh && mount -t tmpfs -o size=16m tmpfs ~/.prefect-ssh")

    def fill_disk(self) -> None:
        self.box.run("cat /dev/zero >~/.prefect-ssh/fill", check=False)

    def old_disk(self) -> None:
        self.box.run("umount -l ~/.prefect-ssh", check=False)

    def poor_python(self) -> str:
        return poor_python_in(self.box.folder)

    def mend(self) -> None:
        """Remove everything of a test, so that a failure never affects another test."""
        self.connect()
        self.leave()
        self.old_disk()
        self.box.run("kill -9 $(grep -ls GRIDBENCH_TREE= /proc/[0-9]*/environ | cut -d/ -f3)", check=False)
        self.box.run("docker rm -f -a -t 0", check=False)
        self.box.run(f"flock -w 60 {LOCK} true", check=False)  # what watched the lane ends a moment later


@dataclass
class SlurmLanes:
    """Lanes as jobs of a cluster, whose user's home is a separate disk."""

    cluster: Cluster
    kind: str = SLURM

    @property
    def host(self) -> dict[str, object]:
        return self.cluster.host

    @property
    def variables(self) -> dict[str, object]:
        python = str(with_torch(self.cluster.folder))
        asked = {"hosts": [self.host], "container_command": "none", "scheduler": "slurm", "slurm": ONE_CPU}
        return asked | PATIENT | {"memory_mib": 200, "timeout_s": 240, "python": python}

    @property
    def node(self) -> Box:
        return self.cluster.nodes[self.cluster.login.run("squeue --noheader --states=RUNNING --format=%N")]

    def jobs(self) -> list[str]:
        return [*self.cluster.jobs(), *self.cluster.trees()]

    def kill(self) -> None:
        self.node.run(NEWEST_ROOT.format(home="/home/ada"))

    def remove(self) -> None:
        raise NotImplementedError("no container, no removal")

    def kill_watcher(self) -> None:
        self.node.run("pkill -KILL -f '[s]lurm_script'")

    def fail(self, same_kernel: bool = False) -> None:
        assert not same_kernel
        (name,) = [name for name, box in self.cluster.nodes.items() if box is self.node]
        self.cluster.fail(name)

    def cut(self) -> None:
        self.cluster.login.cut()

    def connect(self) -> None:
        self.cluster.login.mend()

    def restart_sshd(self) -> None:
        self.cluster.login.restart_sshd()

    def occupy(self) -> None:
        for node in self.cluster.nodes:
            others = f"sbatch --nodelist={node} --exclusive --output=/dev/null --wrap='sleep 600'"
            self.cluster.as_user(f"cd; {others}")

    def leave(self) -> None:
        self.cluster.login.run("scancel --name=wrap", check=False)
        wait_for(
            lambda: "wrap" not in self.cluster.jobs()
        )  # they are in the queue until their nodes are clean

    def own_disk(self) -> None:
        assert self.cluster.home.parent.is_mount()

    def fill_disk(self) -> None:
        self.cluster.login.run("cat /dev/zero >/home/fill", check=False)

    def old_disk(self) -> None:
        (self.cluster.home.parent / "fill").unlink(missing_ok=True)

    def poor_python(self) -> str:
        return poor_python_in(self.cluster.folder)

    def mend(self) -> None:
        self.connect()
        self.old_disk()
        self.cluster.mend()
