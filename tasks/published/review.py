"""Review by every rule, the most useful first."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from tasks.published.copies import copied
from tasks.published.growth import cold_first, not_growing, slipped
from tasks.published.machines import unlikely
from tasks.published.order import above_whole, disordered, not_measured
from tasks.published.peaks import above_peaks, peaks_used
from tasks.published.prices import bought, mispriced
from tasks.published.products import misproduced
from tasks.published.rates import misrated
from tasks.published.ratios import misquoted, spread
from tasks.published.relations import Relation, outcome
from tasks.published.rounded import cell, quotient, quotients
from tasks.published.scaling import superlinear
from tasks.published.shapes import Shapes, misshapen
from tasks.published.table import Claim, ColumnKind, Compared, PublishedTable, TableFlaw, TableReview
from tasks.published.totals import headline, overall, total_row, wrong_sums
from tasks.results.format import listed
from tasks.results.model import Machine

COARSE = 1.1  # high over low bound of a ratio that is known to 5 % or worse
MOST_SIDES = 4  # columns that are compared with the base
_BASES = ({"baseline", "base", "reference", "before"}, {"cpu"})


@dataclass(frozen=True, slots=True)
class Known:
    """Facts of machines.

    Attributes:
        gpus: peaks by model.
        prices: on demand, USD an hour, by instance.
        in_fp8: GPUs that compute in fp8, which has no peak.
    """

    gpus: Mapping[str, Machine] = field(default_factory=dict)
    shapes: Shapes | None = None
    prices: Mapping[str, float] = field(default_factory=dict)
    in_fp8: frozenset[str] = frozenset()


def review(table: PublishedTable, machine: Machine | None = None, known: Known | None = None) -> TableReview:
    """Apply every rule, by the peaks of `machine` or of named GPUs."""
    known = known or Known()
    base, sides = compared(table)
    claimed = claims(table, base, sides)
    ways = {side: overall(table, base, side) for side in sides}
    results = chain(
        not_measured(table),
        copied(table),
        disordered(table),
        misquoted(table),
        misrated(table),
        misproduced(table, known.gpus),
        wrong_sums(table),
        superlinear(table),
        slipped(table),
        above_whole(table),
        above_peaks(table, machine, known.gpus, known.in_fp8),
        misshapen(table, known.shapes) if known.shapes else (),
        mispriced(table, known.prices),
        unlikely(table, known.gpus, known.shapes),
        cold_first(table),
        not_growing(table),
        filter(None, (headline(table, side, ways[side]) for side in sides)),
        filter(None, [coarse(table, claimed)]),
    )
    findings: dict[tuple[str, str], TableFlaw] = {}
    held: Counter[str] = Counter()
    for each in results:
        if isinstance(each, Compared):
            held[each.rule] += each.numbers
        else:
            findings.setdefault(
                (each.rule, each.text), replace(each, doubt=each.doubt or bool(table.assumed))
            )
    return TableReview(
        table=table,
        claims=claimed,
        findings=tuple(sorted(findings.values(), key=lambda flaw: flaw.doubt)),
        overall=tuple((table.columns[side].header, way, e) for side in sides for way, e in ways[side]),
        notes=(
            *table.skipped,
            *([table.assumed] if table.assumed else ()),
            *bought(table),
            *peaks_used(table, machine),
        ),
        held=tuple(Compared(rule, count) for rule, count in held.items() if count),
    )


def compared(table: PublishedTable) -> tuple[int, list[int]]:
    """Return the base of speedups, and the compared columns."""
    times = [i for i in table.of(ColumnKind.TIME) if not table.columns[i].statistic]
    units = {table.columns[i].subject for i in times}
    if not 2 <= len(times) <= 1 + MOST_SIDES or len(units) != len(times):
        return 0, []
    named = ([i for i in times if table.columns[i].subject & names] for names in _BASES)
    base = next((columns[0] for columns in named if len(columns) == 1), times[0])
    if len(times) == 2:
        other = next(i for i in times if i != base)
        stated = _speedup_of(table, other, [other])
        values = [None if stated is None else row.cells[stated] for row in table.rows]
        pairs = ((base, other), (other, base))
        ways = [outcome(values, Relation("", quotients(table, *pair))) for pair in pairs]
        if len(ways[1].off) < len(ways[0].off):  # the printed speedups are the other way round
            base = other
    return base, [i for i in times if i != base]


def claims(table: PublishedTable, base: int, sides: Sequence[int]) -> tuple[Claim, ...]:
    """List speedups, the total's last."""
    total = total_row(table)
    rows = (*table.rows, *([total] if total else []))
    made = []
    for side in sides:
        stated = _speedup_of(table, side, sides)
        for row in rows:
            bounds = quotient(cell(row, base), cell(row, side))
            claimed = row.cells[stated] if stated is not None else None
            made.append(Claim(row.name, base, side, bounds, claimed))
    return tuple(made)


def coarse(table: PublishedTable, claimed: Sequence[Claim]) -> TableFlaw | None:
    """Ask about speedups with more digits than times support."""
    stated = [(claim, claim.printed, b) for claim in claimed if claim.printed and (b := claim.bounds)]
    several = len({claim.side for claim, _, _ in stated}) > 1
    fine = []
    for claim, value, bounds in stated:
        low, high = bounds.low or 0.0, bounds.high
        if high is not None and high > COARSE * low and value.step < high - low:
            where = f" in {table.columns[claim.side].header}" if several else ""
            fine.append((low / high, claim.row, f"{value.text} of {claim.row}{where} is {spread(bounds)}"))
    if not fine:
        return None
    worst = [words for _, _, words in sorted(fine, key=lambda each: each[0])[:3]]
    text = f"{len(fine)} of {len(stated)} speedups are printed more exactly than their rounded times allow"
    rows = tuple(dict.fromkeys(row for _, row, _ in fine))
    return TableFlaw("digits that rounding doesn't leave", rows, f"{text}: {listed(worst)}", doubt=True)


def _speedup_of(table: PublishedTable, side: int, sides: Sequence[int]) -> int | None:
    columns = table.columns
    stated = [i for i in table.of(ColumnKind.RATIO) if not columns[i].change and not columns[i].percent]
    named = [i for i in stated if table.columns[i].subject & table.columns[side].subject]
    chosen = named if len(named) == 1 else stated if len(sides) == 1 else []
    return chosen[0] if len(chosen) == 1 else None
