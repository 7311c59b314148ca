"""Tables of the page as texts."""

from collections.abc import Mapping, Sequence
from typing import Any

from tasks.findings.bottleneck import bound_text
from tasks.pricing.checks import source_text
from tasks.report.charts.heat_map import state_of
from tasks.report.grid import Grid, by_cell
from tasks.report.page_limits import MOST_DETAILED, MOST_ROWS, firsts
from tasks.results.cost import cost_words
from tasks.results.finding import Finding
from tasks.results.format import format_percent, format_ratio, format_seconds, format_usd
from tasks.results.model import Machine, Pairing, Summary, Total
from tasks.results.repeats import entering
from tasks.results.table import NOTHING, Mark, Parts, Quantity, Table, Value, cell_text
from tasks.results.values import Ratio, RatioVerdict
from tasks.results.wording import (
    MARKS,
    WIDE_MARK,
    devices_text,
    few,
    pace_texts,
    price_text,
    size_text,
    verdict_text,
)
from workloads.harness.records.case import Case
from workloads.harness.records.grade import counts
from workloads.harness.records.record import Grade, Record

MOST_PARTS = 8  # parts of a sum with a colour; smaller ones are added up
OTHER = "other"
_WORDS = (Quantity.TEXT, Quantity.MACHINE, Quantity.VERDICT)


def comparison_groups(grid: Grid, ids: Mapping[Case, str]) -> list[dict[str, Any]]:
    """Return a group per workload, a row per case of `ids`; the last of many are brief."""
    shared = shared_confounds(grid)
    detailed = set(list(ids)[: detailed_cases(grid)])
    groups = []
    for group in grid.groups:
        rows = []
        for case in (case for case in group.cases if case in ids):
            if case in detailed:
                cells = [_matrix_cell(grid, name, case, shared.get(name, ())) for name in grid.names]
            else:
                cells = [_brief_cell(grid, name, case) for name in grid.names]
            rows.append({"size": size_text(case), "id": ids[case], "cells": cells})
        if rows:
            groups.append({"title": group.title, "rows": rows})
    return groups


def detailed_cases(grid: Grid) -> int:
    """Return how many cases are in full."""
    return max(1, MOST_DETAILED // max(len(grid.names), 1))


def shared_confounds(grid: Grid) -> dict[str, tuple[str, ...]]:
    """Return those common to all ratios of a machine."""
    matches: dict[str, dict[str, None]] = {}
    for pairing in grid.comparison.pairings:
        if not pairing.refused:
            ours = matches.setdefault(pairing.hardware, dict.fromkeys(pairing.confounds))
            for what in [what for what in ours if what not in pairing.confounds]:
                del ours[what]
    return {name: tuple(confounds) for name, confounds in matches.items()}


def _brief_cell(grid: Grid, name: str, case: Case) -> dict[str, Any]:
    """Return little: details of thousands of cells make a page slow to open."""
    summary, state = grid.summaries.get((name, case)), state_of(grid, name, case)
    if summary is None:
        return {"kind": "none"}
    time = (summary.reported or format_seconds(summary.compute_s)) if summary.ok_repeats else ""
    return {"kind": "brief", "state": state, "time": time.partition(" (")[0]}


def _matrix_cell(grid: Grid, name: str, case: Case, shared: tuple[str, ...]) -> dict[str, Any]:
    summary = grid.summaries.get((name, case))
    if summary is None:
        return {"kind": "none"}
    if not summary.ok_repeats:
        return {"kind": "bad", "state": state_of(grid, name, case)}
    pairing, price = grid.pairings.get((name, case)), summary.usd_per_million_units
    return {
        "state": state_of(grid, name, case),
        "kind": "base" if name == grid.comparison.baseline else "ok",
        "time": summary.reported or format_seconds(summary.compute_s),
        "per": "" if summary.reported else "per job" if summary.whole else "per step",
        "repeats": "" if summary.ok_repeats > 1 else "one repeat: no interval",
        "wide": wide_text(summary),
        "price": f"{format_usd(price)} per million {summary.unit}" if price is not None else "",
        "bound": {"text": bound_text(summary.bound), "why": summary.bound.why} if summary.bound else None,
        "pace": pace_texts(summary),
        "lines": _ratio_lines(pairing),
        "notes": []
        if name == grid.comparison.baseline or summary.reported
        else _pairing_notes(pairing, shared),
    }


def wide_text(summary: Summary) -> str:
    """Return empty if it is not wide."""
    if summary.grade is not Grade.WIDE:
        return ""
    return "; ".join([f"{WIDE_MARK} wide, {verdict_text(summary.verdict)}", *summary.why[:1]])


def _ratio_lines(pairing: Pairing | None) -> list[dict[str, str]]:
    if pairing is None:
        return []
    lines = [
        _ratio_line("compute", pairing.compute, False),
        _ratio_line("end to end", pairing.end_to_end, False),
        _ratio_line("cost", pairing.cost, True),
    ]
    if pairing.efficiency is not None:
        band = ", ".join(filter(None, (pairing.efficiency_band, pairing.scaling)))
        text = format_percent(pairing.efficiency)
        lines.append({"label": "scaling", "text": text, "word": band, "css": "", "mark": "", "why": ""})
    matches = [line for line in lines if line]
    for i, line in enumerate(matches):
        if line["why"] in [later["why"] for later in matches[i + 1 :]]:
            line["why"] = ""  # the last line with the same reason has it
    return [line for line in matches if line["label"] != "compute" or line["why"]]


def _ratio_line(label: str, ratio: Ratio | None, cost: bool) -> dict[str, str]:
    if ratio is None:
        return {}
    return {
        "label": label,
        "text": format_ratio(ratio),
        "word": cost_words(ratio) if cost else str(ratio.outcome),
        "css": str(ratio.outcome),
        "mark": MARKS[ratio.outcome],
        "why": ratio.why if ratio.outcome is RatioVerdict.UNDECIDED else "",
    }


def _pairing_notes(pairing: Pairing | None, shared: tuple[str, ...]) -> list[str]:
    if pairing is None:
        return ["the baseline has no matching cell"]
    confounded = [f"confounded by {what}" for what in pairing.confounds if what not in shared]
    return ([f"no ratio: {pairing.refused}"] if pairing.refused else []) + confounded


def machine_rows(grid: Grid) -> list[dict[str, Any]]:
    totals = {total.hardware: total for total in grid.comparison.totals}
    slowest = max((total.seconds for total in totals.values()), default=0.0)
    dearest = max((total.usd or 0.0 for total in totals.values()), default=0.0)
    passes, shared = money_passes(grid), shared_confounds(grid)
    return [
        _machine_row(machine, totals.get(machine.name), (slowest, dearest), passes)
        | {
            "index": index,
            "baseline": machine.name == grid.comparison.baseline,
            "confounds": shared.get(machine.name, ()),
        }
        for index, machine in enumerate(grid.machines)
    ]


def money_passes(grid: Grid) -> int:
    """Return the passes for which the highest cost reaches a cent."""
    dearest = max((total.usd or 0.0 for total in grid.comparison.totals), default=0.0)
    return next((passes for passes in (1, 1_000, 1_000_000) if dearest * passes >= 0.01), 1)


def trouble_rows(grid: Grid, records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return cells with refused repeats."""
    cells = by_cell(records)
    return [
        _trouble_row(summary, cells.get((summary.cell.hardware, summary.cell.case), []))
        for summary in grid.comparison.summaries
        if not summary.complete
    ]


def _machine_row(
    machine: Machine, total: Total | None, most: tuple[float, float], passes: int
) -> dict[str, Any]:
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
        "seconds_share": _bar_share(total.seconds if total else None, most[0]),
        "usd": format_usd(None if usd is None else usd * passes),
        "usd_share": _bar_share(usd, most[1]),
        "speedup": format_ratio(total.speedup if total else None),
        "geomean": format_ratio(total.geomean_speedup if total else None),
    }


def _bar_share(value: float | None, most: float) -> float:
    return max(round(100 * (value / most), 1), 1.0) if value and most else 0.0


def _trouble_row(summary: Summary, repeats: Sequence[Record]) -> dict[str, Any]:
    entered = entering([*filter(counts, repeats)]) if summary.ok_repeats else ()
    left_out = [record for record in repeats if record not in entered]
    verdicts = [record.verdict for record in left_out] if summary.ok_repeats else [summary.verdict]
    return {
        "hardware": summary.cell.hardware,
        "case": f"{summary.cell.case.workload} {size_text(summary.cell.case)} {summary.cell.case.terms}",
        "verdict": ", ".join(dict.fromkeys(map(verdict_text, verdicts))),
        "read": ", ".join(format_seconds(r.compute_s) for r in left_out if r.compute_s is not None),
        "reasons": few(summary.reasons),
        "counted": f"{summary.ok_repeats} of {summary.repeats}",
        "partly": summary.ok_repeats > 0,
    }


def finding_sections(grid: Grid) -> dict[str, list[dict[str, Any]]]:
    """Return findings with rows, by section."""
    sections: dict[str, list[dict[str, Any]]] = {}
    for finding in grid.comparison.findings:
        table = finding.table()
        if table and table.shown:
            sections.setdefault(finding.section, []).append(finding_view(finding, table, grid.names))
    return sections


def finding_view(finding: Finding, table: Table, machines: Sequence[str]) -> dict[str, Any]:
    """Return texts, without empty columns."""
    rows, left = firsts(table.shown, MOST_ROWS)
    places = table.filled(rows)
    places.sort(key=lambda i: table.columns[i].quantity is not Quantity.MACHINE)
    parts = part_names(rows)
    index = {name: position for position, name in enumerate(machines)}
    return {
        "id": finding.name,
        "title": finding.title,
        "lead": table.lead,
        "notes": table.notes,
        "left": len(table.rows) - len(table.shown) + left,
        "parts": parts,
        "columns": [table.columns[i].title for i in places],
        "rows": [
            [_finding_cell(row[i], table.columns[i].quantity, index, parts) for i in places] for row in rows
        ],
    }


def part_names(rows: Sequence[Sequence[Value]]) -> list[str]:
    """Return parts in order; of many the largest, and `other`."""
    sums: dict[str, float] = {}
    for parts in (value for row in rows for value in row if isinstance(value, Parts)):
        for name, seconds in parts.seconds:
            sums[name] = sums.get(name, 0.0) + seconds
    largest = sorted(sums, key=lambda name: sums[name], reverse=True)[: MOST_PARTS - 1]
    kept = list(sums) if len(sums) <= MOST_PARTS else [name for name in sums if name in largest]
    return kept if len(kept) == len(sums) else [*kept, OTHER]


def _finding_cell(
    value: Value, quantity: Quantity, index: Mapping[str, int], parts: list[str]
) -> dict[str, Any]:
    view: dict[str, Any] = {
        "text": cell_text(value, quantity),
        "css": "wrap" if quantity in _WORDS else "number",
        "machine": index.get(str(value), 0) if quantity is Quantity.MACHINE else None,
        "word": "",
        "mark": "",
        "bar": None,
        "parts": None,
    }
    if isinstance(value, Mark) and value.outcome:
        view |= {"word": str(value.outcome), "mark": MARKS[value.outcome]}
    return view | _bar(value, parts) if isinstance(value, Parts) else view


def _bar(value: Parts, names: list[str]) -> dict[str, Any]:
    """Return segments in percent of the longest bar, and seconds."""
    seconds = dict.fromkeys(names, 0.0)
    for name, part in value.seconds:
        seconds[name if name in seconds else OTHER] += part
    whole = value.total_s or 1.0
    return {
        "text": ", ".join(f"{name} {100 * (s / whole):.0f} %" for name, s in seconds.items() if s > 0),
        "bar": [
            {"part": position, "share": round(100 * value.length * (part / whole), 2)}
            for position, part in enumerate(seconds.values())
            if part > 0
        ],
        "parts": [cell_text(part, Quantity.TIME) if part > 0 else NOTHING for part in seconds.values()],
    }
