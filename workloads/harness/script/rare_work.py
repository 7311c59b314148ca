"""Work between many steps, such as evaluations, checkpoints and stalls of a loader.

It shows as steps that are much longer than usual. Regular work has known next times; other work comes by
chance at the observed rate.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from workloads.harness.records.intervals import half_of_mean

RARE_STEP_RATIO = 3.0  # a step this many times the median holds work that most steps do not
LEAST_RATIO = 1.3  # the same if steps are steady, and by `NOISE_RATIO` median deviations from the median
NOISE_RATIO = 15.0
RARE_TIME_SHARE = 0.003  # rare steps count only if they hold this share of the total time
SIZES_APART = 2.0  # ratio of two neighbours in size that are different work
GAP_TOLERANCE = 0.1  # relative difference between two gaps of regular rare steps
REGULAR_GAP_SHARE = 0.6  # of the gaps that are alike if rare steps are regular
FEWEST_SIZES = 4  # of regular work, for the error of its mean
ROUND = 10  # steps; work that was seen once or twice is planned if it came after a multiple of them
SIZE_UNCERTAINTY = 0.3  # assumed relative 95 % error of the mean of fewer
FEWEST_BY_CHANCE = 8  # times that show how much their sizes differ
MOST_OF_ONE = (
    5.57  # times in as many steps, if it was seen once and comes by chance: Garwood 1936, Biometrika 28
)
NORMAL = 1.959964  # of a 95 % interval


@dataclass(frozen=True, slots=True)
class RareWork:
    """Work of one kind that some steps hold.

    Attributes:
        excess_s: seconds that it adds to a step, of each time after the first, or of the only time.
        last: place of the last step that held it.
        every: steps from one time to the next, a lower bound if seen once; None if it comes by chance.
        seen: steps in which it was looked for.
        is_single: it was seen once, so it can be done once, or again and again.
    """

    excess_s: tuple[float, ...]
    last: int
    every: float | None
    seen: int
    is_single: bool = False

    def times(self, steps: float, begun: int) -> float:
        if self.every is None:
            return steps * len(self.excess_s) / self.seen
        return (begun - 1 - self.last + steps) // self.every

    def bounds_s(self, steps: float, begun: int) -> tuple[float, float, float]:
        """Return its expected seconds in the next steps, with 95 % bounds."""
        times, mean_s = self.times(steps, begun), statistics.fmean(self.excess_s)
        if steps <= 0:
            return 0.0, 0.0, 0.0
        if self.every is None:
            if self.is_single:
                return times * mean_s, 0.0, times * mean_s * MOST_OF_ONE
            ratio = math.exp(NORMAL * self._chance_error() * math.sqrt(1 + self.seen / steps))
            return times * mean_s, times * mean_s / ratio, times * mean_s * ratio
        half = times * (SIZE_UNCERTAINTY * mean_s if self.is_single else self._error_s())
        low_s = 0.0 if self.is_single else max(times * mean_s - half, 0.0)
        return times * mean_s, low_s, times * mean_s + half

    def _chance_error(self) -> float:
        """Return the relative error of a Poisson process's sum; few sizes are taken as exponential."""
        count, total = len(self.excess_s), math.fsum(self.excess_s)
        square = math.fsum(seconds**2 for seconds in self.excess_s) / total**2
        return math.sqrt(square if count >= FEWEST_BY_CHANCE else max(square, 2 / count))

    def _error_s(self) -> float:
        count, mean_s = len(self.excess_s), statistics.fmean(self.excess_s)
        if count < FEWEST_SIZES:
            spread = max(self.excess_s) - min(self.excess_s)
            return max(SIZE_UNCERTAINTY * mean_s / math.sqrt(count), spread)
        return half_of_mean(self.excess_s)


def rare_places(steps_s: Mapping[int, float]) -> list[int]:
    usual = statistics.median(steps_s.values())
    noise = statistics.median(abs(seconds - usual) for seconds in steps_s.values())
    limit = usual * min(max(1 + NOISE_RATIO * noise / usual, LEAST_RATIO), RARE_STEP_RATIO)
    rare = [place for place, seconds in steps_s.items() if seconds > limit]
    excess = math.fsum(steps_s[place] - usual for place in rare)
    return rare if excess > RARE_TIME_SHARE * math.fsum(steps_s.values()) else []


def rare_work(steps_s: Mapping[int, float], rare: Sequence[int], usual_s: float) -> list[RareWork]:
    """Return the kinds of work in rare steps; `steps_s` are seconds by a step's place from 0."""
    excess = {place: steps_s[place] - usual_s for place in rare}
    first, last = min(steps_s), max(steps_s)
    kinds, rest = list[RareWork](), set(rare)
    for places in _by_size(excess):
        gap = _regular_gap(places, rare, first, last)
        if gap is not None:
            seconds = tuple(excess[place] for place in places)
            kinds.append(RareWork(seconds, places[-1], gap, len(steps_s)))
            # Work that is done once, such as compiling, comes with the first of a regular kind.
            rest -= {*places, *(place for place in rare if _alike(places[0] - place, gap))}
    if len(rest) == 1:
        place = rest.pop()
        kinds.append(_single(place, excess[place], last))
    elif rest:
        kinds.append(RareWork(tuple(excess[place] for place in rest), max(rest), None, len(steps_s)))
    return kinds


def _single(place: int, seconds: float, last: int) -> RareWork:
    """Return work that was seen once.

    Planned work comes no more often than it was seen: its first place is its period, if it could not have
    come again since.
    """
    every = max(place, last + 1 - place) if _is_round(place) else None
    return RareWork((seconds,), place, every, last + 1, is_single=True)


def _by_size(excess: Mapping[int, float]) -> list[list[int]]:
    groups: list[list[int]] = []
    before = 0.0
    for place in sorted(excess, key=lambda place: excess[place]):
        if not groups or excess[place] > SIZES_APART * before:
            groups.append([])
        groups[-1].append(place)
        before = excess[place]
    return [sorted(group) for group in groups]


def _regular_gap(places: Sequence[int], rare: Sequence[int], first: int, last: int) -> float | None:
    gaps = [later - place for place, later in pairwise(places)]
    if not gaps:
        return None
    every = statistics.median(gaps)
    begins = min((place for place in rare if _alike(places[0] - place, every)), default=places[0])
    alike = [gap for gap in gaps if _alike(gap, every)]
    is_whole = max(begins - first, last - places[-1]) <= (1 + GAP_TOLERANCE) * every + 1
    is_planned = len(gaps) > 1 or (_alike(places[0], every) and all(map(_is_round, places)))
    if is_whole and is_planned and len(alike) >= REGULAR_GAP_SHARE * len(gaps):
        return statistics.fmean(alike)
    return None


def _is_round(place: int) -> bool:
    return place % ROUND in (0, 1)


def _alike(gap: float, every: float | None) -> bool:
    return every is not None and abs(gap - every) <= max(GAP_TOLERANCE * every, 1)
