"""Noise of nights: models of an unchanged series.

A number is the median of three repeats, as in the nightly suite. Each model gives the numbers of many
histories, their controls, and fresh runs of a night on the same box.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

SD = 0.02
REPEATS = 3
TO_REPEAT = 1.493  # from the spread of a median of three normal values to that of each
RERUNS = 5
SHARED, OWN = 0.017, 0.0105  # shared by a night's runs, and each number's own part: 2 % together


@dataclass(frozen=True)
class Side:
    """Log seconds of the numbers (histories, nights), the variance of each number's repeats, and these."""

    log_s: np.ndarray
    variance: np.ndarray
    repeats: np.ndarray


@dataclass(frozen=True)
class Noise:
    """The series, their controls, and `fresh(rows, night) -> (rows, runs)` of both."""

    series: Side
    control: Side
    fresh: Callable[[np.ndarray, int], tuple[np.ndarray, np.ndarray]]
    alone: float = 0.0

    @property
    def covariance(self):
        """(histories, nights) of the repeats and their controls."""
        sides = [
            side.repeats - side.repeats.mean(axis=-1, keepdims=True) for side in (self.series, self.control)
        ]
        return (sides[0] * sides[1]).sum(axis=-1) / (REPEATS - 1)

    def without_control(self):
        nothing = np.full_like(self.control.log_s, np.nan)
        return replace(
            self,
            control=Side(nothing, nothing, np.full_like(self.control.repeats, np.nan)),
            fresh=lambda rows, night: (self.fresh(rows, night)[0], nothing[rows, :RERUNS]),
        )


def gauss(rng, shape):
    """2 % in every number."""
    return made(rng, np.zeros(shape), SD)


def heavy(rng, shape):
    """2 %, and 5 % of all numbers independently 5 to 20 % slow."""
    return made(rng, np.zeros(shape), SD, apart=lambda of: slow(rng, of))


def ar1(rng, shape):
    """A state of which half remains the next night, and none in that night's fresh runs."""
    state = lasting(rng, shape, SHARED)
    anew = made(rng, np.zeros(shape), OWN, apart=lambda of: rng.normal(0, SHARED, of))
    return replace(anew, series=measured(rng, state, OWN))


def unlike(rng, shape):
    return made(rng, np.zeros(shape), np.exp(rng.uniform(np.log(0.0007), np.log(0.041), (shape[0], 1))))


def night_state(rng, shape):
    """A new state each night, which all its runs share."""
    return made(rng, rng.normal(0, SHARED, shape), OWN)


def drifting_box(rng, shape):
    """A shared state of the night, half of which remains the next night."""
    return made(rng, lasting(rng, shape, SHARED), OWN)


def two_hosts(rng, shape):
    """Two kinds of host, 3.4 % apart, 1 % noise; the control runs elsewhere."""
    return made(rng, np.where(rng.random(shape) < 0.5, 0.017, -0.017), 0.01, seen=0.0)


def two_hosts_controlled(rng, shape):
    return made(rng, np.where(rng.random(shape) < 0.5, 0.017, -0.017), 0.01)


def lottery(rng, shape):
    """Another box every night, 3 % apart, 0.5 % noise."""
    return made(rng, rng.normal(0, 0.03, shape), 0.005, alone=1.0)


def slow_boxes(rng, shape):
    """A box that is 5 to 20 % slow for 5 % of the nights."""
    return made(rng, slow(rng, shape), SD)


def neighbour(rng, shape):
    """A neighbour costs 4 % for ten nights in forty, some nights in a row."""
    there = np.zeros(shape)
    there[:, 0] = rng.random(shape[0]) < 0.25
    for night in range(1, shape[1]):
        leaves, comes = rng.random(shape[0]) < 1 / 10, rng.random(shape[0]) < 1 / 30
        there[:, night] = np.where(there[:, night - 1] > 0, ~leaves, comes)
    return made(rng, 0.04 * there, SD)


def weekends(rng, shape):
    return made(rng, 0.04 * (np.arange(shape[1]) % 7 >= 5) * np.ones(shape), SD)


def cycle(rng, shape):
    """A cycle of 30 nights, 1.5 % to each side."""
    return made(rng, 0.015 * np.sin(2 * np.pi * np.arange(shape[1]) / 30) * np.ones(shape), SD)


def busy(rng, shape):
    """A machine that is busy for three nights in ten: its numbers vary three times as much."""
    return made(rng, np.zeros(shape), SD * np.where(rng.random(shape) < 0.3, 3.0, 1.0))


def moving_box(rng, shape):
    """A shared box: 4 % from night to night, 1 % from repeat to repeat; 0.9 % in each repeat."""
    state = rng.normal(0, 0.04, shape)

    def sides(level, numbers):
        level = level[..., None] + rng.normal(0, 0.01, (*level.shape, numbers))
        return [level + rng.normal(0, 0.009, level.shape) for _ in range(2)]

    def fresh(rows, night):
        level = np.repeat(state[rows, night][:, None], RERUNS, axis=1)
        return tuple(np.median(side, axis=-1) for side in sides(level, REPEATS))

    return Noise(*(side_of(repeats) for repeats in sides(state, REPEATS)), fresh)


def slow(rng, shape):
    return np.where(rng.random(shape) < 0.05, np.log1p(rng.uniform(0.05, 0.20, shape)), 0.0)


def lasting(rng, shape, sd):
    state = np.empty(shape)
    state[:, 0] = rng.normal(0, sd, shape[0])
    for night in range(1, shape[1]):
        state[:, night] = 0.5 * state[:, night - 1] + rng.normal(0, sd * np.sqrt(1 - 0.5**2), shape[0])
    return state


def made(rng, state, sd, seen=1.0, alone=0.0, apart=np.zeros):
    """Return numbers with a spread of `sd` around a night's `state`, each moved by `apart`."""

    def side(level, sd):
        return measured(rng, level + apart(level.shape), sd)

    def fresh(rows, night):
        level = np.repeat(state[rows, night][:, None], RERUNS, axis=1)
        own = np.broadcast_to(sd, state.shape)[rows, night][:, None]
        return side(level, own).log_s, side(seen * level, own).log_s

    return Noise(side(state, sd), side(seen * state, sd), fresh, alone)


def measured(rng, level, sd):
    own = np.reshape(np.broadcast_to(sd, level.shape) * TO_REPEAT, (*level.shape, 1))
    return side_of(level[..., None] + own * rng.normal(0, 1, (*level.shape, REPEATS)))


def side_of(repeats):
    return Side(np.median(repeats, axis=-1), np.var(repeats, axis=-1, ddof=1), repeats)
