"""What the page shows of machines and cells, as plain words that the template only has to place."""

from collections.abc import Sequence
from typing import Any

from tasks.analysis.digits import format_percent, format_ratio, format_seconds, format_usd
from tasks.analysis.model import Machine, Outcome, Pairing, Ratio, Summary, Total
from tasks.report.grid import Grid, size_text
from tasks.report.words import MARKS, cost_word, devices_text, few, price_text, verdict_text
from workloads.harness.case import Case
from workloads.harness.record import Record


def machine_rows(grid: Grid) -> list[dict[str, Any]]:
    """A row a machine: its price and the price's source, and its time and money for one pass of the suite."""
    totals = {total.hardware: total for total in grid.comparison.totals}
    slowest = max((total.seconds for total in totals.values()), default=0.0)
    dearest = max((total.usd or 0.0 for total in totals.values()), default=0.0)
    passes = money_passes(grid)
    return [
        _machine(machine, totals.get(machine.name), (slowest, dearest), passes)
        | {
            "index": index,
            "baseline": machine.name == grid.comparison.baseline,
            "confounds": shared_confounds(grid, machine.name),
        }
        for index, machine in enumerate(grid.machines)
    ]


def money_passes(grid: Grid) -> int:
    """For how many passes of the suite to state the money, so that it is more than a cent somewhere."""
    dearest = max((total.usd or 0.0 for total in grid.comparison.totals), default=0.0)
    return next((passes for passes in (1, 1_000, 1_000_000) if dearest * passes >= 0.01), 1)


def shared_confounds(grid: Grid, name: str) -> tuple[str, ...]:
    """What confounds every ratio of a machine: said once, at the head of its column."""
    ours = [pairing.confounds for pairing in grid.comparison.pairings if pairing.hardware == name]
    ratios = [confounds for confounds in ours if confounds]
    if not ratios or len(ratios) < sum(not p.refused for p in grid.comparison.pairings if p.hardware == name):
        return ()
    return tuple(what for what in ratios[0] if all(what in confounds for confounds in ratios))


def comparison_groups(grid: Grid) -> list[dict[str, Any]]:
    """The matrix of cases and machines: a group a workload, a row a case, a cell a machine."""
    return [
        {
            "title": group.title,
            "rows": [
                {
                    "size": size_text(case),
                    "cells": [_cell(grid, machine.name, case) for machine in grid.machines],
                }
                for case in group.cases
            ],
        }
        for group in grid.groups
    ]


def trouble_rows(grid: Grid, records: Sequence[Record]) -> list[dict[str, Any]]:
    """Cells of which no repeat, or not every repeat, counts: the verdict, the reasons, and what was read."""
    read: dict[tuple[str, Case], list[Record]] = {}
    for record in records:
        read.setdefault((record.hardware, record.case), []).append(record)
    return [
        _trouble(summary, read.get((summary.cell.hardware, summary.cell.case), []))
        for summary in grid.comparison.summaries
        if summary.ok_repeats < summary.repeats or not summary.ok_repeats
    ]


def _machine(machine: Machine, total: Total | None, most: tuple[float, float], passes: int) -> dict[str, Any]:
    usd = total.usd if total else None
    return {
        "name": machine.name,
        "devices": devices_text(machine.devices),
        "price": price_text(machine.usd_per_hour),
        "priced": machine.usd_per_hour is not None,
        "source": machine.price_note or ("no source stated" if machine.usd_per_hour is not None else ""),
        "cases": total.cases if total else 0,
        "seconds": format_seconds(total.seconds if total else None),
        "seconds_share": _share(total.seconds if total else None, most[0]),
        "usd": format_usd(None if usd is None else usd * passes),
        "usd_share": _share(usd, most[1]),
        "speedup": format_ratio(total.speedup if total else None),
        "geomean": format_ratio(total.geomean_speedup if total else None),
    }


def _share(value: float | None, most: float) -> float:
    """Length of a bar in percent of the longest one; a bar that exists can be seen."""
    return max(round(100 * value / most, 1), 1.0) if value and most else 0.0


def _cell(grid: Grid, name: str, case: Case) -> dict[str, Any]:
    summary = grid.summaries.get((name, case))
    if summary is None:
        return {"kind": "none"}
    if not summary.ok_repeats:
        return {"kind": "bad", "verdict": verdict_text(summary.verdict), "reasons": summary.reasons}
    pairing = grid.pairings.get((name, case))
    return {
        "kind": "base" if name == grid.comparison.baseline else "ok",
        "time": format_seconds(summary.compute_s),
        "repeats": "" if summary.ok_repeats > 1 else "one repeat, no interval",
        "price": _unit_price(summary),
        "lines": _lines(pairing),
        "notes": _notes(pairing, shared_confounds(grid, name)) if name != grid.comparison.baseline else [],
    }


def _unit_price(summary: Summary) -> str:
    if summary.usd_per_million_units is None:
        return ""
    return f"{format_usd(summary.usd_per_million_units)} per million {summary.unit}"


def _lines(pairing: Pairing | None) -> list[dict[str, str]]:
    if pairing is None:
        return []
    lines = [
        _line("compute", pairing.compute, False),
        _line("end to end", pairing.end_to_end, False),
        _line("cost", pairing.cost, True),
    ]
    if pairing.efficiency is not None:
        band = ", ".join(filter(None, (pairing.efficiency_band, pairing.scaling)))
        text = format_percent(pairing.efficiency)
        lines.append({"label": "scaling", "text": text, "word": band, "css": "", "mark": "", "why": ""})
    found = [line for line in lines if line]
    for i, line in enumerate(found):
        if line["why"] in [later["why"] for later in found[i + 1 :]]:
            line["why"] = ""  # said once, under the last line that it holds for
    return found


def _line(label: str, ratio: Ratio | None, cost: bool) -> dict[str, str]:
    if ratio is None:
        return {}
    return {
        "label": label,
        "text": format_ratio(ratio),
        "word": cost_word(ratio.outcome) if cost else str(ratio.outcome),
        "css": str(ratio.outcome),
        "mark": MARKS[ratio.outcome],
        "why": ratio.why if ratio.outcome is Outcome.UNDECIDED else "",
    }


def _notes(pairing: Pairing | None, shared: tuple[str, ...]) -> list[str]:
    if pairing is None:
        return ["no pair with the baseline"]
    confounded = [f"confounded by {what}" for what in pairing.confounds if what not in shared]
    return ([f"no ratio: {pairing.refused}"] if pairing.refused else []) + confounded


def _trouble(summary: Summary, repeats: Sequence[Record]) -> dict[str, Any]:
    verdicts = [verdict_text(record.verdict) for record in repeats if not record.ok]
    if not summary.ok_repeats:
        verdicts = [verdict_text(summary.verdict)]
    numbers = [record.compute_s for record in repeats if not (record.ok and summary.ok_repeats)]
    return {
        "hardware": summary.cell.hardware,
        "case": f"{summary.cell.case.workload} {size_text(summary.cell.case)} {summary.cell.case.precision}",
        "verdict": ", ".join(dict.fromkeys(verdicts)),
        "read": ", ".join(format_seconds(number) for number in numbers if number is not None),
        "reasons": few(summary.reasons),
        "counted": f"{summary.ok_repeats} of {summary.repeats}",
        "partly": summary.ok_repeats > 0,
    }
