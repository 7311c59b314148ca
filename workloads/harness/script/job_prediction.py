"""Predict a job: the observed part unchanged, the rest at its steps' pace. Intervals are at 95 %."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from workloads.harness.records.intervals import t_quantile, variance
from workloads.harness.records.script import JobTime
from workloads.harness.script.rare_work import NORMAL, RARE_STEP_RATIO, RareWork, rare_places, rare_work

FEWEST = 4  # steps for a pace, and in half of a stretch
EPOCH_END_UNCERTAINTY = 0.3  # assumed relative 95 % error if only one epoch end was observed
COMPILED_EPOCH_END_UNCERTAINTY = 1.0  # the same if the script compiles: all of that end can be compilation
STRETCHES = 8  # parts of a measurement; differences between them show changes of the machine's speed
STRETCH_FREEDOM = 10  # of the variance of overlapping ones: half more than of 8 that do not overlap
# Variance of another time over that of stretches. It would be 1.1 if stretches were independent of each other. Changes
# on all scales of time differ the more the further apart their times are.
OTHER_TIME_RATIO = 1.4
CHANCE_RATIO = (
    2.0  # variance of stretches that steps alone explain: 95 % of F, 10 and many degrees of freedom
)
# Variance of halves of stretches over that of stretches: 2 if the machine's speed changes within them and not over
# longer times, 1 if it changes over much longer times.
LASTING_RATIO = 1.67
MANY = 1000  # degrees of freedom of an assumed error
STEADY_STATE_STEPS = 1e9  # steps that stand for a very long job
OTHER_TIMES = 0.02  # relative difference of one machine from itself, a few minutes later
# The same if other programs or VMs can use the machine: a VM's neighbours share its caches and memory, unseen.
# For 17 jobs on a VM of two cores, measured and run minutes apart, predicted / real had a standard deviation of
# 0.07. One training became 25 % slower between two epochs and stayed so for minutes, while a loop in registers
# kept its speed to 0.5 %.
SHARED_TIMES = 0.15


@dataclass(frozen=True, slots=True)
class MeanSeconds:
    """A mean of `observed` values; its standard error is from `count` independent ones."""

    mean: float
    error: float
    count: int
    observed: int

    def half_s(self, number: float) -> float:
        """Return half of the 95 % prediction interval of the next `number` values' sum.

        Source: Hahn & Meeker, Statistical Intervals, section 4.8.
        """
        spread = math.sqrt(number * (number + self.observed))
        return spread * self.error * t_quantile(0.975, max(self.count - 1, 1))


@dataclass(frozen=True, slots=True)
class ScriptPace:
    """The pace of a script after its warm-up.

    Attributes:
        step: seconds of a usual step.
        end: additional seconds of an epoch's end; None if none was observed.
        epoch_steps: None if the loader has no length.
        other_times: share by which the machine can be faster or slower at another time.
    """

    step: MeanSeconds
    rare: tuple[RareWork, ...]
    end: MeanSeconds | None
    epoch_steps: int | None
    other_times: float
    begun: int

    def mean(self) -> tuple[float, float, float]:
        """Return the seconds of a step over whole epochs, and its bounds."""
        ends = STEADY_STATE_STEPS / self.epoch_steps if self.end and self.epoch_steps else 0.0
        seconds, low_s, high_s = self.bounds_s(STEADY_STATE_STEPS, ends, STEADY_STATE_STEPS, ends)
        return seconds / STEADY_STATE_STEPS, low_s / STEADY_STATE_STEPS, high_s / STEADY_STATE_STEPS

    def bounds_s(
        self, steps: float, ends: float, open_steps: float, open_ends: float, begun_s: float = 0.0
    ) -> tuple[float, float, float]:
        """Return the seconds of `begun_s` and the next steps, with 95 % bounds.

        The parts' intervals are combined by MOVER: squared distances from the means (Zou & Donner 2008,
        Statistics in Medicine 27).

        Args:
            steps, ends: next steps, and ends of epochs in them.
            open_steps, open_ends: the same with those of `begun_s`, which take other times in another run.
        """
        rare = [work.bounds_s(steps, self.begun) for work in self.rare]
        end_s = ends * self.end.mean if self.end else 0.0
        seconds = begun_s + steps * self.step.mean + end_s + math.fsum(part for part, _, _ in rare)
        half = math.hypot(
            self.step.half_s(open_steps),
            self.end.half_s(open_ends) if self.end else 0.0,
            self.other_times * seconds,
        )
        low_s = seconds - math.hypot(half, *(part - low for part, low, _ in rare))
        high_s = seconds + math.hypot(half, *(high - part for part, _, high in rare))
        least_s = (begun_s + steps * self.step.mean) / (1 + half / seconds)  # without any rare work
        return seconds, max(low_s, min(least_s, seconds)), high_s


def pace_of(
    ends_s: Sequence[float],
    epochs_at: Sequence[int],
    epoch_steps: int | None,
    warm_steps: int,
    other_times: float = OTHER_TIMES,
    compiled: bool = False,
) -> ScriptPace | None:
    """Return the pace after the first `warm_steps`; None with too few steps.

    A `compiled` script can compile again when it does something for the first time. `other_times` is a lower
    bound.
    """
    first = max(warm_steps, 1)
    all_s = {place: end - begin for place, (begin, end) in enumerate(pairwise(ends_s), 1)}
    steps_s = {place: seconds for place, seconds in all_s.items() if place >= first}
    over = _epoch_ends(steps_s, epochs_at)
    early_s = [] if over else [all_s[place] for place in _epoch_ends(all_s, epochs_at) if place < first]
    within = {place: seconds for place, seconds in steps_s.items() if place not in over}
    if len(within) < FEWEST:  # an epoch is one step: each step holds an end
        over, within = [], steps_s
    if len(within) < FEWEST:
        return None
    rare = rare_places(within)
    usual_s = [seconds for place, seconds in within.items() if place not in set(rare)]
    step = _usual(usual_s)
    mean_s = math.fsum(within.values()) / len(within)  # an end of an epoch adds to the mean of all steps
    excess = [steps_s[place] - mean_s for place in over]
    uncertainty = COMPILED_EPOCH_END_UNCERTAINTY if compiled else EPOCH_END_UNCERTAINTY
    if early_s:  # the end of the warm-up's last epoch can hold work that is done once
        excess, uncertainty = [early_s[-1] - mean_s], COMPILED_EPOCH_END_UNCERTAINTY
    return ScriptPace(
        step,
        tuple(rare_work(within, rare, step.mean)),
        _end(excess, uncertainty) if excess else None,
        epoch_steps,
        max(other_times, speed_variation(usual_s)),
        len(ends_s),
    )


def _epoch_ends(steps_s: Mapping[int, float], epochs_at: Sequence[int]) -> list[int]:
    over = set()
    for place in epochs_at:
        if place in steps_s:
            is_next = steps_s.get(place + 1, 0.0) > RARE_STEP_RATIO * steps_s[place]  # the loader reads ahead
            over.add(place + is_next)
    return sorted(over)


def _end(excess: Sequence[float], uncertainty: float) -> MeanSeconds:
    if len(excess) == 1:
        return MeanSeconds(excess[0], uncertainty * abs(excess[0]) / NORMAL, MANY, 1)
    later = excess[1:]
    if len(later) > 1 and excess[0] > (1 + EPOCH_END_UNCERTAINTY) * max(later):
        excess = later
    error = math.sqrt(variance(excess) / len(excess))
    return MeanSeconds(statistics.fmean(excess), error, len(excess), len(excess))


def _usual(steps_s: Sequence[float]) -> MeanSeconds:
    """Return the mean of usual steps, its error by stretches' means, which are less correlated."""
    mean_s, count = statistics.fmean(steps_s), len(steps_s)
    size = count // STRETCHES
    if size < FEWEST:
        return MeanSeconds(mean_s, math.sqrt(variance(steps_s) / count), count, count)
    error = math.sqrt(stretch_variance(steps_s, size) * size / count)
    return MeanSeconds(mean_s, error, STRETCH_FREEDOM + 1, count)


def stretch_variance(steps_s: Sequence[float], size: int) -> float:
    """Return the variance of the means of overlapping stretches of `size` steps.

    Source: Meketon & Schmeiser 1984, Overlapping batch means, Winter Simulation Conference.
    """
    sums, mean_s = [0.0, *accumulate(steps_s)], statistics.fmean(steps_s)
    squares = math.fsum(
        (end - begin - size * mean_s) ** 2 for begin, end in zip(sums, sums[size:], strict=False)
    )
    return squares / size**2 / (len(sums) - size) / (1 - size / len(steps_s))


def speed_variation(steps_s: Sequence[float]) -> float:
    """Return the share (95 %) by which the machine can differ at another time.

    If the machine's speed varies, stretches differ by more than their steps explain. The variance between
    them is that of one-way analysis with random effects (Searle, Casella & McCulloch, Variance Components,
    section 3.6).
    """
    size = len(steps_s) // STRETCHES
    if size < 2 * FEWEST:
        return 0.0
    between, of_halves = stretch_variance(steps_s, size), stretch_variance(steps_s, size // 2)
    stretches = [steps_s[number * size : (number + 1) * size] for number in range(STRETCHES)]
    by_chance = statistics.fmean(variance(part) for part in stretches) / size
    if between <= CHANCE_RATIO * by_chance or of_halves > LASTING_RATIO * between:
        return 0.0
    spread = math.sqrt(OTHER_TIME_RATIO * (between - by_chance))
    return t_quantile(0.975, STRETCH_FREEDOM) * spread / statistics.fmean(steps_s)


def job_time(
    pace: ScriptPace,
    ends_s: Sequence[float],
    epochs_at: Sequence[int],
    first_step_s: float,
    warm_steps: int,
    steps: int,
    unseen: Sequence[str] = (),
) -> JobTime:
    """Predict a job of `steps` steps; `unseen` names work never seen.

    The observed time goes in unchanged, so work that is done once, such as compilation, counts once.
    """
    begun = min(pace.begun, len(ends_s), steps)
    warm = min(max(warm_steps, 1), begun)
    begun_s = first_step_s + ends_s[begun - 1] - ends_s[0]
    every = pace.epoch_steps if pace.end else None
    all_ends = steps // every if every else 0
    ends, warm_ends = (
        max(all_ends - sum(place < done for place in epochs_at), 0) if every else 0 for done in (begun, warm)
    )
    seconds, low_s, high_s = pace.bounds_s(steps - begun, ends, steps - warm, warm_ends, begun_s)
    epochs = steps // pace.epoch_steps if pace.epoch_steps and steps % pace.epoch_steps == 0 else None
    return JobTime(steps, seconds, low_s, high_s, epochs, left_out=(*_left_out(pace, steps), *unseen))


def _left_out(pace: ScriptPace, steps: int) -> tuple[str, ...]:
    if pace.end is not None or not pace.epoch_steps or not 1 < pace.epoch_steps <= steps:
        return ()
    return (f"the ends of epochs, each after {pace.epoch_steps:,} steps",)
