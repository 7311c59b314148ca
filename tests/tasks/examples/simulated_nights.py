"""The gate's own functions over simulated histories whose truth is known.

Every history is an independent series. Nights from `QUIET` on are judged.
"""

import math
from dataclasses import dataclass

import numpy as np

from tasks.regressions.nightly_gate import confirm_suspects, screen
from tasks.regressions.panel import SeriesPanel
from tasks.regressions.robust import median_variance, typical_variance
from tasks.regressions.series import FreshRuns, SeriesKey
from tasks.regressions.tickets import leaks
from tests.tasks.examples.night_noise import REPEATS, Noise

QUIET, WATCHED = 75, 100
SLOWDOWN = math.log(1.05)


@dataclass(frozen=True)
class Plan:
    """How many series are watched, and from which night on they are slower or on another machine."""

    series: int = 20
    shift: float = 0.0
    shifted: int = QUIET
    moved: int = 0
    nights: int = QUIET + WATCHED


@dataclass(frozen=True)
class Filed:
    row: int
    night: int  # of those that are judged
    share: float
    kind: str = "night"


def filed(noise: Noise, plan: Plan, weekly=False, first=QUIET) -> list[Filed]:
    panel = panel_of(noise, plan)
    rows_of = {key: row for row, key in enumerate(panel.keys)}
    changes, leaked, told = [], [], []
    for column in range(first, plan.nights):
        judged = screen(panel, changes, column)
        if (rows := np.flatnonzero(judged.signs)).size:
            seconds, controls = noise.fresh(rows, column)
            seconds = seconds + added(plan)[column]
            runs = zip(np.exp(seconds), np.exp(controls), strict=True)
            fresh = {panel.keys[row]: FreshRuns(*map(tuple, of)) for row, of in zip(rows, runs, strict=True)}
            new = [result.confirmed for result in confirm_suspects(judged, fresh) if result.confirmed]
            told += [Filed(rows_of[change.key], column - QUIET, change.share) for change in new]
            changes += new
        for ticket in leaks(panel, column, changes, leaked) if weekly else ():
            key = SeriesKey(ticket.hardware, ticket.cases[0], "main")
            leaked.append(("", ticket))
            told.append(Filed(rows_of[key], column - QUIET, ticket.share, "week"))
    return told


def added(plan: Plan):
    night = np.arange(plan.nights)
    return plan.shift * (night >= plan.shifted) + 0.3 * ((night >= plan.moved) & (plan.moved > 0))


def panel_of(noise: Noise, plan: Plan) -> SeriesPanel:
    log_s = noise.series.log_s[:, : plan.nights] + added(plan)
    shape, moved = log_s.shape, np.arange(plan.nights) >= max(plan.moved, 1)
    return SeriesPanel(
        keys=tuple(SeriesKey("box", f"case-{row:04}", "main") for row in range(shape[0])),
        runs=tuple(f"night-{night:03}" for night in range(plan.nights)),
        log_s=log_s,
        log_control_s=noise.control.log_s[:, : plan.nights],
        own=own(noise.series.variance[:, : plan.nights]),
        own_control=own(noise.control.variance[:, : plan.nights]),
        together=own(noise.covariance[:, : plan.nights]),
        segment=np.broadcast_to(plan.moved * moved, shape),
        alike=np.broadcast_to((plan.moved > 0) & moved, shape),
        missed=np.zeros(shape, np.int64),
        alone=np.full(shape[0], noise.alone),
        hardware=np.arange(shape[0]),
        planned=np.arange(shape[0]) < plan.series,
    )


def own(variance):
    return typical_variance(variance, REPEATS) * median_variance(REPEATS)


def false_tickets(noise: Noise, series=20, weekly=False, kind=None):
    """Return tickets of slowdowns in 100 nights of an unchanged series."""
    told = filed(noise, Plan(series), weekly)
    return sum(each.share > 0 and kind in (None, each.kind) for each in told) / len(noise.series.log_s)


def named_within(noise: Noise, plan: Plan, nights=(1, 3, 7)):
    """Return the share of histories whose slowdown is named within this many nights."""
    first = {}
    for each in filed(noise, plan, first=plan.shifted):
        if each.share > 0:
            first.setdefault(each.row, each.night + QUIET - plan.shifted)
    delays = np.array([first.get(row, 99) for row in range(len(noise.series.log_s))])
    return [float(np.mean(delays < count)) for count in nights]


def slowed(series=20, **more):
    return Plan(series, **{"shift": SLOWDOWN, "nights": QUIET + 14, **more})
