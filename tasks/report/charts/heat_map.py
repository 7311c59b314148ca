"""A map of verdicts, by colour and mark."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tasks.report.grid import Grid
from tasks.report.page_limits import MOST_CELLS
from tasks.results.format import format_ratio
from tasks.results.values import RatioVerdict
from tasks.results.wording import MARKS, WIDE_MARK, size_text, verdict_text
from workloads.harness.records.case import Case
from workloads.harness.records.record import Grade

MOST_WITHOUT_MAP = 60  # cases that a table shows at a glance
_ACROSS = 40  # fields in a row over all machines


@dataclass(frozen=True, slots=True)
class FieldState:
    """A cell's CSS class, mark, word, speedup, and whether it is wide."""

    css: str
    mark: str
    word: str
    number: str = ""
    wide: bool = False


LEGEND = (
    FieldState("faster", MARKS[RatioVerdict.FASTER], "faster"),
    FieldState("slower", MARKS[RatioVerdict.SLOWER], "slower"),
    FieldState("undecided", MARKS[RatioVerdict.UNDECIDED], "undecided"),
    FieldState("wide", WIDE_MARK, "wide (in addition)"),
    FieldState("bad", "✕", "refused"),
    FieldState("base", "●", "baseline"),
    FieldState("alone", "○", "counts, no ratio"),
    FieldState("none", "·", "not measured"),
)
_OF = {state.css: state for state in LEGEND}


def state_of(grid: Grid, name: str, case: Case) -> FieldState:
    """Return the verdict if refused, else the outcome of its compute speedup."""
    summary, pairing = grid.summaries.get((name, case)), grid.pairings.get((name, case))
    if summary is None:
        return _OF["none"]
    if not summary.ok_repeats:
        return FieldState("bad", _OF["bad"].mark, verdict_text(summary.verdict))
    if name == grid.comparison.baseline:
        return replace(_OF["base"], wide=summary.grade is Grade.WIDE)
    if pairing is None or pairing.compute is None:
        return replace(_OF["alone"], wide=summary.grade is Grade.WIDE)
    ratio, is_wide = pairing.compute, pairing.grade is Grade.WIDE
    word = str(ratio.outcome)
    return FieldState(word, MARKS[ratio.outcome], word, format_ratio(ratio), is_wide)


def case_ids(grid: Grid) -> dict[Case, str]:
    """Return anchors of rows, as many as a page lists."""
    cases = [case for group in grid.groups for case in group.cases]
    return {case: f"case-{i}" for i, case in enumerate(cases[: MOST_CELLS // max(len(grid.names), 1)])}


def heat_map(grid: Grid, ids: Mapping[Case, str]) -> dict[str, Any]:
    """Add rows of fields to the counts if the cases are many."""
    cases = sum(len(group.cases) for group in grid.groups)
    counts = {state.css: 0 for state in LEGEND}
    for name, case in grid.summaries:
        state = state_of(grid, name, case)
        counts[state.css] += 1
        counts["wide"] += state.wide
    shown = [state for state in LEGEND if counts[state.css] or state.css in ("faster", "slower", "undecided")]
    rows = []
    for group in grid.groups if cases > MOST_WITHOUT_MAP else ():
        if listed := [case for case in group.cases if case in ids]:
            fields = [[_field(grid, name, case, ids[case]) for case in listed] for name in grid.names]
            rows.append({"title": group.title, "machines": fields})
    return {
        "rows": rows,
        "across": max(4, _ACROSS // max(len(grid.names), 1)),
        "legend": [(state, counts[state.css]) for state in shown] if grid.summaries else [],
        "cases": cases,
        "listed": len(ids),
    }


def _field(grid: Grid, name: str, case: Case, anchor: str) -> dict[str, str]:
    state = state_of(grid, name, case)
    label = f"{state.word} {state.number}{', wide' if state.wide else ''}".strip()
    return {
        "css": f"{state.css} wide" if state.wide else state.css,
        "mark": state.mark,
        "label": f"{size_text(case)}: {label}",
        "id": anchor,
    }
