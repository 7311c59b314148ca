"""A real Slurm cluster for tests: a login node with its controller, and private compute nodes.

Each machine is a box with its own processes, mounts, name and network; they share /home. Its user `ada` is an
ordinary one. Needs root, like all boxes.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.emulators.boxes import SSHD_CONFIG, Box, ip, keygen, make
from tests.emulators.slurm import accounting

HERE = Path(__file__).parent
USER, UID, GID = "ada", 6001, 100
LAN = "10.200.{node}.{end}"  # a cable between the login node and each other one
CPUS, MEMORY_MIB = 4, 4000  # of a node, by its own word
HOME_SIZE = "3g"  # of all homes together, on a separate disk; lanes need 1 GiB free
WITHIN_S = 120
CONFIGURATION = """
ClusterName=gridbench
SlurmctldHost=login({login})
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation=/run/slurm/state
SlurmdSpoolDir=/run/slurm/spool
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
SlurmctldLogFile=/run/slurm/log/slurmctld.log
SlurmdLogFile=/run/slurm/log/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/{processes}
TaskPlugin=task/{tasks}
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
ReturnToService=2
SlurmdTimeout=6
KillWait=5
MinJobAge={remembered_s}
MpiDefault=none
SwitchType=switch/none
{accounting}
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=60 PriorityTier=1 State=UP
PartitionName=urgent Nodes=ALL MaxTime=60 PriorityTier=10 PreemptMode=OFF State=UP
PartitionName=brief Nodes=ALL MaxTime=1 State=UP
PartitionName=closed Nodes=ALL AllowAccounts=nobody State=UP
"""


@dataclass
class Cluster:
    """A running cluster.

    Attributes:
        folder: what its machines share.
        login: the box that the worker reaches.
        nodes: compute nodes by name.
    """

    folder: Path
    login: Box
    nodes: dict[str, Box]
    _off: set[str] = field(default_factory=set)

    @property
    def host(self) -> dict[str, object]:
        """The login node as a job variable of an ordinary user."""
        return self.login.host | {"user": USER}

    @property
    def home(self) -> Path:
        return self.folder / "home" / USER

    def as_user(self, command: str, check: bool = True) -> str:
        return self.login.run(
            f"setpriv --reuid={UID} --regid={GID} --clear-groups env HOME=/home/{USER} USER={USER} sh -c {_quoted(command)}",
            check,
        )

    def jobs(self) -> list[str]:
        return self.login.run("squeue --noheader --format=%j").split()

    def trees(self) -> list[str]:
        return [name for node, box in self.nodes.items() if node not in self._off for name in box.trees()]

    def fail(self, node: str) -> None:
        self._off.add(node)
        self.nodes[node].stop()

    def mend(self) -> None:
        self.login.run("scancel --state=PENDING --user=ada; scancel --user=ada")
        for name in sorted(self._off):
            self.nodes[name].start()
        self._off.clear()
        self.until(lambda: not self.jobs() and self.idle() == len(self.nodes))

    def idle(self) -> int:
        states = self.login.run("sinfo --noheader --Node --partition=main --format=%T").split()
        return states.count("idle")

    def until(self, true) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not true():
            assert time.monotonic() < deadline, self.login.run(
                "sinfo -N -l; squeue; tail -n 30 /run/slurm/log/*.log", check=False
            )
            time.sleep(0.2)

    def remove(self) -> None:
        for box in (*self.nodes.values(), self.login):
            box.remove()
        for name in self.nodes:
            for group in Path("/sys/fs/cgroup").glob(f"*/slurm_{name}"):
                subprocess.run(["find", str(group), "-depth", "-type", "d", "-delete"], capture_output=True)
        subprocess.run(["umount", "-l", str(self.folder / "home")], capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def need_slurm() -> None:
    for tool in ("slurmctld", "slurmd", "munged"):
        if not shutil.which(tool):
            raise RuntimeError(
                f"These tests run a real Slurm and {tool} is not installed; `make slurm` installs it."
            )


@contextlib.contextmanager
def cluster(many: int = 1, remembered_s: int = 300, with_accounting: bool = False) -> Iterator[Cluster]:
    """Yield an idle cluster.

    Args:
        many: compute nodes.
        remembered_s: how long its controller knows an ended job.
        with_accounting: whether `sacct` works.
    """
    need_slurm()
    made = _lay_out(many, remembered_s, with_accounting)
    try:
        for box in (made.login, *made.nodes.values()):
            box.start()
        made.until(lambda: made.idle() == many)
        yield made
    finally:
        made.remove()


def _lay_out(many: int, remembered_s: int, with_accounting: bool) -> Cluster:
    shared = Path(tempfile.mkdtemp(prefix="gridbench-slurm-", dir="/var/tmp"))
    shared.chmod(0o755)
    login, nodes = (
        make(),
        {f"n{os.getpid()}-{number}": make() for number in range(1, many + 1)},
    )  # a cgroup has its name
    laid = Cluster(shared, login, nodes)
    for path in ("home", "etc"):
        (shared / path).mkdir()
    disk = ["mount", "-t", "tmpfs", "-o", f"size={HOME_SIZE}", "tmpfs", str(shared / "home")]
    subprocess.run(disk, check=True)
    Path("/etc/slurm").mkdir(exist_ok=True)  # its own are mounted over it
    (shared / "munge.key").write_bytes(os.urandom(1024))
    (shared / "munge.key").chmod(0o400)
    addresses = {"login": LAN.format(node=0, end=1)}
    ip("-n", login.name, "addr", "add", f"{addresses['login']}/32", "dev", "lo")
    for number, (name, box) in enumerate(nodes.items(), 1):
        addresses[name] = _cable(login, box, number)
    books = accounting.books(shared) if with_accounting else None
    cgroups = _has_cgroups()
    (shared / "etc/slurm.conf").write_text(
        CONFIGURATION.format(
            login=addresses["login"],
            processes="cgroup" if cgroups else "linuxproc",
            tasks="cgroup" if cgroups else "none",
            remembered_s=remembered_s,
            accounting=books.configuration if books else "AccountingStorageType=accounting_storage/none",
            nodes="\n".join(
                f"NodeName={name} NodeAddr={addresses[name]} CPUs={CPUS} RealMemory={MEMORY_MIB}"
                for name in nodes
            ),
        )
    )
    (shared / "etc/cgroup.conf").write_text(
        "CgroupAutomount=no\nConstrainRAMSpace=yes\nConstrainSwapSpace=yes\nAllowedSwapSpace=0\n"
    )
    _settle_user(shared, login)
    for name, box in {"login": login, **nodes}.items():
        _equip(box, name, shared, addresses, books)
    return laid


def _has_cgroups() -> bool:
    return os.access("/sys/fs/cgroup/memory", os.W_OK)


def _cable(login: Box, node: Box, number: int) -> str:
    here, there = LAN.format(node=number, end=1), LAN.format(node=number, end=2)
    ip(
        "link",
        "add",
        f"lan{number}",
        "netns",
        login.name,
        "type",
        "veth",
        "peer",
        "name",
        "lan0",
        "netns",
        node.name,
    )
    for name, device, address in ((login.name, f"lan{number}", here), (node.name, "lan0", there)):
        ip("-n", name, "addr", "add", f"{address}/30", "dev", device)
        ip("-n", name, "link", "set", device, "up")
    ip("-n", node.name, "route", "add", LAN.format(node=0, end=1), "via", here)
    ip("link", "del", node.veth)  # no way to the machine that the tests run on
    return there


def _settle_user(shared: Path, login: Box) -> None:
    """Make the user's home, with a key from the nodes to the login node."""
    ssh = shared / "home" / USER / ".ssh"
    ssh.mkdir(parents=True)
    allowed = [keygen(ssh / "id_ed25519"), (login.folder / "etc/authorized").read_text().strip()]
    (ssh / "authorized_keys").write_text("\n".join(allowed) + "\n")
    (ssh / "known_hosts").write_text(f"login {' '.join(login.host_key.split()[:2])}\n")
    offline = ssh.parent / ".config/uv/uv.toml"  # its Python has all packages: nothing should be installed
    offline.parent.mkdir(parents=True)
    offline.write_text("offline = true\n")
    for path in (ssh.parent, *ssh.parent.rglob("*")):
        os.chown(path, UID, GID)
        path.chmod(0o700 if path.is_dir() else 0o600)


def _equip(
    box: Box, name: str, shared: Path, addresses: dict[str, str], books: "accounting.Books | None"
) -> None:
    """Give a box the files of its init: name, neighbours, users and daemons."""
    etc = box.folder / "etc"
    box.folder.chmod(0o755)
    (etc / "hosts").write_text(
        "127.0.0.1 localhost\n" + "".join(f"{at} {name}\n" for name, at in addresses.items())
    )
    users = Path("/etc/passwd").read_text()  # root has one name: that of Slurm's user
    (etc / "passwd").write_text(f"{users}{USER}:*:{UID}:{GID}::/home/{USER}:/bin/sh\n")
    keys = f"AuthorizedKeysFile {etc}/authorized"
    (etc / "sshd_config").write_text(
        SSHD_CONFIG.format(etc=etc).replace(keys, f"{keys} .ssh/authorized_keys")
    )
    daemon = "slurmd -N {name}" if name != "login" else "slurmctld"
    if name == "login" and books:
        daemon = f"{books.start}\nslurmctld"
    boot = (HERE / "boot.sh").read_text()
    (etc / "boot.sh").write_text(boot.format(name=name, shared=shared, daemon=daemon.format(name=name)))
