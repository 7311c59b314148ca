"""How a job ended and how long its start took, as every worker tells Prefect.

A worker sets a state whose name and message are for people, and labels of the flow run for programs. NAME
stands for `BRAND.name`:

| label | value |
| --- | --- |
| `NAME.explained_within_s` | from the start on: seconds that the worker may take to explain a crash |
| `NAME.outcome` | once a job has ended whose flow did not end by itself: a `Cause` |
| `NAME.queue_s` | seconds in the queue, boot of the machine included |
| `NAME.pull_s` | seconds from the machine to the container, mostly for its image |
| `NAME.began_at` | when the platform says that the job began, in seconds since 1970 |
| `NAME.ended_at` | when the platform says that the job's container ended, in seconds since 1970 |
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
ENDED_BY_OTHERS = (None, KILLED, 143)  # exit codes of a container that gets SIGKILL or SIGTERM from outside

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
    """The reason for a job's end, for programs that decide what to do next."""

    EXITED = "exited"
    CANCELLED = "cancelled"
    CRASHED = "crashed"
    OUT_OF_MEMORY = "out-of-memory"
    TAKEN_AWAY = "taken-away"  # the provider or the cluster took the machine: another one will do
    NO_MACHINE = "no-machine"  # none came: asking again is no use
    UNFIT = "unfit"  # the machine lacks something: asking again is no use
    UNREACHABLE = "unreachable"  # the machine is lost, or not the one that it was
    UNSEEN = "unseen"  # its worker may not see it: it may run on, and another one would cost beside it


CAUSES: dict[StateName, Cause] = {
    "Exited": Cause.EXITED,
    "Cancelled": Cause.CANCELLED,
    "OutOfMemory": Cause.OUT_OF_MEMORY,
    "Reclaimed": Cause.TAKEN_AWAY,
    "Preempted": Cause.TAKEN_AWAY,
    "Drained": Cause.TAKEN_AWAY,
    "NodeLost": Cause.TAKEN_AWAY,
    "PodLost": Cause.TAKEN_AWAY,  # by somebody: no repeat is to blame
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

NOT_SEEN: tuple[StateName, ...] = ("Lost", "Unseen")  # of a job whose end nobody has seen


def is_state_name(text: str) -> TypeGuard[StateName]:
    """Return whether a text names a state that our workers set."""
    return text in get_args(StateName)


@dataclass(frozen=True)
class JobOutcome:
    """The end of a job: the name of Prefect's state, a sentence, and the container's exit code if any.

    "Exited" is an exit code of 0, "Cancelled" what somebody asked for; every other name is a crash's.
    """

    name: StateName
    message: str
    exit_code: int | None = None

    @property
    def cause(self) -> Cause:
        """Return why the job ended; a name without a cause of its own is a crash."""
        return CAUSES.get(self.name, Cause.CRASHED)

    @property
    def status_code(self) -> int:
        """Return the exit code for Prefect's worker result; a missing one is never 0."""
        if self.name == "Exited":
            return 0
        return self.exit_code or NO_EXIT_CODE


@dataclass(frozen=True)
class StartTimes:
    """Seconds of a job's start by stage; None if the backend does not tell."""

    queue_s: float | None
    pull_s: float | None

    def labels(self, queue: str, pull: str) -> dict[str, float]:
        """Return the flow run's labels, under the common names and under the backend's own two."""
        times = {QUEUE_LABEL: self.queue_s, queue: self.queue_s, PULL_LABEL: self.pull_s, pull: self.pull_s}
        return {label: s for label, s in times.items() if s is not None}


@dataclass(frozen=True)
class MachineTime:
    """The begin and the end of a job's time on a machine, as its platform states them; None if it does not."""

    began: dt.datetime | None = None
    ended: dt.datetime | None = None

    @property
    def labels(self) -> dict[str, float]:
        """Return the flow run's labels: the cost of the job is computed from them."""
        times = {BEGAN_LABEL: self.began, ENDED_LABEL: self.ended}
        return {label: time.timestamp() for label, time in times.items() if time is not None}
