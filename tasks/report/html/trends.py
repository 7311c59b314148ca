"""The site's runs, and each cell's times by run.

Times are medians of repeats, which show a change better.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import pandas as pd

from tasks.errors import GridbenchError
from tasks.planning.plan import Plan
from tasks.regressions.run_rows import MissingColumnError, by_metric, counting, read_table
from tasks.regressions.series_reader import PastRun, read_plans
from tasks.results.metrics import measured_case
from tasks.results.repeats import FEWEST
from tasks.results.speedup import corrected, speedup
from tasks.results.summaries import over_repeats
from tasks.results.values import Estimate, Ratio
from workloads.harness.records.record import Verdict


@dataclass(frozen=True, slots=True)
class SiteRun:
    """A run on the site.

    Attributes:
        past: without rows if `missing` is set.
        verdicts: by hardware and case.
        counting: cells with a valid result.
        missing: why trends lack it, else empty.
    """

    past: PastRun
    verdicts: Mapping[tuple[str, str], str] = field(default_factory=dict)
    counting: frozenset[tuple[str, str]] = frozenset()
    missing: str = ""

    @property
    def plan(self) -> Plan:
        return self.past.plan

    @property
    def label(self) -> str:
        """Return its kind; empty outside a history."""
        if self.past.confirms:
            return f"confirms {self.past.confirms}"
        return f"night of {self.past.channel}" if self.past.channel else ""

    @property
    def has_report(self) -> bool:
        return (self.past.folder / "report.html").is_file()


@dataclass(frozen=True, slots=True)
class Point:
    """The time of a cell in one run.

    Attributes:
        seconds: per step with the data in place; None if no repeat counts.
        change: speedup over the previous result.
        new_environment, new_machine: the fingerprint of machine and software, or of machine and driver, has
            changed.
        confirms: the confirmed run. Such points are not compared, as their cells were not chosen at random.
    """

    run: str
    started_at: datetime
    verdict: str
    seconds: Estimate | None
    change: Ratio | None = None
    new_environment: bool = False
    new_machine: bool = False
    confirms: str = ""


@dataclass(frozen=True, slots=True)
class _Numbers:
    times: list[float]
    environments: frozenset[str]
    machines: frozenset[str]


@dataclass(frozen=True, slots=True)
class Trend:
    """One cell in all runs, oldest first."""

    workload: str
    case: str
    hardware: str
    points: tuple[Point, ...]


def site_runs(results: Path) -> tuple[list[SiteRun], list[str]]:
    """Return runs, oldest first, and a sentence on each unreadable one.

    Raises:
        GridbenchError: the folder has no run.
    """
    past, problems = read_plans(results)
    if not past and not problems:
        raise GridbenchError(f"{results} has no run; measure one with `gridbench run`")
    return [_site_run(run) for run in past], problems


def trends(listed: Sequence[SiteRun]) -> list[Trend]:
    """Return points by run; one run's changes are corrected together."""
    points: dict[tuple[str, str], list[Point]] = {}
    last: dict[tuple[str, str], _Numbers] = {}
    for run in listed:
        made: dict[tuple[str, str], Point] = {}
        for key, rows in run.past.rows.groupby(["case", "hardware"], sort=False):
            name = case, hardware = str(key[0]), str(key[1])
            cell = hardware, measured_case(case)
            verdict = run.verdicts.get(cell, "not compared")
            times = _usable_s(rows) if cell in run.counting else []
            ids = (frozenset(rows[column].dropna()) for column in ("environment_id", "machine_id"))
            numbers, confirms = _Numbers(times, *ids), run.past.confirms
            before = None if confirms else last.get(name)
            made[name] = _point(run.past, verdict, numbers, before)
            if numbers.times and not confirms:
                last[name] = numbers
        together = corrected([point.change for point in made.values()])
        for (name, point), change in zip(made.items(), together, strict=True):
            points.setdefault(name, []).append(replace(point, change=change))
    return [Trend(name[0].partition("/")[0], *name, tuple(of_cell)) for name, of_cell in points.items()]


def _site_run(past: PastRun) -> SiteRun:
    try:
        table = pd.read_csv(past.folder / "comparison.csv", keep_default_na=False, na_values=[""])
        rows = by_metric(read_table(past.folder), past.plan)
    except MissingColumnError:
        return SiteRun(past, missing="no records")
    except Exception:  # pandas and pyarrow raise anything for a damaged file
        return SiteRun(past, missing=f"unfinished: gridbench resume {past.plan.run}")
    if rows.empty or not {"verdict", "hardware", "case"} <= {*table}:
        return SiteRun(past, missing="no records")
    cells = list(zip(table["hardware"], table["case"], strict=True))
    verdicts = dict(zip(cells, table["verdict"], strict=True))
    counts = counting(table.assign(grade=table.get("grade")))
    of_cells = frozenset(cell for cell, counted in zip(cells, counts, strict=True) if counted)
    return SiteRun(PastRun(past.folder, past.plan, past.at, rows), verdicts, of_cells)


def _usable_s(rows: pd.DataFrame) -> list[float]:
    rows = rows[counting(rows) & (rows["compute_s"] > 0)]
    quiet = rows[rows["verdict"] != Verdict.NOISY.value]
    return list(map(float, (quiet if len(quiet) >= FEWEST else rows)["compute_s"]))


def _point(run: PastRun, verdict: str, numbers: _Numbers, before: _Numbers | None) -> Point:
    both_known = bool(before and numbers.machines and before.machines)
    return Point(
        run=run.plan.run,
        started_at=run.at,
        verdict=verdict,
        seconds=over_repeats(numbers.times),
        change=speedup(before.times, numbers.times) if before else None,
        new_environment=before is not None and numbers.environments != before.environments,
        new_machine=both_known and before is not None and numbers.machines != before.machines,
        confirms=run.confirms or "",
    )
