"""Every run of a results folder, one after another: what each cell took then, and what changed in between."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pandas as pd

from tasks.errors import GridbenchError
from tasks.planning.plan import Plan
from tasks.results.speedup import speedup
from tasks.results.summaries import over_repeats
from tasks.results.values import Estimate, Ratio
from tasks.store.store import Store, runs

NEEDED = ("hardware", "case", "workload", "verdict", "compute_s", "environment_id")


@dataclass(frozen=True, slots=True)
class PastRun:
    """One run of the folder.

    Attributes:
        cells, ok_cells: how many it measured, and how many have a number that counts.
        missing: why its numbers are not in the history, in words; empty where they are.
        table: one row a cell, as in `comparison.csv`; `records`, one row a record, as in `results.parquet`.
    """

    folder: Path
    plan: Plan
    started_at: datetime
    cells: int = 0
    ok_cells: int = 0
    missing: str = ""
    table: pd.DataFrame | None = None
    records: pd.DataFrame | None = None

    @property
    def label(self) -> str:
        """What kind of run it is, in words; empty for one that nobody follows through the nights."""
        night = self.plan.night
        if night is None:
            return ""
        return f"confirms {night.confirms}" if night.confirms else f"night of {night.channel}"

    @property
    def has_report(self) -> bool:
        """Whether its report was written."""
        return (self.folder / "report.html").is_file()


@dataclass(frozen=True, slots=True)
class Point:
    """What a cell took in one run.

    Attributes:
        seconds: per step with the data in place; None where no repeat counts, and `verdict` says why.
        change: speed over that of the point before it with a number, above 1 is faster; None for the first.
        new_environment: whether the fingerprint of the machine or its software is another than before.
        new_machine: whether that of machine and driver alone is, as far as both are known.
        confirms: the run whose suspects were measured again; such a point is compared with none, nor is one
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
    """What counts of a cell in one run: its times (s), and the ids of where they were measured."""

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


def past_runs(results: Path) -> tuple[list[PastRun], list[str]]:
    """The runs of a folder, oldest first, and a sentence for each whose plan can't be read.

    Raises:
        GridbenchError: there is no run in the folder.
    """
    found, odd = [], []
    for name in runs(results):
        store = Store(results / name)
        try:
            found.append(_past_run(store))
        except GridbenchError as error:
            odd.append(str(error))
    if not found and not odd:
        raise GridbenchError(f"there is no run in {results}: measure one with `gridbench run`")
    return sorted(found, key=lambda run: (run.started_at, run.plan.run)), odd


def trends(past: Sequence[PastRun]) -> list[Trend]:
    """Each cell that any run measured, with its points in the runs' order."""
    points: dict[tuple[str, str, str], list[Point]] = {}
    last: dict[tuple[str, str, str], _Numbers] = {}
    for run in past:
        if run.records is None:
            continue
        verdicts = _verdicts(run)
        for cell, rows in run.records.groupby(["workload", "case", "hardware"], sort=False):
            name = (str(cell[0]), str(cell[1]), str(cell[2]))
            verdict = verdicts.get((name[2], name[1]), "not compared")
            found, confirms = _numbers(verdict, rows), run.plan.night and run.plan.night.confirms
            before = None if confirms else last.get(name)
            points.setdefault(name, []).append(_point(run, verdict, found, before))
            if found.times and not confirms:
                last[name] = found
    return [Trend(*name, tuple(of_cell)) for name, of_cell in points.items()]


def _past_run(store: Store) -> PastRun:
    plan = store.plan
    started_at = datetime.fromisoformat(plan.created_at)
    try:
        table = pd.read_csv(store.folder / "comparison.csv", keep_default_na=False, na_values=[""])
        records = pd.read_parquet(store.folder / "results.parquet")
    except Exception:  # a damaged file makes pandas and pyarrow raise nearly anything
        return PastRun(store.folder, plan, started_at, missing=f"unfinished: gridbench resume {plan.run}")
    if records.empty or not {*NEEDED} <= {*records} or not {"verdict", "hardware", "case"} <= {*table}:
        return PastRun(store.folder, plan, started_at, missing="it has no record")
    ok = int((table["verdict"] == "ok").sum())
    return PastRun(store.folder, plan, started_at, len(table), ok, "", table, records)


def _verdicts(run: PastRun) -> dict[tuple[str, str], str]:
    """What the run's own comparison says of each cell, by hardware and case."""
    table = run.table
    if table is None:
        return {}
    return dict(zip(zip(table["hardware"], table["case"], strict=True), table["verdict"], strict=True))


def _usable_s(verdict: str, rows: pd.DataFrame) -> list[float]:
    """The medians (s) of the ok repeats; none of a cell that the run's own comparison has refused."""
    if verdict != "ok":
        return []
    times = rows.loc[rows["verdict"] == "ok", "compute_s"].dropna()
    return [float(seconds) for seconds in times if seconds > 0]


def _numbers(verdict: str, rows: pd.DataFrame) -> _Numbers:
    machines = rows["machine_id"].dropna() if "machine_id" in rows else ()  # older tables have none
    return _Numbers(_usable_s(verdict, rows), frozenset(rows["environment_id"].dropna()), frozenset(machines))


def _point(run: PastRun, verdict: str, found: _Numbers, before: _Numbers | None) -> Point:
    return Point(
        run=run.plan.run,
        started_at=run.started_at,
        verdict=verdict,
        seconds=over_repeats(found.times),
        change=speedup(before.times, found.times) if before else None,
        new_environment=before is not None and found.environments != before.environments,
        new_machine=bool(before and found.machines and before.machines) and found.machines != before.machines,
        confirms=(run.plan.night.confirms or "") if run.plan.night else "",
    )
