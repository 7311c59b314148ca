"""The ratio of two cards' times, by rates and shared cases."""

import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from tasks.planning.hardware import DEPLOYMENTS
from tasks.schema import Strict, read_mapping, validated

LEVEL = 0.9  # of the intervals of predictions
Share = Annotated[float, Field(ge=0, le=1)]
Variance = Annotated[float, Field(gt=0, le=10)]


class Spread(Strict):
    """How far published times differ from data sheets, as variances of logs: `prediction.yaml`.

    `tests/benchmarks/cards.py` fits and writes it.

    Attributes:
        compute, memory: of two cards' effective rates over data sheets'; `together` is their covariance.
        workload: of one workload, beyond the rates.
        freedom: weight against the cards' own scatter, in cases.
        times: half-width of a 90 % interval in standard deviations, by conformal prediction.
        box, software: of two boxes alike, and of two releases.
        share, share_sd: of a training's time that computing bounds.
    """

    compute: Variance
    memory: Variance
    together: Annotated[float, Field(ge=-10, le=10)]
    workload: Variance
    freedom: Annotated[float, Field(gt=0, le=1000)]
    times: Annotated[float, Field(gt=0, le=100)]
    box: Variance
    software: Variance
    share: Share
    share_sd: Share
    source: str


class Rates(NamedTuple):
    """A machine's highest FLOP/s in a precision, and bytes/s."""

    compute: float
    memory: float


class SharedCase(NamedTuple):
    """A case measured on both cards.

    `weight`: share of its time that computing bounds on the second card; `log_excess`: log of the ratio of
    times over that by rates.
    """

    weight: float
    log_excess: float


@cache
def load_spread(folder: Path = DEPLOYMENTS) -> Spread:
    """Read `prediction.yaml`.

    Raises:
        GridbenchError: the file has a mistake.
    """
    return validated(Spread, read_mapping(folder / "prediction.yaml"), "prediction.yaml")


def log_time_ratio(share: float, before: Rates, after: Rates) -> float:
    """Return the log of the second card's time over the first's.

    Computing bounds a `share` of the first's.
    """
    return math.log(sum(_parts(share, before, after)))


def weight_after(share: float, before: Rates, after: Rates) -> float:
    """Return the share of the second card's time that computing bounds."""
    compute, memory = _parts(share, before, after)
    return compute / (compute + memory)


def excess(weight: float, shared: Sequence[SharedCase], spread: Spread) -> tuple[float, float]:
    """Return mean and standard deviation of the log excess over the ratio by rates.

    Workloads share how a card's rates differ from its data sheet's. Shared cases reveal that, and how far
    single workloads differ. Source: Shah, Wilson and Ghahramani 2014, Student-t processes, AISTATS, equation
    5: a normal conditional distribution, with its variance scaled by the scatter of the shared cases.
    """
    rates = np.array([[spread.compute, spread.together], [spread.together, spread.memory]])
    own = np.array([weight, 1 - weight])
    prior = own @ rates @ own + spread.workload
    if not shared:
        return 0.0, float(math.sqrt(prior))
    weights = np.array([[case.weight, 1 - case.weight] for case in shared])
    excesses = np.array([case.log_excess for case in shared])
    among = weights @ rates @ weights.T + spread.workload * np.eye(len(shared))
    gain = np.linalg.solve(among, weights @ rates @ own)
    scatter = excesses @ np.linalg.solve(among, excesses)
    scale = (spread.freedom + scatter) / (spread.freedom + len(shared))
    return float(gain @ excesses), float(math.sqrt(scale * (prior - gain @ weights @ rates @ own)))


def _parts(share: float, before: Rates, after: Rates) -> tuple[float, float]:
    return share * before.compute / after.compute, (1 - share) * before.memory / after.memory
