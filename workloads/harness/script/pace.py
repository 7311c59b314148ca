"""The pace of a script's steps, as far as they were seen: evaluation and checkpoints lie between steps."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from workloads.harness.records.intervals import inefficiency, t_quantile, variance

BATCHES = 20  # of steps, at most: their means are as good as independent
FEWEST = 4  # batches for an interval
RARE = 5.0  # times the median: a step that long holds something that is not done in each
RARE_SHARE = 0.01  # of all the time, that all rare steps hold at least to matter
SLACK = 0.1  # of the steps between two rare ones, by which they may differ
MOSTLY = 0.6  # of the gaps between rare steps that are alike, where these come regularly
ALONE = 0.3  # share by which the only end of an epoch that was seen may differ from others
COLD = 1.0  # the same where the script compiles: all of it may be the compiler's, and come once
STRETCHES = 8  # of a measurement, whose speeds tell how far the machine's own goes up and down
CHANCE = 2.0  # times what steps alone let stretches differ: 95 % of F, with 7 and many degrees of freedom
MANY = 1e9  # steps
OTHER_TIMES = 0.02  # by which one machine differs from itself, a few minutes later
# The same where others use it, or may: a VM's neighbours share its caches and memory, unseen. Of 17 jobs on a
# VM of two cores, each measured and run minutes apart, predicted / real had a standard deviation of 0.07. One
# training became 25 % slower between two epochs and stayed so for minutes, while a loop in registers kept its
# speed to 0.5 %.
SHARED_TIMES = 0.15


@dataclass(frozen=True, slots=True)
class MeanSeconds:
    """A mean and its standard error, of `count` values that are as good as independent.

    Attributes:
        seen: steps, or ends of epochs, that it is the mean of.
    """

    mean: float
    error: float
    count: int
    seen: int

    def half_s(self, number: float) -> float:
        """Return half of the 95 % prediction interval of the sum of so many that are still to come.

        The mean that was seen and that of what comes both vary, by as much as their numbers let them (Hahn &
        Meeker, Statistical Intervals, section 4.8).
        """
        spread = math.sqrt(number * (number + self.seen))
        return spread * self.error * t_quantile(0.975, max(self.count - 1, 1))


@dataclass(frozen=True, slots=True)
class ScriptPace:
    """The pace of a script after its warm-up.

    Attributes:
        step: seconds of a step within an epoch, with what is done every so many steps.
        end: seconds that the end of an epoch takes beside its next step; None where none was seen.
        epoch_steps: steps of an epoch; None where the loader doesn't tell.
        other_times: share by which the machine may be faster or slower at another time.
        rounds_to: steps up to the end of the last whole round of what is done every so many steps.
    """

    step: MeanSeconds
    end: MeanSeconds | None
    epoch_steps: int | None
    other_times: float
    rounds_to: int

    def mean(self) -> tuple[float, float, float]:
        """Return the seconds of a step over many whole epochs, and the bounds of its 95 % interval."""
        ends = MANY / self.epoch_steps if self.end and self.epoch_steps else 0.0
        seconds = self.total_s(MANY, ends)
        half = math.hypot(self.half_s(MANY, ends), self.other_times * seconds)
        return seconds / MANY, max(seconds - half, 0.0) / MANY, (seconds + half) / MANY

    def total_s(self, steps: float, ends: float) -> float:
        """Return the seconds of so many steps with so many ends of epochs."""
        return steps * self.step.mean + (ends * self.end.mean if self.end else 0.0)

    def half_s(self, steps: float, ends: float) -> float:
        """Return half of their 95 % interval, on a machine that is as fast as it was."""
        return math.hypot(self.step.half_s(steps), self.end.half_s(ends) if self.end else 0.0)


def pace_of(
    ends_s: Sequence[float],
    epochs_at: Sequence[int],
    epoch_steps: int | None,
    warm_steps: int,
    other_times: float = OTHER_TIMES,
    compiled: bool = False,
) -> ScriptPace | None:
    """Return the pace of the steps after the first `warm_steps`; None if they are too few to tell.

    `compiled` says that the script compiles something, perhaps anew where something is done for the first
    time; `other_times` is a least share, and more where the speed was seen to go up and down.
    """
    first = max(warm_steps, 1)
    steps_s = {place: end - begin for place, (begin, end) in enumerate(pairwise(ends_s), 1) if place >= first}
    over = {_later(place, steps_s) for place in epochs_at if place in steps_s}
    within = [place for place in steps_s if place not in over]
    if len(within) < FEWEST:  # an epoch is a step: its end is in each
        over, within = set(), list(steps_s)
    if len(within) < FEWEST:
        return None
    within_s = [steps_s[place] for place in within]
    step, last = _means(within_s)
    excess = [steps_s[place] - step.mean for place in sorted(over)]
    end = _end(excess, COLD if compiled else ALONE) if excess else None
    rounds_to = within[last] + 1 if last is not None else len(ends_s)
    return ScriptPace(step, end, epoch_steps, max(other_times, moods(within_s)), rounds_to)


def _later(place: int, steps_s: dict[int, float]) -> int:
    """Return the step that holds the end of an epoch: the one after, where a loader reads a batch ahead."""
    return place + 1 if steps_s.get(place + 1, 0.0) > RARE * steps_s[place] else place


def _end(excess: Sequence[float], alone: float) -> MeanSeconds:
    """Return what the ends of epochs take; the first may hold what is done once, such as compiling."""
    if len(excess) == 1:
        return MeanSeconds(excess[0], alone * abs(excess[0]) / 2, BATCHES, 1)
    later = excess[1:]
    if len(later) > 1 and excess[0] > (1 + ALONE) * max(later):
        excess = later
    error = math.sqrt(variance(excess) / len(excess))
    return MeanSeconds(statistics.fmean(excess), error, len(excess), len(excess))


def _means(steps_s: Sequence[float]) -> tuple[MeanSeconds, int | None]:
    """Return the mean of steps by means of batches; what is rare is counted in whole rounds of it.

    Beside it the place of the last rare step, where these come regularly; the first round begins after the
    first one, which may hold what is done once.
    """
    rare, seen = rare_steps(steps_s), len(steps_s)
    if len(rare) > 1 and not _is_regular(rare, len(steps_s)):  # such as pauses: each comes by itself
        middle = statistics.median(steps_s)
        error = math.hypot(*(steps_s[place] - middle for place in rare)) / len(steps_s)
        return MeanSeconds(statistics.fmean(steps_s), error, len(rare), seen), None
    if len(rare) > 1:
        rounds = [steps_s[begin + 1 : end + 1] for begin, end in pairwise(rare)]
        count = sum(map(len, rounds))
        mean = math.fsum(map(math.fsum, rounds)) / count
        if len(rounds) < FEWEST:
            error = ALONE * _excess(steps_s, rare[1:]) / count / math.sqrt(len(rounds))
            return MeanSeconds(mean, error, FEWEST, count), rare[-1]
        beside = [math.fsum(part) - mean * len(part) for part in rounds]
        error = math.sqrt(variance(beside) * len(rounds)) / count
        return MeanSeconds(mean, error, len(rounds), count), rare[-1]
    if rare:  # nobody knows how often it comes: once in all, or once in what was seen
        without = [seconds for place, seconds in enumerate(steps_s) if place not in rare]
        usual, all_of_it = statistics.fmean(without), statistics.fmean(steps_s)
        return MeanSeconds((usual + all_of_it) / 2, (all_of_it - usual) / 4, BATCHES, seen), None
    means = _stretches(steps_s, max(min(BATCHES, len(steps_s) // 2), 2))
    alone = max(len(means) / inefficiency(means), 2.0)  # machines have moods that outlast a batch
    error = math.sqrt(variance(means) / alone)
    return MeanSeconds(statistics.fmean(steps_s), error, int(alone), seen), None


def _stretches(steps_s: Sequence[float], count: int) -> list[float]:
    """Return the means of so many stretches of equal length."""
    bounds = [round(number * len(steps_s) / count) for number in range(count + 1)]
    return [statistics.fmean(steps_s[begin:end]) for begin, end in pairwise(bounds)]


def rare_steps(steps_s: Sequence[float]) -> list[int]:
    """Return the places of steps that hold what is done now and then, such as an evaluation."""
    limit = RARE * statistics.median(steps_s)
    rare = [place for place, seconds in enumerate(steps_s) if seconds > limit]
    return rare if _excess(steps_s, rare) > RARE_SHARE * math.fsum(steps_s) else []


def _is_regular(rare: Sequence[int], count: int) -> bool:
    """True if what is rare comes after the same number of steps nearly each time, of `count` in all."""
    gaps = [later - place for place, later in pairwise(rare)]
    every = statistics.median(gaps)
    slack = max(SLACK * every, 1)
    if max(rare[0], count - 1 - rare[-1]) > every + slack:
        return False
    return sum(abs(gap - every) <= slack for gap in gaps) >= MOSTLY * len(gaps)


def _excess(steps_s: Sequence[float], places: Sequence[int]) -> float:
    usual = statistics.median(steps_s)
    return math.fsum(steps_s[place] - usual for place in places)


def moods(steps_s: Sequence[float]) -> float:
    """Return the share by which the machine may be faster or slower at another time, at 95 %; 0 if unseen.

    Stretches of a measurement differ by more than their steps explain where the machine's speed goes up and
    down: another time is one more such stretch. The variance between them is that of one-way analysis with
    random effects (Searle, Casella & McCulloch, Variance Components, section 3.6).
    """
    rare = set(rare_steps(steps_s))
    usual_s = [seconds for place, seconds in enumerate(steps_s) if place not in rare]
    size = len(usual_s) // STRETCHES
    if size < FEWEST:
        return 0.0
    stretches = [usual_s[number * size : (number + 1) * size] for number in range(STRETCHES)]
    between = variance([statistics.fmean(part) for part in stretches])
    by_chance = statistics.fmean(variance(part) for part in stretches) / size
    if between <= CHANCE * by_chance:
        return 0.0
    spread = math.sqrt((between - by_chance) * (1 + 1 / STRETCHES))
    return t_quantile(0.975, STRETCHES - 1) * spread / statistics.fmean(usual_s)
