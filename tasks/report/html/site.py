"""Static pages over all runs."""

from collections.abc import Sequence
from pathlib import Path
from shutil import copyfile
from typing import Any

from tasks.errors import GridbenchError
from tasks.report.charts.theme import shapes
from tasks.report.charts.trend import axis_title, trend_svg
from tasks.report.html.templates import STILL, environment, slug, style
from tasks.report.html.trends import Point, SiteRun, Trend, trends
from tasks.results.format import capitalised
from tasks.results.metrics import change_text, metric_in, number_text, outcome_word
from tasks.results.values import RatioVerdict
from tasks.results.wording import MARKS
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.files import path_inside, write_text, write_whole

MOST_CHANGES = 30  # on the first page; the pages of the workloads have all


def write_site(folder: Path, listed: Sequence[SiteRun], problems: Sequence[str]) -> Path:
    """Return `index.html`, written last.

    Raises:
        GridbenchError: the folder cannot be written.
    """
    try:
        return _write(folder, listed, problems)
    except (OSError, WorkloadsError) as error:
        raise GridbenchError(f"the site cannot be written: {error}") from None


def changes(all_trends: Sequence[Trend]) -> list[tuple[Trend, Point]]:
    """Return cells whose newest result differs, slower first."""
    decided = []
    for trend in all_trends:
        results = [point for point in trend.points if point.seconds and not point.confirms]
        change = results[-1].change if results else None
        if change and change.outcome is not RatioVerdict.UNDECIDED:
            decided.append((change.estimate.value, trend, results[-1]))
    return [(trend, point) for _, trend, point in sorted(decided, key=lambda each: each[0])]


def _write(folder: Path, listed: Sequence[SiteRun], problems: Sequence[str]) -> Path:
    all_trends = trends(listed)
    machines = list(dict.fromkeys(trend.hardware for trend in all_trends))
    pages = {workload: _page_of(workload) for workload in dict.fromkeys(t.workload for t in all_trends)}
    for run in listed:
        if run.has_report:
            copy = path_inside(folder / "runs", f"{run.plan.run}.html")
            copy.parent.mkdir(parents=True, exist_ok=True)
            copyfile(run.past.folder / "report.html", copy)
    shared = {"policy": STILL, "style": style(), "machines": machines, "shapes": shapes(len(machines))}
    for workload, name in pages.items():
        cases = _cases(folder, [trend for trend in all_trends if trend.workload == workload], machines)
        _page(folder / name, "trend.html.j2", shared | {"workload": workload, "cases": cases})
    newest = changes(all_trends)
    facts: dict[str, Any] = {
        "runs": [_run_row(run) for run in reversed(listed)],
        "problems": problems,
        "pages": pages,
        "changes": [_sentence(trend, point) for trend, point in newest[:MOST_CHANGES]],
        "more_changes": len(newest[MOST_CHANGES:]),
        "cells": len(all_trends),
    }
    _page(folder / "index.html", "site.html.j2", shared | facts)
    return folder / "index.html"


def _page(path: Path, template: str, facts: dict[str, Any]) -> None:
    write_text(path, environment().get_template(template).render(facts))


def _cases(folder: Path, of_workload: Sequence[Trend], machines: Sequence[str]) -> list[dict[str, Any]]:
    cases: dict[str, list[Trend]] = {}
    for trend in of_workload:
        cases.setdefault(trend.case, []).append(trend)
    return [
        {
            "id": case,
            "slug": slug(case),
            "quantity": capitalised(axis_title(case)),
            "against": "As good as in" if metric_in(case) else "Speed against",
            "figures": [f for trend in of_case if (f := _figure(folder, trend, machines, case)) is not None],
            "rows": [_row(trend, point) for trend in of_case for point in reversed(trend.points)],
        }
        for case, of_case in cases.items()
    ]


def _figure(folder: Path, trend: Trend, machines: Sequence[str], case: str) -> dict[str, Any] | None:
    names = {}
    for look, dark in (("light", False), ("dark", True)):
        if svg := trend_svg(trend, machines, dark):
            names[look] = f"pictures/{slug(f'{trend.hardware}/{case}')}-{look}.svg"
            write_whole(folder / names[look], svg.encode())
    if not names:
        return None
    quantity = capitalised(axis_title(case))
    text = f"{quantity} of {case} on {trend.hardware} by date. The table below has the same numbers."
    return {
        "machine": machines.index(trend.hardware),
        "name": trend.hardware,
        "description": text,
        **names,
    }


def _row(trend: Trend, point: Point) -> dict[str, Any]:
    changed = [f"{what} changed" for what in _changed(point)]
    return {
        "hardware": trend.hardware,
        "run": point.run,
        "at": f"{point.started_at:%Y-%m-%d %H:%M}",
        "time": number_text(trend.case, point.seconds),
        "verdict": "" if point.seconds else point.verdict.replace("_", " "),
        "change": change_text(trend.case, point.change) if point.change else "–",
        "outcome": str(point.change.outcome) if point.change else "",
        "word": outcome_word(trend.case, point.change) if point.change else "",
        "mark": MARKS[point.change.outcome] if point.change else "",
        "notes": [*changed, *([f"confirms {point.confirms}"] if point.confirms else [])],
    }


def _changed(point: Point) -> list[str]:
    part = "machine or driver" if point.new_machine else "environment"
    return [part] if point.new_environment or point.new_machine else []


def _run_row(run: SiteRun) -> dict[str, Any]:
    return {
        "name": run.plan.run,
        "link": f"runs/{run.plan.run}.html" if run.has_report else "",
        "suite": run.plan.suite,
        "label": run.label,
        "at": f"{run.past.at:%Y-%m-%d %H:%M}",
        "machines": ", ".join(machine.name for machine in run.plan.hardware),
        "cells": run.missing or f"{len(run.counting)} of {len(run.verdicts)} ok",
        "repeats": run.plan.repeats,
    }


def _sentence(trend: Trend, point: Point) -> dict[str, str]:
    assert point.change is not None
    outcome = point.change.outcome
    also = "".join(f"; its {what} has changed" for what in _changed(point))
    word, size = outcome_word(trend.case, point.change), change_text(trend.case, point.change)
    change = f"{word} than before in {point.run}: {size}{also}"
    page = f"{_page_of(trend.workload)}#{slug(trend.case)}"
    return {
        "text": f"{trend.hardware}/{trend.case} is {change}",
        "mark": MARKS[outcome],
        "outcome": str(outcome),
        "page": page,
    }


def _page_of(workload: str) -> str:
    return f"trend-{slug(workload)}.html"
