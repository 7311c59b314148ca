"""Bounds of the nightly gate: `python -m tests.benchmarks.simulated.bounds [--histories N] [--write]`.

It prints the largest share of 5 % slowdowns that any rule can name within three nights, for docs/nightly.md.
By the lemma of J. Neyman and E. S. Pearson (1933) no test of a size has more power than the likelihood
ratio's. A rule with 0.1 false tickets in 100 nights files one in three quiet nights with a chance of at most
0.003. The test knows the noise and its parameters and has five fresh runs of each night, a gate only
estimates and fresh runs of suspects, so no gate has larger shares.
"""

import argparse
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.docs import tables
from tests.tasks.examples.night_noise import OWN, RERUNS, SD, SHARED
from tests.tasks.examples.simulated_nights import SLOWDOWN

FloatArray = NDArray[np.float64]
NIGHTS = 3
SIZE = 0.1 / 100  # chance of a false ticket in a night
SLOW = 0.05  # share of numbers that are slow
GRID = np.log(np.linspace(1.05, 1.2, 61))  # by how much
HOSTS, ON_HOST = np.array([0.017, -0.017]), 0.01
KEPT = 0.5  # of a state, in the next night

CHUNK = 2000  # histories at once

BoolArray = NDArray[np.bool_]
Density = Callable[[FloatArray, BoolArray], FloatArray]
"""A function from (histories, nights, numbers), and which of these there are, to the logarithm of their density."""
Nights = Callable[[np.random.Generator, int], FloatArray]
"""A function from chance and a number of histories to (histories, nights, numbers): a night's own number comes first."""


def of_independent(values: FloatArray, there: BoolArray) -> FloatArray:
    return _normal(values, SD)[:, there].sum(axis=1)


def of_tails(values: FloatArray, there: BoolArray) -> FloatArray:
    known = values[:, there]
    slow = np.exp(_normal(known[..., None] - GRID, SD)).mean(axis=-1)
    return np.log((1 - SLOW) * np.exp(_normal(known, SD)) + SLOW * slow).sum(axis=1)


def of_hosts(values: FloatArray, there: BoolArray) -> FloatArray:
    each = np.where(there[..., None], _normal(values[..., None] - HOSTS, ON_HOST), 0.0)
    return np.logaddexp.reduce(each.sum(axis=2) - math.log(2), axis=-1).sum(axis=1)


def of_states(kept: float, is_shared: bool) -> Density:
    """Return the density of nights with a state, of which `kept` remains in the next, and of their fresh runs."""
    count = NIGHTS * (1 + RERUNS)
    night, is_fresh = np.arange(count) // (1 + RERUNS), np.arange(count) % (1 + RERUNS) > 0
    # the state of the night before is known: the rest of its variance is new
    first, apart = np.minimum(night[:, None], night) + 1, np.abs(night[:, None] - night)
    states = SHARED**2 * kept**apart * (1 - kept ** (2 * first))
    if not is_shared:
        states = np.where(is_fresh[:, None] | is_fresh, 0.0, states) + np.diag(SHARED**2 * is_fresh)
    covariance = states + OWN**2 * np.eye(count)

    def density(values: FloatArray, there: BoolArray) -> FloatArray:
        known = np.flatnonzero(there)
        inverse = np.linalg.inv(covariance[np.ix_(known, known)])
        flat = values.reshape(len(values), count)[:, known]
        square = np.einsum("ni,ij,nj->n", flat, inverse, flat, optimize=True)
        found: FloatArray = (np.linalg.slogdet(inverse).logabsdet - square) / 2
        return found

    return density


def _normal(values: FloatArray, sd: float) -> FloatArray:
    found: FloatArray = -((values / sd) ** 2) / 2 - math.log(sd * math.sqrt(2 * math.pi))
    return found


def quiet(rng: np.random.Generator, count: int) -> FloatArray:
    """Return numbers with 2 % noise."""
    return rng.normal(0, SD, (count, NIGHTS, 1 + RERUNS))


def tails(rng: np.random.Generator, count: int) -> FloatArray:
    values = quiet(rng, count)
    slow = np.log1p(rng.uniform(0.05, 0.2, values.shape))
    return values + np.where(rng.random(values.shape) < SLOW, slow, 0.0)


def hosts(rng: np.random.Generator, count: int) -> FloatArray:
    shape = count, NIGHTS, 1 + RERUNS
    return rng.choice(HOSTS, (count, NIGHTS, 1)) + rng.normal(0, ON_HOST, shape)


def states(kept: float, is_shared: bool) -> Nights:
    """Return nights with a state of which `kept` remains in the next; the first state is 0."""

    def made(rng: np.random.Generator, count: int) -> FloatArray:
        values = rng.normal(0, OWN, (count, NIGHTS, 1 + RERUNS))
        state = np.zeros(count)
        for night in range(NIGHTS):
            state = kept * state + rng.normal(0, SHARED * math.sqrt(1 - kept**2), count)
            values[:, night, 0] += state
            apart = rng.normal(0, SHARED, (count, RERUNS))
            values[:, night, 1:] += state[:, None] if is_shared else apart
        return values

    return made


class World(NamedTuple):
    """A noise of slower nights and its density, and those of quiet nights if they differ."""

    noise: Nights
    density: Density
    quiet: Nights | None = None
    of_quiet: Density | None = None


WORLDS = {
    "normal, 2 %": World(quiet, of_independent),
    "5 % of all numbers 5 to 20 % slow, each for itself": World(tails, of_tails),
    "two kinds of host, 3.4 % apart": World(hosts, of_hosts),
    "the runs of a night share most of its noise": World(states(0.0, True), of_states(0.0, True)),
    "the same, half of it left in the next night": World(states(KEPT, True), of_states(KEPT, True)),
    "half of a night's state is left in the next, none for fresh runs": World(
        states(KEPT, False), of_states(KEPT, False)
    ),
    "the same, if fresh runs of quiet nights share the state": World(
        states(KEPT, False), of_states(KEPT, False), states(KEPT, True), of_states(KEPT, True)
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--histories", type=int, default=100_000)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    heading = f"{given.histories} histories of each kind:"
    tables.show(heading, table(given.histories), "nightly.md", "bounds", given.write)


def table(histories: int) -> Iterator[str]:
    yield "| noise | named within 3 nights, at most | in the third, by its own fresh runs, at most |"
    yield "| --- | --- | --- |"
    for name, world in WORLDS.items():
        shares = (power(world, histories, fresh) for fresh in (NIGHTS, 1))
        yield f"| {name} | {' | '.join(f'{100 * share:.0f} %' for share in shares)} |"


def power(world: World, histories: int, fresh: int) -> float:
    """Return the power of the likelihood ratio's test with fresh runs of the last `fresh` nights."""
    rng = np.random.default_rng(20261127)
    unchanged, slower = [], []
    for _ in range(0, histories, CHUNK):
        unchanged.append(_ratio(world, (world.quiet or world.noise)(rng, CHUNK), fresh))
        slower.append(_ratio(world, world.noise(rng, CHUNK) + SLOWDOWN, fresh))
    limit = np.quantile(np.concatenate(unchanged), 1 - fresh * SIZE)
    return float(np.mean(np.concatenate(slower) > limit))


def _ratio(world: World, values: FloatArray, fresh: int) -> FloatArray:
    """Return the log likelihood ratio of slower against unchanged nights."""
    there = np.ones(values.shape[1:], bool)
    there[: NIGHTS - fresh, 1:] = False
    ratio: FloatArray = world.density(values - SLOWDOWN, there)
    return ratio - (world.of_quiet or world.density)(values, there)


if __name__ == "__main__":
    main()
