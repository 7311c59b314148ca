"""How far the repeats of a cell have moved from one run to another, alone or beside their controls."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.plausibility.contradictions import out_of_range
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
from workloads.harness.records.record import Verdict

FEWEST = 2  # repeats that have an interval
USUAL = 3  # repeats to advise where nothing is known of their spread
CONTROL_CONFIDENCE = 0.95  # that controls have moved; too low only makes an interval wider
WIDEST = 50.0  # half-width in logs that stands for every larger one


@dataclass(frozen=True, slots=True)
class Sample:
    """What the ok repeats of a cell took in one run.

    Attributes:
        seconds: per step, of each.
        controlled: the same over its control's seconds, of those that have an ok control.
        controls: those controls' seconds.
        reference: id of the environment that they ran in; empty where there are none, or of several.
    """

    seconds: tuple[float, ...]
    controlled: tuple[float, ...] = ()
    controls: tuple[float, ...] = ()
    reference: str = ""

    @property
    def spread(self) -> float | None:
        """Standard deviation of a repeat, as a share; None where fewer than two are there."""
        return math.sqrt(variance([math.log(s) for s in self.seconds])) if len(self.seconds) > 1 else None


@dataclass(frozen=True, slots=True)
class Shift:
    """How a cell has changed.

    Attributes:
        change: seconds over those before, minus 1, with the bounds of its confidence.
        smallest: the share by which it must change to be told with even odds.
        paired: whether it is the change of times over those of their controls.
        repeats: of each side that would have told the least change with even odds; None where too many.
    """

    change: Estimate
    smallest: float
    paired: bool
    repeats: int | None


def sample(cell: Repeats) -> Sample:
    """The times and controls of a cell's usable repeats."""
    usable = [record for record in cell.usable if record.compute_s]
    pairs = [
        (record.compute_s or 0.0, control.compute_s, control.reference)
        for record in usable
        if (control := record.control) and control.verdict == Verdict.OK and control.compute_s
        if not out_of_range(control.compute_s)
    ]
    references = {reference for *_, reference in pairs}
    return Sample(
        seconds=tuple(record.compute_s or 0.0 for record in usable),
        controlled=tuple(seconds / control_s for seconds, control_s, _ in pairs),
        controls=tuple(control_s for _, control_s, _ in pairs),
        reference=references.pop() if len(references) == 1 else "",
    )


def shifts(sides: Sequence[tuple[Sample, Sample]], confidence: float, least: float) -> list[Shift]:
    """The change of each cell of one machine, from (now, before) with two or more repeats each.

    Times are held against their controls where both runs have those of one reference, and where that is
    narrower over all cells of the machine (of one cell alone chance would choose), or the box may have moved.

    Args:
        sides: the cells, all of one machine.
        confidence: of each interval.
        least: share below which a change is of no interest.
    """
    plain = [_interval(now.seconds, before.seconds, confidence) for now, before in sides]
    paired = [
        _interval(now.controlled, before.controlled, confidence) if _controlled(now, before) else None
        for now, before in sides
    ]
    widths = [_half(beside) / _half(alone) for alone, beside in zip(plain, paired, strict=True) if beside]
    always = bool(widths) and (statistics.median(widths) < 1 or _all_moved(sides))
    found = []
    for (now, before), alone, beside in zip(sides, plain, paired, strict=True):
        if beside and (always or _box_may_have(now, before, alone)):
            found.append(_shift(beside, now.controlled, before.controlled, confidence, least, True))
        else:
            found.append(_shift(alone, now.seconds, before.seconds, confidence, least, False))
    return found


def repeats_needed(spread: float, confidence: float, least: float) -> int | None:
    """Repeats of each side that tell a change by the share `least` with even odds; None above 20.

    Args:
        spread: standard deviation of the logs of repeats, alike on both sides.
        confidence: of the interval.
        least: above 0.
    """
    for count in range(FEWEST, MOST_REPEATS + 1):
        reach = t_quantile(0.5 + confidence / 2, 2 * count - 2) * spread * math.sqrt(2 / count)
        if reach <= math.log1p(least):
            return count
    return None


def _controlled(now: Sample, before: Sample) -> bool:
    enough = min(len(now.controls), len(before.controls)) >= FEWEST
    return enough and now.reference == before.reference != ""


def _box_may_have(now: Sample, before: Sample, alone: Interval) -> bool:
    """Whether the controls of a cell have moved, or can't rule out that they moved as far as it did."""
    control = _interval(now.controls, before.controls, CONTROL_CONFIDENCE)
    told = not alone.low <= 1 <= alone.high
    return not control.low <= 1 <= control.high or (told and control.low <= alone.value <= control.high)


def _all_moved(sides: Sequence[tuple[Sample, Sample]]) -> bool:
    """Whether the controls of a machine's cells, taken together, show that its box is another than before."""
    ratios = [
        statistics.geometric_mean(now.controls) / statistics.geometric_mean(before.controls)
        for now, before in sides
        if _controlled(now, before)
    ]
    together = log_mean_interval(ratios, CONTROL_CONFIDENCE)
    return together is not None and not together.low <= 1 <= together.high


def _interval(now: Sequence[float], before: Sequence[float], confidence: float) -> Interval:
    found = ratio_interval(now, before, confidence)
    if found is None:
        raise ValueError(f"a change needs 2 repeats on each side, got {len(now)} and {len(before)}")
    return found


def _shift(
    interval: Interval,
    now: Sequence[float],
    before: Sequence[float],
    confidence: float,
    least: float,
    paired: bool,
) -> Shift:
    half = _half(interval)
    spread = math.sqrt(statistics.fmean(variance([math.log(v) for v in side]) for side in (now, before)))
    return Shift(
        change=Estimate(interval.value - 1, interval.low - 1, interval.high - 1),
        smallest=math.expm1(max(half, math.log1p(least))),
        paired=paired,
        repeats=repeats_needed(spread, confidence, least) if least > 0 else None,
    )


def _half(interval: Interval) -> float:
    """Half-width of a ratio's interval in logs, above 0 and never infinite."""
    if not interval.low or interval.high == math.inf:
        return WIDEST
    return min(max(math.log(interval.high / interval.low) / 2, 1e-12), WIDEST)
