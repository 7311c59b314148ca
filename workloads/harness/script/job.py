"""The time of a whole job, from the steps that were seen: evaluation and checkpoints lie between steps."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from workloads.harness.records.intervals import inefficiency, t_quantile, variance
from workloads.harness.records.script import JobTime

BATCHES = 20  # of steps, at most: their means are as good as independent
FEWEST = 4  # batches for an interval
RARE = 5.0  # times the median: a step that long holds something that is not done in each
RARE_SHARE = 0.01  # of all the time, that all rare steps hold at least to matter
SLACK = 0.1  # of the steps between two rare ones, by which they may differ
MOSTLY = 0.6  # of the gaps between rare steps that are alike, where these come regularly
ALONE = 0.3  # share by which the only end of an epoch that was seen may differ from others
OTHER_TIMES = 0.02  # by which one machine differs from itself, a few minutes later
BUSY_TIMES = 0.1  # the same where others use it: of ten jobs on a shared VM, half were 3 to 10 % off


@dataclass(frozen=True, slots=True)
class MeanSeconds:
    """A mean and its standard error, of `count` values that are as good as independent."""

    mean: float
    error: float
    count: int


@dataclass(frozen=True, slots=True)
class ScriptPace:
    """The pace of a script after its warm-up.

    Attributes:
        step: seconds of a step within an epoch, with what is done every so many steps.
        end: seconds that the end of an epoch takes beside its next step; None where none was seen.
        epoch_steps: steps of an epoch; None where the loader doesn't tell.
        other_times: share by which the machine may be faster or slower at another time.
    """

    step: MeanSeconds
    end: MeanSeconds | None
    epoch_steps: int | None
    other_times: float = OTHER_TIMES

    def mean(self) -> tuple[float, float, float]:
        """Return the seconds of a step over whole epochs, and the bounds of its 95 % interval."""
        every = self.epoch_steps if self.end else None
        return self.total(1.0, 1 / every if every else 0.0)

    def total(self, steps: float, ends: float) -> tuple[float, float, float]:
        """Return the seconds of so many steps with so many ends of epochs, and the 95 % interval's bounds."""
        seconds = steps * self.step.mean
        half = steps * self.step.error * t_quantile(0.975, max(self.step.count - 1, 1))
        if self.end:
            seconds += ends * self.end.mean
            few = t_quantile(0.975, self.end.count - 1) if self.end.count > 1 else 1.0
            half = math.hypot(half, ends * self.end.error * few)
        half += self.other_times * seconds
        return seconds, max(seconds - half, 0.0), seconds + half


def pace_of(
    ends_s: Sequence[float],
    epochs_at: Sequence[int],
    epoch_steps: int | None,
    warm_steps: int,
    other_times: float = OTHER_TIMES,
) -> ScriptPace | None:
    """Return the pace of the steps after the first `warm_steps`; None if they are too few to tell."""
    first = max(warm_steps, 1)
    steps_s = {place: end - begin for place, (begin, end) in enumerate(pairwise(ends_s), 1) if place >= first}
    over = {_later(place, steps_s) for place in epochs_at if place in steps_s}
    within = [seconds for place, seconds in steps_s.items() if place not in over]
    if len(within) < FEWEST:  # an epoch is a step: its end is in each
        over, within = set(), list(steps_s.values())
    if len(within) < FEWEST:
        return None
    step, end = _means(within), None
    excess = [steps_s[place] - step.mean for place in sorted(over)]
    if len(excess) > 1:
        end = MeanSeconds(statistics.fmean(excess), math.sqrt(variance(excess) / len(excess)), len(excess))
    elif excess:
        end = MeanSeconds(excess[0], ALONE * abs(excess[0]), 1)
    return ScriptPace(step, end, epoch_steps, other_times)


def _later(place: int, steps_s: dict[int, float]) -> int:
    """Return the step that holds the end of an epoch: the one after, where a loader reads a batch ahead."""
    return place + 1 if steps_s.get(place + 1, 0.0) > RARE * steps_s[place] else place


def _means(steps_s: Sequence[float]) -> MeanSeconds:
    """Return the mean of steps by means of batches; what is rare is counted in whole rounds of it."""
    rare = rare_steps(steps_s)
    if len(rare) > 1 and not _is_regular(rare, len(steps_s)):  # such as pauses: each comes by itself
        middle = statistics.median(steps_s)
        error = math.hypot(*(steps_s[place] - middle for place in rare)) / len(steps_s)
        return MeanSeconds(statistics.fmean(steps_s), error, len(rare))
    if len(rare) > 1:
        rounds = [steps_s[begin + 1 : end + 1] for begin, end in pairwise(rare)]
        count = sum(map(len, rounds))
        mean = math.fsum(map(math.fsum, rounds)) / count
        if len(rounds) < FEWEST:
            return MeanSeconds(
                mean, ALONE * _excess(steps_s, rare[1:]) / count / math.sqrt(len(rounds)), FEWEST
            )
        beside = [math.fsum(part) - mean * len(part) for part in rounds]
        return MeanSeconds(mean, math.sqrt(variance(beside) * len(rounds)) / count, len(rounds))
    if rare:  # nobody knows how often it comes: once in all, or once in what was seen
        without = [seconds for place, seconds in enumerate(steps_s) if place not in rare]
        usual, all_of_it = statistics.fmean(without), statistics.fmean(steps_s)
        return MeanSeconds((usual + all_of_it) / 2, (all_of_it - usual) / 4, BATCHES)
    count = max(min(BATCHES, len(steps_s) // 2), 2)
    bounds = [round(number * len(steps_s) / count) for number in range(count + 1)]
    means = [statistics.fmean(steps_s[begin:end]) for begin, end in pairwise(bounds)]
    alone = max(count / inefficiency(means), 2.0)  # machines have moods that outlast a batch
    return MeanSeconds(statistics.fmean(steps_s), math.sqrt(variance(means) / alone), int(alone))


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


def job_time(
    pace: ScriptPace,
    ends_s: Sequence[float],
    epochs_at: Sequence[int],
    first_step_s: float,
    warm_steps: int,
    steps: int,
) -> JobTime:
    """Predict the time of a job of so many steps: its beginning as seen, the rest at this pace."""
    begun = min(max(warm_steps, 1), len(ends_s), steps)
    begun_s = first_step_s + ends_s[begun - 1] - ends_s[0]
    every = pace.epoch_steps if pace.end else None
    ends = steps // every - sum(place < begun for place in epochs_at) if every else 0
    seconds, low_s, high_s = pace.total(steps - begun, max(ends, 0))
    epochs = steps // pace.epoch_steps if pace.epoch_steps and steps % pace.epoch_steps == 0 else None
    least_s, most_s = (begun_s * (1 + sign * pace.other_times) for sign in (-1, 1))
    return JobTime(steps, begun_s + seconds, least_s + low_s, most_s + high_s, epochs)
