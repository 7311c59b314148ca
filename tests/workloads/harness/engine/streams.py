"""Streams of step times in virtual time, and the stop rules' verdicts on them.

A noise is a function of a random generator, the seconds since the start and the step's number, and gives the
step's time as a multiple of the machine's true time.
"""

import math
import random
import statistics
from dataclasses import dataclass

from workloads.harness.engine.sampling.rules import Rules, block_size, blocks_of
from workloads.harness.engine.sampling.stop import sample, settle, warm_up

TIMER_S = 1e-7
TAIL, TWICE = 0.08, 2.0


def quiet(chance, now_s, call):
    """Noise of 0.3 %, as of an idle box."""
    return 1 + 0.003 * chance.gauss(0, 1)


def gauss(chance, now_s, call):
    """Even noise of 2.7 %."""
    return 1 + 0.027 * chance.gauss(0, 1)


def cloud(chance, now_s, call):
    """A shared box: 4 % noise, and 8 % of the steps slower, twice as slow on average."""
    slow = 1 + chance.expovariate(1) if chance.random() < 0.08 else 1.0
    return (1 + 0.04 * chance.gauss(0, 1)) * slow


def twice(chance, now_s, call):
    """A shared box: 4 % noise, and 8 % of the steps take twice as long."""
    return (1 + 0.04 * chance.gauss(0, 1)) * (2.0 if chance.random() < 0.08 else 1.0)


def ramp(tau_steps=None, tau_s=None):
    """Return a falling clock: the first step is 10 % quicker than the last."""

    def noise(chance, now_s, call):
        past = call / tau_steps if tau_steps else now_s / tau_s
        return (1 - 0.1 * math.exp(-past)) * quiet(chance, now_s, call)

    return noise


def drift(chance, now_s, call):
    """One percent slower each second, for ever: there is no true value."""
    return (1 + 0.01 * now_s) * quiet(chance, now_s, call)


def neighbour(chance, now_s, call):
    """Steps are 8 % slower for 1 s of each 1.5 s."""
    return (1.08 if now_s % 1.5 < 1.0 else 1.0) * quiet(chance, now_s, call)


def thermal(chance, now_s, call):
    """A clock that swings by 3 % to either side every 2 s."""
    return (1 + 0.03 * math.sin(math.pi * now_s)) * quiet(chance, now_s, call)


def bimodal(chance, now_s, call):
    """Half of the steps are 6 % slower, in no order."""
    return (1.0 if chance.random() < 0.5 else 1.06) * quiet(chance, now_s, call)


def heavy(chance, now_s, call):
    """Student's t with two degrees of freedom, of scale 1 %."""
    return max(1 + 0.01 * chance.gauss(0, 1) / math.sqrt(chance.expovariate(1)), 0.1)


class PowerCapped:
    """An H100 at its power limit: fitted to `tests/tasks/examples/power_capped.jsonl.gz`.

    The clock swings with a period of 1.0 s and a standard deviation of 0.8 %, the first swing after an idle
    moment 10 % high. It wanders by 2 % within 60 ms.
    """

    PERIOD_S, DAMPING_S, HUNT, FIRST, FIRST_S = 1.0, 0.9, 0.008, 0.10, 0.6
    WANDER, WANDER_S = 0.02, 0.06
    TICK_S = 0.02  # of the governor

    def __init__(self):
        self._at, self._hunt, self._wander, self._last_s = 0.0, [0.0, 0.0], 0.0, 0.0

    def _swing(self, chance, now_s):
        keep = math.exp(-self.TICK_S / self.DAMPING_S)
        turn = 2 * math.pi * self.TICK_S / self.PERIOD_S
        push = self.HUNT * 2 * math.sin(turn) * math.sqrt(self.TICK_S / self.DAMPING_S)
        while self._at <= now_s:
            last, before = self._hunt
            self._hunt = [
                2 * keep * math.cos(turn) * last - keep * keep * before + push * chance.gauss(0, 1),
                last,
            ]
            self._at += self.TICK_S
        return self._hunt[0]

    def __call__(self, chance, now_s, call):
        keep = math.exp(-(now_s - self._last_s) / self.WANDER_S)
        self._last_s = now_s
        self._wander = keep * self._wander + math.sqrt(1 - keep * keep) * chance.gauss(0, 1)
        first = (
            self.FIRST
            * math.exp(-now_s / self.FIRST_S)
            * math.cos(2 * math.pi * (now_s / self.PERIOD_S - 0.6))
        )
        return 1 + first + self._swing(chance, now_s) + self.WANDER * self._wander


class Telegraph:
    """A neighbour makes steps 8 % slower for 1 s on average, with pauses of 0.5 s on average."""

    ON_S, OFF_S = 1.0, 0.5

    def __init__(self):
        self._there, self._until_s = None, 0.0

    def __call__(self, chance, now_s, call):
        if self._there is None:
            self._there = chance.random() > self.ON_S / (self.ON_S + self.OFF_S)
        while self._until_s <= now_s:
            self._there = not self._there
            self._until_s += chance.expovariate(1 / (self.ON_S if self._there else self.OFF_S))
        return (1.08 if self._there else 1.0) * quiet(chance, now_s, call)


class Correlated:
    """Noise of 2 % in which each step keeps 0.9 of the one before."""

    KEPT = 0.9

    def __init__(self):
        self._state = None

    def __call__(self, chance, now_s, call):
        if self._state is None:
            self._state = chance.gauss(0, 1)
        self._state = self.KEPT * self._state + math.sqrt(1 - self.KEPT**2) * chance.gauss(0, 1)
        return 1 + 0.02 * self._state


class Slow(Correlated):
    """Noise of 2 % in which each step keeps 0.99 of the one before."""

    KEPT = 0.99


def mean_of(noise, steps=200_000):
    """Return the mean of a noise over a long time, in steps of 10 ms."""
    stream = Stream(noise, 10e-3, 12345)
    return math.fsum(stream.step() for _ in range(steps)) / steps / 10e-3


class Stream:
    """Steps of a known length in virtual time, measured by the engine's rules."""

    def __init__(self, noise, step_s, seed, rules=None):
        self._noise, self._step_s = noise() if isinstance(noise, type) else noise, step_s
        self._chance = random.Random(seed)
        self.now_s, self.calls = 0.0, 0
        self.means_s = []
        self.swings = isinstance(self._noise, PowerCapped)
        self.rules = (rules or Rules()).for_step(step_s)
        self.block = block_size(step_s, TIMER_S, self.rules)
        self.blocks = blocks_of(self.block * step_s, self.rules)

    def step(self):
        seconds = self._step_s * self._noise(self._chance, self.now_s, self.calls)
        self.calls += 1
        self.now_s += seconds
        return seconds

    def take(self):
        of_blocks = [
            math.fsum(self.step() for _ in range(self.block)) / self.block for _ in range(self.blocks)
        ]
        self.means_s.append(statistics.fmean(of_blocks))
        return statistics.median(of_blocks)

    def measure(self):
        self.warm = warm_up(self.take, self.rules, lambda: self.now_s, lambda: self.swings)
        before = self.warm.samples_s
        if self.swings:
            self.rules = self.rules.at_power_limit()
            before = (*before, *settle(self.take, self.rules, lambda: self.now_s))
        self.warm_s = self.now_s
        self.sampled = sample(self.take, self.rules, lambda: self.now_s, before, self.means_s)
        self.mean = statistics.fmean(self.means_s[-len(self.sampled.samples_s) :]) / self._step_s
        self.steady = self.warm.steady and not self.sampled.drift
        self.ok = self.steady and self.sampled.precise
        return self


def streams(noise, step_s, count, rules=None):
    return [Stream(noise, step_s, seed, rules).measure() for seed in range(count)]


def share(flags):
    flags = list(flags)
    return sum(flags) / len(flags) if flags else 0.0


def share_of_some(flags, fewest=10):
    """Return the share of true ones; NaN of few."""
    flags = list(flags)
    return share(flags) if len(flags) >= fewest else math.nan


@dataclass(frozen=True)
class Row:
    """Results of many streams of one noise: shares, and medians.

    Attributes:
        wrong: of ok ones, the share whose mean is off by more than 1 %.
        covered: of those with an interval of the mean, the share that holds the true value; NaN of few.
    """

    ok: float
    imprecise: float
    unsteady: float
    wrong: float
    covered: float
    samples: float
    seconds: float


def row(found, true):
    """Summarise streams whose true mean is `true`, a multiple of the step's length."""
    bounds = [(s.sampled.mean.interval, s._step_s * true) for s in found if s.sampled.mean]
    return Row(
        share(s.ok for s in found),
        share(not s.sampled.precise for s in found),
        share(not s.steady for s in found),
        share(abs(s.mean / true - 1) > 0.01 for s in found if s.ok),
        share_of_some(bound.low <= mean_s <= bound.high for bound, mean_s in bounds if bound),
        statistics.median(len(s.sampled.samples_s) for s in found),
        statistics.median(s.now_s for s in found),
    )
