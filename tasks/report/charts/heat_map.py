"""The whole run at a glance: a map of verdicts, a column a machine, told apart by colour and by mark."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tasks.report.grid import CaseGroup, Grid
from tasks.report.page_limits import MOST_CELLS
from tasks.results.format import format_ratio
from tasks.results.values import RatioVerdict
from tasks.results.wording import MARKS, WIDE_MARK, size_text, verdict_text
from workloads.harness.records.case import Case
from workloads.harness.records.grade import Grade

MOST_SEPARATE = 60  # cases with a row each; of more a workload has a row, and every size a field in it
_ACROSS = 40  # fields beside each other over all machines


@dataclass(frozen=True, slots=True)
class FieldState:
    """A cell on the map: a class for its colour, a mark, a word, and the number behind it.

    Attributes:
        wide: whether the number is a wide one, which has a mark of its own.
    """

    css: str
    mark: str
    word: str
    number: str = ""
    wide: bool = False


LEGEND = (
    FieldState("faster", MARKS[RatioVerdict.FASTER], "faster"),
    FieldState("slower", MARKS[RatioVerdict.SLOWER], "slower"),
    FieldState("undecided", MARKS[RatioVerdict.UNDECIDED], "undecided"),
    FieldState("wide", WIDE_MARK, "wide beside any of these"),
    FieldState("bad", "✕", "refused"),
    FieldState("base", "●", "baseline"),
    FieldState("alone", "○", "counts, no ratio"),
    FieldState("none", "·", "not measured"),
)
_OF = {state.css: state for state in LEGEND}


def state_of(grid: Grid, name: str, case: Case) -> FieldState:
    """The verdict on a cell: that of its record where it is refused, else that of its compute speedup."""
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
    """The anchors of the cases' rows, for as many as a page lists."""
    cases = [case for group in grid.groups for case in group.cases]
    return {case: f"case-{i}" for i, case in enumerate(cases[: MOST_CELLS // max(len(grid.names), 1)])}


def heat_map(grid: Grid, ids: Mapping[Case, str]) -> dict[str, Any]:
    """Rows of fields: a row a case where these are few, else a row a workload with a field a size."""
    separate = sum(len(group.cases) for group in grid.groups) <= MOST_SEPARATE
    rows = [row for group in grid.groups for row in (_by_case if separate else _by_group)(grid, group, ids)]
    counts = {state.css: 0 for state in LEGEND}
    for (name, case), _ in grid.summaries.items():
        state = state_of(grid, name, case)
        counts[state.css] += 1
        counts["wide"] += state.wide
    shown = [state for state in LEGEND if counts[state.css] or state.css in ("faster", "slower", "undecided")]
    return {
        "separate": separate,
        "rows": [row for row in rows if any(any(fields) for fields in row["machines"])],
        "across": max(4, _ACROSS // max(len(grid.names), 1)),
        "legend": [(state, counts[state.css]) for state in shown],
        "cases": sum(len(group.cases) for group in grid.groups),
        "listed": len(ids),
    }


def _by_case(grid: Grid, group: CaseGroup, ids: Mapping[Case, str]) -> list[dict[str, Any]]:
    return [
        {
            "group": group.title if index == 0 else "",
            "title": size_text(case),
            "machines": [[_field(grid, name, case, ids, False)] for name in grid.names],
        }
        for index, case in enumerate(group.cases)
    ]


def _by_group(grid: Grid, group: CaseGroup, ids: Mapping[Case, str]) -> list[dict[str, Any]]:
    cases = [case for case in group.cases if case in ids]
    fields = [[_field(grid, name, case, ids, True) for case in cases] for name in grid.names]
    return [{"group": "", "title": group.title, "machines": fields}]


def _field(grid: Grid, name: str, case: Case, ids: Mapping[Case, str], brief: bool) -> dict[str, str]:
    """A brief field shows its mark only; what it stands for is its label."""
    state = state_of(grid, name, case)
    value = state.number.partition(" ")[0]
    label = f"{state.word} {state.number}{', wide' if state.wide else ''}".strip()
    return {
        "css": f"{state.css} wide" if state.wide else state.css,
        "mark": f"{state.mark}{WIDE_MARK}" if state.wide and not brief else state.mark,
        "text": "" if brief else value or state.word,
        "label": f"{size_text(case)}: {label}" if brief else label,
        "id": ids.get(case, ""),
    }
