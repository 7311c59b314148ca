"""The history of `history`, the nightly gate, `bisect` and `site`."""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tasks.errors import GridbenchError
from tasks.planning.plan import Plan
from tasks.regressions.run_rows import CELL, TEXTS, by_metric, counting, no_rows, read_rows
from tasks.regressions.series import MISSING, OK, FreshRuns, Observation, Series, SeriesKey
from tasks.results.metrics import watched_cases
from tasks.store.store import Store, runs
from workloads.harness.records.record import COUNTING, Verdict

AHEAD = timedelta(days=1)  # by which a plan can be later than now, because the clocks of machines differ
FREE = 0.5  # least degrees of freedom, sums of fractions
FIRST = datetime(2025, 1, 1, tzinfo=UTC)  # before any version of this program: an earlier clock was never set


@dataclass(frozen=True, slots=True, eq=False)
class PastRun:
    """One run of a results folder.

    `at`: time of its plan, UTC; `rows`: columns of `run_rows.SCHEMA`, none before they are read.
    """

    folder: Path
    plan: Plan
    at: datetime
    rows: pd.DataFrame

    @property
    def channel(self) -> str:
        """Return empty for a run that is not a night."""
        return self.plan.night.channel if self.plan.night else ""

    @property
    def confirms(self) -> str | None:
        """Return the night whose suspects it measured again."""
        return self.plan.night.confirms if self.plan.night else None

    @property
    def planned(self) -> set[tuple[str, str]]:
        """Return (hardware, case)."""
        skipped = {
            (skip.hardware, name)
            for skip in self.plan.skips
            for name in watched_cases(skip.case.case, skip.case.script)
        }
        cases = [name for each in self.plan.cases for name in watched_cases(each.case, each.script)]
        return {(machine.name, case) for machine in self.plan.hardware for case in cases} - skipped


def read_plans(results: Path) -> tuple[list[PastRun], list[str]]:
    """Return runs without rows, oldest first, and problems."""
    by_name: dict[str, PastRun] = {}
    problems = []
    for name in sorted(runs(results)):
        try:
            run = _read_plan(results, name)
        except GridbenchError as error:
            problems.append(str(error))
            continue
        other = by_name.get(run.plan.run)
        if other:
            copy = run if other.folder.name == run.plan.run else other
            problems.append(f"{copy.folder} is a second folder of run {run.plan.run}")
        if not other or copy is other:
            by_name[run.plan.run] = run
    return sorted(by_name.values(), key=_order), problems


def read_nights(
    results: Path, channel: str | None = None, before: str | None = None, now: datetime | None = None
) -> tuple[list[PastRun], list[str]]:
    """Return nights, oldest first, and problems.

    Args:
        before: a run; only nights planned before it.
        now: a later plan is in the future.

    Raises:
        GridbenchError: there is no run `before`, or its plan cannot be read.
    """
    past, problems = _plans_and_left_out(results)
    if before is not None:
        end = _order(_read_plan(results, before))
        past = [run for run in past if _order(run) < end]
    nights = [run for run in past if run.channel and run.confirms is None and channel in (None, run.channel)]
    return _with_rows(nights, [*problems, *_clock_problems(nights, now or datetime.now(UTC))])


def read_others(results: Path) -> tuple[list[PastRun], list[str]]:
    """Return runs that are not nights, oldest first, and problems."""
    past, problems = _plans_and_left_out(results)
    return _with_rows([run for run in past if not run.channel or run.confirms is not None], problems)


def confirmation(results: Path, run: str) -> PastRun:
    """Return a run by its whole name.

    Raises:
        GridbenchError: there is no such run, or its plan cannot be read.
    """
    (past,), _ = _with_rows([_read_plan(results, run)], [])
    return past


def confirmations(results: Path) -> dict[str, list[str]]:
    """Return confirming runs, oldest first, by night or search."""
    by_night: dict[str, list[str]] = {}
    for run in read_plans(results)[0]:
        if run.confirms:
            by_night.setdefault(run.confirms, []).append(run.folder.name)
    return by_night


def fresh_runs(confirming: PastRun, night: PastRun) -> dict[tuple[str, str], FreshRuns]:
    """Return repeats by hardware and case, in groups of a night's number.

    Another machine's or reference's repeats are left out.
    """
    rows = _valid_rows([confirming]).dropna(subset=["repeat"])
    night_ids = night.rows.groupby(CELL, observed=True)[["machine_id", "reference"]].first()
    for name in night_ids.columns:
        before = pd.Series(_cells(rows), index=rows.index, dtype=object).map(night_ids[name].to_dict())
        both = before.notna() & (before != "") & rows[name].notna() & (rows[name] != "")
        rows = rows[~(both & (rows[name] != before))]
    rows = rows.assign(group=(rows["repeat"].astype("int64") - 1) // max(night.plan.repeats, 1))
    medians = rows.groupby([*CELL, "group"], observed=True)[["log_s", "log_control_s"]].median()
    pairs: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for (hardware, case, _), (log_s, log_control_s) in zip(medians.index, medians.to_numpy(), strict=True):
        pair = float(np.exp(log_s)), float(np.exp(log_control_s))
        pairs.setdefault((str(hardware), str(case)), []).append(pair)
    return {cell: FreshRuns(*map(tuple, zip(*of_cell, strict=True))) for cell, of_cell in pairs.items()}


def series_of(nights: Sequence[PastRun]) -> list[Series]:
    """Count a planned cell without a record as `missing`."""
    nights = sorted(nights, key=_order)
    by_key: dict[SeriesKey, dict[int, Observation]] = {}
    for index, cell, observation in _observations(nights):
        by_key.setdefault(SeriesKey(*cell, nights[index].channel), {})[index] = observation
    newest_plan: dict[str, set[SeriesKey]] = {}
    for index, night in enumerate(nights):
        newest_plan[night.channel] = keys = {SeriesKey(*cell, night.channel) for cell in night.planned}
        nothing = Observation(night.plan.run, night.at, None, verdict=MISSING, repeats=0)
        for key in keys:
            by_key.setdefault(key, {}).setdefault(index, nothing)
    return [
        Series(key, tuple(by_night[i] for i in sorted(by_night)), key in newest_plan[key.channel])
        for key, by_night in sorted(by_key.items())
    ]


def settings_of(plan: Plan) -> str:
    """Return settings that affect the spread."""
    sessions = f" in {plan.sessions} sessions" if plan.sessions > 1 else ""
    return f"{plan.repeats} repeats{sessions}{', quick' if plan.quick else ''}"


def _order(run: PastRun) -> tuple[datetime, str]:
    return run.at, run.plan.run


def _plans_and_left_out(results: Path) -> tuple[list[PastRun], list[str]]:
    past, problems = read_plans(results)
    return past, [f"left out: {problem}" for problem in problems]


def _read_plan(results: Path, name: str) -> PastRun:
    store = Store(results / name)
    plan = store.plan
    try:
        at = datetime.fromisoformat(plan.created_at).astimezone(UTC)
    except OverflowError:  # on the first or the last possible day
        path = store.folder / "plan.json"
        raise GridbenchError(f"{path}: created_at {plan.created_at} is not a time in UTC") from None
    return PastRun(store.folder, plan, at, no_rows())


def _clock_problems(nights: Sequence[PastRun], now: datetime) -> Iterator[str]:
    for run in nights:
        if run.at > now + AHEAD or run.at < FIRST:
            kind = "in the future" if run.at > now else "before any version of this program"
            yield f"night {run.plan.run} was planned at {run.plan.created_at}, {kind}: a clock was wrong"
    for first, second in pairwise(nights):
        names, at = f"nights {first.plan.run} and {second.plan.run}", second.plan.created_at
        if first.at == second.at:
            yield f"{names} were planned at the same time, {at}: both are used, in this order"
        elif _stamp(first) > _stamp(second) != "":
            yield f"{names} have names in another order than their created_at, which is used: a clock jumped"


def _stamp(run: PastRun) -> str:
    match = re.match(r"\d{8}(-\d{6})?", run.plan.run)
    return match.group() if match else ""


def _with_rows(past: Iterable[PastRun], problems: list[str]) -> tuple[list[PastRun], list[str]]:
    complete = []
    for run in past:
        rows, more = read_rows(run.folder, run.plan)
        problems = [*problems, *more]
        complete.append(replace(run, rows=by_metric(rows, run.plan)))
    return complete, problems


def _valid_rows(nights: Sequence[PastRun]) -> pd.DataFrame:
    """Return all rows with `counts`, `night` (an index), and logs of valid times.

    `log_paired_s` is of repeats with a control, `log_ratio` over the control.
    """
    rows = pd.concat([night.rows for night in nights], ignore_index=True)
    rows[CELL] = rows[CELL].astype("category")
    rows["night"] = np.repeat(np.arange(len(nights)), [len(night.rows) for night in nights])
    rows = rows.drop_duplicates(["night", *CELL, "repeat"], keep="last")  # a copy would fake a second repeat
    recorded, beside = counting(rows), rows["control_verdict"].isin(COUNTING)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs, control = np.log(rows["compute_s"]), np.log(rows["control_s"])
    rows["verdict"] = rows["verdict"].mask(recorded & ~np.isfinite(logs), "impossible")  # it has no time
    beside &= np.isfinite(control)
    # Load during all repeats of a night looks like slower code unless a control is slowed by it too. A varying
    # CPU speed is in the spread; tables without that column treat it as load.
    busy = (rows["verdict"] == Verdict.NOISY) & (rows["restless"] != 1)
    rows["counts"] = recorded & np.isfinite(logs) & (beside | ~busy)
    rows["log_s"] = logs.where(rows["counts"])
    rows["log_control_s"] = control.where(rows["counts"] & beside)
    rows["log_paired_s"] = rows["log_s"].where(rows["log_control_s"].notna())
    rows["log_ratio"] = rows["log_paired_s"] - rows["log_control_s"]
    rows["session"] = rows["session"].fillna(1.0)
    return rows


def _observations(nights: Sequence[PastRun]) -> Iterator[tuple[int, tuple[str, str], Observation]]:
    if not any(len(night.rows) for night in nights):
        return
    rows, by = _valid_rows(nights), [*CELL, "night"]
    # The machine of a valid repeat is the night's, and its verdict is the night's if it is ok.
    rows = rows.sort_values("counts", ascending=False, kind="stable")
    rows[[*TEXTS]] = rows[[*TEXTS]].replace("", None)
    grouped = rows.groupby(by, sort=False, observed=True)
    table = grouped[["log_s", "log_control_s"]].median().join(grouped[[*TEXTS]].first())
    table["repeats"] = grouped["counts"].sum()
    table["sessions"] = (
        rows["session"].where(rows["counts"]).groupby([rows[n] for n in by], observed=True).nunique()
    )
    table[["variance", "control_variance", "covariance"]] = _variances(rows, by)
    verdicts = rows.groupby([*by, "verdict"], sort=False, observed=True).size().reset_index(name="count")
    verdicts = verdicts.sort_values("count", ascending=False, kind="stable").drop_duplicates(by)
    commonest = verdicts.set_index(by)["verdict"].reindex(table.index).fillna("unknown")
    sound = (rows["verdict"] == OK).groupby([rows[name] for name in by], sort=False, observed=True).any()
    table["verdict"] = commonest.where(~sound.reindex(table.index), OK)
    table = table.reset_index()
    times = np.exp(table[["log_s", "log_control_s"]].to_numpy())
    texts = table[["verdict", *TEXTS]].fillna("").to_numpy(dtype=object)
    numbers = np.column_stack([times, table[["variance", "control_variance", "covariance"]].to_numpy()])
    counts = table[["repeats", "sessions"]].to_numpy().tolist()
    columns = (_cells(table), table["night"].tolist(), numbers.tolist(), texts, counts)
    for cell, index, of_cell, words, (repeats, sessions) in zip(*columns, strict=True):
        night = nights[index]
        names = ("seconds", "control_s", "variance", "control_variance", "covariance")
        known: list[Any] = [None if math.isnan(number) else number for number in of_cell]
        observation = Observation(
            run=night.plan.run,
            at=night.at,
            repeats=repeats,
            sessions=max(sessions, 1),
            settings=settings_of(night.plan),
            **dict(zip(names, known, strict=True)),
            **dict(zip(("verdict", *TEXTS), words, strict=True)),
        )
        yield index, cell, observation


def _variances(rows: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return variances of repeats and of controls within sessions, and their covariance.

    It follows from the variances and that of the ratio. NaN if no session has two repeats.
    """
    logs = rows[["log_s", "log_control_s", "log_paired_s", "log_ratio"]]
    of_session = logs.groupby([rows[name] for name in (*by, "session")], sort=False, observed=True)
    squares, free = (logs - of_session.transform("mean")) ** 2, 1 - 1 / of_session.transform("count")
    keys = [rows[name] for name in by]
    sums, freedom = (
        part.where(logs.notna()).groupby(keys, sort=False, observed=True).sum() for part in (squares, free)
    )
    variance = sums / freedom.where(freedom > FREE)
    both = (variance["log_paired_s"] + variance["log_control_s"] - variance["log_ratio"]) / 2
    return variance[["log_s", "log_control_s"]].assign(covariance=both)


def _cells(rows: pd.DataFrame) -> list[tuple[str, str]]:
    return list(zip(rows["hardware"].tolist(), rows["case"].tolist(), strict=True))
