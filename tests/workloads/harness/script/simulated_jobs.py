"""Simulated jobs, predicted from their beginning: how often the interval holds another run's time.

A CPU measurement's part of each run is seen. `python -m tests.workloads.harness.script.simulated_jobs [--jobs
N] [--only WORLD…]` prints a table of all worlds.
"""

import argparse
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from workloads.harness.engine.sampling.rules import Rules
from workloads.harness.script.job_prediction import OTHER_TIMES, job_time, pace_of
from workloads.harness.script.observations import Observations
from workloads.harness.script.sampling import (
    AGAIN_S,
    AGAIN_SHARE,
    SamplingPlan,
    StepTimes,
    waits_until,
)

STEP_S, START_S, WARM = 0.1, 5.0, 20
HALF_HOUR = 18_000  # steps
SAMPLED_S = (5.0, 20.0)  # shortest and longest time until the samples of a step are over
PLAN = SamplingPlan(Rules(), predicts=True)


@dataclass(frozen=True)
class Drawn:
    """A job's seconds of each step, the places of epoch ends, and the loader's steps of an epoch."""

    steps_s: np.ndarray
    epochs_at: tuple[int, ...] = ()
    epoch_steps: int | None = None


World = Callable[[np.random.Generator, int], Drawn]


def independent(spread: float) -> World:
    """Return a world of independent steps."""
    return lambda draw, steps: Drawn(noisy(draw, steps, spread))


def remembered(memory_steps: float, spread: float) -> World:
    """Return a world whose steps are an AR(1) process with this spread."""

    def drawn(draw: np.random.Generator, steps: int) -> Drawn:
        keep = math.exp(-1 / memory_steps)
        jumps = draw.normal(0, spread * math.sqrt(1 - keep**2), steps)
        mood, moods = draw.normal(0, spread), np.empty(steps)
        for place, jump in enumerate(jumps):
            mood = keep * mood + jump
            moods[place] = mood
        return Drawn(STEP_S * np.exp(moods) * draw.lognormal(0, 0.01, steps))

    return drawn


def stalled(mean_steps: float) -> World:
    """Return a world whose loader stalls each 50 to 200 steps, for an exponential time of this mean."""

    def drawn(draw: np.random.Generator, steps: int) -> Drawn:
        steps_s = noisy(draw, steps, 0.05)
        place = int(draw.integers(0, 200))
        while place < steps:
            steps_s[place] += STEP_S * draw.exponential(mean_steps)
            place += int(draw.integers(50, 201))
        return Drawn(steps_s)

    return drawn


def every(steps_between: int, seconds: float, then: World | None = None) -> World:
    """Return a world with work at regular distances, in no epoch."""

    def drawn(draw: np.random.Generator, steps: int) -> Drawn:
        steps_s = (then or independent(0.05))(draw, steps).steps_s
        at = np.arange(steps_between, steps, steps_between)
        steps_s[at] += seconds * draw.lognormal(0, 0.05, len(at))
        return Drawn(steps_s)

    return drawn


def in_epochs(fewest: int, most: int, seconds: float) -> World:
    """Return a world of epochs, each of which ends with an evaluation."""

    def drawn(draw: np.random.Generator, steps: int) -> Drawn:
        epoch = int(draw.integers(fewest, most + 1))
        steps_s = every(epoch, seconds)(draw, steps).steps_s
        return Drawn(steps_s, tuple(range(epoch, steps, epoch)), epoch)

    return drawn


def drifting(per_hour: float) -> World:
    """Return a world that slows by this share an hour."""

    def drawn(draw: np.random.Generator, steps: int) -> Drawn:
        hours = np.arange(steps) * STEP_S / 3600
        return Drawn(noisy(draw, steps, 0.05) * (1 + per_hour * hours))

    return drawn


def beside_a_neighbour(share: float, busy_s: float, cycle_s: float) -> World:
    """Return a world that is slower by a share for some time of each cycle."""

    def drawn(draw: np.random.Generator, steps: int) -> Drawn:
        at_s = np.arange(steps) * STEP_S + draw.uniform(0, cycle_s)
        return Drawn(noisy(draw, steps, 0.05) * (1 + share * (at_s % cycle_s < busy_s)))

    return drawn


def noisy(draw: np.random.Generator, steps: int, spread: float) -> np.ndarray:
    return STEP_S * draw.lognormal(0, spread, steps)


WORLDS = {
    "independent 5 %": independent(0.05),
    "AR(1) .9, 5 %": remembered(9.5, 0.05),
    "AR(1) .9, 20 %": remembered(9.5, 0.2),
    "AR(1) of 10 s, 5 %": remembered(100, 0.05),
    "AR(1) of 100 s, 5 %": remembered(1000, 0.05),
    "AR(1) of 17 min, 5 %": remembered(10_000, 0.05),
    "stalls of 5 steps": stalled(5),
    "stalls of 20 steps": stalled(20),
    "stalls of 100 steps": stalled(100),
    "drift 5 %/h": drifting(0.05),
    "epochs of 150-250": in_epochs(150, 250, 4.0),
    "epoch of 5,000, 30 s": in_epochs(5000, 5000, 30.0),
    "checkpoint 5 s each 400": every(400, 5.0),
    "1 s each 30, 8 s each 400": every(400, 8.0, every(30, 1.0)),
    "1 s each 30, 8 s each 4,000": every(4000, 8.0, every(30, 1.0)),
    "neighbour 25 %": beside_a_neighbour(0.25, 180, 900),
}


@dataclass(frozen=True)
class Covered:
    """Shares of jobs.

    Attributes:
        inside, below, above: by the interval of the time.
        width: half of the median interval over the prediction, whose median over the real time is `ratio`.
        unseen: names a part that was never seen.
    """

    inside: float
    below: float
    above: float
    width: float
    ratio: float
    unseen: float


class Seen(Observations):
    """Notes of the first steps of a job."""

    def __init__(self, drawn: Drawn, ends_s: np.ndarray) -> None:
        super().__init__()
        self.ends_s.extend(ends_s)
        self.places = [at for at in drawn.epochs_at if at < len(ends_s)]
        self.of_epoch = drawn.epoch_steps

    @property
    def epochs_at(self) -> list[int]:
        return self.places

    @property
    def epoch_steps(self) -> int | None:
        return self.of_epoch


def seen_of(drawn: Drawn, sampled_s: float) -> Seen:
    """Return the steps seen by a measurement whose samples end after some seconds."""
    ends_s, spent_s = np.cumsum(drawn.steps_s), sampled_s
    times = StepTimes(warm_steps=WARM)
    while True:
        done = max(int(np.searchsorted(ends_s - ends_s[0], spent_s)) + 1, 2 * WARM)
        seen = Seen(drawn, ends_s[:done])
        until_s = waits_until(PLAN, times, seen, spent_s, on_gpu=False)
        if spent_s >= until_s or done >= len(ends_s):
            return seen
        spent_s = min(until_s, spent_s + max(AGAIN_S, AGAIN_SHARE * spent_s))


def covered(
    world: World, jobs: int, steps: int = HALF_HOUR, seed: int = 0, other_times: float = OTHER_TIMES
) -> Covered:
    """Predict jobs of a world from their beginnings, and compare with another run of each."""
    below, above, unseen, widths, ratios = 0, 0, 0, [], []
    for number in range(jobs):
        draw = np.random.default_rng([seed, number])
        seen = world(draw, steps)
        again = world(np.random.default_rng([seed + 1, number]), steps) if seen.epoch_steps is None else seen
        notes = seen_of(seen, draw.uniform(*SAMPLED_S))
        ends_s, epochs_at = [*notes.ends_s], notes.epochs_at
        pace = pace_of(ends_s, epochs_at, seen.epoch_steps, WARM, other_times)
        job = job_time(pace, ends_s, epochs_at, START_S, WARM, steps)
        unseen += bool(job.left_out)
        real_s = START_S + float(again.steps_s[1:].sum())
        below += real_s < job.low_s
        above += real_s > job.high_s
        widths.append((job.high_s - job.low_s) / 2 / job.seconds)
        ratios.append(job.seconds / real_s)
    return Covered(
        1 - (below + above) / jobs,
        below / jobs,
        above / jobs,
        statistics.median(widths),
        statistics.median(ratios),
        unseen / jobs,
    )


def main() -> None:
    parser = argparse.ArgumentParser("python -m tests.workloads.harness.script.simulated_jobs")
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--steps", type=int, default=HALF_HOUR)
    parser.add_argument("--only", nargs="+", default=[*WORLDS])
    options = parser.parse_args()
    for name in options.only:
        for other in (OTHER_TIMES, 0.15):
            got = covered(WORLDS[name], options.jobs, options.steps, other_times=other)
            print(
                f"{name:30} {other:.2f} inside {got.inside:.2f} below {got.below:.2f} above {got.above:.2f} "
                f"±{got.width:.1%} ratio {got.ratio:.3f} unseen {got.unseen:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
