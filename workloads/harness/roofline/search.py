"""The fastest of many sizes, by climbing, then a race of the leaders.

Near sizes are alike, but a GPU's rate has steps where the last wave of tiles is partly empty. The best of
many noisy samples is too good, so a caller measures the chosen size anew.
"""

import itertools
import random
import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

GRAIN = 16  # sides are multiples of it: what products in fp8 need, and no device is quicker at others
FINEST_BITS = 4  # significant bits of a side: steps are an eighth of it at most
BEAM = 4  # leaders whose neighbours are tried
COSTLIEST = 0.04  # of the time, for one step of a size
CLIMB = 0.7  # of the time, before the race
RACERS = 16
STALE = 40  # sizes drawn near the leader in a row, of which none leads

Size = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Space:
    """Sizes to choose from: each parameter from `GRAIN` to its value in `most`.

    Attributes:
        work: of a step of a size, such as FLOPs: the rate is work per second.
    """

    most: Size
    work: Callable[[Size], float]
    fits: Callable[[Size], bool] = lambda size: True


@dataclass(slots=True)
class Search:
    """A search that is under way.

    Attributes:
        sample_s: seconds per step of one sample of a size, which lasts as long as the clock needs.
        rates: samples of each size, in work per second.
    """

    space: Space
    sample_s: Callable[[Size], float]
    now: Callable[[], float]
    budget_s: float
    rates: dict[Size, list[float]] = field(default_factory=dict)
    ends_s: float = 0.0
    climbed_s: float = 0.0

    def __post_init__(self) -> None:
        self.ends_s = self.now() + self.budget_s
        self.climbed_s = self.now() + CLIMB * self.budget_s

    def best(self) -> Size:
        self._double()
        for bits in range(1, FINEST_BITS + 1):
            self._climb(bits)
        self._draw_near()
        return self._race()

    def _double(self) -> None:
        for side in _ladder(max(self.space.most), 1):
            size = tuple(min(side, rungs[-1]) for rungs in self._rungs(FINEST_BITS))
            if self.rates and not self._affordable(size):
                # another program can have held up the only sample of the last size
                self._try([*self.rates][-1])
                if not self._affordable(size):
                    return
            self._try(size)

    def _climb(self, bits: int) -> None:
        looked_at: set[Size] = set()
        while self._climbing():
            leaders = [size for size in self._leaders(BEAM) if size not in looked_at]
            if not leaders:
                return
            size = leaders[0]
            if len(self.rates[size]) == 1:  # it can lead by luck: sample it again before it is followed
                self._try(size)
                if size not in self._leaders(BEAM):
                    continue
            looked_at.add(size)
            for other in self._neighbours(size, bits):
                if other not in self.rates and self._affordable(other) and self._climbing():
                    self._try(other)

    def _draw_near(self) -> None:
        """Try sizes within an octave of the leader, out of its neighbours' reach."""
        draw, stale = random.Random(0), 0
        while stale < STALE and self._climbing():
            leader = self._leaders(1)[0]
            near = [
                [rung for rung in rungs if side <= 2 * rung <= 4 * side]
                for side, rungs in zip(leader, self._rungs(FINEST_BITS), strict=True)
            ]
            size, stale = tuple(map(draw.choice, near)), stale + 1
            if size in self.rates or not self._affordable(size):
                continue
            self._try(size)
            if self._leaders(1)[0] == size:
                self._try(size)
                stale = stale if self._leaders(1)[0] != size else 0

    def _race(self) -> Size:
        """Sample the leaders afresh, dropping the slower half, until one is left."""
        racers = self._racers()
        fresh: dict[Size, list[float]] = {size: [] for size in racers}
        for turns in (1 << step for step in itertools.count()):
            for _, size in itertools.product(range(turns), racers):
                too_late = self.now() + self._step_s(size) > self.ends_s
                if too_late and all(fresh[racer] for racer in racers):
                    return max(racers, key=lambda racer: statistics.median(fresh[racer]))
                fresh[size].append(self._rate(size))
            racers = sorted(racers, key=lambda racer: -statistics.median(fresh[racer]))
            if len(racers) == 1:
                return racers[0]
            racers = racers[: (len(racers) + 1) // 2]
        raise AssertionError("a race ends")

    def _racers(self) -> list[Size]:
        racers, left_s = self._leaders(RACERS), (self.ends_s - self.now()) / 2
        in_time = sum(spent_s <= left_s for spent_s in itertools.accumulate(map(self._step_s, racers)))
        return racers[: max(in_time, 2)]

    def _step_s(self, size: Size) -> float:
        return self.space.work(size) / statistics.median(self.rates[size])

    def _climbing(self) -> bool:
        return self.now() < self.climbed_s

    def _try(self, size: Size) -> None:
        self.rates.setdefault(size, []).append(self._rate(size))

    def _rate(self, size: Size) -> float:
        return self.space.work(size) / self.sample_s(size)

    def _leaders(self, count: int) -> list[Size]:
        return sorted(self.rates, key=lambda size: -statistics.median(self.rates[size]))[:count]

    def _affordable(self, size: Size) -> bool:
        rate = max(map(statistics.median, self.rates.values()))
        return self.space.fits(size) and self.space.work(size) / rate <= COSTLIEST * self.budget_s

    def _rungs(self, bits: int) -> list[list[int]]:
        return [_ladder(most, bits) for most in self.space.most]

    def _neighbours(self, size: Size, bits: int) -> Iterator[Size]:
        for index, rungs in enumerate(self._rungs(bits)):
            for rung in _beside(size[index], rungs):
                yield (*size[:index], rung, *size[index + 1 :])


def _beside(side: int, rungs: Sequence[int]) -> Iterator[int]:
    below, above = bisect_left(rungs, side) - 1, bisect_right(rungs, side)
    yield from (rungs[index] for index in (below, above) if 0 <= index < len(rungs))


def _ladder(most: int, bits: int) -> list[int]:
    """Return the multiples of `GRAIN` up to `most` with `bits` significant bits, or `most`."""
    rungs = {
        mantissa << shift
        for mantissa in range(1 << (bits - 1), 1 << bits)
        for shift in range(most.bit_length())
    }
    return sorted(rung for rung in rungs if rung <= most and rung % GRAIN == 0) or [most]
