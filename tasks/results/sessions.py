"""The effect of sessions, which repeats cannot show."""

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

from tasks.results.model import Machine
from workloads.harness.records.intervals import errors_of, pooled_variance, variance, variances

# Assumed standard deviation: the middle of the effects in the simulations (0.5 to 2 %). That of a machine depends on
# its type and its neighbours, so it is replaced as soon as enough earlier runs show it.
SESSION_EFFECT = 0.01
FREEDOM = 4.0  # degrees of freedom of an assumed effect against that of the sessions at hand
FEWEST_LEVELS = 2  # sessions whose levels show a difference at all
CHANCE = 0.05  # at which sessions differ by more than expected
ENOUGH = 6  # earlier runs that show it; fewer have an interval of a factor of 3 or more, so they only widen

T = TypeVar("T")
Part = tuple[float, float]
"""A variance of a logarithm, and its degrees of freedom."""


@dataclass(frozen=True, slots=True)
class SessionEffect:
    """The standard deviation of a machine's log times between its sessions.

    Attributes:
        whole: of a whole suite.
        cell: of a single cell.
        freedom: of both; infinity if assumed.
        runs: earlier ones that show it.
    """

    whole: float
    cell: float
    freedom: float = math.inf
    runs: int = 0

    @property
    def is_assumed(self) -> bool:
        """Return whether earlier runs are too few."""
        return self.runs < ENOUGH


@dataclass(frozen=True, slots=True)
class Sessions:
    """The sessions of compared machines.

    Attributes:
        boxes: computers; machines that took turns on one share its effect.
        repeats: variance of a repeat in earlier runs, by machine and case.
    """

    effects: Mapping[str, SessionEffect] = field(default_factory=lambda: MappingProxyType({}))
    boxes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    repeats: Mapping[str, Mapping[str, Part]] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def of(
        cls,
        machines: Sequence[Machine],
        shown: Mapping[str, SessionEffect] = MappingProxyType({}),
        assumed: float | None = None,
        repeats: Mapping[str, Mapping[str, Part]] = MappingProxyType({}),
    ) -> "Sessions":
        """Use shown effects, else the assumed one."""
        sd = SESSION_EFFECT if assumed is None else assumed
        otherwise = SessionEffect(sd, sd)
        return cls(
            {machine.name: shown.get(machine.name, otherwise) for machine in machines},
            {machine.name: machine.box or machine.name for machine in machines},
            repeats,
        )

    def share(self, over: str, under: str) -> bool:
        """Return whether two machines are one computer in one session."""
        return self.boxes.get(over, over) == self.boxes.get(under, under)

    def of_whole(self, over: str, under: str, only: Collection[str] | None = None) -> tuple[Part, ...]:
        """Return effects on a suite's ratio; none if the sessions are shared.

        With `only`, return those of these machines.
        """
        return _parts([(effect.whole, effect.freedom) for effect in self._both(over, under, only)])

    def of_cell(self, over: str, under: str, only: Collection[str] | None = None) -> tuple[Part, ...]:
        """Return effects on a ratio of cells."""
        return _parts([(effect.cell, effect.freedom) for effect in self._both(over, under, only)])

    def of_repeats(self, name: str, case: str, times_s: Sequence[float]) -> tuple[Part, ...]:
        """Return the variance of a mean log time that earlier repeats show and these lack.

        Three processes of a machine with two states are often all in one, and seem to repeat well. Empty with
        too few earlier repeats, or if these differ as much.
        """
        earlier, freedom = self.repeats.get(name, {}).get(case, (0.0, 0.0))
        if not earlier or len(times_s) < 2:
            return ()
        lacking = earlier - variance([math.log(seconds) for seconds in times_s])
        return ((lacking / len(times_s), freedom),) if lacking > 0 else ()

    def _both(self, over: str, under: str, only: Collection[str] | None) -> list[SessionEffect]:
        if self.share(over, under):
            return []
        names = (over, under) if only is None else [name for name in (over, under) if name in only]
        return [self.effects[name] for name in names if name in self.effects]


WITHIN = Sessions()  # ratios within a session, to which it adds nothing


def _parts(deviations: Sequence[tuple[float, float]]) -> tuple[Part, ...]:
    return tuple((sd**2, freedom) for sd, freedom in deviations if sd > 0)


def by_session(values: Sequence[T], numbers: Sequence[int]) -> dict[int, list[T]]:
    sessions: dict[int, list[T]] = {}
    for value, number in zip(values, numbers, strict=True):
        sessions.setdefault(number, []).append(value)
    return sessions


def mean_of_sessions(values: Sequence[float], numbers: Sequence[int]) -> float:
    return statistics.fmean(statistics.fmean(of_one) for of_one in by_session(values, numbers).values())


def of_mean(levels: Sequence[float], repeats: Sequence[Sequence[Part]], effects: Sequence[Part]) -> Part:
    """Return the variance of the mean of two or more sessions' levels.

    It is that between the levels, pooled with the one expected from the repeats if earlier runs have shown all
    effects of the sessions. Two levels leave one degree of freedom, so they are also pooled with assumed
    effects, at `FREEDOM` degrees at most. Levels that differ by more than expected count alone. Three or more
    sessions need no assumption, which would hide a larger effect. Source: Kalibera & Jones 2013, Rigorous
    benchmarking in reasonable time, 7. Simulated in `tests.benchmarks.simulated.several`.

    Args:
        levels: logarithms, one per session.
        repeats: per session, the variances of its level by its repeats; none for single repeats.
        effects: the known variances of a session's level.
    """
    count, apart = len(levels), variance(levels)
    alone = (apart / count, count - 1.0)
    are_known = bool(effects) and all(math.isfinite(freedom) for _, freedom in effects)
    if not all(repeats) or not (are_known or count == FEWEST_LEVELS):
        return alone
    parts = [(part / count, freedom) for each in repeats for part, freedom in each]
    expected = math.fsum(part for part, _ in (*parts, *effects))
    weight = errors_of([*parts, *effects], ())[0][1]
    weight = weight if are_known else min(weight, FREEDOM)
    if _exceeds(apart, expected, count - 1.0, weight):
        return alone
    pooled, freedom = pooled_variance([(expected, weight), (apart, count - 1.0)])
    return pooled / count, freedom


def _exceeds(apart: float, expected: float, freedom: float, freedom_expected: float) -> bool:
    """Decide by an F test at 5 %."""
    from scipy.special import fdtrc  # type: ignore[import-untyped] # slow to import, and few runs need it

    if expected <= 0:
        return apart > 0
    return bool(fdtrc(freedom, freedom_expected, apart / expected) < CHANCE)


def shared_sd(parts: Sequence[Part]) -> float:
    """Return the standard deviation that sessions add."""
    return math.sqrt(math.fsum(part for part, _ in parts))


def repeats_of(runs: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, Part]:
    """Return the pooled variance within runs, by case."""
    logs: dict[str, list[Sequence[float]]] = {}
    for run in runs:
        for case, of_run in run.items():
            logs.setdefault(case, []).append(of_run)
    pooled = {case: pooled_variance(variances(of_case)) for case, of_case in logs.items()}
    return {case: (value, freedom) for case, (value, freedom) in pooled.items() if freedom >= ENOUGH}


def effect_of(runs: Sequence[Mapping[str, Sequence[float]]], assumed: float) -> SessionEffect | None:
    """Return the effect that earlier runs show; None if no case was measured in two.

    The variance between runs less that of the mean of their repeats, by moments. Fewer runs than `ENOUGH` can
    only widen the assumed effect. The runs give the degrees of freedom, since a run's cells share its effect.
    Source: Searle et al., Variance Components, 1992, 3.4.

    Args:
        runs: log seconds of repeats by case.
        assumed: standard deviation without earlier runs.
    """
    of_case: dict[str, list[int]] = {}
    for index, run in enumerate(runs):
        for case, logs in run.items():
            if logs:
                of_case.setdefault(case, []).append(index)
    common = {case: indices for case, indices in of_case.items() if len(indices) > 1}
    used = sorted({i for indices in common.values() for i in indices})
    if not used:
        return None
    levels = {
        case: statistics.fmean(statistics.fmean(runs[i][case]) for i in common[case]) for case in common
    }
    distances = {
        i: {c: statistics.fmean(runs[i][c]) - levels[c] for c in common if i in common[c]} for i in used
    }
    repeats = {i: [_of_mean(runs[i][case]) for case in distances[i]] for i in used}
    means = [statistics.fmean(each.values()) for each in distances.values()]
    whole = variance(means) - statistics.fmean(
        statistics.fmean(each) / len(each) for each in repeats.values()
    )
    apart = [value**2 for each in distances.values() for value in each.values()]
    cell = math.fsum(apart) / (len(apart) - len(common)) - statistics.fmean(
        value for each in repeats.values() for value in each
    )
    least, freedom = (0.0, len(used) - 1.0) if len(used) >= ENOUGH else (assumed, math.inf)
    sds = [max(math.sqrt(max(value, 0.0)), least) for value in (whole, max(cell, whole))]
    return SessionEffect(sds[0], sds[1], freedom, len(used))


def _of_mean(logs: Sequence[float]) -> float:
    """Return 0 for one repeat, whose noise then counts as the session's."""
    return variance(logs) / len(logs) if len(logs) > 1 else 0.0
