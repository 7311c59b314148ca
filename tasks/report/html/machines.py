"""Machines and refused results as texts for the page."""

from collections.abc import Sequence
from typing import Any

from tasks.pricing.checks import source_text
from tasks.report.grid import Grid
from tasks.report.html.matrix import shared_confounds
from tasks.results.format import format_ratio, format_seconds, format_usd
from tasks.results.model import Machine, Summary, Total
from tasks.results.repeats import entering
from tasks.results.wording import devices_text, few, price_text, size_text, verdict_text
from workloads.harness.records.case import Case
from workloads.harness.records.grade import counts
from workloads.harness.records.record import Record


def machine_rows(grid: Grid) -> list[dict[str, Any]]:
    """Return one row for each machine: price and its source, time and cost of one pass through the suite."""
    totals = {total.hardware: total for total in grid.comparison.totals}
    slowest = max((total.seconds for total in totals.values()), default=0.0)
    dearest = max((total.usd or 0.0 for total in totals.values()), default=0.0)
    passes, shared = money_passes(grid), shared_confounds(grid)
    return [
        _machine(machine, totals.get(machine.name), (slowest, dearest), passes)
        | {
            "index": index,
            "baseline": machine.name == grid.comparison.baseline,
            "confounds": shared.get(machine.name, ()),
        }
        for index, machine in enumerate(grid.machines)
    ]


def money_passes(grid: Grid) -> int:
    """Return the number of passes for which the highest cost is at least a cent."""
    dearest = max((total.usd or 0.0 for total in grid.comparison.totals), default=0.0)
    return next((passes for passes in (1, 1_000, 1_000_000) if dearest * passes >= 0.01), 1)


def trouble_rows(grid: Grid, records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return the cells with repeats that do not count: verdict, reasons and measured times."""
    read: dict[tuple[str, Case], list[Record]] = {}
    for record in records:
        read.setdefault((record.hardware, record.case), []).append(record)
    return [
        _trouble(summary, read.get((summary.cell.hardware, summary.cell.case), []))
        for summary in grid.comparison.summaries
        if not summary.complete
    ]


def _machine(machine: Machine, total: Total | None, most: tuple[float, float], passes: int) -> dict[str, Any]:
    usd = total.usd if total else None
    unsourced = "no source stated" if machine.usd_per_hour is not None else ""
    return {
        "name": machine.name,
        "devices": devices_text(machine.devices),
        "price": price_text(machine.usd_per_hour),
        "priced": machine.usd_per_hour is not None,
        "source": source_text(machine.price_note or unsourced, machine.price_flags),
        "cases": total.cases if total else 0,
        "seconds": format_seconds(total.seconds if total else None),
        "seconds_share": _share(total.seconds if total else None, most[0]),
        "usd": format_usd(None if usd is None else usd * passes),
        "usd_share": _share(usd, most[1]),
        "speedup": format_ratio(total.speedup if total else None),
        "geomean": format_ratio(total.geomean_speedup if total else None),
    }


def _share(value: float | None, most: float) -> float:
    """Return the length of a bar in percent of the longest one, at least 1."""
    return max(round(100 * (value / most), 1), 1.0) if value and most else 0.0


def _trouble(summary: Summary, repeats: Sequence[Record]) -> dict[str, Any]:
    entered = entering([*filter(counts, repeats)]) if summary.ok_repeats else ()
    left_out = [record for record in repeats if record not in entered]
    verdicts = [verdict_text(record.verdict) for record in left_out]
    if not summary.ok_repeats:
        verdicts = [verdict_text(summary.verdict)]
    numbers = [record.compute_s for record in left_out]
    return {
        "hardware": summary.cell.hardware,
        "case": f"{summary.cell.case.workload} {size_text(summary.cell.case)} {summary.cell.case.terms}",
        "verdict": ", ".join(dict.fromkeys(verdicts)),
        "read": ", ".join(format_seconds(number) for number in numbers if number is not None),
        "reasons": few(summary.reasons),
        "counted": f"{summary.ok_repeats} of {summary.repeats}",
        "partly": summary.ok_repeats > 0,
    }
