"""Whole jobs: timed once a process, from the first step to the last, and held to their target."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from workloads.harness.engine.clock import Clock
from workloads.harness.engine.correctness import WrongError
from workloads.harness.engine.phases import Phases
from workloads.harness.engine.sampling.summary import summarise
from workloads.harness.prepared import Job, JobResult
from workloads.harness.records.parts import MemoryAt, Training
from workloads.harness.records.record import Timing, Verdict
from workloads.harness.records.verdict import Finding


@dataclass(frozen=True, slots=True)
class Done:
    """The results of a whole job, and the findings against it."""

    wall: Timing
    device_time: Timing | None
    training: Training
    findings: tuple[Finding, ...]


def measure_job(job: Job, clock: Clock, phases: Phases, window: AbstractContextManager[Any]) -> Done:
    """Run a job once.

    Raises:
        WrongError: it shows neither losses nor times of its steps, or a loss is not finite.
    """
    with phases("warm_up"):
        job.warm_up()
    with window, phases("samples"):
        reading = clock.time(job.run, 1)
    outcome: JobResult = reading.result
    if not (outcome.losses or outcome.step_s) or not all(map(math.isfinite, outcome.losses)):
        raise WrongError(
            f"the job's {len(outcome.losses)} losses must be finite, and it must report a loss or the time of a step"
        )
    device = _once(reading.device_s) if reading.device_s is not None else None
    return Done(_once(reading.wall_s), device, _training(outcome), _judged(outcome))


def _once(seconds: float) -> Timing:
    return replace(summarise((seconds,), 1), whole=True)


def _training(outcome: JobResult) -> Training:
    return Training(
        first_loss=outcome.losses[0] if outcome.losses else None,
        last_loss=outcome.losses[-1] if outcome.losses else None,
        losses=outcome.losses,
        step_s=outcome.step_s,
        metric=outcome.metric,
        value=outcome.value,
        target=outcome.target,
        memory=tuple(MemoryAt(*map(int, row)) for row in outcome.memory),
    )


def _judged(outcome: JobResult) -> tuple[Finding, ...]:
    if outcome.met:
        return ()
    way = "at least" if outcome.higher_is_better else "at most"
    text = f"{outcome.metric} reached {outcome.value:.4g}; the target is {way} {outcome.target:.4g}"
    return ((Verdict.WRONG, text),)
