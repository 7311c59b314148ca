"""The end of a lane job, from its workers' labels.

The labels, on which `infra/workers/base/outcome.py` and this file agree:

| label | value |
| --- | --- |
| `gridbench.explained_within_s` | from the start on: seconds that the worker can take to explain a crash |
| `gridbench.outcome` | once a job has ended whose flow did not end by itself: a `JobEnd` |
| `gridbench.queue_s` | seconds in the queue, boot of the machine included |
| `gridbench.pull_s` | seconds from the machine to the container, mostly for its image |
| `gridbench.began_at` | when the platform says that the job began, in seconds since 1970 |
| `gridbench.ended_at` | when the platform says that the job's container ended, in seconds since 1970 |
"""

import math
from datetime import UTC, datetime
from enum import StrEnum

from prefect.client.schemas.objects import FlowRun

from tasks.dispatch.flow_runs import has_begun, is_final
from tasks.dispatch.preflight import UNFIT

EXPLAINED_LABEL = "gridbench.explained_within_s"
OUTCOME_LABEL = "gridbench.outcome"
BEGAN_LABEL, ENDED_LABEL = "gridbench.began_at", "gridbench.ended_at"
STAGE_LABELS = {  # in the order of time
    "gridbench.queue_s": "queue and boot",
    "gridbench.pull_s": "image pull",
}


class JobEnd(StrEnum):
    """The reason for a lane job's end."""

    EXITED = "exited"
    CANCELLED = "cancelled"
    CRASHED = "crashed"
    OUT_OF_MEMORY = "out-of-memory"
    TAKEN_AWAY = "taken-away"  # the provider or the cluster took the machine
    NO_MACHINE = "no-machine"  # none came
    UNFIT = "unfit"  # the machine lacks something
    UNREACHABLE = "unreachable"  # the machine is lost, or another one
    UNSEEN = "unseen"  # hidden from its worker: it can run on, and a second one would cost as well


def has_ended(run: FlowRun | None) -> bool:
    """Return whether it is over, and its worker had time to explain a crash.

    A cloud's worker learns late whether the machine was reclaimed.
    """
    if run is None or run.state is None:
        return run is None
    within_s = run.labels.get(EXPLAINED_LABEL)
    if not run.state.is_crashed() or OUTCOME_LABEL in run.labels or not isinstance(within_s, int | float):
        return run.state.is_final()
    return (datetime.now(UTC) - run.state.timestamp).total_seconds() > within_s


def end_of(run: FlowRun | None) -> JobEnd:
    """Return the reason by the worker's label, or the state."""
    label = run.labels.get(OUTCOME_LABEL) if run else None
    if label in set(JobEnd):
        return JobEnd(str(label))
    if run is None or run.state is None:
        return JobEnd.CRASHED
    if run.state.is_cancelled():
        return JobEnd.CANCELLED
    return JobEnd.UNFIT if run.state.name == UNFIT else JobEnd.CRASHED


def reason_of(run: FlowRun | None) -> str:
    if run is None or run.state is None:
        return "its lane job was deleted"
    return f"lane job {run.name!r} ended {run.state.name}: {run.state.message}"


def had_machine(run: FlowRun) -> bool:
    """Return whether it was on a machine, which then costs.

    A machine without a container has an unknown cost, and is not billed.
    """
    return has_begun(run) or bool(stages_s(run))


def stages_s(run: FlowRun) -> dict[str, float]:
    """Return seconds of stages before a job's start, from its labels."""
    times = [(stage, run.labels.get(label)) for label, stage in STAGE_LABELS.items()]
    return {stage: float(s) for stage, s in times if isinstance(s, int | float) and s >= 0}


def stated_times(run: FlowRun) -> tuple[datetime | None, datetime | None]:
    """Return begin and end by its platform, if stated."""
    began, ended = (_time(run.labels.get(label)) for label in (BEGAN_LABEL, ENDED_LABEL))
    return began, ended


def _time(label: object) -> datetime | None:
    """Return None for other labels: any user of the API can write them."""
    try:
        return datetime.fromtimestamp(float(label), UTC) if isinstance(label, int | float) else None
    except (OverflowError, OSError, ValueError):
        return None


def end_is_due(run: FlowRun) -> bool:
    """Return whether a worker that stated a begin owes the end."""
    began, ended = stated_times(run)
    explained = is_final(run.state) and OUTCOME_LABEL in run.labels
    return began is not None and ended is None and not explained


def longest_s(run: FlowRun) -> float:
    """Return a job's limit and its start, or infinity."""
    limit_s = run.parameters.get("timeout_s")
    return sum(stages_s(run).values()) + float(limit_s) if isinstance(limit_s, int | float) else math.inf


def stated_s(run: FlowRun, now: datetime) -> float | None:
    """Return seconds by its platform, to the end or to now.

    Without a stated end, as while a worker is away, it lasts at most `longest_s`.
    """
    began, ended = stated_times(run)
    if began is None:
        return None
    if ended is None and is_final(run.state):
        ended = run.end_time
    return max(0.0, min(((ended or now) - began).total_seconds(), longest_s(run)))
