"""Samples: medians of a few blocks of steps, timed one by one."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from workloads.harness.engine.clock import Clock, Step
from workloads.harness.engine.sampling.rules import Rules, block_size, blocks_of

SHORTEST_S = 1e-9  # of a step, so that an empty one has a rate
Before = Callable[[int, Any], None]  # of the steps to come and the last result


@dataclass(slots=True)
class Blocks:
    """Timed blocks, in seconds per step; `straggle_shares` are shares of a block."""

    wall_s: list[float] = field(default_factory=list)
    device_s: list[float] = field(default_factory=list)
    straggle_shares: list[float] = field(default_factory=list)

    def last(self, count: int) -> "Blocks":
        return Blocks(self.wall_s[-count:], self.device_s[-count:], self.straggle_shares[-count:])


class Sampler:
    """Takes samples of `count` blocks of `block` steps, in seconds per step.

    An interruption spoils its block, but no sample as long as most blocks have none.

    Attributes:
        timed: the blocks since `begin`; `steps` are theirs.
        means_s: mean seconds per step of the blocks of each sample so far, also before `begin`.
        result: the last step's; more would fill the device.
    """

    def __init__(self, step: Step, clock: Clock, between: Before, block: int, count: int) -> None:
        self._step, self._clock, self._between = step, clock, between
        self.block, self.count = block, count
        self.means_s: list[float] = []
        self.result: Any = None
        self.begin()

    def begin(self) -> None:
        self.timed, self.steps = Blocks(), 0

    def __call__(self) -> float:
        for _ in range(self.count):
            self._time_block()
        self.steps += self.block * self.count
        blocks_s = self.timed.wall_s[-self.count :]
        self.means_s.append(statistics.fmean(blocks_s))
        return statistics.median(blocks_s)

    def _time_block(self) -> None:
        """Time a block without an old result, which would take memory twice."""
        self._between(self.block, self.result)
        self.result = None
        reading = self._clock.time(self._step, self.block)
        self.result = reading.result
        self.timed.wall_s.append(reading.wall_s / self.block)
        if reading.device_s is not None:
            self.timed.device_s.append(reading.device_s / self.block)
        self.timed.straggle_shares.append(reading.straggle_s / reading.wall_s)

    def samples(self, of_blocks: list[float]) -> tuple[float, ...]:
        starts = range(0, len(of_blocks), self.count)
        return tuple(statistics.median(of_blocks[start : start + self.count]) for start in starts)


def sized(step: Step, clock: Clock, between: Before, timer_s: float, rules: Rules) -> Sampler:
    """Return a sampler; on a device a single step includes the wait for its end, which a block has once."""
    sampler = Sampler(step, clock, between, 1, 1)
    step_s, block_s = _once(sampler, clock)
    while (wanted := block_size(step_s, timer_s, rules)) > sampler.block:
        sampler.block = min(wanted, 2 * sampler.block)
        found_s, block_s = _once(sampler, clock)
        step_s = min(step_s, found_s)
    sampler.count = blocks_of(block_s, rules)
    return sampler


def _once(sampler: Sampler, clock: Clock) -> tuple[float, float]:
    started_s = clock.now()
    step_s = sampler()
    return max(step_s, SHORTEST_S), clock.now() - started_s
