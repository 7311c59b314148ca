"""The table of cases and machines as texts for the page."""

from collections.abc import Mapping
from typing import Any

from tasks.findings.bottleneck import bound_text
from tasks.report.charts.heat_map import state_of
from tasks.report.grid import Grid
from tasks.report.page_limits import MOST_DETAILED
from tasks.results.cost import cost_words
from tasks.results.format import format_percent, format_ratio, format_seconds, format_usd
from tasks.results.model import Pairing, Summary
from tasks.results.values import Ratio, RatioVerdict
from tasks.results.wording import MARKS, WIDE_MARK, pace_texts, size_text, verdict_text
from workloads.harness.records.case import Case
from workloads.harness.records.record import Grade


def comparison_groups(grid: Grid, ids: Mapping[Case, str]) -> list[dict[str, Any]]:
    """Return a group for each workload, with a row for each case of `ids`; many rows end with brief ones."""
    shared = shared_confounds(grid)
    detailed = set(list(ids)[: detailed_cases(grid)])
    groups = []
    for group in grid.groups:
        rows = []
        for case in (case for case in group.cases if case in ids):
            if case in detailed:
                cells = [_cell(grid, name, case, shared.get(name, ())) for name in grid.names]
            else:
                cells = [_brief(grid, name, case) for name in grid.names]
            rows.append({"size": size_text(case), "id": ids[case], "cells": cells})
        if rows:
            groups.append({"title": group.title, "rows": rows})
    return groups


def detailed_cases(grid: Grid) -> int:
    """Return the number of cases that are listed in full."""
    return max(1, MOST_DETAILED // max(len(grid.names), 1))


def shared_confounds(grid: Grid) -> dict[str, tuple[str, ...]]:
    """Return the confounds of every ratio of a machine, by machine, for the head of its column."""
    matches: dict[str, dict[str, None]] = {}
    for pairing in grid.comparison.pairings:
        if not pairing.refused:
            ours = matches.setdefault(pairing.hardware, dict.fromkeys(pairing.confounds))
            for what in [what for what in ours if what not in pairing.confounds]:
                del ours[what]
    return {name: tuple(confounds) for name, confounds in matches.items()}


def _brief(grid: Grid, name: str, case: Case) -> dict[str, Any]:
    """Return verdict, ratio and time only: details of thousands of cells would make a page slow to open."""
    summary, state = grid.summaries.get((name, case)), state_of(grid, name, case)
    if summary is None:
        return {"kind": "none"}
    time = format_seconds(summary.compute_s) if summary.ok_repeats else ""
    return {"kind": "brief", "state": state, "time": time.partition(" (")[0]}


def _cell(grid: Grid, name: str, case: Case, shared: tuple[str, ...]) -> dict[str, Any]:
    summary = grid.summaries.get((name, case))
    if summary is None:
        return {"kind": "none"}
    if not summary.ok_repeats:
        return {"kind": "bad", "state": state_of(grid, name, case)}
    pairing = grid.pairings.get((name, case))
    return {
        "state": state_of(grid, name, case),
        "kind": "base" if name == grid.comparison.baseline else "ok",
        "time": format_seconds(summary.compute_s),
        "per": "per job" if summary.whole else "per step",
        "repeats": "" if summary.ok_repeats > 1 else "one repeat: no interval",
        "wide": wide_text(summary),
        "price": _unit_price(summary),
        "bound": {"text": bound_text(summary.bound), "why": summary.bound.why} if summary.bound else None,
        "pace": pace_texts(summary),
        "lines": _lines(pairing),
        "notes": _notes(pairing, shared) if name != grid.comparison.baseline else [],
    }


def wide_text(summary: Summary) -> str:
    """Return why a cell is wide, or an empty string if it is not."""
    if summary.grade is not Grade.WIDE:
        return ""
    return "; ".join([f"{WIDE_MARK} wide, {verdict_text(summary.verdict)}", *summary.why[:1]])


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
    matches = [line for line in lines if line]
    for i, line in enumerate(matches):
        if line["why"] in [later["why"] for later in matches[i + 1 :]]:
            line["why"] = ""  # stands once, under the last line that it explains
    return [line for line in matches if line["label"] != "compute" or line["why"]]


def _line(label: str, ratio: Ratio | None, cost: bool) -> dict[str, str]:
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


def _notes(pairing: Pairing | None, shared: tuple[str, ...]) -> list[str]:
    if pairing is None:
        return ["the baseline has no matching cell"]
    confounded = [f"confounded by {what}" for what in pairing.confounds if what not in shared]
    return ([f"no ratio: {pairing.refused}"] if pairing.refused else []) + confounded
