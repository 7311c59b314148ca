"""Series side by side: a row for each, a column for each night, as the gate takes them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from tasks.regressions.baseline import Nights
from tasks.regressions.robust import Bools, Floats, Ints, median_variance, typical_variance
from tasks.regressions.series import Series, SeriesKey


@dataclass(frozen=True, slots=True)
class SeriesPanel:
    """Series of one channel; arrays are (series, nights), log seconds, NaN where there is no number.

    Attributes:
        runs: the night of each column, oldest first.
        own, own_control: variance that a number has by its own repeats, so that the median over nights is the
            true one; NaN where there was only one repeat.
        segment: column in which the series' segment began, as it was known in each night.
        alike: what a number varies by is as in the segment before: only machine or control changed.
        missed: number of the series' own nights in a row, up to this one, that have no number.
        alone: (series,) weight of a control until it can be fitted: 1 where nights were on several boxes.
        planned: (series,) the newest night had planned it.
    """

    keys: tuple[SeriesKey, ...]
    runs: tuple[str, ...]
    log_s: Floats
    log_control_s: Floats
    own: Floats
    own_control: Floats
    segment: Ints
    alike: Bools
    missed: Ints
    alone: Floats
    planned: Bools

    def select(self, rows: Ints) -> "SeriesPanel":
        """Return some series alone."""
        keys = tuple(self.keys[row] for row in rows)
        arrays = (getattr(self, field.name)[rows] for field in fields(self)[2:])
        return SeriesPanel(keys, self.runs, *arrays)

    def until(self, column: int) -> Nights:
        """Return the nights up to a column."""
        sides = (self.log_s, self.log_control_s, self.own, self.own_control)
        return Nights(*(side[:, : column + 1] for side in sides))


def panel_of(all_series: Sequence[Series]) -> SeriesPanel:
    """Return the panel of these series, with a column for each night of any of them, in the order of time."""
    nights = {(night.at, night.run) for series in all_series for night in series.nights}
    runs = tuple(run for _, run in sorted(nights))
    columns = {run: index for index, run in enumerate(runs)}
    shape = (len(all_series), len(runs))
    log_s, log_control_s, own, own_control = (np.full(shape, np.nan) for _ in range(4))
    segment, missed = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    alike = np.zeros(shape, np.bool_)
    for row, series in enumerate(all_series):
        changes, absent = series.changes, 0
        for index, night in enumerate(series.nights):
            column, absent = columns[night.run], 0 if night.ok else absent + 1
            log_s[row, column], log_control_s[row, column] = _log(night.seconds), _log(night.control_s)
            own[row, column] = _own(night.variance, night.repeats)
            own_control[row, column] = _own(night.control_variance, night.repeats)
            missed[row, column:] = absent
            if index in changes:
                segment[row, column:], alike[row, column:] = column, "settings" not in changes[index]
    return SeriesPanel(
        keys=tuple(series.key for series in all_series),
        runs=runs,
        log_s=log_s,
        log_control_s=log_control_s,
        own=own,
        own_control=own_control,
        segment=segment,
        alike=alike,
        missed=missed,
        alone=np.array([float(_boxes(series) > 1) for series in all_series]),
        planned=np.array([series.planned for series in all_series], np.bool_),
    )


def _boxes(series: Series) -> int:
    return len({night.hostname for night in series.nights} - {""})


def _own(variance: float | None, repeats: int) -> float:
    """Return the variance of a median by the variance of its repeats; NaN for a single one."""
    if variance is None or repeats < 2:
        return math.nan
    return typical_variance(variance, repeats) * median_variance(repeats)


def _log(seconds: float | None) -> float:
    return math.log(seconds) if seconds else math.nan
