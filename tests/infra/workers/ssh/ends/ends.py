"""The ends of a lane: their causes, and their names in each kind of lane.

docs/ssh.md and docs/slurm.md show this list (tests/docs/test_ends.py); the tests in `cloud` and `chaos` cause
each end.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.infra.workers.ssh.ends.lanes import CONTAINERS, KINDS, PROCESSES, SLURM, Lanes
from tests.infra.workers.worker_prefect import Pool

BOXES = (CONTAINERS, PROCESSES)
ANOTHER_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEGEGUOMmjOXX0HjuP4UbTgROmPwPQVtXn1iT9ILMEgQ"
NOT_LET_IN = "a key that the host does not let in"  # a test has its path


class Said(NamedTuple):
    """The name of an end: Prefect's state, the cause for programs, and the sentence, in which … is anything."""

    state: str
    cause: str | None
    message: str


@dataclass(frozen=True)
class End:
    """One end of a lane.

    Attributes:
        what: its cause, in words of the docs.
        said: by kind of lane that can end so.
        job: variables of the lane, and `script`, that cause it.
        of_kind: further ones of a kind.
        host: changes of the login host.
        runs: it runs first, as its labels show.
        slurm_state: Slurm's state, or one of two; if it then waits or is paused, the worker cancels it.
    """

    what: str
    said: Mapping[str, Said]
    job: Mapping[str, object]
    of_kind: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    host: Mapping[str, object] = field(default_factory=dict)
    runs: bool = False
    slurm_state: str = ""

    def asked(self, lanes: Lanes) -> dict[str, object]:
        host = {"hosts": [lanes.host | self.host]} if self.host else {}
        return {**self.job, **self.of_kind.get(lanes.kind, {}), **host}


def everywhere(state: str, cause: str | None, message: str) -> dict[str, Said]:
    return dict.fromkeys(KINDS, Said(state, cause, message))


def by_kind(state: str, cause: str | None, messages: Mapping[str, str]) -> dict[str, Said]:
    return {kind: Said(state, cause, message) for kind, message in messages.items()}


def on_boxes(state: str, cause: str | None, message: str) -> dict[str, Said]:
    return dict.fromkeys(BOXES, Said(state, cause, message))


def on_slurm(state: str, cause: str | None, message: str) -> dict[str, Said]:
    return {SLURM: Said(state, cause, message)}


LARGE = 'python3 -c "x = bytearray(900 << 20)"'
# Without containers a job can use the machine's memory, or its user's limit.
SMALL = "/sys/fs/cgroup/memory/gridbench-small"
HUNGRY = (
    f"mkdir -p {SMALL}; echo 100M >{SMALL}/memory.limit_in_bytes; echo $$ >{SMALL}/cgroup.procs; exec {LARGE}"
)
TRUE = {"script": "true"}
NO_MACHINE, UNREACHABLE, TAKEN_AWAY = "no-machine", "unreachable", "taken-away"

JOBS = {
    "exits-0": End(
        "it ends by itself",
        everywhere("Completed", "exited", "The job ended with exit code 0."),
        {"script": "echo fine"},
        runs=True,
        slurm_state="COMPLETED",
    ),
    "exits-9": End(
        "it fails",
        everywhere("Crashed", "crashed", "The job ended with exit code 9."),
        {"script": "echo oops >&2; exit 9"},
        runs=True,
        slurm_state="FAILED",
    ),
    "memory": End(
        "its memory is not enough",
        by_kind(
            "OutOfMemory",
            "out-of-memory",
            {
                # Some runtimes do not say that it was the memory, and then the sentence does not either.
                CONTAINERS: "The job ran out of memory… (memory_mib 100…, exit code 137).",
                PROCESSES: "The job ran out of memory (the box's memory was not enough, exit code 137).",
                SLURM: "Job … ran out of memory on node … (memory_mib 200 was not enough).",
            },
        ),
        {},
        {
            CONTAINERS: {"command": LARGE, "memory_mib": 100},
            PROCESSES: {"script": HUNGRY},
            SLURM: {"command": LARGE},
        },
        runs=True,
        slurm_state="OUT_OF_MEMORY",
    ),
    "late": End(
        "its time is over",
        on_boxes("TimedOut", "crashed", "Box … stopped the job after timeout_s 10.")
        | on_slurm("TimedOut", "crashed", "The job was stopped after timeout_s 10."),
        {"script": "sleep 100", "timeout_s": 10},
        runs=True,
        slurm_state="FAILED",
    ),
    "credentials": End(
        "it is given a cloud's credentials",
        everywhere("Crashed", "crashed", "…cloud credentials are never sent…"),
        {"script": "true", "env": {"AWS_SECRET_ACCESS_KEY": "x"}},
    ),
    "disk": End(
        "the disk has less than `least_free_mib`",
        everywhere(
            "Unfit",
            "unfit",
            "Box …: … MiB free, less than least_free_mib …: free some space, or lower least_free_mib.",
        ),
        {"script": "true", "least_free_mib": 10**9},
    ),
    "no-gpu": End(
        "it asks for a GPU, and there is none",
        on_boxes(
            "Unfit", "unfit", "Box …: nvidia-smi finds no GPU: install the NVIDIA driver, or set gpus to 0."
        )
        | on_slurm(
            "Unschedulable",
            NO_MACHINE,
            "Box …: Slurm does not take the job: Invalid generic resource (gres) specification.",
        ),
        {"script": "true", "gpus": 1},
    ),
    "missing": End(
        "the program that runs lanes is missing",
        by_kind(
            "Unfit",
            "unfit",
            {
                CONTAINERS: "Box …: nodocker is not installed: install Docker or podman, and name it in container_command.",
                PROCESSES: "Box …: python is /no/python…",
                SLURM: "Box …: python is /no/python…",
            },
        ),
        TRUE,
        {
            CONTAINERS: {"container_command": ["nodocker"]},
            PROCESSES: {"python": "/no/python"},
            SLURM: {"python": "/no/python"},
        },
    ),
    "unpulled": End(
        "image or packages can't be had",
        by_kind(
            "ImagePullFailed",
            "crashed",
            {
                CONTAINERS: "Image localhost/no:1 could not be pulled on box …: …",
                PROCESSES: "The job's environment could not be created on box …: …",
                SLURM: "The job's environment could not be created on the login node: …",
            },
        ),
        TRUE,
        {CONTAINERS: {"image": "localhost/no:1"}},  # the others' is poor_python
    ),
    "another-host": End(
        "the host shows another key than the pinned one",
        everywhere("HostKeyRefused", UNREACHABLE, "Box … instead of ssh-ed25519 …"),
        TRUE,
        host={"host_key": ANOTHER_KEY},
    ),
    "unknown-host": End(
        "no key of the host is known",
        everywhere("HostKeyRefused", UNREACHABLE, "…no key is pinned…"),
        TRUE,
        host={"host_key": None},
    ),
    "not-let-in": End(
        "the host does not take the worker's key",
        everywhere("KeyRefused", UNREACHABLE, "…does not accept…"),
        TRUE,
        host={"key": NOT_LET_IN},
    ),
    "no-key": End(
        "the worker has no such key",
        everywhere("KeyRefused", UNREACHABLE, "…can't be used…"),
        TRUE,
        host={"key": "/no/such/key"},
    ),
    "mounts": End(
        "it asks for what only a container has",
        {PROCESSES: Said("Crashed", "crashed", "…applies only to containers…")},
        {"script": "true", "mounts": ["/a:/b"]},
    ),
    "never": End(
        "the image is not there, and `pull` is `never`",
        {
            CONTAINERS: Said(
                "Unfit", "unfit", "Box …: image localhost/no:1 is not on the box and pull is never: …"
            )
        },
        {"script": "true", "image": "localhost/no:1", "pull": "never"},
    ),
    "partition": End(
        "`sbatch` refuses the partition",
        on_slurm("Unschedulable", NO_MACHINE, "Box …: Slurm does not take the job: invalid partition …."),
        {"script": "true", "slurm": {"partition": "nothing"}},
    ),
    "account": End(
        "`sbatch` refuses the account",
        on_slurm("Unschedulable", NO_MACHINE, "Box …: Slurm does not take the job: …nvalid account …."),
        {"script": "true", "slurm": {"account": "none"}},
    ),
    "too-large": End(
        "no node has its memory",
        on_slurm("Unschedulable", NO_MACHINE, "Box …: Slurm does not take the job: …can not be satisfied…"),
        {"script": "true", "memory_mib": 99999},
    ),
    "too-many": End(
        "no node has its CPUs",
        on_slurm("Unschedulable", NO_MACHINE, "…onfig…"),
        {"script": "true", "slurm": {"cpus": 99}},
    ),
    "never-starts": End(
        "the partition gives no job its time",
        # PartitionTimeLimit, or PartitionConfig before the scheduler has looked
        on_slurm("Unschedulable", NO_MACHINE, "Slurm can never start job … (Partition…): …timeout_s."),
        {"script": "true", "slurm": {"partition": "brief"}},
        slurm_state="PENDING",
    ),
}

Happens = Callable[[Pool, Lanes, str], Awaitable[None]]
RUNS = {"script": "echo on; sleep 600"}
ADA = "cd /home/ada; setpriv --reuid=6001 --regid=100 --clear-groups"
URGENT = f"{ADA} sbatch --partition=urgent --cpus-per-task=4 --output=/dev/null --wrap='sleep 2'"


async def cancel(pool: Pool, lanes: Lanes, run_id: str) -> None:
    await pool.cancel(run_id)


def done(name: str, *words: object) -> Happens:
    async def happens(pool: Pool, lanes: Lanes, run_id: str) -> None:
        getattr(lanes, name)(*words)

    return happens


def said_to_slurm(command: str) -> Happens:
    """Return a command on the login node, with the lane's {job} and {name}, and its {node}."""

    async def happens(pool: Pool, lanes: Lanes, run_id: str) -> None:
        login = lanes.cluster.login
        job, name, node = login.run("squeue --noheader --states=RUNNING --format='%i %j %N'").split()
        login.run(command.format(job=job, name=name, node=node))

    return happens


@dataclass(frozen=True)
class Death(End):
    happens: Happens = cancel
    runs: bool = True


DEATHS = {
    "killed": Death(
        "it is killed from outside",
        everywhere("Crashed", "crashed", "The job ended with exit code 137."),
        {"script": "(setsid sleep 600 &); echo on; sleep 600"},
        slurm_state="FAILED",
        happens=done("kill"),
    ),
    "unwatched": Death(
        "what watches it there is killed",
        on_boxes(
            "Crashed",
            "crashed",
            "The process that watched the job on box … was killed, so the job was stopped, too.",
        )
        | on_slurm("Crashed", "crashed", "The job ended with exit code 137."),
        RUNS,
        slurm_state="FAILED",
        happens=done("kill_watcher"),
    ),
    "fails": Death(
        "the machine fails",
        on_boxes("Rebooted", UNREACHABLE, "Box … was restarted while the job was running; the job was lost.")
        | on_slurm("NodeLost", TAKEN_AWAY, "Slurm lost the node … of job …."),
        RUNS,
        slurm_state="NODE_FAIL",
        happens=done("fail"),
    ),
    "same-kernel": Death(
        "the container that the box is restarts",
        on_boxes("Rebooted", UNREACHABLE, "Box … was restarted while the job was running; the job was lost."),
        RUNS,
        happens=done("fail", True),
    ),
    "removed": Death(
        "its container is removed",
        {
            CONTAINERS: Said(
                "Removed",
                TAKEN_AWAY,
                "The job was removed from box … outside of Prefect while it was running.",
            )
        },
        RUNS,
        happens=done("remove"),
    ),
    "cancelled": Death(
        "it is cancelled in Prefect",
        everywhere("Cancelled", "cancelled", "Cancelled from Prefect; the job was stopped."),
        RUNS,
        slurm_state="CANCELLED",
        happens=cancel,
    ),
    "out-of-reach": Death(
        "the host is out of reach for `lost_s`",
        everywhere("Lost", UNREACHABLE, "Box … could not be reached for lost_s 10: …"),
        {"script": "echo on; sleep 600", "lost_s": 10, "timeout_s": 60},  # it ends itself
        happens=done("cut"),
    ),
    "preempted": Death(
        "a job of higher priority takes the node",
        on_slurm("Preempted", TAKEN_AWAY, "Slurm preempted job … on node … for one of higher priority."),
        RUNS,
        slurm_state="PREEMPTED",
        happens=said_to_slurm(URGENT + " --nodelist={node}"),
    ),
    "paused": Death(
        "it is paused: `scontrol suspend`, or gang scheduling",
        on_slurm(
            "Preempted", TAKEN_AWAY, "Slurm has paused job …, which makes its times wrong; it was cancelled."
        ),
        RUNS,
        slurm_state="SUSPENDED",
        happens=said_to_slurm("scontrol suspend {job}"),
    ),
    "limit": Death(
        "Slurm's limit of time is lowered",
        on_slurm(
            "TimedOut",
            "crashed",
            "Slurm ended job … at its time limit of 1 min, which was set instead of 5 min.",
        ),
        RUNS,
        slurm_state="TIMEOUT",
        happens=said_to_slurm("scontrol update jobid={job} timelimit=1"),
    ),
    "administrator": Death(
        "`scancel` by an administrator",
        on_slurm(
            "Cancelled", "cancelled", "Slurm job … was cancelled by an administrator, outside of Prefect."
        ),
        RUNS,
        slurm_state="CANCELLED",
        happens=said_to_slurm("scancel --name={name}"),
    ),
    "user": Death(
        "`scancel` by a user",
        on_slurm("Cancelled", "cancelled", "Slurm job … was cancelled by user 6001, outside of Prefect."),
        RUNS,
        slurm_state="CANCELLED",
        happens=said_to_slurm(f"{ADA} scancel --name={{name}}"),
    ),
}

# What comes before a lane runs, or does not end it.
STATES = {
    "waits": End(
        "another job has the machine for `wait_s`",
        on_boxes("NoCapacity", NO_MACHINE, "No box took the job in wait_s 10. Box … is in use….")
        # It leaves the queue by itself, or the worker sees it first.
        | on_slurm("NoCapacity", NO_MACHINE, "Slurm had no node for job … in wait_s 10…."),
        {"script": "true", "wait_s": 10},
        slurm_state="PENDING or DEADLINE",
    ),
    "cancelled-before": End(
        "it is cancelled in Prefect before it runs",
        on_boxes("Cancelled", "cancelled", "Cancelled from Prefect before a box took the job.")
        | on_slurm("Cancelled", "cancelled", "Cancelled from Prefect; the job was stopped."),
        TRUE,
        slurm_state="CANCELLED",
    ),
    "full-before": End(
        "the disk is full at the start",
        on_boxes(
            "Unfit",
            "unfit",
            "Box …: The box can't be written to (…No space left on device): free disk space or fix the home folder.",
        )
        | on_slurm(
            "Unfit",
            "unfit",
            "Box …: … MiB free, less than least_free_mib 1: free some space, or lower least_free_mib.",
        ),
        TRUE,
    ),
    "full": End(
        "the disk fills while it runs: lines of the log are lost",
        everywhere("Crashed", "crashed", "The job ended with exit code 3."),
        {"script": "echo on; sleep 12; seq 1 10000; exit 3"},
        runs=True,
        slurm_state="FAILED",
    ),
    "sessions": End(
        "sshd and the worker die: job and log go on",
        everywhere("Completed", "exited", "The job ended with exit code 0."),
        {},
        runs=True,
        slurm_state="COMPLETED",
    ),
    "cut": End(
        "the network fails for a while: job and log go on",
        everywhere("Completed", "exited", "The job ended with exit code 0."),
        {"script": "echo on; sleep 8; echo off"},
        runs=True,
        slurm_state="COMPLETED",
    ),
    "waited": End(
        "another job has the machine for a while: this one waits",
        everywhere("Completed", "exited", "The job ended with exit code 0."),
        {"script": "echo on"},
        runs=True,
        slurm_state="COMPLETED",
    ),
}
ENDS: dict[str, End] = {**JOBS, **DEATHS, **STATES}
assert len(ENDS) == len(JOBS) + len(DEATHS) + len(STATES)
