"""Missing numbers: in a series, a cell's part, or many series."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
import pandas as pd

from tasks.regressions.baseline import LAG, WARMING, WINDOW
from tasks.regressions.nightly_gate import Screening, SeriesState
from tasks.regressions.robust import Floats, Ints
from tasks.regressions.run_rows import CELL, counting
from tasks.regressions.series import Series, SeriesKey
from tasks.results.format import format_count, listed
from workloads.harness.records.record import OF_THE_MACHINE

AS_BAD = 0.05  # largest share of earlier nights with as many failures
CHANCE = 1e-3  # chance of as many failures in a night, by earlier nights


@dataclass(frozen=True, slots=True)
class Failures:
    """Planned series by night, and those without a number."""

    runs: tuple[str, ...]
    planned: Ints
    failed: Ints


def missing(screening: Screening, all_series: Sequence[Series]) -> dict[SeriesKey, str]:
    """Return a sentence by series, with its verdicts since."""
    until = {*screening.panel.runs[: screening.column + 1]}
    nights = {s.key: [night for night in reversed(s.nights) if night.run in until] for s in all_series}
    sentences = {}
    for key, state in zip(screening.panel.keys, screening.states(), strict=True):
        if state is not SeriesState.MISSING:
            continue
        without = list(takewhile(lambda night: not night.ok, nights[key]))
        verdicts = Counter(night.verdict for night in without)
        counts = ", ".join(f"{verdict} in {count}" for verdict, count in verdicts.most_common())
        last = nights[key][len(without) :]
        since = f"the last one was in night {last[0].run}" if last else "it never had one"
        gone = format_count(len(without), "night")
        sentences[key] = f"{key.id} has no number for {gone}: {counts}; {since}."
    return sentences


def in_part(rows: pd.DataFrame, run: str) -> str:
    """Name cells that have a number although repeats are broken.

    The machine's state does not explain a verdict such as `wrong`, which other repeats would hide.
    """
    rows = rows.drop_duplicates([*CELL, "repeat"], keep="last")
    sound = counting(rows)
    rows = rows.assign(sound=sound, broken=~sound & ~rows["verdict"].isin(OF_THE_MACHINE))
    named = []
    for (hardware, case), of_cell in rows.groupby(CELL, sort=False, observed=True):
        broken = of_cell.loc[of_cell["broken"], "verdict"].fillna("unknown")
        if of_cell["sound"].any() and len(broken):
            verdicts = " or ".join(verdict.replace("_", " ") for verdict in broken.unique())
            named.append(f"{hardware}/{case} ({len(broken)} of {len(of_cell)}: {verdicts})")
    why = f"`gridbench show {run}` lists the reasons"
    return f"Some repeats failed in {listed(named)}: {why}." if named else ""


def failures(all_series: Sequence[Series]) -> Failures:
    nights = {(night.at, night.run) for series in all_series for night in series.nights}
    runs = tuple(run for _, run in sorted(nights))
    columns = {run: index for index, run in enumerate(runs)}
    planned, failed = np.zeros(len(runs), np.int64), np.zeros(len(runs), np.int64)
    for series in all_series:
        for night in series.nights:
            planned[columns[night.run]] += 1
            failed[columns[night.run]] += not night.ok
    return Failures(runs, planned, failed)


def share_of_not_ok(counted: Failures) -> Floats:
    """Return NaN without a plan."""
    nothing = np.full(len(counted.runs), np.nan)
    shares: Floats = np.divide(counted.failed, counted.planned, out=nothing, where=counted.planned > 0)
    return shares


def more_than_ever(counted: Failures, column: int = -1) -> str:
    """Return a sentence if more series failed than in earlier nights; else empty.

    Failures come in groups, such as a lost machine. So they must be beyond chance by the nights before
    without the worst, few of which can be as bad. The last week is excluded, so that a lasting failure does
    not become usual.
    """
    from scipy.stats import betabinom  # type: ignore[import-untyped] # slow: takes more than a second

    column = range(len(counted.runs))[column]
    shares = share_of_not_ok(counted)
    past = np.arange(max(0, column - LAG - WINDOW), max(0, column - LAG))
    usual = past[np.isfinite(shares[past])]
    planned, failed = int(counted.planned[column]), int(counted.failed[column])
    if len(usual) < WARMING or not failed:
        return ""
    worst = int(AS_BAD * len(usual))
    kept = usual[np.argsort(shares[usual], kind="stable")][: len(usual) - worst]
    total, bad = int(counted.planned[kept].sum()), int(counted.failed[kept].sum())
    chance = float(betabinom.sf(failed - 1, planned, bad + 0.5, total - bad + 0.5))  # from Jeffreys' prior
    if chance >= CHANCE or int((shares[usual] >= shares[column]).sum()) > worst:
        return ""
    share, before = 100 * failed / planned, 100 * bad / total
    return (
        f"{failed} of {planned} series have no number in night {counted.runs[column]}, "
        f"{share:.0f} %: in the {len(usual)} nights before it was {before:.1f} %."
    )
