"""The comparison in boxes of `+---+`."""

from collections.abc import Sequence

from tasks.pricing.checks import source_text
from tasks.report.grid import Grid
from tasks.results.cost import cost_words
from tasks.results.format import cases_text, format_ratio, format_seconds, format_usd
from tasks.results.model import Machine
from tasks.results.speedup import scaled
from tasks.results.wording import (
    PLAIN,
    devices_text,
    price_text,
    size_text,
    totals_text,
    trouble_text,
    verdict_text,
)
from workloads.harness.records.case import Case
from workloads.harness.records.record import Grade


def text_tables(grid: Grid) -> str:
    """Return the answer, a box per machine, and refused results, in ASCII."""
    comparison = grid.comparison
    others = [machine for machine in grid.machines if machine.name != comparison.baseline]
    answer = [*comparison.answer, comparison.caveat_line] if comparison.caveats else comparison.answer
    parts = [_lines(answer), *(_versus(grid, machine) for machine in others)]
    parts += [totals_text(comparison.totals), _machines(grid)]
    if comparison.details:
        parts.append("Details:\n" + _lines(comparison.details))
    if comparison.caveats:
        parts.append("Caveats:\n" + _lines([caveat.reason for caveat in comparison.caveats]))
    troubles = [f"{summary.cell.id}: {trouble_text(summary)}" for summary in grid.troubled]
    if troubles:
        parts.append("Refused results, not used in any ratio:\n" + _lines(troubles))
    if comparison.unpaired:
        parts.append("Without a counterpart:\n" + _lines(comparison.unpaired))
    return "\n\n".join(filter(None, parts)).translate(PLAIN) + "\n"


def box(header: Sequence[str], rows: Sequence[Sequence[str]], footer: Sequence[str] | None = None) -> str:
    """Put a footer after a rule."""
    everything = [header, *rows, *([footer] if footer else [])]
    widths = [max(len(row[column]) for row in everything) for column in range(len(header))]
    rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+"

    def line(row: Sequence[str]) -> str:
        return "|" + "|".join(f" {cell:<{width}} " for cell, width in zip(row, widths, strict=True)) + "|"

    foot = [line(footer), rule] if footer else []
    return "\n".join([rule, line(header), rule, *map(line, rows), rule, *foot])


def _lines(sentences: Sequence[str]) -> str:
    return "\n".join(f"* {' '.join(sentence.split())}" for sentence in sentences)


def _versus(grid: Grid, machine: Machine) -> str:
    baseline = grid.comparison.baseline
    header = ["Operation", f"{baseline} time", f"{machine.name} time", "Speedup", "Cost efficiency"]
    rows = [
        [f"{group.title.replace(' · ', ' ')} {size_text(case)}", *_against(grid, machine.name, case)]
        for group in grid.groups
        for case in group.cases
        if (machine.name, case) in grid.summaries
    ]
    return box(header, rows, _total(grid, machine)) if rows else ""


def _against(grid: Grid, name: str, case: Case) -> list[str]:
    pairing = grid.pairings.get((name, case))
    compute, cost = (pairing.compute, pairing.cost) if pairing else (None, None)
    return [
        _time(grid, grid.comparison.baseline, case),
        _time(grid, name, case),
        f"{format_ratio(compute)} {compute.outcome}" if compute else "-",
        f"{format_ratio(cost)} {cost_words(cost)}" if cost else "-",
    ]


def _time(grid: Grid, name: str, case: Case) -> str:
    summary = grid.summaries.get((name, case))
    if summary is None:
        return "not measured"
    if not summary.ok_repeats:
        return verdict_text(summary.verdict)
    return format_seconds(summary.compute_s) + (" wide" if summary.grade is Grade.WIDE else "")


def _total(grid: Grid, machine: Machine) -> list[str] | None:
    totals = {total.hardware: total for total in grid.comparison.totals}
    ours, base = totals.get(machine.name), totals.get(grid.comparison.baseline)
    if not ours or not base or not ours.cases:
        return None
    costs = "-"
    if base.usd and ours.usd and ours.speedup:
        prices = base.usd / ours.usd * ours.seconds / base.seconds
        costs = format_ratio(scaled(ours.speedup, prices))
    times = [format_seconds(base.seconds), format_seconds(ours.seconds)]
    return [f"Total of {cases_text(ours.cases, ours.measured)}", *times, format_ratio(ours.speedup), costs]


def _machines(grid: Grid) -> str:
    totals = {total.hardware: total for total in grid.comparison.totals}
    rows = [
        [
            machine.name,
            devices_text(machine.devices),
            price_text(machine.usd_per_hour),
            source_text(machine.price_note or "-", machine.price_flags),
            format_usd(totals[machine.name].usd) if machine.name in totals else "-",
        ]
        for machine in grid.machines
    ]
    return box(["Hardware", "Devices", "Price", "Source of the price", "Cost of the total"], rows)
