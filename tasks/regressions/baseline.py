"""The statistics of the nightly gate: a series' baseline, suspicion from it, confirmation by fresh runs.

All values are natural logarithms of seconds, where a slowdown by a share is a shift. Arrays have a row for
each series and a column for each night; NaN was not measured. The constants were chosen by simulation,
which `tests/tasks/regressions/test_baseline_simulated.py` repeats.
"""

from dataclasses import dataclass, fields

import numpy as np

from tasks.regressions.robust import (
    Bools,
    Floats,
    Ints,
    half_of,
    inner_range,
    memory,
    pseudomedian,
    slope,
    spread,
    trimmed_mean,
)

WINDOW = 60  # nights of a baseline, before those that it leaves out
LAG = 7  # nights that it leaves out: a shift that was missed must not hide in its own baseline
YOUNG = 5  # of fewer than 5 x 7 nights one in five is left out
WARMING = 8  # nights that a baseline needs at least
PAIRED = 15  # nights with a control that the fit of its weight needs at least
SUSPECT_Z = 2.0  # 2 of 100 quiet nights lie beyond it on each side
RERUNS = 5  # fresh runs that a suspect gets the same night
LEAST_RERUNS = 3  # fresh runs that must have a number
LEAST_CHANGE = 0.02  # what nobody would act on
# Number of series, and the z that confirms a change if the spread were known exactly: at most one false
# ticket in 100 nights of all of them. Above the last number it is `STRICTEST`.
THRESHOLDS = ((20, 3.25), (100, 3.6))
STRICTEST = 4.4
# Fresh runs without their extremes must lie within so many spreads, or within half of their change.
AGREEMENT = 2.75
TRIMMED = 0.2  # share of nights at each end that the centre of a baseline leaves out
# Variance of a centre of many normal values, in that of one over their number: an efficiency of 88 %.
CENTRE_VARIANCE = 1.14
# Variance of the pseudomedian of so many standard normal values. Both by simulation, which a test repeats.
RERUN_VARIANCE = {3: 0.341, 4: 0.273, 5: 0.215}
CONTROL_Z = (
    3.0  # spreads from their usual level at which controls show a change of the box, whatever their weight
)
LEAST_SPREAD = 1e-3  # no series is assumed to repeat itself better


def threshold_z(series: int) -> float:
    """Return the z beyond which fresh runs confirm a change, for so many series watched together."""
    return next((z for most, z in THRESHOLDS if series <= most), STRICTEST)


@dataclass(frozen=True, slots=True)
class SeriesLevels:
    """The level of each series since its last change; one value a series, NaN where there is none.

    Attributes:
        segment: first night (column) on its present machine and against its present control.
        start: first night at its present speed: after its last confirmed change.
        seed_s, seed_control_s: log seconds of the fresh runs that confirmed that change: one night's worth.
        spread, beta: of the baseline that it changed from, until enough nights have followed.
    """

    segment: Ints
    start: Ints
    seed_s: Floats
    seed_control_s: Floats
    spread: Floats
    beta: Floats

    @classmethod
    def new(cls, series: int) -> "SeriesLevels":
        """Return the level of so many series without history."""
        first = np.zeros(series, np.int64)
        return cls(first, first.copy(), *(np.full(series, np.nan) for _ in range(4)))


@dataclass(frozen=True, slots=True)
class Baseline:
    """The behaviour of each series before tonight; one value a series.

    Attributes:
        centre: log seconds, adjusted by the control.
        spread: standard deviation of a night.
        memory: correlation of a night with the one before it; 0 where none is shown, or where a control
            captures what persists on a box.
        beta: weight of the control: from 0, where it explains nothing of the series, to 1, where it
            explains all.
        control, control_spread: log seconds that the control usually takes, and their standard deviation.
        nights: number of nights in the centre.
        warming: there are too few of them.
    """

    centre: Floats
    spread: Floats
    memory: Floats
    beta: Floats
    control: Floats
    control_spread: Floats
    nights: Ints
    warming: Bools

    def select(self, rows: Ints) -> "Baseline":
        """Return the baseline of some series alone."""
        return Baseline(*(getattr(self, field.name)[rows] for field in fields(self)))

    def adjusted(self, log_s: Floats, log_control_s: Floats) -> Floats:
        """Return (series, runs) of log seconds without the effect of the box, as far as the control shows it.

        Several controls of one night show more of its box than the single one that the weight was fitted
        to, as a longer test is more reliable. Source: the Spearman-Brown formula, both 1910.
        """
        runs = np.maximum(np.isfinite(log_control_s).sum(axis=1), 1)
        fitted = self.beta * runs / (1 + (runs - 1) * self.beta)
        beta = np.where(self.box_moved(log_control_s), 1.0, fitted)[:, None]
        return np.where(beta > 0, log_s - beta * (log_control_s - self.control[:, None]), log_s)

    def box_moved(self, log_control_s: Floats) -> Bools:
        """Tell whether the controls of (series, runs) are far enough from their usual level to blame the box.

        A single control may be an outlier; several are rarely all.
        """
        if log_control_s.shape[1] < LEAST_RERUNS:
            return np.zeros(len(self.control), np.bool_)
        return np.abs(half_of(log_control_s) - self.control) > CONTROL_Z * self.control_spread

    def error(self, runs: Ints) -> Floats:
        """Return the standard error of a change that so many fresh runs of one night show.

        All runs of a night share what persists from the night before.
        """
        fresh = np.array([RERUN_VARIANCE.get(min(int(count), RERUNS), np.inf) for count in runs])
        shared = self.memory**2
        of_centre = CENTRE_VARIANCE / np.maximum(self.nights, 1) * (1 + self.memory) / (1 - self.memory)
        return self.spread * np.sqrt(fresh * (1 - shared) + shared + of_centre)

    def needed(self, confirm_z: float) -> Floats:
        """Return `confirm_z` as a quantile of t, since the spread itself is estimated from few nights.

        Source: M. Abramowitz and I. A. Stegun, Handbook of Mathematical Functions, 1964, 26.7.5, two terms.
        """
        z, freedom = confirm_z, np.maximum(self.nights, WARMING) - 1
        return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)

    def smallest_change(self, confirm_z: float) -> Floats:
        """Return the share by which each series must change to be detected with even odds; NaN if warming."""
        needed = self.needed(confirm_z) * self.error(np.full(len(self.nights), RERUNS))
        needed = np.maximum(np.maximum(needed, SUSPECT_Z * self.spread), np.log1p(LEAST_CHANGE))
        return np.where(self.warming, np.nan, np.expm1(needed))


def baseline(log_s: Floats, log_control_s: Floats, level: SeriesLevels, alone: Floats) -> Baseline:
    """Return the baseline of each series for the night in the arrays' last column.

    Args:
        log_s, log_control_s: (series, nights).
        level: the level of each series.
        alone: (series,) the weight of the control until it can be fitted: 1 where each night may have another
            box, 0 where all have the same.
    """
    past = _window(log_s, level.start, level.seed_s)
    past_control = _window(log_control_s, level.start, level.seed_control_s)
    controls = _window(
        log_control_s, level.segment, level.seed_control_s
    )  # they don't change with the series
    control, there = half_of(controls), np.isfinite(log_control_s[:, -1])
    unfitted = np.where(np.isfinite(level.beta), level.beta, alone)
    beta = np.where(there, slope(past, past_control, unfitted, PAIRED), 0.0)
    values = np.where(beta[:, None] > 0, past - beta[:, None] * (past_control - control[:, None]), past)
    nights, centre = np.isfinite(values).sum(axis=1), trimmed_mean(values, TRIMMED)
    few, carried = nights < WARMING, np.isfinite(level.spread)
    width = np.maximum(np.where(few & carried, level.spread, spread(values, centre)), LEAST_SPREAD)
    return Baseline(
        centre=centre,
        spread=width,
        memory=np.where(few | there, 0.0, memory((values - centre[:, None])[:, :-1] / width[:, None])),
        beta=beta,
        control=control,
        control_spread=np.maximum(spread(controls, trimmed_mean(controls, TRIMMED)), LEAST_SPREAD),
        nights=nights,
        warming=few & ~(carried & (nights > 0)),
    )


def suspected(log_s: Floats, log_control_s: Floats, before: Baseline) -> tuple[Ints, Floats]:
    """Return +1 for each series that seems slower in the last column, -1 for faster, else 0; and its z.

    A series without a number tonight, or with a warming baseline, is neither.
    """
    moved = before.adjusted(log_s[:, -1:], log_control_s[:, -1:])[:, 0] - before.centre
    z = np.where(before.warming, np.nan, moved / before.spread)
    beyond = (np.abs(z) > SUSPECT_Z) & (np.abs(moved) > np.log1p(LEAST_CHANGE) / 2)
    return np.where(beyond, np.sign(moved), 0).astype(np.int64), z


def confirmed(
    log_s: Floats, log_control_s: Floats, before: Baseline, confirm_z: float
) -> tuple[Ints, Floats, Floats]:
    """Return +1 for each series whose fresh runs are slower, -1 for faster, else 0; the change (log); its z.

    Args:
        log_s, log_control_s: (series, runs), without the suspected night, which was selected for its value.
        before: that night's baseline.
        confirm_z: `threshold_z` of the number of watched series.
    """
    values = before.adjusted(log_s, log_control_s)
    change, runs = pseudomedian(values) - before.centre, np.isfinite(values).sum(axis=1)
    z = change / before.error(runs)
    agree = inner_range(values) <= np.maximum(AGREEMENT * before.spread, np.abs(change) / 2)
    shown = (np.abs(z) > before.needed(confirm_z)) & (np.abs(change) > np.log1p(LEAST_CHANGE)) & agree
    return np.where(shown, np.sign(change), 0).astype(np.int64), change, z


def _window(log_s: Floats, start: Ints, seed: Floats) -> Floats:
    """Return the values of each series that its baseline is made of, its seed last; NaN for the others."""
    tonight = log_s.shape[1] - 1
    left_out = np.minimum(LAG, (tonight - start) // YOUNG)
    first = max(0, tonight - LAG - WINDOW)
    nights = np.arange(first, tonight)
    there = (nights >= start[:, None]) & (nights < (tonight - left_out)[:, None])
    return np.concatenate([np.where(there, log_s[:, first:tonight], np.nan), seed[:, None]], axis=1)
