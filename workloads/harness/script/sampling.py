"""The course of a script's measurement, as a generator: it yields the steps of a block and is sent its times.

The rules for the end of warm-up and of the samples are those of every step that the engine times.
"""

from __future__ import annotations

import statistics
from collections.abc import Generator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
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
from workloads.harness.script.timers import BlockTimer, TimedBlock

T = TypeVar("T")
SamplingSteps = Generator[int, TimedBlock, T]
SHORTEST_S = 1e-9
SINGLES = 3  # steps that are timed one by one, to estimate a step's length
CAP_S, QUICK_CAP_S, BRIEF_CAP_S = 60.0, 20.0, 1.0  # of steps in all, to see the end of an epoch
PROFILED = 4  # steps
LOOK_S = 0.05  # of steps between two decisions to wait longer: a decision costs as much as several hooks
EPOCHS = 3  # ends of epochs that the prediction of a job waits for


@dataclass(slots=True)
class StepTimes:
    """Times so far; if the script ends early, the later ones stay unset.

    Attributes:
        warm_steps: steps before the samples.
        plain_steps: steps before the profiler, which makes steps longer.
        block, count: steps of a block, and blocks of a sample.
        blocks: the blocks of the samples.
        profile: torch's profiler of the last steps.
    """

    warm: WarmUp | None = None
    sampled: Sampled | None = None
    warm_steps: int | None = None
    window_steps: int = 0
    plain_steps: int | None = None
    block: int = 1
    count: int = 1
    blocks: list[TimedBlock] = field(default_factory=list)
    loader_share: float | None = None
    profile: Any = None


@dataclass(frozen=True, slots=True)
class SamplingPlan:
    """Settings of a measurement.

    Attributes:
        cap_s: seconds of steps in which it waits for the end of an epoch.
        predicts: the time of a job is predicted, so several epochs are observed, or `cap_s` seconds.
        profiled: steps under the profiler at the end.
    """

    rules: Rules
    cap_s: float = CAP_S
    predicts: bool = False
    profiled: int = PROFILED


def sample_steps(
    plan: SamplingPlan,
    times: StepTimes,
    observed: Observations,
    timer: BlockTimer,
    phases: Phases,
    window: AbstractContextManager[Any],
) -> SamplingSteps[None]:
    """Measure from the second step on: warm up, sample, wait for the end of an epoch, profile."""
    begun_s = observed.now_s()
    with phases("warm_up"):
        rules = yield from _sized(plan.rules, times, observed, timer)
        times.warm = yield from _fed(warming_up(rules, observed.now_s), times)
    with window:
        with phases("warm_up"):
            yield from _fed(settling(rules, observed.now_s), times)
        times.warm_steps, times.blocks = len(observed.ends_s), []
        loader_s, started_s = observed.loader_s, observed.now_s()
        with phases("samples"):
            times.sampled = yield from _fed(sampling(rules, observed.now_s, times.warm.samples_s), times)
        times.window_steps = len(observed.ends_s) - times.warm_steps
        times.loader_share = min((observed.loader_s - loader_s) / (observed.now_s() - started_s), 1.0)
    with phases("wall"):
        step_s = statistics.median(block.step_s for block in times.blocks)
        block = max(times.block, round(LOOK_S / max(step_s, SHORTEST_S)))
        while _awaits_more(plan, times, observed, observed.now_s() - begun_s, step_s):
            yield block
    times.plain_steps = len(observed.ends_s)
    if plan.profiled:
        with phases("profile"):
            yield from _profiled(plan.profiled, times)


def _sized(rules: Rules, times: StepTimes, observed: Observations, timer: BlockTimer) -> SamplingSteps[Rules]:
    """Time steps and make blocks and samples as long as the rules require."""
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
    """Feed a rule with samples, each the median of its blocks."""
    try:
        next(rule)
        while True:
            blocks = []
            for _ in range(times.count):
                blocks.append((yield times.block))
                times.blocks.append(blocks[-1])
            rule.send(statistics.median(block.step_s for block in blocks))
    except StopIteration as end:
        found: T = end.value
        return found


def _awaits_more(
    plan: SamplingPlan, times: StepTimes, observed: Observations, spent_s: float, step_s: float
) -> bool:
    """True if the end of an epoch and the step after it are still to be observed, and can be in time.

    A job is predicted from several epochs and from at least half of the available time, because a machine's
    speed varies.
    """
    left_s = plan.cap_s - spent_s
    if left_s <= 0:
        return False
    done, warm = len(observed.ends_s), times.warm_steps or 0
    steps = observed.steps_of_epoch(1.0)
    if plan.predicts and (steps is None or left_s > plan.cap_s / 2):
        return True
    ends = sum(warm <= at < done for at in observed.epochs_at)
    if steps is None or ends >= (EPOCHS if plan.predicts else 1):
        return False
    return (steps - (done - (observed.epochs_at[-1] if observed.epochs_at else 0))) * step_s < left_s


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
