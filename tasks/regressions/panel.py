"""Series as arrays for the gate, by night."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from tasks.regressions.baseline import Nights
from tasks.regressions.robust import Bools, Floats, Ints, median_variance, typical_variance
from tasks.regressions.series import Observation, Series, SeriesKey


@dataclass(frozen=True, slots=True)
class SeriesPanel:
    """One channel as (series, nights) of log seconds, NaN without a number.

    Attributes:
        runs: nights by column, oldest first.
        own, own_control: variance over repeats within sessions, scaled so that the median over nights is
            true; NaN if each session has one repeat.
        together: covariance of repeats and controls, scaled alike.
        segment: column of its begin, as known in each night.
        alike: only machine or control changed, so numbers vary as before.
        missed: consecutive nights without a number.
        alone: (series,) weight of a control until fitted: 1 if nights were on several machines.
        hardware: (series,) a number for each hardware.
        planned: (series,) by the newest night.
    """

    keys: tuple[SeriesKey, ...]
    runs: tuple[str, ...]
    log_s: Floats
    log_control_s: Floats
    own: Floats
    own_control: Floats
    together: Floats
    segment: Ints
    alike: Bools
    missed: Ints
    alone: Floats
    hardware: Ints
    planned: Bools

    def select(self, rows: Ints) -> "SeriesPanel":
        keys = tuple(self.keys[row] for row in rows)
        arrays = (getattr(self, field.name)[rows] for field in fields(self)[2:])
        return SeriesPanel(keys, self.runs, *arrays)

    def until(self, column: int) -> Nights:
        sides = (self.log_s, self.log_control_s, self.own, self.own_control, self.together)
        return Nights(*(side[:, : column + 1] for side in sides))


def panel_of(all_series: Sequence[Series]) -> SeriesPanel:
    """Return nights as columns, oldest first."""
    nights = {(night.at, night.run) for series in all_series for night in series.nights}
    runs = tuple(run for _, run in sorted(nights))
    columns = {run: index for index, run in enumerate(runs)}
    shape = (len(all_series), len(runs))
    log_s, log_control_s, own, own_control, together = (np.full(shape, np.nan) for _ in range(5))
    machines = {series.key.hardware: number for number, series in enumerate(all_series)}
    segment, missed = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    alike = np.zeros(shape, np.bool_)
    for row, series in enumerate(all_series):
        changes, absent = series.changes, 0
        for index, night in enumerate(series.nights):
            column, absent = columns[night.run], 0 if night.ok else absent + 1
            log_s[row, column], log_control_s[row, column] = _log(night.seconds), _log(night.control_s)
            own[row, column] = _own(night.variance, night)
            own_control[row, column] = _own(night.control_variance, night)
            together[row, column] = _own(night.covariance, night)
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
        together=together,
        segment=segment,
        alike=alike,
        missed=missed,
        alone=np.array([float(len({n.hostname for n in s.nights} - {""}) > 1) for s in all_series]),
        hardware=np.array([machines[series.key.hardware] for series in all_series], np.int64),
        planned=np.array([series.planned for series in all_series], np.bool_),
    )


def _own(variance: float | None, night: Observation) -> float:
    if variance is None or night.repeats <= night.sessions:
        return math.nan
    return typical_variance(variance, night.repeats - night.sessions + 1) * median_variance(night.repeats)


def _log(seconds: float | None) -> float:
    return math.log(seconds) if seconds else math.nan
