"""A folder of static pages over all runs: what has changed, every report, and a trend for each case."""

from collections.abc import Sequence
from pathlib import Path
from shutil import copyfile
from typing import Any

from tasks.errors import GridbenchError
from tasks.regressions.history import PastRun, Point, Trend, trends
from tasks.report.charts.theme import shapes
from tasks.report.charts.trend import trend_svg
from tasks.report.html.templates import STILL, environment, slug, style
from tasks.results.format import format_ratio, format_seconds
from tasks.results.values import Outcome
from tasks.results.wording import MARKS
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.files import write_text, write_whole

MOST_CHANGES = 30  # sentences on the first page; the pages of the workloads have all


def write_site(folder: Path, past: Sequence[PastRun], odd: Sequence[str]) -> Path:
    """Write the pages, copies of the reports among them, and return the path of `index.html`, written last.

    Raises:
        GridbenchError: the folder can't be written.
    """
    try:
        return _write(folder, past, odd)
    except (OSError, WorkloadsError) as error:
        raise GridbenchError(f"the site can't be written: {error}") from None


def changes(found: Sequence[Trend]) -> list[tuple[Trend, Point]]:
    """The cells whose newest number is shown to differ from the one before it, slower ones first."""
    newest = [(trend, numbers[-1]) for trend in found if (numbers := _numbers(trend))]
    told = [(trend, point) for trend, point in newest if _told(point)]
    return sorted(told, key=lambda pair: pair[1].change.estimate.value if pair[1].change else 1.0)


def _write(folder: Path, past: Sequence[PastRun], odd: Sequence[str]) -> Path:
    found = trends(past)
    machines = list(dict.fromkeys(trend.hardware for trend in found))
    pages = {workload: _page_of(workload) for workload in dict.fromkeys(t.workload for t in found)}
    for run in past:
        if run.has_report:
            copy = folder / "runs" / f"{run.plan.run}.html"
            copy.parent.mkdir(parents=True, exist_ok=True)
            copyfile(run.folder / "report.html", copy)
    shared = {"policy": STILL, "style": style(), "machines": machines, "shapes": shapes(len(machines))}
    for workload, name in pages.items():
        cases = _cases(folder, [trend for trend in found if trend.workload == workload], machines)
        _page(folder / name, "trend.html.j2", shared | {"workload": workload, "cases": cases})
    told = changes(found)
    facts: dict[str, Any] = {
        "runs": [_run_row(run) for run in reversed(past)],
        "odd": odd,
        "pages": pages,
        "changes": [_sentence(trend, point) for trend, point in told[:MOST_CHANGES]],
        "more_changes": len(told[MOST_CHANGES:]),
        "cells": len(found),
    }
    _page(folder / "index.html", "site.html.j2", shared | facts)
    return folder / "index.html"


def _page(path: Path, template: str, facts: dict[str, Any]) -> None:
    write_text(path, environment().get_template(template).render(facts))


def _cases(folder: Path, found: Sequence[Trend], machines: Sequence[str]) -> list[dict[str, Any]]:
    cases: dict[str, list[Trend]] = {}
    for trend in found:
        cases.setdefault(trend.case, []).append(trend)
    return [
        {
            "id": case,
            "slug": slug(case),
            "figures": [
                figure for trend in of_case if (figure := _figure(folder, trend, machines, case)) is not None
            ],
            "rows": [_row(trend, point) for trend in of_case for point in reversed(trend.points)],
        }
        for case, of_case in cases.items()
    ]


def _figure(folder: Path, trend: Trend, machines: Sequence[str], case: str) -> dict[str, Any] | None:
    """Paths of the light and the dark picture; None where no run has a number."""
    names = {}
    for look, dark in (("light", False), ("dark", True)):
        if svg := trend_svg(trend, machines, dark):
            names[look] = f"pictures/{slug(f'{trend.hardware}/{case}')}-{look}.svg"
            write_whole(folder / names[look], svg.encode())
    told = f"Time per step of {case} on {trend.hardware} by date; the table below has the same numbers."
    machine = machines.index(trend.hardware)
    return {"machine": machine, "name": trend.hardware, "told": told, **names} if names else None


def _row(trend: Trend, point: Point) -> dict[str, Any]:
    return {
        "hardware": trend.hardware,
        "run": point.run,
        "at": f"{point.started_at:%Y-%m-%d %H:%M}",
        "time": format_seconds(point.seconds),
        "verdict": "" if point.seconds else point.verdict.replace("_", " "),
        "change": format_ratio(point.change) if point.change else "–",
        "outcome": str(point.change.outcome) if point.change else "",
        "mark": MARKS[point.change.outcome] if point.change else "",
        "notes": _notes(point),
    }


def _notes(point: Point) -> list[str]:
    """What else is to be known of a point."""
    changed = [f"{what} changed" for what in _changed(point)]
    return [*changed, *([f"confirms {point.confirms}"] if point.confirms else [])]


def _changed(point: Point) -> list[str]:
    """What is another than in the run before."""
    found = "machine or driver" if point.new_machine else "environment"
    return [found] if point.new_environment or point.new_machine else []


def _run_row(run: PastRun) -> dict[str, Any]:
    return {
        "name": run.plan.run,
        "link": f"runs/{run.plan.run}.html" if run.has_report else "",
        "suite": run.plan.suite,
        "label": run.label,
        "at": f"{run.started_at:%Y-%m-%d %H:%M}",
        "machines": ", ".join(machine.name for machine in run.plan.hardware),
        "cells": run.missing or f"{run.ok_cells} of {run.cells} ok",
        "repeats": run.plan.repeats,
    }


def _numbers(trend: Trend) -> list[Point]:
    """The points with a number of their own: what confirms the one before is no news after it."""
    return [point for point in trend.points if point.seconds and not point.confirms]


def _told(point: Point) -> bool:
    return point.change is not None and point.change.outcome is not Outcome.UNDECIDED


def _sentence(trend: Trend, point: Point) -> dict[str, str]:
    assert point.change is not None
    outcome = point.change.outcome
    also = "".join(f", and its {what} has changed" for what in _changed(point))
    change = f"{outcome} than before in {point.run}: {format_ratio(point.change)}{also}"
    page = f"{_page_of(trend.workload)}#{slug(trend.case)}"
    return {
        "text": f"{trend.hardware}/{trend.case} is {change}",
        "mark": MARKS[outcome],
        "outcome": str(outcome),
        "page": page,
    }


def _page_of(workload: str) -> str:
    """The file of a workload's trends."""
    return f"trend-{slug(workload)}.html"
