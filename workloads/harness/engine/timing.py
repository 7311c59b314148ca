"""Time a step: warm-up, samples and their summary in seconds per step."""

import gc
import statistics
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from workloads.harness.engine.clock import Clock, Step, timer_cost_s
from workloads.harness.engine.phases import Phases
from workloads.harness.engine.sampling.blocks import Sampler, sized
from workloads.harness.engine.sampling.mean import MeanBounds
from workloads.harness.engine.sampling.rules import Rules
from workloads.harness.engine.sampling.stop import Sampled, WarmUp, never, sample, settle, warm_up
from workloads.harness.engine.sampling.summary import burst_s, summarise, sustained, thinned
from workloads.harness.records.record import Timing


@dataclass(frozen=True, slots=True)
class Timed:
    """The times of a step.

    Attributes:
        device_time: by the device's own clock; None if the host is the device.
        straggle_share: share of the time in which the device still worked after the timed stream had ended.
        timer_cost_s: seconds that timing itself adds to a block.
        window_steps: steps between the readings of the counters.
        blocks_s: wall seconds per step of each block behind the samples.
        result: the last timed step's.
    """

    wall: Timing
    device_time: Timing | None
    straggle_share: float
    timer_cost_s: float
    window_steps: int
    blocks_s: list[float]
    result: Any


def time_step(
    step: Step,
    clock: Clock,
    rules: Rules,
    phases: Phases,
    window: AbstractContextManager[Any] | None = None,
    between: Callable[[int, Any], None] = lambda steps, result: None,
    swings: Callable[[], bool] = never,
) -> Timed:
    """Warm up until steady, then sample inside `window` until precise.

    `between` is called before each block, untimed, with its number of steps and the last result. `swings`
    says whether the device has been at its power limit since the warm-up began.
    """
    with quiet_collector(phases):
        with phases("warm_up"):
            rules = rules.for_step(clock.time(step, 1).wall_s)
            cost_s = timer_cost_s(clock)
            take = sized(step, clock, between, cost_s, rules)
            warm = warm_up(take, rules, clock.now, swings)
            if rules.settle_s and swings():
                rules = rules.at_power_limit()
        take.begin()
        with window or nullcontext():
            with phases("warm_up"):
                settled_s = settle(take, rules, clock.now)
            with phases("samples"):
                warm = replace(warm, samples_s=(*warm.samples_s, *settled_s))
                sampled = sample(take, rules, clock.now, warm.samples_s, take.means_s)
    return _timed(take, rules, cost_s, warm, sampled)


def _timed(take: Sampler, rules: Rules, timer_s: float, warm: WarmUp, sampled: Sampled) -> Timed:
    blocks = take.timed.last(len(sampled.samples_s) * take.count)
    burst = burst_s(warm.samples_s, take.block * take.count) if rules.soak_s else None

    def timing(of_blocks: list[float], mean: MeanBounds | None = None) -> Timing:
        steady = warm.steady and not sampled.drift
        samples_s = take.samples(of_blocks)
        steps = take.block * take.count
        return replace(
            summarise(samples_s, take.block, steady, sampled.precise, of_blocks, mean),
            drift=sampled.drift,
            to_come=sampled.to_come,
            needed_s=sampled.needed_s,
            sustained=sustained(samples_s, steps, rules.batch_s, warm.samples_s) if rules.batch_s else None,
        )

    return Timed(
        wall=replace(
            timing(blocks.wall_s, sampled.mean),
            warmup_s=thinned((*warm.samples_s, *sampled.early_s)),
            burst_s=burst,
        ),
        device_time=timing(blocks.device_s) if blocks.device_s else None,
        straggle_share=statistics.median(blocks.straggle_shares),
        timer_cost_s=timer_s,
        window_steps=take.steps,
        blocks_s=blocks.wall_s,
        result=take.result,
    )


@contextmanager
def quiet_collector(phases: Phases) -> Iterator[None]:
    with ExitStack() as stack:
        with phases("probe"):
            stack.enter_context(collector_off())
        yield


@contextmanager
def collector_off() -> Iterator[None]:
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
