"""Short series with a control: detected slowdowns and false tickets."""

import math
from functools import partial

import numpy as np

from tests.benchmarks.simulated import earlier
from tests.benchmarks.simulated.part import Part
from tests.tasks.examples import night_noise
from tests.tasks.examples.simulated_nights import QUIET, Plan, filed, named_within

YOUNG = (8, 10, 14, 20)
MODELS = (
    "moving_box",
    "gauss",
    "night_state",
    "drifting_box",
    "two_hosts_controlled",
    "slow_boxes",
    "neighbour",
)


def young_controls() -> Part:
    worlds = {
        f"moving box, {night} nights, then 8 % slower: named the same night": partial(_named, night)
        for night in YOUNG
    }
    worlds |= {f"{model}, nights 11 to 40: false tickets": partial(_false, model) for model in MODELS}
    return Part(
        "a share of series, or false tickets in 100 nights of a series",
        {world: partial(_pair, share) for world, share in worlds.items()},
    )


def _pair(share, runs: int) -> tuple[str, str]:
    with earlier.young_series():
        before = share(runs)
    return f"{before:.3f}", f"{share(runs):.3f}"


def _made(model: str, runs: int) -> night_noise.Noise:
    return getattr(night_noise, model)(np.random.default_rng(20261127), (runs, QUIET))


def _named(night: int, runs: int) -> float:
    plan = Plan(shift=math.log(1.08), shifted=night, nights=night + 1)
    return named_within(_made("moving_box", runs), plan, (1,))[0]


def _false(model: str, runs: int) -> float:
    told = filed(_made(model, runs), Plan(nights=40), first=10)
    return sum(ticket.share > 0 for ticket in told) / (30 * runs / 100)
