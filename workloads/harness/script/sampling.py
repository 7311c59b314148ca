"""A script's measurement as a generator, which yields a block's steps and is sent its times.

`sample_steps` is the whole course: size the blocks, warm up, sample, wait for due work, profile.
`Measurement` sends it each `TimedBlock` and raises `EnoughError` when it returns. To add a stage, write a
generator and `yield from` it in `sample_steps`; to wait for other work, change `waits_until`.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

from workloads.harness.engine.phases import Phases
from workloads.harness.engine.profiling import quiet
from workloads.harness.engine.sampling.rules import Rules, block_size, blocks_of
from workloads.harness.engine.sampling.stop import (
    Rule,
    Sampled,
    WarmUp,
    sampling,
    settling,
    warming_up,
)
from workloads.harness.script.observations import Observations
from workloads.harness.script.rare_work import RARE_STEP_RATIO, RareWork, rare_places, rare_work
from workloads.harness.script.timers import BlockTimer, TimedBlock, uses_gpu

T = TypeVar("T")
SamplingSteps = Generator[int, TimedBlock, T]
SHORTEST_S = 1e-9
SINGLES = 3  # steps that are timed one by one, to estimate a step's length
CAP_S, QUICK_CAP_S, BRIEF_CAP_S = 90.0, 30.0, 1.0  # of steps in all, to see the end of an epoch
# Shares of it from which a job is predicted: at least; on a GPU, which others do not share, once evaluations or epochs
# have repeated themselves; and while no work between steps was seen.
LEAST_SHARE, GPU_SHARE, BLIND_SHARE = 1 / 3, 1 / 6, 2 / 3
AGAIN_S, AGAIN_SHARE = 0.5, 0.05  # of the time so far, until the next look, which takes time, too
PROFILED = 4  # steps
LOOK_S = 0.05  # of steps between two decisions to wait longer: a decision costs as much as several hooks
USUAL = 15  # samples, whose median is a usual one
MOST_RARE = 0.1  # of the samples: work that more of them hold is part of the step
EPOCHS = 3  # ends of epochs that the prediction of a job waits for


@dataclass(slots=True)
class StepTimes:
    """Times so far; if the script ends early, later ones stay unset.

    Attributes:
        warm_steps: steps before the samples.
        plain_steps: steps before the profiler, which makes steps longer.
        block, count: steps of a block, and blocks of a sample.
        means_s: seconds per step of each sample from the warm-up on, without rare work.
    """

    warm: WarmUp | None = None
    sampled: Sampled | None = None
    warm_steps: int | None = None
    window_steps: int = 0
    plain_steps: int | None = None
    block: int = 1
    count: int = 1
    blocks: list[TimedBlock] = field(default_factory=list)
    means_s: list[float] = field(default_factory=list)
    loader_share: float | None = None
    profile: Any = None


@dataclass(frozen=True, slots=True)
class SamplingPlan:
    """Settings of a measurement.

    Attributes:
        cap_s: seconds of steps in which to wait for the end of an epoch, or other work between steps.
        predicts: a job's time is predicted, so several of these are observed.
        through: steps, or epochs, to wait for in any case.
        profiled: steps under the profiler at the end.
    """

    rules: Rules
    cap_s: float = CAP_S
    predicts: bool = False
    through: int | None = None
    through_epochs: bool = False
    profiled: int = PROFILED


def sample_steps(
    plan: SamplingPlan,
    times: StepTimes,
    observed: Observations,
    timer: BlockTimer,
    phases: Phases,
    window: AbstractContextManager[Any],
    is_open: Callable[[], bool] = lambda: False,
) -> SamplingSteps[None]:
    """Measure from the second step on.

    `is_open` returns whether later steps can still show that a step is another one.
    """
    begun_s = observed.now_s()
    with phases("warm_up"):
        rules = yield from _sized(plan.rules, times, observed, timer)
        times.warm = yield from _fed(warming_up(rules, observed.now_s), times)
    with window:
        with phases("warm_up"):
            yield from _fed(settling(rules, observed.now_s), times)
        times.warm_steps, times.blocks = len(observed.ends_s), []
        waited_s, started_s = observed.waited_s(), observed.now_s()
        with phases("samples"):
            rule = sampling(rules, observed.now_s, times.warm.samples_s, times.means_s)
            times.sampled = yield from _fed(rule, times)
        times.window_steps = len(observed.ends_s) - times.warm_steps
        times.loader_share = min((observed.waited_s() - waited_s) / (observed.now_s() - started_s), 1.0)
    with phases("wall"):
        yield from _awaited(plan, times, observed, begun_s, is_open)
    times.plain_steps = len(observed.ends_s)
    if plan.profiled:
        with phases("profile"):
            yield from _profiled(plan.profiled, times)


def _sized(rules: Rules, times: StepTimes, observed: Observations, timer: BlockTimer) -> SamplingSteps[Rules]:
    began_s = observed.now_s()
    step_s = max((yield 1).step_s, SHORTEST_S)
    rules = rules.for_step(step_s)
    for _ in range(SINGLES if step_s < rules.long_step_s else 0):
        step_s = max(min(step_s, (yield 1).step_s), SHORTEST_S)
    while (wanted := block_size(step_s, timer.cost_s, rules)) > times.block:
        times.block = min(wanted, 2 * times.block)
        began_s = observed.now_s()
        block = yield times.block
        step_s = max(min(step_s, block.step_s), SHORTEST_S)
    times.count = blocks_of(max(observed.now_s() - began_s, SHORTEST_S), rules)
    return rules


def _fed(rule: Rule[T], times: StepTimes) -> SamplingSteps[T]:
    try:
        next(rule)
        while True:
            blocks = []
            for _ in range(times.count):
                blocks.append((yield times.block))
                times.blocks.append(blocks[-1])
            steps_s = [block.step_s for block in blocks]
            times.means_s.append(_without_rare(statistics.fmean(steps_s), times.means_s))
            rule.send(statistics.median(steps_s))
    except StopIteration as end:
        found: T = end.value
        return found


def _without_rare(mean_s: float, before_s: Sequence[float]) -> float:
    usual_s = statistics.median(before_s[-USUAL:]) if before_s else mean_s
    return mean_s if mean_s <= RARE_STEP_RATIO * usual_s else usual_s


def _awaited(
    plan: SamplingPlan, times: StepTimes, observed: Observations, begun_s: float, is_open: Callable[[], bool]
) -> SamplingSteps[None]:
    step_s = statistics.median(block.step_s for block in times.blocks)
    block = max(times.block, round(LOOK_S / max(step_s, SHORTEST_S)))
    until_s, next_look_s = 0.0, 0.0
    while True:
        spent_s = observed.now_s() - begun_s
        if spent_s >= min(until_s, next_look_s):
            until_s = plan.cap_s if is_open() else waits_until(plan, times, observed, spent_s, uses_gpu())
            next_look_s = spent_s + max(AGAIN_S, AGAIN_SHARE * spent_s)
        if spent_s >= until_s and _is_through(plan, observed):
            return
        yield block


def _is_through(plan: SamplingPlan, observed: Observations) -> bool:
    if plan.through is None:
        return True
    done = len(observed.ends_s)
    return plan.through <= (sum(at < done for at in observed.epochs_at) if plan.through_epochs else done)


def waits_until(
    plan: SamplingPlan, times: StepTimes, observed: Observations, spent_s: float, on_gpu: bool
) -> float:
    """Return the seconds of steps until which to measure; at most `spent_s` once complete.

    It waits for ends of epochs and work between steps that are due before `plan.cap_s`. A prediction needs a
    third of that time, because a machine's speed varies, and two thirds if no such work was seen yet.
    """
    done, warm = len(observed.ends_s), times.warm_steps or 1
    epochs_at, epoch_steps = observed.epochs_at, observed.epoch_steps
    mean_s = (observed.ends_s[-1] - observed.ends_s[warm - 1]) / max(done - warm, 1)
    ends = sum(warm <= at < done for at in epochs_at)
    if epoch_steps is not None and ends < (EPOCHS if plan.predicts else 1):
        left = epoch_steps - (done - (epochs_at[-1] if epochs_at else 0))
        due_s = spent_s + (left + 1) * mean_s
        if due_s < plan.cap_s:
            return due_s
    if not plan.predicts:
        return 0.0
    kinds = _rare_so_far(observed.ends_s, warm) if epoch_steps is None else []
    has_repeated = ends >= EPOCHS or any(kind.every and len(kind.excess_s) >= EPOCHS for kind in kinds)
    share = GPU_SHARE if on_gpu and has_repeated else LEAST_SHARE
    if epoch_steps is None and not kinds:
        share = BLIND_SHARE
    again_s = [
        spent_s + (kind.last + kind.every + 1 - done) * mean_s
        for kind in kinds
        if kind.every and len(kind.excess_s) < EPOCHS and done <= kind.last + kind.every
    ]
    return max([share * plan.cap_s, *(at_s for at_s in again_s if at_s < plan.cap_s)])


def _rare_so_far(ends_s: Sequence[float], warm: int) -> list[RareWork]:
    steps_s = {place: end - begin for place, (begin, end) in enumerate(pairwise(ends_s), 1) if place >= warm}
    return rare_work(steps_s, rare_places(steps_s), statistics.median(steps_s.values())) if steps_s else []


def _profiled(steps: int, times: StepTimes) -> SamplingSteps[None]:
    """Take steps under torch's profiler, unless the script uses it itself."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    profiler = profile(activities=activities)
    try:
        with quiet():
            profiler.start()
    except RuntimeError:
        return
    try:
        yield steps
    finally:
        with suppress(RuntimeError), quiet():
            profiler.stop()
    times.profile = profiler
