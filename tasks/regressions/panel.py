"""Series side by side: a row for each, a column for each night, as the gate takes them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tasks.regressions.robust import Bools, Floats, Ints
from tasks.regressions.series import Series, SeriesKey


@dataclass(frozen=True, slots=True)
class SeriesPanel:
    """Series of one channel; arrays are (series, nights), log seconds, NaN where there is no ok number.

    Attributes:
        runs: the night of each column, oldest first.
        segment: column in which the series' segment began, as it was known in each night.
        missed: number of the series' own nights in a row, up to this one, that have no number.
        alone: (series,) weight of a control until it can be fitted: 1 where nights were on several boxes.
        planned: (series,) the newest night had planned it.
    """

    keys: tuple[SeriesKey, ...]
    runs: tuple[str, ...]
    log_s: Floats
    log_control_s: Floats
    segment: Ints
    missed: Ints
    alone: Floats
    planned: Bools


def panel_of(all_series: Sequence[Series]) -> SeriesPanel:
    """Return the panel of these series, with a column for each night of any of them, in the order of time."""
    nights = {(night.at, night.run) for series in all_series for night in series.nights}
    runs = tuple(run for _, run in sorted(nights))
    columns = {run: index for index, run in enumerate(runs)}
    shape = (len(all_series), len(runs))
    log_s, log_control_s = np.full(shape, np.nan), np.full(shape, np.nan)
    segment, missed = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for row, series in enumerate(all_series):
        changes, absent = series.changes, 0
        for index, night in enumerate(series.nights):
            column, absent = columns[night.run], 0 if night.ok else absent + 1
            log_s[row, column], log_control_s[row, column] = _log(night.seconds), _log(night.control_s)
            missed[row, column:] = absent
            if index in changes:
                segment[row, column:] = column
    return SeriesPanel(
        keys=tuple(series.key for series in all_series),
        runs=runs,
        log_s=log_s,
        log_control_s=log_control_s,
        segment=segment,
        missed=missed,
        alone=np.array([float(_boxes(series) > 1) for series in all_series]),
        planned=np.array([series.planned for series in all_series], np.bool_),
    )


def _boxes(series: Series) -> int:
    return len({night.hostname for night in series.nights} - {""})


def _log(seconds: float | None) -> float:
    return math.log(seconds) if seconds else math.nan
