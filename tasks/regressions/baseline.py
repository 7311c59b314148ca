"""The baseline of a series: centre and spread.

Values are natural logarithms of seconds; arrays are (series, nights), NaN for not measured.
`tests/tasks/regressions/test_nights_simulated.py` repeats the simulations behind the constants.
"""

from dataclasses import dataclass, fields, replace

import numpy as np

from tasks.regressions.robust import (
    LEAST_SPREAD,
    Bools,
    Floats,
    Ints,
    half_of,
    memory,
    pseudomedian,
    slope,
    spread,
    trimmed_mean,
    two_modes,
)

WINDOW = 60  # nights of a baseline
LAG = 7  # newest nights that it leaves out: a missed shift must not hide in its baseline
YOUNG = 5  # of fewer than 5 x 7 nights one in five is left out
WARMING = 8  # fewest nights of a baseline
CARRIED = 3  # the same if its spread is known from before the machine changed
PAIRED = 15  # nights with a control from which its weight is fitted by these alone
FEWEST_PAIRED = 3  # nights that do not show the weight at all
SUSPECT_Z = 2.0  # 2 of 100 quiet nights lie beyond it on each side
RERUNS = 5  # fresh runs of a suspect in the same night
LEAST_RERUNS = 3  # fewest of them with a number
LEAST_CHANGE = 0.02  # smaller changes are of no interest
# Number of series, and the z that confirms a change if the spread were known exactly: at most one false
# ticket in 100 nights of all of them. Above the last number it is `STRICTEST`.
THRESHOLDS = ((20, 3.25), (100, 3.4))
STRICTEST = 3.6
TRIMMED = 0.2  # share of nights at each end that the centre of a baseline leaves out
# Variance of a centre of many normal values, relative to that of one over their number: an efficiency of 88 %.
CENTRE_VARIANCE = 1.14
EFFICIENCY = 0.6  # of the spread, in degrees of freedom: deciles and MAD of normal values
# Variance of the pseudomedian of 3, 4, 5 standard normal values, by a simulation that a test repeats.
RERUN_VARIANCE = {3: 0.341, 4: 0.273, 5: 0.215}
AROUND_MODES = 1.4  # factor for the spread around two modes, which is too narrow if one mode was split
CONTROLS_Z = 2.5  # standard errors of fresh controls together at which they show the same
# Assumed share of series whose fresh runs have nothing in common, though all runs of a night seem to.
SEPARATE = 0.1
CONTROL_Z = 3.0  # spreads from their usual level at which controls show a change of the machine, whatever their weight


def threshold_z(series: int) -> float:
    """Return the z beyond which fresh runs confirm a change."""
    return next((z for most, z in THRESHOLDS if series <= most), STRICTEST)


@dataclass(frozen=True, slots=True)
class Nights:
    """Nights as log seconds, the last one tonight.

    Attributes:
        own, own_control: variance over repeats; NaN for one repeat.
        together: covariance of repeats and their controls; NaN for one repeat.
    """

    log_s: Floats
    log_control_s: Floats
    own: Floats
    own_control: Floats
    together: Floats


@dataclass(frozen=True, slots=True)
class SeriesLevels:
    """The level of each series since its last change; NaN for none.

    Attributes:
        segment: first night on its present machine with its present control.
        start: first night after its last confirmed change.
        seed_s, seed_control_s: log seconds of the confirming fresh runs, as one night.
        spread, beta, shared, freedom: from before the change, until enough nights follow.
        flaps: a change within `WINDOW` nights was undone within `LAG`.
    """

    segment: Ints
    start: Ints
    seed_s: Floats
    seed_control_s: Floats
    spread: Floats
    beta: Floats
    shared: Floats
    freedom: Floats
    flaps: Bools

    @classmethod
    def new(cls, series: int) -> "SeriesLevels":
        first = np.zeros(series, np.int64)
        seed_s, seed_control_s, width, beta, shared, freedom = np.full((6, series), np.nan)
        flaps = np.zeros(series, np.bool_)
        return cls(first, first.copy(), seed_s, seed_control_s, width, beta, shared, freedom, flaps)

    @property
    def carried(self) -> Bools:
        return np.isfinite(self.spread)

    @property
    def unseeded(self) -> Bools:
        """Return those without fresh runs: machine or control changed."""
        return self.carried & ~np.isfinite(self.seed_s)


@dataclass(frozen=True, slots=True)
class Baseline:
    """The behaviour of each series before tonight.

    Attributes:
        centre: log seconds, adjusted by the control.
        spread: standard deviation of a night.
        shared: share of its variance common to a night's runs.
        memory: correlation of successive nights; 0 if not shown, or explained by a control.
        beta: weight of the control, 0 to 1.
        control, control_spread: usual log seconds of the control, and their standard deviation.
        nights: in the centre.
        recent: (series, nights) distances of later nights from the centre, newest first.
        flaps: a recent change was soon undone.
        apart: half the distance between two modes, such as two kinds of host, or 0; the spread is around
            each.
        recent_variance: relative to a night, since its control has more weight.
        recent_control: (series, nights) distances of the control from its usual level.
        control_error: standard deviation of one control by its repeats; infinity if unknown.
    """

    centre: Floats
    spread: Floats
    shared: Floats
    memory: Floats
    beta: Floats
    control: Floats
    control_spread: Floats
    nights: Ints
    freedom: Floats
    warming: Bools
    recent: Floats
    flaps: Bools
    apart: Floats
    recent_variance: Floats
    recent_control: Floats
    control_error: Floats

    def select(self, rows: Ints) -> "Baseline":
        return Baseline(*(getattr(self, field.name)[rows] for field in fields(self)))

    def adjusted(self, log_s: Floats, log_control_s: Floats) -> Floats:
        """Return log seconds (series, runs) less the machine's effect on controls."""
        runs = np.maximum(np.isfinite(log_control_s).sum(axis=1), 1)
        beta = np.where(self.box_moved(log_control_s), 1.0, of_several(self.beta, runs))
        return less(log_s, beta, log_control_s, self.control)

    def box_moved(self, log_control_s: Floats) -> Bools:
        """Return whether controls (series, runs) show that the machine changed."""
        if log_control_s.shape[1] < LEAST_RERUNS:
            return np.zeros(len(self.control), np.bool_)
        return np.abs(half_of(log_control_s) - self.control) > CONTROL_Z * self.control_spread

    def of_fresh_runs(self, log_s: Floats, log_control_s: Floats) -> tuple[Floats, Bools]:
        """Return `adjusted` runs, and the series whose controls have all the weight.

        A control has no weight on a machine that never moved. If fresh controls moved by more than noise, the
        machine did: they can explain a change, but not make one.
        """
        values, whole = self.adjusted(log_s, log_control_s), np.ones(len(self.beta))
        full = less(log_s, whole, log_control_s, self.control)
        error = self.control_error * np.sqrt(_rerun_variance(np.isfinite(log_control_s).sum(axis=1)))
        has_moved = np.abs(pseudomedian(log_control_s) - self.control) > CONTROLS_Z * error
        sizes = [np.abs(pseudomedian(side) - self.centre) for side in (full, values)]
        explains = has_moved & (sizes[0] < sizes[1])
        return np.where(explains[:, None], full, values), explains | self.box_moved(log_control_s)

    def of_one_mode(self, distance: Floats) -> Floats:
        """Return distances from the nearer mode; 0 between the modes."""
        apart = self.apart if distance.ndim == 1 else self.apart[:, None]
        nearer: Floats = np.sign(distance) * np.maximum(np.abs(distance) - apart, 0.0)
        return nearer

    def beside(self, moved: Bools) -> "Baseline":
        """Return it with the control's full weight in recent nights if the machine moved."""
        left = np.where(moved, 1 - of_several(self.beta, LAG), 0.0)[:, None]
        recent = self.recent - np.where(left > 0, left * self.recent_control, 0.0)
        variance = np.where(moved, self.of_full_weight, self.recent_variance)
        return replace(self, recent=recent, recent_variance=variance)

    @property
    def of_full_weight(self) -> Floats:
        """Return a number's variance less its control, relative to a night's."""
        variance: Floats = 2 / (1 + self.beta**2)
        return variance

    @property
    def whole_spread(self) -> Floats:
        """Return the standard deviation over both modes."""
        return np.hypot(self.spread, self.apart)

    @property
    def whole_shared(self) -> Floats:
        """Return the share of variance that runs of a night share, with the mode."""
        shared: Floats = 1 - (1 - self.shared) * (self.spread / self.whole_spread) ** 2
        return shared

    @property
    def of_centre(self) -> Floats:
        """Return the centre's variance relative to a night's."""
        return CENTRE_VARIANCE / np.maximum(self.nights, 1) * (1 + self.memory) / (1 - self.memory)

    def of_fresh(self, runs: Ints, separate: Floats | float = 0.0) -> Floats:
        """Return the variance of one night's fresh runs together, relative to a night's.

        More runs do not reduce the shared part. `separate`: chance that there is none.
        """
        shared = self.shared * (1 - separate)
        return _rerun_variance(runs) * (1 - shared) + shared

    def needed(self, confirm_z: float) -> Floats:
        """Return `confirm_z` as a quantile of t.

        Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 1964, 26.7.5, two terms.
        """
        z, freedom = confirm_z, EFFICIENCY * self.freedom
        return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)

    def smallest_change(self, confirm_z: float) -> Floats:
        """Return the share that one night detects with even odds."""
        error = self.spread * np.sqrt(self.of_fresh(np.full(len(self.nights), RERUNS)) + self.of_centre)
        needed = np.maximum(self.needed(confirm_z) * error, SUSPECT_Z * self.spread)
        return np.where(self.warming, np.nan, np.expm1(np.maximum(needed, np.log1p(LEAST_CHANGE))))


def baseline(nights: Nights, level: SeriesLevels, alone: Floats, hardware: Ints) -> Baseline:
    """Return baselines for the last night.

    Args:
        alone: (series,) nights can be on different machines: the control's weight is 1 until fitted.
        hardware: (series,) a number for each hardware.
    """
    log_s, log_control_s, there = nights.log_s, nights.log_control_s, np.isfinite(nights.log_control_s[:, -1])
    tonight = log_s.shape[1] - 1
    end = tonight - _left_out(tonight - level.start, level.unseeded)
    past, past_control = (
        _window(values, level.start, end, seed)
        for values, seed in ((log_s, level.seed_s), (log_control_s, level.seed_control_s))
    )
    segment_end = tonight - _left_out(tonight - level.segment, level.unseeded)
    controls = _window(log_control_s, level.segment, segment_end, level.seed_control_s)
    control, control_sd = half_of(controls), spread(controls, trimmed_mean(controls, TRIMMED))
    fitted, pairs = slope(past, past_control)
    unfitted = _unfitted(nights, level, alone, control_sd, _of_others(fitted, pairs, hardware))
    beta = np.where(there, fitted_weight(fitted, pairs, unfitted), 0.0)
    values = less(past, beta, past_control, control)
    count, centre = np.isfinite(values).sum(axis=1), trimmed_mean(values, TRIMMED)
    few = count < WARMING
    kept = few & level.carried
    middle, apart, around = two_modes(values)
    centre = np.where(apart > 0, middle, centre)
    width = np.where(apart > 0, AROUND_MODES * around, np.where(kept, level.spread, spread(values, centre)))
    width = np.maximum(width, LEAST_SPREAD)
    nothing = np.full(len(beta), np.nan)
    of_control = half_of(_window(nights.own_control, level.segment, segment_end, nothing))
    shared = np.where(kept, level.shared, _shared(nights, level.start, end, beta, width))
    return Baseline(
        centre=centre,
        spread=width,
        shared=shared,
        memory=np.where(few, 0.0, memory((values - centre[:, None])[:, :-1] / width[:, None])),
        beta=beta,
        control=control,
        control_spread=np.maximum(control_sd, LEAST_SPREAD),
        nights=count,
        freedom=np.maximum(np.where(kept, level.freedom, count - 1.0), WARMING - 1.0),
        warming=few & ~(level.carried & (count >= np.where(level.unseeded, CARRIED, 1))),
        recent=_recent(nights, end, of_several(beta, LAG), control) - centre[:, None],
        flaps=level.flaps,
        apart=apart,
        recent_variance=(1 + of_several(beta, LAG) ** 2) / (1 + beta**2),
        recent_control=_left_out_of(nights.log_control_s, end) - control[:, None],
        control_error=np.sqrt(np.nan_to_num(of_control, nan=np.inf)),
    )


def fitted_weight(fitted: Floats, pairs: Ints, otherwise: Floats) -> Floats:
    """Return the weight by pairs of nights, mixed with `otherwise` if few."""
    share = np.clip((pairs - FEWEST_PAIRED) / (PAIRED - FEWEST_PAIRED), 0.0, 1.0)
    weight: Floats = share * fitted + (1 - share) * otherwise
    return weight


def _of_others(fitted: Floats, pairs: Ints, hardware: Ints) -> Floats:
    weights, known = np.full(len(fitted), np.nan), pairs >= PAIRED
    for number in np.unique(hardware[~known]):
        own = hardware == number
        if (known & own).any():
            weights[own] = np.median(fitted[known & own])
    return weights


def _unfitted(
    nights: Nights, level: SeriesLevels, alone: Floats, control_sd: Floats, of_others: Floats
) -> Floats:
    """Return the weight of a control with too few nights.

    Its true weight is 1. Noise lowers that to the share of its variance that its repeats do not explain
    (Fuller, Measurement Error Models, 1987, 1.1). If this is small, other series of the hardware and repeats
    within nights give the weight.
    """
    nothing, tonight = np.full(len(alone), np.nan), np.full(len(alone), nights.log_s.shape[1] - 1)
    own, together = (
        _window(values, level.segment, tonight, nothing) for values in (nights.own_control, nights.together)
    )
    both = np.where(np.isfinite(together), own, np.nan)
    noise, covered = np.nansum(both, axis=1), np.nansum(together, axis=1)
    within = np.divide(covered, noise, out=nothing.copy(), where=noise > 0)
    known = np.stack([of_others, np.clip(within, 0.0, 1.0)])
    count = np.isfinite(known).sum(axis=0)
    shown = np.nansum(known, axis=0) / np.maximum(count, 1)
    moved = np.nan_to_num(1 - half_of(own) / np.maximum(control_sd, LEAST_SPREAD) ** 2)
    weight = shown + (1 - shown) * np.clip(moved, 0.0, 1.0)
    return np.where(np.isfinite(level.beta), level.beta, np.where(alone > 0, 1.0, weight))


def of_several(beta: Floats, controls: Ints | int) -> Floats:
    """Return the weight of several controls from one's.

    Source: the Spearman-Brown formula, both 1910.
    """
    weight: Floats = beta * controls / (1 + (controls - 1) * beta)
    return weight


def _left_out(nights: Ints, unseeded: Bools) -> Ints:
    """Return how many nights of a level its baseline leaves out.

    A few nights make a centre if the spread is known.
    """
    young = np.clip(nights - WARMING, 0, np.minimum(LAG, nights // YOUNG))
    return np.where(unseeded, np.clip(nights - CARRIED, 0, LAG), young)


def _shared(nights: Nights, start: Ints, end: Ints, beta: Floats, width: Floats) -> Floats:
    nothing, sides = np.full(len(beta), np.nan), (nights.own, nights.own_control)
    own, control = (half_of(_window(values, start, end, nothing)) for values in sides)
    explained = np.where(beta > 0, own + beta**2 * control, own)
    unknown = np.where(np.isfinite(nights.log_control_s[:, -1]), 0.0, 1.0)
    return np.where(np.isfinite(explained), np.clip(1 - explained / width**2, 0.0, 1.0), unknown)


def _recent(nights: Nights, end: Ints, beta: Floats, control: Floats) -> Floats:
    log_s, log_control_s = _left_out_of(nights.log_s, end), _left_out_of(nights.log_control_s, end)
    return less(log_s, beta, log_control_s, control)


def _left_out_of(values: Floats, end: Ints) -> Floats:
    last, recent = values.shape[1] - 1, values[:, -LAG - 1 : -1]
    left_out = np.arange(last - recent.shape[1], last) >= end[:, None]
    return np.where(left_out, recent, np.nan)[:, ::-1]


def _rerun_variance(runs: Ints) -> Floats:
    return np.array([RERUN_VARIANCE.get(min(int(count), RERUNS), np.inf) for count in runs])


def less(log_s: Floats, beta: Floats, log_control_s: Floats, control: Floats) -> Floats:
    """Return log seconds less the control's distance from its usual level."""
    return np.where(beta[:, None] > 0, log_s - beta[:, None] * (log_control_s - control[:, None]), log_s)


def _window(values: Floats, start: Ints, end: Ints, seed: Floats) -> Floats:
    """Return values from `start` to before `end`, the seed last; NaN elsewhere."""
    tonight = values.shape[1] - 1
    first = max(0, tonight - LAG - WINDOW)
    nights = np.arange(first, tonight)
    there = (nights >= start[:, None]) & (nights < end[:, None])
    return np.concatenate([np.where(there, values[:, first:tonight], np.nan), seed[:, None]], axis=1)
