"""Prediction of a whole job: the observed part as it was, the rest at the pace of its steps.

Evaluations and checkpoints lie between steps, so the pace has three parts: usual steps, rare long steps, and
the ends of epochs. Intervals are at 95 %.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from workloads.harness.records.intervals import inefficiency, t_quantile, variance
from workloads.harness.records.script import JobTime

MOST_BATCHES = 20  # batches of steps: with more, their means would be correlated
FEWEST = 4  # batches for an interval
RARE_STEP_RATIO = 5.0  # a step this many times the median holds work that most steps do not
RARE_TIME_SHARE = 0.01  # rare steps count only if they hold this share of the total time
GAP_TOLERANCE = 0.1  # relative difference between two gaps of regular rare steps
REGULAR_GAP_SHARE = 0.6  # of the gaps that are alike if rare steps are regular
EPOCH_END_UNCERTAINTY = 0.3  # assumed relative 95 % error if only one epoch end was observed
COMPILED_EPOCH_END_UNCERTAINTY = 1.0  # the same if the script compiles: all of that end can be compilation
STRETCHES = 8  # parts of a measurement; differences between them show changes of the machine's speed
CHANCE_RATIO = 2.0  # variance of stretches that steps alone explain: 95 % of F, 7 and many degrees of freedom
STEADY_STATE_STEPS = 1e9  # steps that stand for a very long job
OTHER_TIMES = 0.02  # relative difference of one machine from itself, a few minutes later
# The same if other programs or VMs can use the machine: a VM's neighbours share its caches and memory, unseen.
# For 17 jobs on a VM of two cores, measured and run minutes apart, predicted / real had a standard deviation of
# 0.07. One training became 25 % slower between two epochs and stayed so for minutes, while a loop in registers
# kept its speed to 0.5 %.
SHARED_TIMES = 0.15


@dataclass(frozen=True, slots=True)
class MeanSeconds:
    """A mean of `observed` steps or ends of epochs, and its standard error from `count` independent values."""

    mean: float
    error: float
    count: int
    observed: int

    def half_s(self, number: float) -> float:
        """Return half of the 95 % prediction interval of the sum of the next `number` values.

        Both means vary, that of the observed and that of the next values, each with its number (Hahn & Meeker,
        Statistical Intervals, section 4.8).
        """
        spread = math.sqrt(number * (number + self.observed))
        return spread * self.error * t_quantile(0.975, max(self.count - 1, 1))


@dataclass(frozen=True, slots=True)
class ScriptPace:
    """The pace of a script after its warm-up.

    Attributes:
        step: seconds of a step within an epoch, with its part of regular rare work.
        end: additional seconds of the end of an epoch; None if none was observed.
        epoch_steps: steps of an epoch; None if the loader has no length.
        other_times: share by which the machine may be faster or slower at another time.
        rounds_to: steps up to the last regular rare step, or all steps.
    """

    step: MeanSeconds
    end: MeanSeconds | None
    epoch_steps: int | None
    other_times: float
    rounds_to: int

    def mean(self) -> tuple[float, float, float]:
        """Return the seconds of a step over many whole epochs, and the bounds of its 95 % interval."""
        ends = STEADY_STATE_STEPS / self.epoch_steps if self.end and self.epoch_steps else 0.0
        seconds = self.total_s(STEADY_STATE_STEPS, ends)
        half = math.hypot(self.half_s(STEADY_STATE_STEPS, ends), self.other_times * seconds)
        return (
            seconds / STEADY_STATE_STEPS,
            max(seconds - half, 0.0) / STEADY_STATE_STEPS,
            (seconds + half) / STEADY_STATE_STEPS,
        )

    def total_s(self, steps: float, ends: float) -> float:
        """Return the seconds of `steps` steps with `ends` ends of epochs."""
        return steps * self.step.mean + (ends * self.end.mean if self.end else 0.0)

    def half_s(self, steps: float, ends: float) -> float:
        """Return half of the 95 % interval of `total_s`, if the machine's speed does not change."""
        return math.hypot(self.step.half_s(steps), self.end.half_s(ends) if self.end else 0.0)


def pace_of(
    ends_s: Sequence[float],
    epochs_at: Sequence[int],
    epoch_steps: int | None,
    warm_steps: int,
    other_times: float = OTHER_TIMES,
    compiled: bool = False,
) -> ScriptPace | None:
    """Return the pace of the steps after the first `warm_steps`; None if they are too few.

    A `compiled` script may compile again when it does something for the first time. `other_times` is a lower
    bound: the share is larger if the observed speed varied more.
    """
    first = max(warm_steps, 1)
    steps_s = {place: end - begin for place, (begin, end) in enumerate(pairwise(ends_s), 1) if place >= first}
    over = set()  # steps that hold the end of an epoch
    for place in epochs_at:
        if place in steps_s:
            is_next = steps_s.get(place + 1, 0.0) > RARE_STEP_RATIO * steps_s[place]  # the loader reads ahead
            over.add(place + is_next)
    within = [place for place in steps_s if place not in over]
    if len(within) < FEWEST:  # an epoch is one step: each step holds an end
        over, within = set(), list(steps_s)
    if len(within) < FEWEST:
        return None
    within_s = [steps_s[place] for place in within]
    step, last = _means(within_s)
    excess = [steps_s[place] - step.mean for place in sorted(over)]
    uncertainty = COMPILED_EPOCH_END_UNCERTAINTY if compiled else EPOCH_END_UNCERTAINTY
    end = _end(excess, uncertainty) if excess else None
    rounds_to = within[last] + 1 if last is not None else len(ends_s)
    return ScriptPace(step, end, epoch_steps, max(other_times, speed_variation(within_s)), rounds_to)


def _end(excess: Sequence[float], alone: float) -> MeanSeconds:
    """Return the seconds of an epoch's end; the first end may hold work that is done once, such as compiling."""
    if len(excess) == 1:
        return MeanSeconds(excess[0], alone * abs(excess[0]) / 2, MOST_BATCHES, 1)
    later = excess[1:]
    if len(later) > 1 and excess[0] > (1 + EPOCH_END_UNCERTAINTY) * max(later):
        excess = later
    error = math.sqrt(variance(excess) / len(excess))
    return MeanSeconds(statistics.fmean(excess), error, len(excess), len(excess))


def _means(steps_s: Sequence[float]) -> tuple[MeanSeconds, int | None]:
    """Return the mean of steps, and the last rare step if rare steps are regular.

    Regular rare steps are averaged over whole rounds. The first round begins after the first rare step, which may
    hold work that is done once.
    """
    rare, observed = rare_steps(steps_s), len(steps_s)
    if len(rare) > 1 and not _is_regular(rare, len(steps_s)):  # such as pauses, independent of each other
        middle = statistics.median(steps_s)
        error = math.hypot(*(steps_s[place] - middle for place in rare)) / len(steps_s)
        return MeanSeconds(statistics.fmean(steps_s), error, len(rare), observed), None
    if len(rare) > 1:
        rounds = [steps_s[begin + 1 : end + 1] for begin, end in pairwise(rare)]
        count = sum(map(len, rounds))
        mean = math.fsum(map(math.fsum, rounds)) / count
        if len(rounds) < FEWEST:
            error = EPOCH_END_UNCERTAINTY * _excess(steps_s, rare[1:]) / count / math.sqrt(len(rounds))
            return MeanSeconds(mean, error, FEWEST, count), rare[-1]
        beside = [math.fsum(part) - mean * len(part) for part in rounds]
        error = math.sqrt(variance(beside) * len(rounds)) / count
        return MeanSeconds(mean, error, len(rounds), count), rare[-1]
    if rare:  # its frequency is unknown: between once in the job and once in the observed steps
        without = [seconds for place, seconds in enumerate(steps_s) if place not in rare]
        usual, all_of_it = statistics.fmean(without), statistics.fmean(steps_s)
        return MeanSeconds((usual + all_of_it) / 2, (all_of_it - usual) / 4, MOST_BATCHES, observed), None
    count = max(min(MOST_BATCHES, len(steps_s) // 2), 2)
    bounds = [round(number * len(steps_s) / count) for number in range(count + 1)]
    means = [statistics.fmean(steps_s[begin:end]) for begin, end in pairwise(bounds)]
    alone = max(len(means) / inefficiency(means), 2.0)  # a machine's speed can vary for longer than a batch
    error = math.sqrt(variance(means) / alone)
    return MeanSeconds(statistics.fmean(steps_s), error, int(alone), observed), None


def rare_steps(steps_s: Sequence[float]) -> list[int]:
    """Return the places of steps that hold rare work, such as an evaluation."""
    limit = RARE_STEP_RATIO * statistics.median(steps_s)
    rare = [place for place, seconds in enumerate(steps_s) if seconds > limit]
    return rare if _excess(steps_s, rare) > RARE_TIME_SHARE * math.fsum(steps_s) else []


def _is_regular(rare: Sequence[int], count: int) -> bool:
    """True if the gaps between the rare ones of `count` steps are nearly all alike."""
    gaps = [later - place for place, later in pairwise(rare)]
    every = statistics.median(gaps)
    slack = max(GAP_TOLERANCE * every, 1)
    if max(rare[0], count - 1 - rare[-1]) > every + slack:
        return False
    return sum(abs(gap - every) <= slack for gap in gaps) >= REGULAR_GAP_SHARE * len(gaps)


def _excess(steps_s: Sequence[float], places: Sequence[int]) -> float:
    usual = statistics.median(steps_s)
    return math.fsum(steps_s[place] - usual for place in places)


def speed_variation(steps_s: Sequence[float]) -> float:
    """Return the share by which the machine may be faster or slower at another time, at 95 %; 0 if not observed.

    If the machine's speed varies, the parts of a measurement differ by more than their steps explain, and another
    time is one more such part. The variance between them is that of one-way analysis with random effects (Searle,
    Casella & McCulloch, Variance Components, section 3.6).
    """
    rare = set(rare_steps(steps_s))
    usual_s = [seconds for place, seconds in enumerate(steps_s) if place not in rare]
    size = len(usual_s) // STRETCHES
    if size < FEWEST:
        return 0.0
    stretches = [usual_s[number * size : (number + 1) * size] for number in range(STRETCHES)]
    between = variance([statistics.fmean(part) for part in stretches])
    by_chance = statistics.fmean(variance(part) for part in stretches) / size
    if between <= CHANCE_RATIO * by_chance:
        return 0.0
    spread = math.sqrt((between - by_chance) * (1 + 1 / STRETCHES))
    return t_quantile(0.975, STRETCHES - 1) * spread / statistics.fmean(usual_s)


def job_time(
    pace: ScriptPace,
    ends_s: Sequence[float],
    epochs_at: Sequence[int],
    first_step_s: float,
    warm_steps: int,
    steps: int,
) -> JobTime:
    """Predict the time of a job of `steps` steps.

    It contains the observed time unchanged, with all work that is done once: the first evaluation can compile for
    longer than all later ones take. The interval is that of the same job at another time.
    """
    begun = min(pace.rounds_to, len(ends_s), steps)
    warm = min(max(warm_steps, 1), begun)
    begun_s = first_step_s + ends_s[begun - 1] - ends_s[0]
    every = pace.epoch_steps if pace.end else None
    all_ends = steps // every if every else 0
    ends, warm_ends = (
        max(all_ends - sum(place < done for place in epochs_at), 0) if every else 0 for done in (begun, warm)
    )
    seconds = begun_s + pace.total_s(steps - begun, ends)
    half = math.hypot(pace.half_s(steps - warm, warm_ends), pace.other_times * seconds)
    epochs = steps // pace.epoch_steps if pace.epoch_steps and steps % pace.epoch_steps == 0 else None
    return JobTime(steps, seconds, max(seconds - half, 0.0), seconds + half, epochs)
