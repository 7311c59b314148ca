"""Streams of steps under noise, under the engine's own stop rule."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from tests.workloads.harness.engine.streams import cloud, quiet
from workloads.harness.engine.clock import Reading
from workloads.harness.engine.phases import Phases
from workloads.harness.engine.sampling.rules import Rules
from workloads.harness.engine.timing import time_step
from workloads.harness.probes.cpu import canary_drift
from workloads.harness.records.record import Timing, Verdict
from workloads.harness.records.verdict import judge

CLOUD_MEAN = 1.08  # of `cloud`: 8 of 100 steps take twice as long
Noise = Callable[[random.Random, float], float]


def falling(tau_s: float, depth: float = 0.10) -> Noise:
    """Return a falling clock: the first step is `depth` quicker than the last, by time, like heat."""
    return lambda chance, at_s: (1 - depth * math.exp(-at_s / tau_s)) * quiet(chance, at_s, 0)


def vm(chance: random.Random, at_s: float) -> float:
    return cloud(chance, at_s, 0) / CLOUD_MEAN


class SharedCore:
    """A core whose neighbour comes and goes: steps then take `slower` times as long.

    The neighbour is there half the time, in stays and pauses of `stay_s` on average.
    """

    def __init__(self, slower: float, stay_s: float) -> None:
        self._slower, self._stay_s = slower, stay_s
        self._streams: WeakKeyDictionary[random.Random, tuple[bool, float]] = WeakKeyDictionary()

    def speed(self, chance: random.Random, at_s: float) -> float:
        """Return the slowness relative to the mean, `at_s` seconds into the stream of `chance`."""
        there, until_s = self._streams.get(chance, (chance.random() < 0.5, 0.0))
        while until_s <= at_s:
            there, until_s = not there, until_s + chance.expovariate(1 / self._stay_s)
        self._streams[chance] = there, until_s
        return (self._slower if there else 1.0) / (0.5 * (1 + self._slower))

    def __call__(self, chance: random.Random, at_s: float) -> float:
        return self.speed(chance, at_s) * vm(chance, at_s)


class Stream:
    """A clock whose steps take as long as their noise says."""

    def __init__(self, noise: Noise, step_s: float, seed: int) -> None:
        self._noise, self._step_s, self._chance, self._now_s = noise, step_s, random.Random(seed), 0.0

    def canary_s(self) -> float:
        """Return the canary's reading: one if the core's speed does not change."""
        return self._noise.speed(self._chance, self._now_s) if isinstance(self._noise, SharedCore) else 1.0

    def now(self) -> float:
        return self._now_s

    def time(self, step: Callable[[], object], count: int) -> Reading:
        """Take steps; one without work costs the timer alone."""
        took_s = 1e-7
        if step() is not None:
            for _ in range(count):
                took_s += self._step_s * self._noise(self._chance, self._now_s + took_s)
        self._now_s += took_s
        return Reading(took_s, None, 0.0, None)


@dataclass(frozen=True, slots=True)
class Measured:
    """The stop rule's verdict on a stream, and the error of its mean (in logs)."""

    verdict: Verdict
    error: float
    wall: Timing
    canary_drift: float = 0.0


def library(noise: Noise, steps_s: Sequence[float], count: int, rules: Rules | None = None) -> list[Measured]:
    """Measure streams of each length of step by the rules of quick runs."""
    return [
        _measured(noise, step_s, seed, rules or Rules().quick())
        for step_s in steps_s
        for seed in range(count)
    ]


def _measured(noise: Noise, step_s: float, seed: int, rules: Rules) -> Measured:
    stream = Stream(noise, step_s, seed)
    before_s = stream.canary_s()
    wall = time_step(lambda: True, stream, rules, Phases(0.0)).wall
    drift = canary_drift(before_s, stream.canary_s())
    findings = judge(wall, {"canary_drift": drift}, 0.0, None)
    verdict = findings[0][0] if findings else Verdict.OK
    return Measured(verdict, math.log(wall.total_mean_s / step_s), wall, drift)
