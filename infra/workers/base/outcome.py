"""The outcome of a job and the duration of its start, as workers report them to Prefect.

A worker sets a state, whose name and message are for people, and labels of the flow run for programs. NAME
stands for `BRAND.name`:

| label | value |
| --- | --- |
| `NAME.explained_within_s` | from the start on: longest time until the worker explains a crash, in seconds |
| `NAME.outcome` | the `Cause`, after the end of a job whose flow did not end by itself |
| `NAME.queue_s` | seconds in the queue, boot of the machine included |
| `NAME.pull_s` | seconds from the machine to the container, mostly for its image |
| `NAME.began_at` | begin of the job by its platform, in seconds since 1970 |
| `NAME.ended_at` | end of the job's container by its platform, in seconds since 1970 |
"""

import datetime as dt
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeGuard, get_args

from ..brand import BRAND

EXPLAINED_LABEL = f"{BRAND.name}.explained_within_s"
OUTCOME_LABEL = f"{BRAND.name}.outcome"
QUEUE_LABEL, PULL_LABEL = f"{BRAND.name}.queue_s", f"{BRAND.name}.pull_s"
BEGAN_LABEL, ENDED_LABEL = f"{BRAND.name}.began_at", f"{BRAND.name}.ended_at"

NO_EXIT_CODE = -1
KILLED = 137  # 128 + SIGKILL: an exit code
ENDED_BY_OTHERS = (None, KILLED, 143)  # exit codes of a container after SIGKILL or SIGTERM from outside

StateName = Literal[
    "Exited",
    "Cancelled",
    "Crashed",
    "TimedOut",
    "OutOfMemory",
    "ImagePullFailed",
    "Evicted",
    "PodLost",
    "PodRefused",
    "Reclaimed",
    "Preempted",
    "Drained",
    "NodeLost",
    "NoCapacity",
    "Unschedulable",
    "Unfit",
    "Lost",
    "Unseen",
    "Removed",
    "Rebooted",
    "HostKeyRefused",
    "KeyRefused",
]


class Cause(StrEnum):
    """The reason for a job's end, for programs that decide about the next step."""

    EXITED = "exited"
    CANCELLED = "cancelled"
    CRASHED = "crashed"
    OUT_OF_MEMORY = "out-of-memory"
    TAKEN_AWAY = "taken-away"  # the provider or the cluster took the machine: another one will do
    NO_MACHINE = "no-machine"  # the request got no machine: a retry would not help
    UNFIT = "unfit"  # the machine lacks something: a retry would not help
    UNREACHABLE = "unreachable"  # the machine is lost, or has been replaced by another one
    UNSEEN = "unseen"  # its worker can't observe it: it might still run, and a second job would cost as well


CAUSES: dict[StateName, Cause] = {
    "Exited": Cause.EXITED,
    "Cancelled": Cause.CANCELLED,
    "OutOfMemory": Cause.OUT_OF_MEMORY,
    "Reclaimed": Cause.TAKEN_AWAY,
    "Preempted": Cause.TAKEN_AWAY,
    "Drained": Cause.TAKEN_AWAY,
    "NodeLost": Cause.TAKEN_AWAY,
    "PodLost": Cause.TAKEN_AWAY,  # deleted from outside: not the repeat's fault
    "Removed": Cause.TAKEN_AWAY,  # the same
    "NoCapacity": Cause.NO_MACHINE,
    "Unschedulable": Cause.NO_MACHINE,
    "PodRefused": Cause.NO_MACHINE,
    "Unfit": Cause.UNFIT,
    "Lost": Cause.UNREACHABLE,
    "Unseen": Cause.UNSEEN,
    "Rebooted": Cause.UNREACHABLE,
    "HostKeyRefused": Cause.UNREACHABLE,
    "KeyRefused": Cause.UNREACHABLE,
}

NOT_SEEN: tuple[StateName, ...] = ("Lost", "Unseen")  # of a job whose end was not observed


def is_state_name(text: str) -> TypeGuard[StateName]:
    return text in get_args(StateName)


@dataclass(frozen=True)
class JobOutcome:
    """The end of a job: the name of Prefect's state, a sentence, and the container's exit code if any.

    "Exited" is an exit code of 0, "Cancelled" a user's request; every other name is a crash.
    """

    name: StateName
    message: str
    exit_code: int | None = None

    @property
    def cause(self) -> Cause:
        return CAUSES.get(self.name, Cause.CRASHED)

    @property
    def status_code(self) -> int:
        """Return the exit code; a missing one is never 0."""
        if self.name == "Exited":
            return 0
        return self.exit_code or NO_EXIT_CODE


@dataclass(frozen=True)
class StartTimes:
    """Seconds of a job's start by stage; None if the backend does not report it."""

    queue_s: float | None
    pull_s: float | None

    def labels(self, queue: str, pull: str) -> dict[str, float]:
        times = {QUEUE_LABEL: self.queue_s, queue: self.queue_s, PULL_LABEL: self.pull_s, pull: self.pull_s}
        return {label: s for label, s in times.items() if s is not None}


@dataclass(frozen=True)
class MachineTime:
    """A job's begin and end on a machine, by its platform."""

    began: dt.datetime | None = None
    ended: dt.datetime | None = None

    @property
    def labels(self) -> dict[str, float]:
        times = {BEGAN_LABEL: self.began, ENDED_LABEL: self.ended}
        return {label: time.timestamp() for label, time in times.items() if time is not None}
