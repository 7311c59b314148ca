"""Speedup over the baseline, and its verdict."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from statistics import NormalDist, geometric_mean

from tasks.results.corrections import confidence_of_each, holm
from tasks.results.format import format_bounds
from tasks.results.repeats import Repeats
from tasks.results.sessions import Part, shared_sd
from tasks.results.values import Estimate, Ratio, RatioVerdict
from workloads.harness.records.intervals import ratio_interval, ratio_p, t_quantile
from workloads.harness.records.record import Grade

FEW_REPEATS = 3
ONE_REPEAT = f"one repeat has no interval: run with --repeats {FEW_REPEATS} or more"
MOST_REPEATS = 20  # largest advised number of repeats
EQUAL = 0.05  # sides that MOST_REPEATS would not distinguish are called equal within this relative difference


def speedup(
    baseline_s: Sequence[float],
    times_s: Sequence[float],
    sessions: Sequence[Part] = (),
    repeats: Sequence[Part] = (),
) -> Ratio | None:
    """Return baseline time / time; None if a side is empty.

    Source: Welch's t on the logs (`ratio_interval` of the harness); Hoefler & Belli 2015, rule 5.

    Args:
        sessions: effects on both sides; none if shared.
        repeats: variances that earlier runs show and these lack.
    """
    if not baseline_s or not times_s:
        return None
    interval = ratio_interval(baseline_s, times_s, added=(*sessions, *repeats))
    if interval is None:
        value = geometric_mean(baseline_s) / geometric_mean(times_s)
        return decide(Estimate(value), min(len(baseline_s), len(times_s)))
    ratio = decide(Estimate.of(interval), min(len(baseline_s), len(times_s)), shared_sd(sessions))
    return replace(ratio, chance=ratio_p(baseline_s, times_s, added=(*sessions, *repeats)))


def per_unit(baseline: Repeats, side: Repeats, end_to_end: bool = False) -> tuple[list[float], list[float]]:
    """Return times (s), per unit of work if steps differ.

    In weak scaling a step on 8 devices is 8 batches.
    """
    times = [(c.end_to_end_s if end_to_end else c.compute_s) for c in (baseline, side)]
    units = step_units(baseline, side)
    return [t / units[0] for t in times[0]], [t / units[1] for t in times[1]]


def step_units(baseline: Repeats, side: Repeats) -> tuple[float, float]:
    """Return the work of a step; 1 and 1 if equal or unknown."""
    if not (baseline.units and side.units) or baseline.units == side.units:
        return 1.0, 1.0
    return baseline.units, side.units


def decide(estimate: Estimate, repeats: int, sessions_sd: float = 0.0) -> Ratio:
    """Decide if the interval excludes 1, else state the reason in `why`.

    `sessions_sd`: the part of the log standard deviation between sessions.
    """
    if estimate.low is None or estimate.high is None:
        return Ratio(estimate, RatioVerdict.UNDECIDED, ONE_REPEAT, repeats_needed=FEW_REPEATS)
    known = Ratio(estimate, RatioVerdict.UNDECIDED, repeats=repeats, sessions_sd=sessions_sd)
    if estimate.low > 1:
        return replace(known, outcome=RatioVerdict.FASTER)
    if estimate.high < 1:
        return replace(known, outcome=RatioVerdict.SLOWER)
    spans = f"the interval {format_bounds(estimate)} spans 1"
    return _undecided(known, estimate.low, estimate.high, spans)


def refusal(baseline: Repeats | None, side: Repeats) -> str:
    """Return why there is no ratio; else empty."""
    if baseline is None:
        return "the baseline has not measured this case"
    if side.grade is Grade.REFUSED:
        return _not_ok(side.cell.hardware, side)
    if baseline.grade is Grade.REFUSED:
        return _not_ok(f"the baseline, {baseline.cell.hardware},", baseline)
    return ""


def corrected(ratios: Sequence[Ratio | None]) -> list[Ratio | None]:
    """Return ratios as undecided unless significant after correction for all."""
    holding = holm([ratio.chance if ratio else None for ratio in ratios])
    count = sum(ratio is not None and ratio.chance is not None for ratio in ratios)
    return [
        _not_significant(ratio, count) if ratio and not (holds or ratio.chance is None) else ratio
        for ratio, holds in zip(ratios, holding, strict=True)
    ]


def scaled(estimate: Estimate, factor: float) -> Estimate:
    """Apply an exact positive factor."""
    low, high = estimate.low, estimate.high
    if low is None or high is None:
        return Estimate(estimate.value * factor)
    return Estimate(estimate.value * factor, low * factor, high * factor)


def _not_significant(ratio: Ratio, count: int) -> Ratio:
    low, high = ratio.estimate.low, ratio.estimate.high
    if ratio.outcome is RatioVerdict.UNDECIDED or low is None or high is None:
        return ratio
    chance = f"the interval {format_bounds(ratio.estimate)} excludes 1, which chance explains in {count} comparisons"
    return _undecided(ratio, low, high, chance, count)


def _undecided(ratio: Ratio, low: float, high: float, because: str, count: int = 1) -> Ratio:
    """Add the repeats that would decide it, or a bound on the difference.

    `count`: comparisons to correct for.
    """
    known, repeats = replace(ratio, outcome=RatioVerdict.UNDECIDED), ratio.repeats or FEW_REPEATS
    if not low or high == math.inf:
        return replace(known, why=f"{because}: the repeats differ too much, look at each of them")
    half, distance = math.log(high / low) / 2, abs(math.log(ratio.estimate.value))
    # more repeats shrink their own part of the interval, not that of the sessions
    sessions, normal = ratio.sessions_sd, NormalDist().inv_cdf(_upper(count))
    own = math.sqrt(max(half**2 - (NormalDist().inv_cdf(_upper()) * sessions) ** 2, 0.0))
    for more in range(repeats + 1, MOST_REPEATS + 1):
        if math.hypot(own * _reach(more, count) / _reach(repeats), normal * sessions) < distance:
            why = f"{because}: run with --repeats {more} or more"
            return replace(known, why=why, repeats_needed=more)
    apart = max(1 / low, high) - 1
    if apart <= EQUAL:
        return replace(known, why=f"{because}: equal within {100 * apart:.2g} %", equal=True)
    if sessions and normal * sessions >= distance:
        apart_text = f"sessions differ by {100 * sessions:.2g} % on their own"
        return replace(known, why=f"{because}: measure it again in other sessions, since {apart_text}")
    return replace(
        known, why=f"{because}: run with --repeats {MOST_REPEATS} or more, or on a quieter machine"
    )


@lru_cache
def _reach(repeats: int, count: int = 1) -> float:
    """Return t / sqrt(n), the factor of a half-width for n repeats on each side."""
    return t_quantile(_upper(count), max(2 * repeats - 2, 1)) / math.sqrt(repeats)


def _upper(count: int = 1) -> float:
    return 0.5 + confidence_of_each(count) / 2


def _not_ok(who: str, side: Repeats) -> str:
    reason = f": {side.why[0]}" if side.why else ""
    return f"{who} is {side.verdict}{reason}"
