"""What the site shows: every run of a results folder, and each cell's times from run to run.

It reads with the reader of history. Its numbers have intervals and speedups, as those of reports have; they
are of the repeats' medians, because a cell is held against itself, and a median shows a change better.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pandas as pd

from tasks.errors import GridbenchError
from tasks.planning.plan import Plan
from tasks.regressions.run_rows import MissingColumnError, counting, read_table
from tasks.regressions.series_reader import PastRun, read_plans
from tasks.results.repeats import FEWEST
from tasks.results.speedup import speedup
from tasks.results.summaries import over_repeats
from tasks.results.values import Estimate, Ratio
from workloads.harness.records.record import Verdict


@dataclass(frozen=True, slots=True)
class SiteRun:
    """A run as the site lists it.

    Attributes:
        past: the run, with its rows; without rows where `missing` is set.
        verdicts: of each cell by the run's own comparison, by hardware and case.
        counting: those of these cells that have a number that counts.
        missing: the reason, in words, for which its numbers are not in the trends; empty where they are.
    """

    past: PastRun
    verdicts: Mapping[tuple[str, str], str] = field(default_factory=dict)
    counting: frozenset[tuple[str, str]] = frozenset()
    missing: str = ""

    @property
    def plan(self) -> Plan:
        """Return the run's plan."""
        return self.past.plan

    @property
    def folder(self) -> Path:
        """Return the run's folder."""
        return self.past.folder

    @property
    def cells(self) -> int:
        """Return the number of cells that it measured."""
        return len(self.verdicts)

    @property
    def ok_cells(self) -> int:
        """Return the number of cells that have a number that counts."""
        return len(self.counting)

    @property
    def label(self) -> str:
        """Return the kind of run in words; empty for one that is part of no history."""
        if self.past.confirms:
            return f"confirms {self.past.confirms}"
        return f"night of {self.past.channel}" if self.past.channel else ""

    @property
    def has_report(self) -> bool:
        """Tell whether its report was written."""
        return (self.folder / "report.html").is_file()


@dataclass(frozen=True, slots=True)
class Point:
    """The time of a cell in one run.

    Attributes:
        seconds: per step with the data in place; None where no repeat counts, and `verdict` says why.
        change: speed over that of the point before it with a number, above 1 is faster; None for the first.
        new_environment: the fingerprint of the machine or its software is another than before.
        new_machine: that of machine and driver alone is, as far as both are known.
        confirms: the run whose suspects were measured again. Such a point is compared with none, and none
            with it: it was measured because of what the one before it was.
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
    """Numbers of a cell in one run that count: its times (s), and the ids of where they were measured."""

    times: list[float]
    environments: frozenset[str]
    machines: frozenset[str]


@dataclass(frozen=True, slots=True)
class Trend:
    """One cell through all runs, oldest first."""

    workload: str
    case: str
    hardware: str
    points: tuple[Point, ...]


def site_runs(results: Path) -> tuple[list[SiteRun], list[str]]:
    """Return the runs of a folder, oldest first, and a sentence for each that can't be listed.

    Raises:
        GridbenchError: there is no run in the folder.
    """
    past, problems = read_plans(results)
    if not past and not problems:
        raise GridbenchError(f"there is no run in {results}: measure one with `gridbench run`")
    return [_site_run(run) for run in past], problems


def trends(listed: Sequence[SiteRun]) -> list[Trend]:
    """Return each cell that any run measured, with its points in the runs' order."""
    points: dict[tuple[str, str], list[Point]] = {}
    last: dict[tuple[str, str], _Numbers] = {}
    for run in listed:
        for name, rows in _rows_by_cell(run):
            case, hardware = name
            verdict = run.verdicts.get((hardware, case), "not compared")
            numbers, confirms = _numbers(rows, (hardware, case) in run.counting), run.past.confirms
            before = None if confirms else last.get(name)
            points.setdefault(name, []).append(_point(run.past, verdict, numbers, before))
            if numbers.times and not confirms:
                last[name] = numbers
    return [Trend(name[0].partition("/")[0], *name, tuple(of_cell)) for name, of_cell in points.items()]


def _site_run(past: PastRun) -> SiteRun:
    """Return a run with the rows of its table and the verdicts of its comparison, if it was finished."""
    try:
        table = pd.read_csv(past.folder / "comparison.csv", keep_default_na=False, na_values=[""])
        rows = read_table(past.folder)
    except MissingColumnError:
        return SiteRun(past, missing="it has no record")
    except Exception:  # a damaged file makes pandas and pyarrow raise nearly anything
        return SiteRun(past, missing=f"unfinished: gridbench resume {past.plan.run}")
    if rows.empty or not {"verdict", "hardware", "case"} <= {*table}:
        return SiteRun(past, missing="it has no record")
    cells = list(zip(table["hardware"], table["case"], strict=True))
    verdicts = dict(zip(cells, table["verdict"], strict=True))
    counts = counting(table.assign(grade=table.get("grade")))
    of_cells = frozenset(cell for cell, counted in zip(cells, counts, strict=True) if counted)
    return SiteRun(PastRun(past.folder, past.plan, past.at, rows), verdicts, of_cells)


def _rows_by_cell(run: SiteRun) -> Iterable[tuple[tuple[str, str], pd.DataFrame]]:
    """Return case and hardware of each cell, with its rows, in the order of the table."""
    grouped = run.past.rows.groupby(["case", "hardware"], sort=False)
    return [((str(cell[0]), str(cell[1])), rows) for cell, rows in grouped]


def _usable_s(rows: pd.DataFrame) -> list[float]:
    """Return the medians (s) of the repeats that count, as a comparison picks them."""
    rows = rows[counting(rows) & (rows["compute_s"] > 0)]
    quiet = rows[rows["verdict"] != Verdict.NOISY.value]
    return list(map(float, (quiet if len(quiet) >= FEWEST else rows)["compute_s"]))


def _numbers(rows: pd.DataFrame, counts: bool) -> _Numbers:
    """Return the numbers of a cell; no times of one that the run's own comparison has refused."""
    ids = (frozenset(rows[name].dropna()) for name in ("environment_id", "machine_id"))
    return _Numbers(_usable_s(rows) if counts else [], *ids)


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
