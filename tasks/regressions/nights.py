"""Read the nights of a results folder, and put them together as series: what gate and history go by."""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from tasks.errors import GridbenchError
from tasks.planning.plan import Plan
from tasks.regressions.night_rows import CELL, TEXTS, no_rows, read_rows
from tasks.regressions.nightly_gate import Fresh
from tasks.regressions.series import MISSING, OK, Observation, Series, SeriesKey
from tasks.store.store import Store, runs

AHEAD = timedelta(days=1)  # by which a plan may be later than now: clocks of several machines are not one
FIRST = datetime(2025, 1, 1, tzinfo=UTC)  # before any version of this program: a clock that was never set


@dataclass(frozen=True, slots=True, eq=False)
class NightRun:
    """A run as history sees it.

    Attributes:
        at: when it was planned, UTC.
        rows: one row a record, as `read_rows` gives them; empty where no record can be read.
    """

    folder: Path
    plan: Plan
    at: datetime
    rows: pd.DataFrame

    @property
    def channel(self) -> str:
        """The software channel that it follows; empty for a run that is no night."""
        return self.plan.night.channel if self.plan.night else ""

    @property
    def confirms(self) -> str | None:
        """The night whose suspects it measured again; None for a night of its own and for any other run."""
        return self.plan.night.confirms if self.plan.night else None

    @property
    def planned(self) -> set[tuple[str, str]]:
        """Hardware and case of each cell that it was to measure."""
        skipped = {(skip.hardware, skip.case.case.id) for skip in self.plan.skips}
        cases = [planned.case.id for planned in self.plan.cases]
        return {(machine.name, case) for machine in self.plan.hardware for case in cases} - skipped


def read_nights(
    results: Path, channel: str | None = None, before: str | None = None, now: datetime | None = None
) -> tuple[list[NightRun], list[str]]:
    """The nights of a folder, oldest first, and a sentence for each thing that is odd about them.

    Args:
        channel: nights of that software channel alone.
        before: name of a run; only nights that were planned before it.
        now: by which a plan is in the future.

    Raises:
        GridbenchError: there is no run `before`, or its plan can't be read.
    """
    found, odd = _plans(results)
    if before is not None:
        end = _order(_one(results, before))
        found = [run for run in found if _order(run) < end]
    found = [run for run in found if run.channel and run.confirms is None and channel in (None, run.channel)]
    return _with_rows(found, [*odd, *_clocks(found, now or datetime.now(UTC))])


def read_others(results: Path) -> tuple[list[NightRun], list[str]]:
    """The runs of a folder that are no nights, confirmations among them, oldest first; and what is odd."""
    found, odd = _plans(results)
    return _with_rows([run for run in found if not run.channel or run.confirms is not None], odd)


def confirmation(results: Path, run: str) -> NightRun:
    """One run by its whole name, such as one that measured suspects again.

    Raises:
        GridbenchError: there is no such run, or its plan can't be read.
    """
    (found,), _ = _with_rows([_one(results, run)], [])
    return found


def confirmations(results: Path) -> dict[str, list[str]]:
    """The folders of what measured suspects again, oldest first, by the night whose suspects they were."""
    by_night: dict[str, list[str]] = {}
    for run in _plans(results)[0]:
        if run.confirms:
            by_night.setdefault(run.confirms, []).append(run.folder.name)
    return by_night


def fresh_of(confirming: NightRun, night: NightRun) -> dict[tuple[str, str], Fresh]:
    """What a confirmation found, by hardware and case: its repeats in groups of as many as the night has.

    Repeats on another machine than the night's, or beside another reference, are left out.
    """
    rows = _judged([confirming]).dropna(subset=["repeat"])
    there = night.rows.groupby(CELL, observed=True)[["machine_id", "reference"]].first()
    for name in there.columns:
        was = pd.Series(_cells(rows), index=rows.index, dtype=object).map(there[name].to_dict())
        rows = rows[
            ~(was.notna() & (was != "") & rows[name].notna() & (rows[name] != "") & (rows[name] != was))
        ]
    rows = rows.assign(group=(rows["repeat"].astype("int64") - 1) // max(night.plan.repeats, 1))
    medians = rows.groupby([*CELL, "group"], observed=True)[["log_s", "log_control_s"]].median()
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for (hardware, case, _), (log_s, log_control_s) in zip(medians.index, medians.to_numpy(), strict=True):
        pair = float(np.exp(log_s)), float(np.exp(log_control_s))
        found.setdefault((str(hardware), str(case)), []).append(pair)
    return {cell: Fresh(*map(tuple, zip(*pairs, strict=True))) for cell, pairs in found.items()}


def series_of(nights: Sequence[NightRun]) -> list[Series]:
    """The series of some nights, each with its observations in the nights' order.

    A cell that a night had planned, and of which it has no record, is `missing` in it.
    """
    nights = sorted(nights, key=_order)
    seen: dict[SeriesKey, dict[int, Observation]] = {}
    for index, cell, observation in _observations(nights):
        seen.setdefault(SeriesKey(*cell, nights[index].channel), {})[index] = observation
    asked: dict[str, set[SeriesKey]] = {}
    for index, night in enumerate(nights):
        asked[night.channel] = keys = {SeriesKey(*cell, night.channel) for cell in night.planned}
        nothing = Observation(night.plan.run, night.at, None, verdict=MISSING, repeats=0)
        for key in keys:
            seen.setdefault(key, {}).setdefault(index, nothing)
    return [
        Series(key, tuple(of[i] for i in sorted(of)), key in asked[key.channel])
        for key, of in sorted(seen.items())
    ]


def settings_of(plan: Plan) -> str:
    """How a plan measures, where that moves the spread of its numbers."""
    return f"{plan.repeats} repeats{', quick' if plan.quick else ''}"


def _order(run: NightRun) -> tuple[datetime, str]:
    return run.at, run.plan.run


def _plans(results: Path) -> tuple[list[NightRun], list[str]]:
    """Every run of a folder without its rows, oldest first, each once; and what is odd about them."""
    found: dict[str, NightRun] = {}
    odd = []
    for name in sorted(runs(results)):
        try:
            run = _one(results, name)
        except GridbenchError as error:
            odd.append(f"left out: {error}")
            continue
        other = found.get(run.plan.run)
        if other:
            copy = run if other.folder.name == run.plan.run else other
            odd.append(f"left out: {copy.folder} is a second folder of run {run.plan.run}")
        if not other or copy is other:
            found[run.plan.run] = run
    return sorted(found.values(), key=_order), odd


def _one(results: Path, name: str) -> NightRun:
    """A run without its rows."""
    store = Store(results / name)
    plan = store.plan
    try:
        at = datetime.fromisoformat(plan.created_at).astimezone(UTC)
    except OverflowError:  # the first or the last day that there is
        raise GridbenchError(
            f"{store.folder / 'plan.json'}: created_at {plan.created_at} is no time"
        ) from None
    return NightRun(store.folder, plan, at, no_rows())


def _clocks(found: Sequence[NightRun], now: datetime) -> Iterator[str]:
    """Sentences about times that can't all be right; `created_at` decides the order all the same."""
    for run in found:
        if run.at > now + AHEAD or run.at < FIRST:
            kind = "in the future" if run.at > now else "before any version of this program"
            yield f"night {run.plan.run} was planned at {run.plan.created_at}, {kind}: a clock was wrong"
    for first, second in pairwise(found):
        names, at = f"nights {first.plan.run} and {second.plan.run}", second.plan.created_at
        if first.at == second.at:
            yield f"{names} were planned at the same time, {at}: both count, in this order"
        elif _stamp(first) > _stamp(second) != "":
            yield f"{names} are named in another order than created_at has, which counts: a clock jumped"


def _stamp(run: NightRun) -> str:
    """The time in a run's name."""
    found = re.match(r"\d{8}(-\d{6})?", run.plan.run)
    return found.group() if found else ""


def _with_rows(found: Iterable[NightRun], odd: list[str]) -> tuple[list[NightRun], list[str]]:
    whole = []
    for run in found:
        rows, more = read_rows(run.folder, run.plan)
        odd = [*odd, *more]
        whole.append(NightRun(run.folder, run.plan, run.at, rows))
    return whole, odd


def _judged(nights: Sequence[NightRun]) -> pd.DataFrame:
    """All rows with the logs of what counts: `log_s`, `log_control_s`, `ok`, and `night`, their place."""
    rows = pd.concat([night.rows for night in nights], ignore_index=True)
    rows[CELL] = rows[CELL].astype("category")
    rows["night"] = np.repeat(np.arange(len(nights)), [len(night.rows) for night in nights])
    rows = rows.drop_duplicates(["night", *CELL, "repeat"], keep="last")  # a copy would fake a second repeat
    said = (rows["verdict"] == OK).fillna(False)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs, control = np.log(rows["compute_s"]), np.log(rows["control_s"])
    rows["ok"] = said & np.isfinite(logs)
    rows["verdict"] = rows["verdict"].mask(said & ~rows["ok"], "impossible")  # ok, without a time
    rows["log_s"] = logs.where(rows["ok"])
    known = rows["ok"] & (rows["control_verdict"] == OK).fillna(False) & np.isfinite(control)
    rows["log_control_s"] = control.where(known)
    return rows


def _observations(nights: Sequence[NightRun]) -> Iterator[tuple[int, tuple[str, str], Observation]]:
    """What each night has measured: its place, hardware and case, and the number."""
    if not any(len(night.rows) for night in nights):
        return
    rows, by = _judged(nights), [*CELL, "night"]
    rows = rows.sort_values("ok", ascending=False, kind="stable")  # what an ok repeat says of its box counts
    rows[[*TEXTS]] = rows[[*TEXTS]].replace("", None)
    grouped = rows.groupby(by, sort=False, observed=True)
    table = grouped[["log_s", "log_control_s"]].median().join(grouped[[*TEXTS]].first())
    table["repeats"] = grouped["ok"].sum()
    verdicts = rows.groupby([*by, "verdict"], sort=False, observed=True).size().reset_index(name="count")
    verdicts = verdicts.sort_values("count", ascending=False, kind="stable").drop_duplicates(by)
    commonest = verdicts.set_index(by)["verdict"].reindex(table.index).fillna("unknown")
    table["verdict"] = commonest.where(table["repeats"] == 0, OK)
    table = table.reset_index()
    times = np.exp(table[["log_s", "log_control_s"]].to_numpy())
    texts = table[["verdict", *TEXTS]].fillna("").to_numpy(dtype=object)
    columns = (_cells(table), table["night"].tolist(), times.tolist(), texts, table["repeats"].tolist())
    for cell, index, pair, said, repeats in zip(*columns, strict=True):
        night, (seconds, control_s) = nights[index], map(_known, pair)
        made = Observation(
            night.plan.run, night.at, seconds, control_s, *said, repeats, settings_of(night.plan)
        )
        yield index, cell, made


def _known(number: float) -> float | None:
    return None if math.isnan(number) else number


def _cells(rows: pd.DataFrame) -> list[tuple[str, str]]:
    return list(zip(rows["hardware"].tolist(), rows["case"].tolist(), strict=True))
