"""Relations between columns: if most rows keep one, report the others."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tasks.published.table import Printed
from tasks.results.values import Estimate

SLACK = 0.01  # relative: a ratio of unrounded or averaged times differs from that of the printed ones
OFF = 0.03  # distance beyond rounding at which a row is reported
EXACT = 5  # a single row beyond SLACK is reported if this many others are within rounding
MOST_OFF = 0.3  # share of the rows: if more are off, the table does not have the relation
LEAST = 3  # rows that must agree, and tell something
CLEAR = 0.05  # rounding up to which two exchanged numbers are known; distance at which two columns alone contradict
TELLING = 1.35  # high over low bound below which agreement is not an accident


@dataclass(frozen=True, slots=True)
class Relation:
    """A column's relation to others.

    Attributes:
        bounds: each row's value with rounding.
        trivial: rows in which it always holds, such as the reference.
        named: by the header, so that fewer rows must agree.
        columns: of a ratio; else empty.
    """

    words: str
    bounds: tuple[Estimate | None, ...]
    trivial: frozenset[int] = frozenset()
    named: bool = False
    columns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """A relation compared with a column.

    Attributes:
        exchanged: the two rows that are off cancel.
    """

    relation: Relation
    agreeing: int
    off: tuple[int, ...]
    judged: int
    exchanged: bool = False

    @property
    def holds(self) -> bool:
        """Return whether enough rows agree, and few are off."""
        least = LEAST - (self.exchanged or (self.relation.named and len(self.off) <= 1))
        return self.agreeing >= least and (self.exchanged or len(self.off) <= max(1, MOST_OFF * self.judged))

    def wrong(self, values: Sequence[Printed | None]) -> list[tuple[int, Printed, Estimate]]:
        """Return rows that are off: printed number, and right bounds."""
        return [(row, v, b) for row in self.off if (v := values[row]) and (b := self.relation.bounds[row])]


def distance(value: Printed, bounds: Estimate) -> float:
    """Return the log distance from bounds, 0 within rounding.

    Cut-off numbers are allowed a whole step of the last digit.
    """
    low, high = bounds.low or 0.0, math.inf if bounds.high is None else bounds.high
    if low > high or min(value.value, bounds.value) * max(value.value, bounds.value) <= 0:
        return 0.0 if abs(value.value - bounds.value) <= value.step + 0.02 else math.inf
    if value.value < 0:
        return distance(Printed(value.text, -value.value, value.step), Estimate(-bounds.value, -high, -low))
    least, most = value.value - value.step, value.value + value.step
    if most < low:
        return math.log(low / most) if most > 0 else math.inf
    return math.log(least / high) if least > high > 0 else 0.0


def outcome(values: Sequence[Printed | None], relation: Relation) -> Outcome:
    away = {
        row: distance(value, bounds)
        for row, (value, bounds) in enumerate(zip(values, relation.bounds, strict=True))
        if value and bounds and math.isfinite(value.value)
    }
    telling = [
        row for row in away if row not in relation.trivial and _telling(values[row], relation.bounds[row])
    ]
    exact = sum(away[row] == 0 for row in telling) >= EXACT and sum(map(bool, away.values())) == 1
    off = tuple(row for row, far in away.items() if far > (SLACK if exact else OFF))
    agreeing = sum(away[row] <= SLACK for row in telling)
    return Outcome(
        relation, agreeing, off, len(away), {*off} <= {*telling} and exchanged(values, relation.bounds, off)
    )


def exchanged(
    values: Sequence[Printed | None], bounds: Sequence[Estimate | None], off: Sequence[int]
) -> bool:
    """Return whether two rows are off by factors that cancel."""
    pairs = [(value, b) for row in off if (value := values[row]) and (b := bounds[row])]
    if len(pairs) != 2 or any(value.value <= 0 or b.value <= 0 for value, b in pairs):
        return False
    rounding = sum(value.step / value.value for value, _ in pairs)
    return abs(sum(math.log(value.value / b.value) for value, b in pairs)) < max(SLACK, rounding) < CLEAR


def best(values: Sequence[Printed | None], relations: Sequence[Relation]) -> Outcome | None:
    """Return the one that most rows keep."""
    held = [result for relation in relations if (result := outcome(values, relation)).holds]
    return max(held, key=lambda result: result.agreeing - 2 * len(result.off), default=None)


def mapped(bounds: Estimate, change: Callable[[float], float]) -> Estimate:
    """Apply a monotone change."""
    low, high = bounds.low, bounds.high
    ends = [change(bounds.value if low is None else low), change(math.inf if high is None else high)]
    return Estimate(change(bounds.value), min(ends), max(ends))


def _telling(value: Printed | None, bounds: Estimate | None) -> bool:
    """Return whether both are narrow, so that agreement is not an accident."""
    if value is None or bounds is None or not bounds.low or bounds.high is None or not value.value:
        return False
    return bounds.high / bounds.low < TELLING and abs(value.step / value.value) < TELLING - 1
