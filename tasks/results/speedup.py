"""Speedup over the baseline with its interval, and a verdict if the interval supports one."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import takewhile

from tasks.results.format import format_bounds
from tasks.results.repeats import Repeats
from tasks.results.values import Estimate, Ratio, RatioVerdict
from workloads.harness.records.intervals import ratio_interval, ratio_p, t_quantile
from workloads.harness.records.record import Grade

FEW_REPEATS = 3
ONE_REPEAT = f"one repeat has no interval: run with --repeats {FEW_REPEATS} or more"
MOST_REPEATS = 20  # the largest number of repeats that is advised
FALSE = 0.05  # probability of any false verdict on one page
EQUAL = 0.05  # sides that MOST_REPEATS would not distinguish are called equal within this relative difference


def speedup(baseline_s: Sequence[float], times_s: Sequence[float]) -> Ratio | None:
    """Return baseline time / time, of repeats whose time is total time over total work; None if a side has none.

    Source: Welch's t on the logs (`ratio_interval` of the harness); Hoefler & Belli 2015, rule 5.
    """
    if not baseline_s or not times_s:
        return None
    interval = ratio_interval(baseline_s, times_s)
    if interval is None:
        value = _geometric_mean(baseline_s) / _geometric_mean(times_s)
        return decide(Estimate(value), min(len(baseline_s), len(times_s)))
    ratio = decide(Estimate.of(interval), min(len(baseline_s), len(times_s)))
    return replace(ratio, chance=ratio_p(baseline_s, times_s))


def per_unit(baseline: Repeats, side: Repeats, end_to_end: bool = False) -> tuple[list[float], list[float]]:
    """Return both sides' times (s), per unit of work if a step is not the same work on both.

    It is not in weak scaling, in which a step on 8 devices is 8 batches: its speedup is one of throughput.
    """
    times = [(c.end_to_end_s if end_to_end else c.compute_s) for c in (baseline, side)]
    units = step_units(baseline, side)
    return [t / units[0] for t in times[0]], [t / units[1] for t in times[1]]


def step_units(baseline: Repeats, side: Repeats) -> tuple[float, float]:
    """Return the work of a step on both sides; 1 and 1 if it is the same, or one side does not state it."""
    if not (baseline.units and side.units) or baseline.units == side.units:
        return 1.0, 1.0
    return baseline.units, side.units


def decide(estimate: Estimate, repeats: int) -> Ratio:
    """Return the verdict of an interval: decided if it excludes 1, else undecided, with the reason in `why`."""
    if estimate.low is None or estimate.high is None:
        return Ratio(estimate, RatioVerdict.UNDECIDED, ONE_REPEAT, repeats_needed=FEW_REPEATS)
    if estimate.low > 1:
        return Ratio(estimate, RatioVerdict.FASTER)
    if estimate.high < 1:
        return Ratio(estimate, RatioVerdict.SLOWER)
    return _undecided(estimate, estimate.low, estimate.high, repeats)


def refusal(baseline: Repeats | None, side: Repeats) -> str:
    """Return why two cells have no ratio; empty if they have one."""
    if baseline is None:
        return "the baseline has not measured this case"
    if side.grade is Grade.REFUSED:
        return _not_ok(side.cell.hardware, side)
    if baseline.grade is Grade.REFUSED:
        return _not_ok(f"the baseline, {baseline.cell.hardware},", baseline)
    return ""


def significant_ratios(ratios: Sequence[Ratio]) -> list[Ratio]:
    """Return the ratios that stay significant after correction for multiple comparisons.

    The probability that any of them is false is at most 5 %. Without the correction each alone is false with that
    probability, so of 14 cases without a difference one seems to differ in every second run.
    Source: Holm 1979, A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6.
    """
    known = sorted((ratio.chance, place) for place, ratio in enumerate(ratios) if ratio.chance is not None)
    holding = takewhile(lambda i: known[i][0] <= FALSE / (len(known) - i), range(len(known)))
    return [ratios[known[i][1]] for i in holding]


def scaled(estimate: Estimate, factor: float) -> Estimate:
    """Return the estimate and its bounds times an exact positive factor."""
    low, high = estimate.low, estimate.high
    if low is None or high is None:
        return Estimate(estimate.value * factor)
    return Estimate(estimate.value * factor, low * factor, high * factor)


def _undecided(estimate: Estimate, low: float, high: float, repeats: int) -> Ratio:
    """Return the undecided ratio, with the repeats that would decide it or a bound on the difference."""
    spans = f"the interval {format_bounds(estimate)} spans 1"
    if not low or high == math.inf:
        why = f"{spans}: the repeats differ too much, look at each of them"
        return Ratio(estimate, RatioVerdict.UNDECIDED, why)
    half, distance = math.log(high / low) / 2, abs(math.log(estimate.value))
    for more in range(repeats + 1, MOST_REPEATS + 1):
        if half * _reach(more) / _reach(repeats) < distance:
            why = f"{spans}: run with --repeats {more} or more"
            return Ratio(estimate, RatioVerdict.UNDECIDED, why, repeats_needed=more)
    apart = max(1 / low, high) - 1
    if apart <= EQUAL:
        why = f"{spans}: equal within {100 * apart:.2g} %"
        return Ratio(estimate, RatioVerdict.UNDECIDED, why, equal=True)
    why = f"{spans}: run with --repeats {MOST_REPEATS} or more, or on a quieter machine"
    return Ratio(estimate, RatioVerdict.UNDECIDED, why)


@lru_cache
def _reach(repeats: int) -> float:
    """Return the factor of a half-width for a number of repeats on each of two sides: t / sqrt(n)."""
    return t_quantile(0.975, max(2 * repeats - 2, 1)) / math.sqrt(repeats)


def _not_ok(who: str, side: Repeats) -> str:
    reason = f": {side.why[0]}" if side.why else ""
    return f"{who} is {side.verdict}{reason}"


def _geometric_mean(times: Sequence[float]) -> float:
    return math.exp(math.fsum(map(math.log, times)) / len(times))
