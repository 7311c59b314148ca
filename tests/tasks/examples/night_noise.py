"""Noise of nights, as machines have it: models of what a series reads when nothing has changed.

Each model gives the nights of many histories, those of their controls, and fresh runs of a night on the same box.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

SD = 0.02
RERUNS = 5


@dataclass(frozen=True)
class Noise:
    """Log seconds (histories, nights), and `fresh(rows, night) -> (rows, runs)` of both."""

    log_s: np.ndarray
    log_control_s: np.ndarray
    fresh: Callable[[np.ndarray, int], tuple[np.ndarray, np.ndarray]]
    alone: float = 0.0

    def without_control(self):
        nothing = np.full_like(self.log_control_s, np.nan)
        return Noise(
            self.log_s, nothing, lambda rows, night: (self.fresh(rows, night)[0], nothing[rows, :RERUNS])
        )


def gauss(rng, shape):
    """2 % in every measurement."""
    return independent(shape, lambda of: rng.normal(0, SD, of))


def heavy(rng, shape):
    """2 %, and 5 % of all measurements are 5 to 20 % slow."""
    return independent(shape, lambda of: rng.normal(0, SD, of) + slow(rng, of))


def ar1(rng, shape):
    """2 %, half of which is left of the night before; fresh runs draw anew."""
    fresh = independent(shape, lambda of: rng.normal(0, SD, of))
    return Noise(lasting(rng, shape, SD), fresh.log_control_s, fresh.fresh)


def drifting_box(rng, shape):
    """A box whose speed drifts by 2 % from night to night, half of which is left; all on it share that."""
    return on_boxes(rng, lasting(rng, shape, SD), 0.01, seen=1.0)


def lasting(rng, shape, sd):
    state = np.empty(shape)
    state[:, 0] = rng.normal(0, sd, shape[0])
    for night in range(1, shape[1]):
        state[:, night] = 0.5 * state[:, night - 1] + rng.normal(0, sd * np.sqrt(1 - 0.5**2), shape[0])
    return state


def two_hosts(rng, shape):
    """A pool of two kinds of host, 3.4 % apart, 1 % on each; the control runs elsewhere and does not see it."""
    return on_boxes(rng, np.where(rng.random(shape) < 0.5, 0.017, -0.017), 0.01, seen=0.0)


def two_hosts_controlled(rng, shape):
    """The same, with the control on the same host."""
    return on_boxes(rng, np.where(rng.random(shape) < 0.5, 0.017, -0.017), 0.01, seen=1.0)


def lottery(rng, shape):
    """Another box every night, 3 % apart, 0.5 % on each, with the control on the same."""
    return on_boxes(rng, rng.normal(0, 0.03, shape), 0.005, seen=1.0, alone=1.0)


def slow_boxes(rng, shape):
    """A box that is 5 to 20 % slow for 5 % of the nights, all of the night, with the control on the same."""
    return on_boxes(rng, slow(rng, shape), SD, seen=1.0)


def slow(rng, shape):
    return np.where(rng.random(shape) < 0.05, np.log1p(rng.uniform(0.05, 0.20, shape)), 0.0)


def independent(shape, draw):
    def fresh(rows, night):
        return draw((len(rows), RERUNS)), draw((len(rows), RERUNS))

    return Noise(draw(shape), draw(shape), fresh)


def on_boxes(rng, box, sd, seen, alone=0.0):
    def fresh(rows, night):
        at = box[rows, night][:, None]
        return (
            at + rng.normal(0, sd, (len(rows), RERUNS)),
            seen * at + rng.normal(0, sd, (len(rows), RERUNS)),
        )

    return Noise(box + rng.normal(0, sd, box.shape), seen * box + rng.normal(0, sd, box.shape), fresh, alone)
