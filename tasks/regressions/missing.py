"""What has no number is news: a series without one for nights, and a night in which more failed than ever."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from tasks.regressions.baseline import LAG, WARMING, WINDOW, Floats, Ints
from tasks.regressions.nightly_gate import Judged, State
from tasks.regressions.series import Series, SeriesKey
from tasks.results.format import format_count

AS_BAD = 0.05  # share of the nights before that may have had as many failures
CHANCE = 1e-3  # of so many failures in a night, by the nights before


@dataclass(frozen=True, slots=True)
class Failures:
    """How many series each night had asked for, and how many of them have no number.

    Attributes:
        runs: the nights, oldest first.
    """

    runs: tuple[str, ...]
    asked: Ints
    failed: Ints


def missing(judged: Judged, series: Sequence[Series]) -> dict[SeriesKey, str]:
    """A sentence for each series that the night finds missing: since when, and what its nights came to."""
    until = {*judged.panel.runs[: judged.column + 1]}
    own = {one.key: [night for night in reversed(one.nights) if night.run in until] for one in series}
    found = {}
    for key, state in zip(judged.panel.keys, judged.states(), strict=True):
        if state is not State.MISSING:
            continue
        without = list(takewhile(lambda night: not night.ok, own[key]))
        verdicts = Counter(night.verdict for night in without)
        told = ", ".join(f"{verdict} in {count}" for verdict, count in verdicts.most_common())
        last = own[key][len(without) :]
        since = f"the last was in night {last[0].run}" if last else "it never had one"
        found[key] = f"{key.id} has no ok record for {format_count(len(without), 'night')}: {told}; {since}."
    return found


def failures(series: Sequence[Series]) -> Failures:
    """The verdicts of all series, night by night; of nights alone that a series was asked for."""
    nights = {(night.at, night.run) for one in series for night in one.nights}
    runs = tuple(run for _, run in sorted(nights))
    column = {run: place for place, run in enumerate(runs)}
    asked, failed = np.zeros(len(runs), np.int64), np.zeros(len(runs), np.int64)
    for one in series:
        for night in one.nights:
            asked[column[night.run]] += 1
            failed[column[night.run]] += not night.ok
    return Failures(runs, asked, failed)


def share_of_not_ok(counted: Failures) -> Floats:
    """The share of each night's series without a number; NaN for a night that asked for none."""
    nothing = np.full(len(counted.runs), np.nan)
    shares: Floats = np.divide(counted.failed, counted.asked, out=nothing, where=counted.asked > 0)
    return shares


def more_than_ever(counted: Failures, column: int = -1) -> str:
    """A sentence where more of a night failed than the nights before let expect; empty where not.

    Failures come together, as of a machine that is gone: a night is told where it is beyond what chance makes
    of the nights before, without the worst of them, and hardly any of them was as bad. The last week is none
    of those, so that what lasts is not the usual at once; until they are enough nothing is told.
    """
    from scipy.stats import betabinom  # type: ignore[import-untyped] # it takes more than a second to import

    column = range(len(counted.runs))[column]
    shares = share_of_not_ok(counted)
    past = np.arange(max(0, column - LAG - WINDOW), max(0, column - LAG))
    usual = past[np.isfinite(shares[past])]
    asked, failed = int(counted.asked[column]), int(counted.failed[column])
    if len(usual) < WARMING or not failed:
        return ""
    odd = int(AS_BAD * len(usual))
    kept = usual[np.argsort(shares[usual], kind="stable")][: len(usual) - odd]
    of, bad = int(counted.asked[kept].sum()), int(counted.failed[kept].sum())
    chance = float(betabinom.sf(failed - 1, asked, bad + 0.5, of - bad + 0.5))  # from Jeffreys' prior
    if chance >= CHANCE or int((shares[usual] >= shares[column]).sum()) > odd:
        return ""
    share, before = 100 * failed / asked, 100 * bad / of
    return (
        f"{failed} of {asked} series have no ok record in night {counted.runs[column]}, "
        f"{share:.0f} %: in the {len(usual)} nights before it was {before:.1f} %."
    )
