"""Series side by side: a row for each, a column for each night, as the gate takes them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tasks.regressions.baseline import Bools, Floats, Ints
from tasks.regressions.series import Series, SeriesKey


@dataclass(frozen=True, slots=True)
class Panel:
    """Series of one channel; arrays are (series, nights), log seconds, NaN for what has no ok number.

    Attributes:
        runs: the night of each column, oldest first.
        segment: column in which the series' segment began, as it was known in each night.
        missed: how many nights of its own in a row, the last one this, have no number.
        alone: (series,) weight of a control until it can be fitted: 1 where nights were on several boxes.
        asked: (series,) whether the newest night had planned it.
    """

    keys: tuple[SeriesKey, ...]
    runs: tuple[str, ...]
    log_s: Floats
    log_control_s: Floats
    segment: Ints
    missed: Ints
    alone: Floats
    asked: Bools


def panel_of(series: Sequence[Series]) -> Panel:
    """The panel of these series. Each night of any is a column, in the order of their times."""
    nights = {(night.at, night.run) for one in series for night in one.nights}
    runs = tuple(run for _, run in sorted(nights))
    column = {run: place for place, run in enumerate(runs)}
    shape = (len(series), len(runs))
    log_s, log_control_s = np.full(shape, np.nan), np.full(shape, np.nan)
    segment, missed = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for row, one in enumerate(series):
        changes, absent = one.changes, 0
        for index, night in enumerate(one.nights):
            place, absent = column[night.run], 0 if night.ok else absent + 1
            log_s[row, place], log_control_s[row, place] = _log(night.seconds), _log(night.control_s)
            missed[row, place:] = absent
            if index in changes:
                segment[row, place:] = place
    return Panel(
        keys=tuple(one.key for one in series),
        runs=runs,
        log_s=log_s,
        log_control_s=log_control_s,
        segment=segment,
        missed=missed,
        alone=np.array([float(_boxes(one) > 1) for one in series]),
        asked=np.array([one.asked for one in series], np.bool_),
    )


def _boxes(series: Series) -> int:
    return len({night.hostname for night in series.nights} - {""})


def _log(seconds: float | None) -> float:
    return math.log(seconds) if seconds else math.nan
