"""Earlier rules, for comparison in simulations."""

import math
import statistics
from collections.abc import Sequence
from unittest import mock

import numpy as np

from tasks.findings.totals import half_width
from tasks.regressions import baseline
from tasks.regressions.baseline import EFFICIENCY, LAG, PAIRED, YOUNG
from tasks.regressions.change import Sample
from tasks.results.values import Estimate
from workloads.harness.records.intervals import MAD_TO_SD, ratio_interval, t_quantile, variance

SHOWING_CELLS = 5


def gate_exit(
    sides: Sequence[tuple[Sample, Sample]], confidence: float, least: float
) -> tuple[int, list[bool]]:
    """Return the exit code and slower cells by the earlier run gate, the MAD of cells' changes.

    A cell was undecided only if it would not have shown a doubling.
    """
    intervals = [ratio_interval(now.seconds, before.seconds, confidence) for now, before in sides]
    logs = np.log([interval.value for interval in intervals])
    halves = [math.log(interval.high / interval.low) / 2 for interval in intervals]
    if len(sides) >= SHOWING_CELLS:
        explained = [
            sum(variance([math.log(s) for s in side.seconds]) / len(side.seconds) for side in pair)
            for pair in sides
        ]
        freedom = len(logs) - 1
        apart = (MAD_TO_SD * float(np.median(np.abs(logs - np.median(logs))))) ** 2 * len(logs) / freedom
        own = math.sqrt(max(apart - statistics.fmean(explained), 0.0))
        shared = t_quantile(0.5 + confidence / 2, EFFICIENCY * freedom) * own
        halves = [math.hypot(half, shared) for half in halves]
    slower = [log > half and log > math.log1p(least) for log, half in zip(logs, halves, strict=True)]
    decided = [abs(log) > half or half <= math.log(2) for log, half in zip(logs, halves, strict=True)]
    return 1 if any(slower) else 0 if any(decided) else 3, slower


def mean_of_cells(logs: Sequence[list[float]], others: Sequence[list[float]] = ()) -> Estimate:
    """Return the geometric mean of times, or of ratios to others', as if cells were independent."""
    mean = statistics.fmean(map(statistics.fmean, logs))
    mean -= statistics.fmean(map(statistics.fmean, others)) if others else 0.0
    half = half_width([(1 / len(logs), of_cell) for of_cell in (*logs, *others)]) or 0.0
    return Estimate(math.exp(mean), math.exp(mean - half), math.exp(mean + half))


def young_series() -> mock._patch:
    """Return a patch after which a control counts from its fifteenth night, the earlier rule."""

    def unfitted(nights, level, alone, control_sd, of_others):
        return np.where(np.isfinite(level.beta), level.beta, alone)

    def weight(fitted, pairs, otherwise):
        return np.where(pairs >= PAIRED, fitted, otherwise)

    def left_out(nights, unseeded):
        carried = np.clip(nights - baseline.CARRIED, 0, LAG)
        return np.where(unseeded, carried, np.minimum(LAG, nights // YOUNG))

    return mock.patch.multiple(baseline, _unfitted=unfitted, fitted_weight=weight, _left_out=left_out)
