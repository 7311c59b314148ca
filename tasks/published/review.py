"""Review of a published table: every rule, in the order in which a reader wants to hear of it."""

from tasks.published.rules import (
    above_peaks,
    coarse,
    cold_first,
    copied,
    misquoted,
    misrated,
    not_growing,
    not_times,
    peak_for,
)
from tasks.published.sizes import flops, precision
from tasks.published.table import Claim, PublishedTable, TableFlaw, TableReview, others, ratio
from tasks.published.totals import headline, missing, orientation, overall
from tasks.results.model import Machine


def review(table: PublishedTable, machine: Machine | None = None) -> TableReview:
    """Apply every rule to a table; `machine` has the peaks that its GPU must keep to."""
    table = orientation(table)
    sides, claimed = others(table), claims(table)
    ways = {side: overall(table, side) for side in sides}
    indices = range(len(table.times))
    findings: list[TableFlaw | None] = [
        *not_times(table),
        *copied(table),
        *map(misquoted, claimed),
        *missing(table),
        *(headline(table, side, ways[side]) for side in sides),
        *(cold_first(table, index) for index in indices),
        *(finding for index in indices for finding in not_growing(table, index)),
        *(misrated(table, index) for index in range(len(table.rates))),
        *(f for index in gpu_columns(table) if machine for f in above_peaks(table, index, machine)),
        coarse(claimed),
    ]
    return TableReview(
        table=table,
        claims=claimed,
        findings=tuple(finding for finding in findings if finding),
        overall=tuple((table.times[side].header, way, e) for side in sides for way, e in ways[side]),
        notes=(*table.skipped, *_peaks_used(table, machine)),
    )


def claims(table: PublishedTable) -> tuple[Claim, ...]:
    """List the speedup of every row, the total's last, in every column of times beside the base."""
    rows = (*table.rows, *([table.total] if table.total else []))
    claimed = []
    for side in others(table):
        printed = next(
            (index for index, column in enumerate(table.speedups) if column.times_index == side), None
        )
        for row in rows:
            bounds = ratio(row, table.times, table.base, side)
            stated = None if printed is None else row.speedups[printed]
            claimed.append(Claim(row.name, table.times[side].header, bounds, stated))
    return tuple(claimed)


def gpu_columns(table: PublishedTable) -> list[int]:
    """Return the columns of times of a GPU, whose peaks apply: those named so, else all but base and CPUs."""
    headers = [column.header.lower() for column in table.times]
    named = [index for index, header in enumerate(headers) if "gpu" in header or "cuda" in header]
    rest = others(table) if len(table.times) > 1 else [0]
    return named or [index for index in rest if "cpu" not in headers[index]]


def _peaks_used(table: PublishedTable, machine: Machine | None) -> tuple[str, ...]:
    """Name the peak that the rows were compared with, or say that no row could be."""
    if machine is None:
        return ()
    rows = [row for row in table.rows if flops(row) or "bytes" in dict(row.sizes)]
    if not rows or not gpu_columns(table):
        return (f"no row states work that the peaks of {machine.name} could limit",)
    unsaid = [row for row in rows if flops(row) and precision(row) not in dict(machine.peak_flops)]
    if not unsaid:
        return ()
    name, peak = peak_for(unsaid[0], machine)
    rate = f"{(peak or 0.0) / 1e12:g} TFLOP/s"
    return (f"the precision isn't stated: held against {machine.name} in {name}, {rate}",)
