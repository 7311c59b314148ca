"""The change of a time between two sets of measurements.

A change counts by `Change.direction`.

- `changes_between` compares two runs of a few repeats. It trusts every repeat, takes the spread from each
side
(Welch), adds a run's effect on single cells, and its confidence covers all cells.

- `robust_change` compares two sets of processes of one version each, 15 by default. It withstands an outlier,
which must not direct a search.

Two rules differ: `nightly_gate.confirmed` uses the spread from night to night, and
`tasks.results.speedup.decide` has no least change.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from tasks.plausibility.contradictions import out_of_range
from tasks.regressions.baseline import EFFICIENCY, LEAST_CHANGE, RERUN_VARIANCE, threshold_z
from tasks.regressions.robust import PSEUDOMEDIAN_VARIANCE, centre, spread_of_pairs, spread_within
from tasks.results.metrics import metric_in
from tasks.results.repeats import Repeats
from tasks.results.speedup import MOST_REPEATS
from tasks.results.values import Estimate
from workloads.harness.records.intervals import (
    Interval,
    log_mean_interval,
    ratio_interval,
    t_quantile,
    variance,
)
from workloads.harness.records.program import Better, Metric
from workloads.harness.records.record import COUNTING

FEWEST = 2  # repeats that have an interval
USUAL = 3  # advised repeats if their spread is unknown
CONTROL_CONFIDENCE = 0.95  # that controls have moved; if too low, it only widens an interval
SHOWING_CELLS = 5  # of one machine, from which the effect of a run is estimated
# Assumed standard deviation of a run's effect on a cell if fewer cells show it: the largest of those in the
# simulations of docs/bisect-and-gate.md. Jobs on a VM of two cores differed by more (`SHARED_TIMES` of scripts).
RUN_EFFECT = 0.02
EXCLUDING = 0.9  # confidence of an interval whose ends are two one-sided tests at 5 %
MARGIN = 0.05  # size of a change that an unchanged cell excludes
ROOM = 0.75  # share of the margin that an interval can fill, so that it excludes the margin with even odds
WIDEST = 50.0  # largest half-width in logs
# Quantiles of t at the bounds of an interval: of one that confirms a change, and of one of 95 %.
CONFIRM_P = NormalDist().cdf(threshold_z(1))
INTERVAL_P = 0.975


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a time.

    Attributes:
        share: seconds now over before, minus 1; above 0 is slower.
        smallest: share detected with even odds; NaN if not computed.
        paired: times were divided by controls'.
        repeats: of each side, to exclude an absent change by the margin with even odds, if not too many.
        likely: share with the bounds of two one-sided tests at 5 %.
        effect: of runs, within the bounds.
    """

    share: Estimate
    smallest: float = math.nan
    paired: bool = False
    repeats: int | None = None
    likely: Estimate | None = None
    effect: "RunEffect | None" = None

    @property
    def size(self) -> float:
        """Return slower over faster, minus 1."""
        return self.share.value if self.share.value > 0 else 1 / (1 + self.share.value) - 1

    def direction(self, least: float = 0.0) -> int:
        """Return +1 for slower, -1 for faster; 0 if not shown, or `size` is `least` or less."""
        sign = ((self.share.low or 0.0) > 0) - ((self.share.high or 0.0) < 0)
        return sign if sign and self.size > least else 0

    def excludes_slowdown(self, margin: float) -> bool:
        """Return whether it is excluded at 95 %.

        Source: D. J. Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15, 1987.
        """
        return self.most < margin

    def excludes_speedup(self, margin: float) -> bool:
        """Return whether it is excluded at 95 %."""
        low = self.likely.low if self.likely else None
        return low is not None and (1 + low) * (1 + margin) > 1

    @property
    def most(self) -> float:
        """Return the upper bound of a one-sided test at 5 %."""
        high = self.likely.high if self.likely else None
        return math.inf if high is None else high

    def __str__(self) -> str:
        return share_in_words(self.share.value)


def share_in_words(share: float, case: str = "") -> str:
    """Return such as `5.2 % slower`; the case's id can name a metric."""
    metric = metric_in(case)
    if metric is None or metric.is_time:
        return f"{100 * abs(share):.1f} % {'slower' if share > 0 else 'faster'}"
    change = native_change(metric, share)
    size = f"{100 * abs(change):.1f} {'points' if metric.unit == '%' else '%'}"
    return f"{size} {'higher' if change > 0 else 'lower'} ({'worse' if share > 0 else 'better'})"


def native_change(metric: Metric, share: float) -> float:
    """Return a metric's relative change for its cost's; hundredths of points for a percentage."""
    sign = 1 if metric.better is Better.LOWER else -1
    return sign * math.log1p(share) if metric.unit == "%" else (1 + share) ** sign - 1


@dataclass(frozen=True, slots=True)
class RunEffect:
    """A cell's change that two runs cause without a change, unseen by repeats.

    Attributes:
        sd: standard deviation, in logs.
        freedom: of `sd`; infinity if assumed.
        is_assumed: whether too few cells show it.
    """

    sd: float
    freedom: float = math.inf
    is_assumed: bool = False

    def added_to(self, interval: Interval, confidence: float) -> Interval:
        p = 0.5 + confidence / 2
        quantile = NormalDist().inv_cdf(p) if self.freedom == math.inf else t_quantile(p, self.freedom)
        factor = math.exp(math.hypot(_half(interval), quantile * self.sd))
        return (
            Interval(interval.value, interval.value / factor, interval.value * factor)
            if self.sd
            else interval
        )


@dataclass(frozen=True, slots=True)
class Sample:
    """Times of a cell's valid repeats in one run.

    Attributes:
        controlled: seconds over those of a valid control.
        reference: of the controls; empty without, or with several.
    """

    seconds: tuple[float, ...]
    controlled: tuple[float, ...] = ()
    controls: tuple[float, ...] = ()
    reference: str = ""
    busy: bool = False

    @property
    def spread(self) -> float | None:
        """Return a repeat's standard deviation as a share; None for fewer than two."""
        return math.sqrt(variance([math.log(s) for s in self.seconds])) if len(self.seconds) > 1 else None


def sample(cell: Repeats) -> Sample:
    usable = [record for record in cell.usable if record.compute_s]
    pairs = [
        (record.compute_s or 0.0, control.compute_s, control.reference)
        for record in usable
        if (control := record.control) and control.verdict in COUNTING and control.compute_s
        if not out_of_range(control.compute_s)
    ]
    references = {reference for *_, reference in pairs}
    return Sample(
        seconds=tuple(record.compute_s or 0.0 for record in usable),
        controlled=tuple(seconds / control_s for seconds, control_s, _ in pairs),
        controls=tuple(control_s for _, control_s, _ in pairs),
        reference=references.pop() if len(references) == 1 else "",
        busy=cell.busy,
    )


@dataclass(frozen=True, slots=True)
class GateLimits:
    """The limits of a comparison of two runs.

    Attributes:
        least: share of no interest.
        margin: that an unchanged cell excludes.
        run_effect: assumed standard deviation, with few cells.
    """

    least: float = LEAST_CHANGE
    margin: float = MARGIN
    run_effect: float = RUN_EFFECT

    @property
    def excluded(self) -> float:
        return max(self.margin, self.least)


def changes_between(
    sides: Sequence[tuple[Sample, Sample]], confidence: float, limits: GateLimits
) -> list[Change]:
    """Return changes from (now, before) with two or more repeats each.

    Times are divided by controls' if both runs have one reference, and either that narrows intervals over all
    cells, or the machine can be another, or was busy.
    """
    plain_s = [(now.seconds, before.seconds) for now, before in sides]
    paired_s = [
        (now.controlled, before.controlled) if _controlled(now, before) else None for now, before in sides
    ]
    effect = run_effect(plain_s, limits.run_effect)
    # A control shows a run's effect on the machine, and not its effect on a single cell.
    paired_effect = run_effect([pair for pair in paired_s if pair], limits.run_effect)
    plain = [effect.added_to(_interval(*pair, confidence), confidence) for pair in plain_s]
    paired = [
        paired_effect.added_to(_interval(*pair, confidence), confidence) if pair else None
        for pair in paired_s
    ]
    widths = [_half(beside) / _half(alone) for alone, beside in zip(plain, paired, strict=True) if beside]
    always = bool(widths) and (statistics.median(widths) < 1 or _all_moved(sides))
    changes = []
    for (now, before), alone, beside in zip(sides, plain, paired, strict=True):
        if beside and (always or now.busy or before.busy or _box_may_have(now, before, alone)):
            changes.append(_change(beside, now.controlled, before.controlled, paired_effect, limits, True))
        else:
            changes.append(_change(alone, now.seconds, before.seconds, effect, limits, False))
    return changes


def run_effect(pairs: Sequence[tuple[Sequence[float], Sequence[float]]], assumed: float) -> RunEffect:
    """Return the effect of two runs on single cells.

    If changes differ by more than repeats explain, a run affects each cell. Changes of up to half of the
    cells do not count; an effect on all alike stays hidden. Below `SHOWING_CELLS` it is `assumed`. Source: B.
    Efron, Large-scale simultaneous hypothesis testing, 2004.
    """
    if len(pairs) < SHOWING_CELLS:
        return RunEffect(math.sqrt(2) * assumed, is_assumed=True)
    means = [[statistics.fmean(map(math.log, side)) for side in pair] for pair in pairs]
    explained = [
        sum(variance([math.log(value) for value in side]) / len(side) for side in pair) for pair in pairs
    ]
    apart = spread_of_pairs([now - before for now, before in means])
    own = math.sqrt(max(apart**2 - statistics.fmean(explained), 0.0))
    return RunEffect(own, EFFICIENCY * (len(pairs) - 1))


def repeats_needed(spread: float, confidence: float, least: float) -> int | None:
    """Return each side's repeats that detect `least` with even odds, up to `MOST_REPEATS`.

    `spread`: standard deviation of logs.
    """
    for count in range(FEWEST, MOST_REPEATS + 1):
        reach = t_quantile(0.5 + confidence / 2, 2 * count - 2) * spread * math.sqrt(2 / count)
        if reach <= math.log1p(least):
            return count
    return None


def level(logs: Sequence[float]) -> float:
    """Return the centre; 0 without logs."""
    return centre(logs) if logs else 0.0


def robust_change(now: Sequence[float], before: Sequence[float], p: float = INTERVAL_P) -> Change:
    """Return the change between sets of at least three log seconds.

    An empty set is the version by whose times others were divided. `p` is the bounds' quantile of t.
    """
    sd, freedom = spread_within([logs for logs in (now, before) if logs])
    error = sd * math.sqrt(_variance(len(now)) + _variance(len(before)))
    return _by_t(level(now) - level(before), error, freedom, p)


def change_from_middle(own: Sequence[float], good: Sequence[float], bad: Sequence[float]) -> Change:
    """Return a set's change from the middle of two others."""
    sd, freedom = spread_within([logs for logs in (own, good, bad) if logs])
    ends = (_variance(len(good)) + _variance(len(bad))) / 4
    error = sd * math.sqrt(_variance(len(own)) + ends)
    return _by_t(level(own) - (level(good) + level(bad)) / 2, error, freedom, INTERVAL_P)


def _by_t(log: float, error: float, freedom: int, p: float) -> Change:
    half = t_quantile(p, freedom) * error
    return Change(
        share=Estimate(*(math.expm1(log + far) for far in (0.0, -half, half))),
        smallest=_smallest(half, LEAST_CHANGE),
    )


def _smallest(half: float, least: float) -> float:
    return math.expm1(max(half, math.log1p(least)))


def _variance(count: int) -> float:
    return RERUN_VARIANCE.get(count, PSEUDOMEDIAN_VARIANCE / count) if count else 0.0


def _controlled(now: Sample, before: Sample) -> bool:
    enough = min(len(now.controls), len(before.controls)) >= FEWEST
    return enough and now.reference == before.reference != ""


def _box_may_have(now: Sample, before: Sample, alone: Interval) -> bool:
    control = _interval(now.controls, before.controls, CONTROL_CONFIDENCE)
    changed = not alone.low <= 1 <= alone.high
    return not control.low <= 1 <= control.high or (changed and control.low <= alone.value <= control.high)


def _all_moved(sides: Sequence[tuple[Sample, Sample]]) -> bool:
    ratios = [
        statistics.geometric_mean(now.controls) / statistics.geometric_mean(before.controls)
        for now, before in sides
        if _controlled(now, before)
    ]
    together = log_mean_interval(ratios, CONTROL_CONFIDENCE)
    return together is not None and not together.low <= 1 <= together.high


def _interval(now: Sequence[float], before: Sequence[float], confidence: float) -> Interval:
    interval = ratio_interval(now, before, confidence)
    if interval is None:
        raise ValueError(f"a change needs 2 repeats on each side, got {len(now)} and {len(before)}")
    return interval


def _change(
    interval: Interval,
    now: Sequence[float],
    before: Sequence[float],
    effect: RunEffect,
    limits: GateLimits,
    paired: bool,
) -> Change:
    likely = effect.added_to(_interval(now, before, EXCLUDING), EXCLUDING)
    spread = math.sqrt(statistics.fmean(variance([math.log(v) for v in side]) for side in (now, before)))
    return Change(
        share=_shares(interval),
        smallest=_smallest(_half(interval), limits.least),
        paired=paired,
        repeats=_to_exclude(spread, limits.excluded, effect),
        likely=_shares(likely),
        effect=effect if effect.sd else None,
    )


def _to_exclude(spread: float, margin: float, effect: RunEffect) -> int | None:
    """Return each side's repeats that exclude an absent change by `margin` with even odds."""
    half = _half(effect.added_to(Interval(1.0, 1.0, 1.0), EXCLUDING))
    left = (ROOM * math.log1p(margin)) ** 2 - half**2
    return repeats_needed(spread, EXCLUDING, math.expm1(math.sqrt(left))) if left > 0 else None


def _shares(ratio: Interval) -> Estimate:
    return Estimate(ratio.value - 1, ratio.low - 1, ratio.high - 1)


def _half(interval: Interval) -> float:
    if not interval.low or interval.high == math.inf:
        return WIDEST
    return min(max(math.log(interval.high / interval.low) / 2, 1e-12), WIDEST)
