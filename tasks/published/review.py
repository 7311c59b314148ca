"""Review of a published table: every rule, in the order in which a reader wants to hear of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from tasks.published.copies import copied
from tasks.published.growth import cold_first, not_growing, slipped
from tasks.published.order import above_whole, disordered, not_measured
from tasks.published.peaks import above_peaks, peaks_used
from tasks.published.prices import mispriced
from tasks.published.rates import misrated
from tasks.published.ratios import misquoted, spread
from tasks.published.scaling import superlinear
from tasks.published.shapes import Shapes, misshapen
from tasks.published.table import (
    Claim,
    ColumnKind,
    Printed,
    PublishedColumn,
    PublishedTable,
    TableFlaw,
    TableReview,
    cell,
    listed,
    ratio,
)
from tasks.published.totals import headline, overall, total_row, wrong_sums
from tasks.results.model import Machine
from tasks.results.values import Estimate

COARSE = 1.1  # high over low bound: a ratio known to 5 % or worse
MOST_SIDES = 4  # columns that are set against the base
_BASES = ({"baseline", "base", "reference", "before"}, {"cpu"})


@dataclass(frozen=True, slots=True)
class Known:
    """Facts about machines.

    Attributes:
        gpus: peaks by model.
        shapes: of instances; None where there are none.
        prices: on demand, USD an hour, by instance.
        in_fp8: keys of the GPUs that compute in fp8, which their peaks don't have.
    """

    gpus: Mapping[str, Machine] = field(default_factory=dict)
    shapes: Shapes | None = None
    prices: Mapping[str, float] = field(default_factory=dict)
    in_fp8: frozenset[str] = frozenset()


def review(table: PublishedTable, machine: Machine | None = None, known: Known | None = None) -> TableReview:
    """Apply every rule to a table.

    `machine` has the peaks that its GPU must keep to; without it, those of the models that it names.
    """
    known = known or Known()
    base, sides = compared(table)
    claimed = claims(table, base, sides)
    ways = {side: overall(table, base, side) for side in sides}
    findings = chain(
        not_measured(table),
        copied(table),
        disordered(table),
        misquoted(table),
        misrated(table),
        wrong_sums(table),
        superlinear(table),
        slipped(table),
        above_whole(table),
        above_peaks(table, machine, known.gpus, known.in_fp8),
        misshapen(table, known.shapes) if known.shapes else (),
        mispriced(table, known.prices),
        cold_first(table),
        not_growing(table),
        filter(None, (headline(table, side, ways[side]) for side in sides)),
        filter(None, [coarse(table, claimed)]),
    )
    unique = {(flaw.rule, flaw.text): flaw for flaw in findings}
    return TableReview(
        table=table,
        claims=claimed,
        findings=tuple(sorted(unique.values(), key=lambda flaw: flaw.doubt)),
        overall=tuple((table.columns[side].header, way, e) for side in sides for way, e in ways[side]),
        notes=(*table.skipped, *peaks_used(table, machine)),
    )


def compared(table: PublishedTable) -> tuple[int, list[int]]:
    """Return the column of times that others are taken against, and those others, if any."""
    times = [i for i in table.of(ColumnKind.TIME) if not table.columns[i].statistic]
    units = {table.columns[i].subject for i in times}
    if not 2 <= len(times) <= 1 + MOST_SIDES or len(units) != len(times):
        return 0, []
    base = times[_base([table.columns[i] for i in times])]
    if len(times) == 2 and _turned(table, base, next(i for i in times if i != base)):
        base = next(i for i in times if i != base)
    return base, [i for i in times if i != base]


def claims(table: PublishedTable, base: int, sides: Sequence[int]) -> tuple[Claim, ...]:
    """List the speedup of every row, the total's last, in every column of times beside the base."""
    total = total_row(table)
    rows = (*table.rows, *([total] if total else []))
    made = []
    for side in sides:
        stated = _speedup_of(table, side, sides)
        for row in rows:
            over, under = cell(row, base), cell(row, side)
            bounds = ratio(over, under) if over and under else None
            made.append(
                Claim(row.name, base, side, bounds, row.cells[stated] if stated is not None else None)
            )
    return tuple(made)


def coarse(table: PublishedTable, claimed: Sequence[Claim]) -> TableFlaw | None:
    """Ask about speedups with more digits than the rounding of their times supports."""
    stated = [claim for claim in claimed if claim.printed and claim.bounds]
    too_fine = [claim for claim in stated if _width(claim.bounds) > COARSE and _narrower(claim)]
    if not too_fine:
        return None
    worst = sorted(too_fine, key=lambda claim: -_width(claim.bounds))[:3]
    several = len({claim.side for claim in stated}) > 1
    where = {c.side: f" in {table.columns[c.side].header}" if several else "" for c in worst}
    words = [
        f"{c.printed.text} of {c.row}{where[c.side]} is {spread(c.bounds)}"
        for c in worst
        if c.printed and c.bounds
    ]
    text = (
        f"{len(too_fine)} of {len(stated)} speedups are printed more exactly than their rounded times allow: "
        f"{listed(words)}"
    )
    rows = tuple(dict.fromkeys(claim.row for claim in too_fine))
    return TableFlaw("digits that rounding doesn't leave", rows, text, doubt=True)


def _base(times: Sequence[PublishedColumn]) -> int:
    """Return the place of the only column that calls itself the baseline or the CPU's; else the first."""
    for names in _BASES:
        named = [i for i, column in enumerate(times) if column.subject & names]
        if len(named) == 1:
            return named[0]
    return 0


def _turned(table: PublishedTable, base: int, side: int) -> bool:
    """Return True if the printed speedups agree better with the ratio the other way round."""
    stated = _speedup_of(table, side, [side])
    if stated is None:
        return False
    return _agreeing(table, side, base, stated) > _agreeing(table, base, side, stated)


def _agreeing(table: PublishedTable, base: int, side: int, stated: int) -> int:
    rows = [(cell(r, base), cell(r, side), r.cells[stated]) for r in table.rows]
    return sum(_agrees(ratio(over, under), value) for over, under, value in rows if over and under and value)


def _agrees(bounds: Estimate, value: Printed) -> bool:
    high = float("inf") if bounds.high is None else bounds.high
    return value.high >= (bounds.low or 0.0) and value.low <= high


def _speedup_of(table: PublishedTable, side: int, sides: Sequence[int]) -> int | None:
    """Return the column of speedups of a side: that which names it, else the only one of a single side."""
    stated = [
        i for i in table.of(ColumnKind.RATIO) if not table.columns[i].change and not table.columns[i].percent
    ]
    named = [i for i in stated if table.columns[i].subject & table.columns[side].subject]
    chosen = named if len(named) == 1 else stated if len(sides) == 1 else []
    return chosen[0] if len(chosen) == 1 else None


def _width(bounds: Estimate | None) -> float:
    if bounds is None or bounds.high is None or not bounds.low:
        return float("inf")
    return bounds.high / bounds.low


def _narrower(claim: Claim) -> bool:
    """Return True if a printed speedup is more precise than its bounds."""
    if claim.printed is None or claim.bounds is None or claim.bounds.high is None:
        return False
    return claim.printed.step < claim.bounds.high - (claim.bounds.low or 0.0)
