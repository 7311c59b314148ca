"""Totals over the suite, and the geometric mean of speedups."""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from tasks.results.billing import usd
from tasks.results.format import format_count
from tasks.results.model import Machine, Total
from tasks.results.repeats import FEWEST, Repeats
from tasks.results.sessions import WITHIN, Part, Sessions, by_session, mean_of_sessions, of_mean, shared_sd
from tasks.results.turns import Span, are_apart, in_pairs, pairs
from tasks.results.values import Estimate
from workloads.harness.records.case import Case, Cell
from workloads.harness.records.intervals import errors_of, likeliest, variance, widest
from workloads.harness.records.record import Grade

T = TypeVar("T")
HALF = 0.5  # of a total
Logs = list[float]  # log seconds of a case, one per repeat
ByMachine = dict[str, dict[Case, Repeats]]


class LogRatio(NamedTuple):
    """The log of a ratio, its variance by repeats, and degrees of freedom."""

    log: float
    variance: float
    freedom: float


@dataclass(frozen=True, slots=True)
class CommonCases:
    """The cases in which every compared machine has an interval.

    Busy machines' cells are left out if that costs no machine and at most half of the cases. If fewer than
    two machines have an interval, all valid cells are used and nothing is decided. A step of more work on one
    machine (weak scaling) is scaled to the first machine's.

    Attributes:
        logs: of compute times, by machine and case.
        repeats: their numbers; their places if not given.
        session_numbers: of each repeat; empty for one session.
        are_pairs: turns of entries on a box are compared as pairs.
        measured: number of cases on any machine.
        left_out: cells that exclude their case.
        dropped: machines with valid cells but no interval.
        busy, restless: cells next to other programs, or while the CPU's speed varied.
    """

    cases: tuple[Case, ...]
    logs: dict[str, list[Logs]]
    repeats: dict[str, list[list[int]]] = field(default_factory=dict)
    spans: dict[str, list[list[Span | None]]] = field(default_factory=dict)
    session_numbers: dict[str, list[list[int]]] = field(default_factory=dict)
    are_pairs: bool = True
    measured: int = 0
    left_out: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    grades: tuple[Grade, ...] = ()
    busy: int = 0
    restless: int = 0
    sessions: Sessions = WITHIN

    @property
    def provisional(self) -> str:
        """Return why an idle machine can give other totals; else empty."""
        cells = f"of its {format_count(len(self.grades), 'cell')}"
        if self.busy:
            load = f"other programs used the machine during {self.busy} {cells}"
            return f"{load}, and an idle machine can give another answer"
        return f"the CPU's speed varied during {self.restless} {cells}" if self.restless else ""

    @classmethod
    def of(
        cls, cells: Sequence[Repeats], sessions: Sessions = WITHIN, keeps_busy: bool = False
    ) -> "CommonCases":
        """Keep cells of a busy machine with `keeps_busy`."""
        counting: ByMachine = {}
        for cell in cells:
            if cell.usable:
                counting.setdefault(cell.cell.hardware, {})[cell.cell.case] = cell
        compared = _best(counting, keeps_busy)
        cases = _common(compared)
        used = [own[case] for own in compared.values() for case in cases]
        both = _common({name: counting[name] for name in compared})
        missing = [case for case in both if case not in cases]
        left_out = [(name, case) for name in compared for case in missing if case not in compared[name]]
        return cls(
            cases,
            **_repeats_of(compared, cases),
            measured=len({cell.cell.case for cell in cells}),
            left_out=tuple(Cell(name, case).id for name, case in left_out),
            dropped=tuple(name for name in counting if name not in compared),
            grades=tuple(cell.grade for cell in used),
            busy=sum(cell.busy for cell in used),
            restless=sum(cell.restless for cell in used),
            sessions=sessions,
        )

    def effects(self, over: str, under: str) -> tuple[list[Part], list[Part]]:
        """Return effects on a ratio: of each session, of all.

        The repeats of one session, and turns of one box in a row, share an effect.
        """
        effects = self.sessions.of_whole if len(self.cases) > 1 else self.sessions.of_cell
        of_each = [name for name in (over, under) if self._are_apart(name, self.split(over, under))]
        of_all = [name for name in (over, under) if name not in of_each]
        return [*effects(over, under, of_each)], [*effects(over, under, of_all)]

    def between(self, over: str, under: str) -> list[Part]:
        """Return the effects that both machines' repeats share and so do not show."""
        return self.effects(over, under)[1]

    def sessions_sd(self, over: str, under: str) -> float:
        """Return the standard deviation of sessions in the log ratio."""
        of_each, of_all = self.effects(over, under)
        return math.hypot(shared_sd(of_each) / math.sqrt(len(self.split(over, under))), shared_sd(of_all))

    def split(self, *names: str) -> list["CommonCases"]:
        """Return the suite of each session that has all cases, else itself."""
        numbers = [self.session_numbers.get(name, []) for name in names]
        sets = [set(of_case) for of_cases in numbers for of_case in of_cases]
        shared = set.intersection(*sets) if all(numbers) and sets else set()
        return [self._session(number, names) for number in sorted(shared)] if len(shared) > 1 else [self]

    def has_sessions_apart(self, name: str) -> bool:
        """Return whether its sessions were on other boxes or an hour apart."""
        return self._are_apart(name, self.split(name))

    def _session(self, number: int, names: Sequence[str]) -> "CommonCases":
        def kept(of_cases: Mapping[str, list[list[T]]]) -> dict[str, list[list[T]]]:
            return {
                name: [
                    by_session(of_case, numbers)[number]
                    for of_case, numbers in zip(of_cases[name], self.session_numbers[name], strict=True)
                ]
                for name in names
                if name in of_cases
            }

        return replace(
            self,
            logs=kept(self.logs),
            repeats=kept(self.repeats),
            spans=kept(self.spans),
            session_numbers={},
        )

    def _are_apart(self, name: str, sessions: Sequence["CommonCases"]) -> bool:
        spans = [[span for of_case in each.spans.get(name, ()) for span in of_case] for each in sessions]
        return len(sessions) > 1 and are_apart(spans)


def _best(counting: ByMachine, keeps_busy: bool = False) -> ByMachine:
    """Keep cells with an interval, and only quiet ones if they represent the suite.

    They do if they drop no machine and at most half of the cases.
    """
    bounded = _keep(counting, lambda cell: len(cell.compute_s) >= FEWEST)
    if len(bounded) < min(2, len(counting)) or not _common(bounded):
        return counting
    if keeps_busy:
        return bounded
    quiet = _keep(bounded, lambda cell: not cell.busy)
    enough = len(quiet) == len(bounded) and 2 * len(_common(quiet)) >= len(_common(bounded))
    return quiet if enough else bounded


def _repeats_of(compared: ByMachine, cases: Sequence[Case]) -> dict[str, Any]:
    """Return the fields of the repeats that count.

    Of entries that took turns these have a partner on each: otherwise order and ratio could rest on different
    repeats.
    """
    first = next(iter(compared.values()), {})
    logs = {name: [own[case].logs_like(first[case]) for case in cases] for name, own in compared.items()}
    repeats = {name: [own[case].numbers for case in cases] for name, own in compared.items()}
    spans = {name: [own[case].spans for case in cases] for name, own in compared.items()}
    sessions = {name: [own[case].session_numbers for case in cases] for name, own in compared.items()}
    places = in_pairs(spans, FEWEST)
    columns: tuple[dict[str, list[list[Any]]], ...] = (logs, repeats, spans, sessions)
    for of_cases in columns:
        for name, kept in (places or {}).items():
            of_cases[name] = _at(of_cases[name], kept)
    has_several = any(number > 1 for own in sessions.values() for of_case in own for number in of_case)
    return {
        "logs": logs,
        "repeats": repeats,
        "spans": spans,
        "session_numbers": sessions if has_several else {},
        "are_pairs": places is not None,
    }


def _keep(machines: ByMachine, good: Callable[[Repeats], bool]) -> ByMachine:
    kept = {name: {case: cell for case, cell in own.items() if good(cell)} for name, own in machines.items()}
    return {name: own for name, own in kept.items() if own}


def _common(machines: ByMachine) -> tuple[Case, ...]:
    first = next(iter(machines.values()), {})
    return tuple(case for case in first if all(case in own for own in machines.values()))


def totals(suite: CommonCases, machines: Sequence[Machine], baseline: str) -> tuple[Total, ...]:
    """Return none without a common case."""
    prices = {machine.name: machine.usd_per_hour for machine in machines}
    return tuple(_total(suite, name, prices.get(name), baseline) for name in suite.logs if suite.cases)


def seconds(suite: CommonCases, hardware: str) -> float:
    """Return the time of one pass: a step of every case."""
    return math.fsum(map(math.exp, _means(suite.logs[hardware], suite.session_numbers.get(hardware))))


def fewest_repeats(suite: CommonCases) -> int:
    return min((len(logs) for of_machine in suite.logs.values() for logs in of_machine), default=0)


def time_ratio(suite: CommonCases, over: str, under: str, confidence: float = 0.95) -> Estimate:
    """Return the ratio of total times by the delta method.

    Sessions' effects are included.

    Source: d log sum(t_i) = sum(t_i / T d log t_i); Welch and Satterthwaite for the degrees of freedom.
    """
    own, shared = _variances(suite, over, under, _shares), suite.between(over, under)
    return _bounded(_quotient(_sides(suite, over, under)), errors_of(own, shared) if own else [], confidence)


def time_ratio_p(suite: CommonCases, over: str, under: str, factor: float = 1.0) -> float | None:
    """Return p for the ratio times `factor`; None if a part has a single repeat."""
    own = _variances(suite, over, under, _shares)
    log = math.log(factor * _quotient(_sides(suite, over, under)))
    return likeliest(log, errors_of(own, suite.between(over, under))) if own else None


def log_time_ratio(suite: CommonCases, over: str, under: str) -> LogRatio:
    """Return the log ratio, with its variance by repeats or sessions.

    The effects of `CommonCases.between` come on top. One repeat leaves no degrees of freedom.
    """
    log, own = math.log(_quotient(_sides(suite, over, under))), _variances(suite, over, under, _shares)
    errors = errors_of(own, ()) if own else []
    return LogRatio(log, errors[0][0] ** 2, errors[0][1]) if errors else LogRatio(log, math.inf, 0.0)


def times_by_case(suite: CommonCases, hardware: str) -> dict[Case, float]:
    """Return seconds of a step."""
    means = _means(suite.logs[hardware], suite.session_numbers.get(hardware))
    return dict(zip(suite.cases, map(math.exp, means), strict=True))


def total_seconds(suite: CommonCases, hardware: str) -> Estimate:
    """Return the time (s) of a pass, with its interval by rounds or sessions."""
    split = suite.split(hardware)
    by_rounds = [(1.0, rounds(part, hardware, _shares(part.logs[hardware]))) for part in split]
    if len(split) == 1:
        return _interval(seconds(suite, hardware), by_rounds)
    levels = [math.log(seconds(part, hardware)) for part in split]
    own = of_mean(levels, [_variances_of([part]) for part in by_rounds], ())
    return _bounded(seconds(suite, hardware), errors_of([own], ()))


def geomean_ratio(suite: CommonCases, over: str, under: str) -> Estimate:
    """Return the geometric mean with its interval.

    It is the error of this suite, not of a random sample of workloads.
    """
    own, shared = _variances(suite, over, under, alike), suite.between(over, under)
    return _bounded(_geomean(_sides(suite, over, under)), errors_of(own, shared) if own else [])


class _Sides(NamedTuple):
    names: tuple[str, str]
    logs: tuple[list[Logs], list[Logs]]
    means: tuple[Logs, Logs]
    are_pairs: bool


def _sides(suite: CommonCases, over: str, under: str) -> _Sides:
    """Return two machines' logs, as pairs if possible.

    If entries of one box took turns, the box's slow changes cancel in pairs, and cases are independent.
    """
    names, logs = (over, under), (suite.logs[over], suite.logs[under])
    numbers = [suite.session_numbers.get(name) for name in names]
    both = zip(suite.spans.get(over, ()), suite.spans.get(under, ()), strict=False)
    paired = [pairs(a, b) for a, b in both] if suite.are_pairs else []
    are_pairs = len(paired) == len(suite.cases) and all(len(places) >= FEWEST for places in paired)
    if are_pairs:
        firsts, seconds_ = ([[pair[side] for pair in places] for places in paired] for side in (0, 1))
        logs = _at(logs[0], firsts), _at(logs[1], seconds_)
        places = (firsts, seconds_)
        numbers = [own and _at(own, at) for own, at in zip(numbers, places, strict=True)]
    means = _means(logs[0], numbers[0]), _means(logs[1], numbers[1])
    return _Sides(names, logs, means, are_pairs)


def _at(of_cases: Sequence[Sequence[T]], places: Sequence[Sequence[int]]) -> list[list[T]]:
    return [[of_case[i] for i in kept] for of_case, kept in zip(of_cases, places, strict=True)]


def _means(logs: Sequence[Logs], numbers: Sequence[Sequence[int]] | None) -> Logs:
    if numbers is None:
        return [statistics.fmean(of_case) for of_case in logs]
    return [mean_of_sessions(of_case, own) for of_case, own in zip(logs, numbers, strict=True)]


def _variances(
    suite: CommonCases, over: str, under: str, weights: Callable[[Sequence[Logs]], Sequence[float]]
) -> list[Part]:
    """Return variances of a log ratio by repeats, or by several sessions.

    Empty if in one session a part of the error has a single repeat.
    """
    split = suite.split(over, under)
    sides = [_sides(part, over, under) for part in split]
    own = [_variances_of(_errors(part, each, weights)) for part, each in zip(split, sides, strict=True)]
    if len(split) == 1:
        return own[0]
    of_each, _ = suite.effects(over, under)
    level = _geomean if weights is alike else _quotient
    levels = [math.log(level(each)) for each in sides]
    return [of_mean(levels, own, of_each)]


def _variances_of(parts: Sequence[tuple[float, Logs]]) -> list[Part]:
    if any(len(logs) < 2 for _, logs in parts):
        return []
    return [(w**2 * variance(logs) / len(logs), len(logs) - 1.0) for w, logs in parts]


def _errors(
    suite: CommonCases, sides: _Sides, weights: Callable[[Sequence[Logs]], Sequence[float]]
) -> list[tuple[float, Logs]]:
    """Return the independent parts of a ratio's error.

    Pairs are independent by case. Otherwise cases in a row share slow changes of their box, and the parts are
    each side's rounds. Simulated in `tests.benchmarks.simulated.turns`.
    """
    if not sides.are_pairs:
        both = zip(sides.names, sides.logs, strict=True)
        return [(1.0, rounds(suite, name, weights(logs))) for name, logs in both]
    ours, theirs = sides.logs
    return [
        (1.0, [w * a - v * b for a, b in zip(case, other, strict=True)])
        for w, v, case, other in zip(weights(ours), weights(theirs), ours, theirs, strict=True)
    ]


def rounds(suite: CommonCases, hardware: str, weights: Sequence[float]) -> Logs:
    """Return the log of each round's total over the mean one.

    A round that lacks half of the total is left out.
    """
    logs = suite.logs[hardware]
    numbers = suite.repeats.get(hardware) or [list(range(len(of_case))) for of_case in logs]
    by_round: dict[int, list[tuple[float, float]]] = {}
    for of_case, weight, places in zip(logs, weights, numbers, strict=True):
        mean = statistics.fmean(of_case)
        for number, log in zip(places, of_case, strict=True):
            by_round.setdefault(number, []).append((weight, weight * (log - mean)))
    sums = [tuple(map(math.fsum, zip(*parts, strict=True))) for parts in by_round.values()]
    return [part / whole for whole, part in sums if whole > HALF]


def _shares(logs: Sequence[Logs]) -> list[float]:
    times = [_mean_s(of_case) for of_case in logs]
    total = math.fsum(times)
    return [t / total for t in times]


def alike(logs: Sequence[Logs]) -> list[float]:
    return [1 / len(logs)] * len(logs)


def _quotient(sides: _Sides) -> float:
    ours, theirs = sides.means
    return math.fsum(map(math.exp, ours)) / math.fsum(map(math.exp, theirs))


def _geomean(sides: _Sides) -> float:
    return math.exp(statistics.fmean(a - b for a, b in zip(*sides.means, strict=True)))


def _total(suite: CommonCases, name: str, usd_per_hour: float | None, baseline: str) -> Total:
    against = baseline in suite.logs and name != baseline
    return Total(
        hardware=name,
        cases=len(suite.cases),
        measured=suite.measured,
        seconds=seconds(suite, name),
        usd=usd(seconds(suite, name), usd_per_hour),
        geomean_speedup=geomean_ratio(suite, baseline, name) if against else None,
        speedup=time_ratio(suite, baseline, name) if against else None,
        provisional=suite.provisional,
    )


def half_width(
    parts: Iterable[tuple[float, Logs]], confidence: float = 0.95, added: Sequence[Part] = ()
) -> float | None:
    """Return half of the t-interval of a sum; None for a single repeat.

    `added` are further variances. Source: Welch 1947, Biometrika 34.
    """
    errors = _standard_errors(list(parts), added)
    return widest(errors, 0.5 + confidence / 2) if errors else None


def _standard_errors(parts: Sequence[tuple[float, Logs]], added: Sequence[Part] = ()) -> list[Part]:
    own = _variances_of(parts)
    return errors_of(own, added) if own else []


def _interval(value: float, parts: Iterable[tuple[float, Logs]]) -> Estimate:
    return _bounded(value, _standard_errors(list(parts)))


def _bounded(value: float, errors: Sequence[Part], confidence: float = 0.95) -> Estimate:
    if not errors:
        return Estimate(value)
    half = widest(errors, 0.5 + confidence / 2)
    return Estimate(value, value * math.exp(-half), value * math.exp(half))


def _mean_s(logs: Logs) -> float:
    return math.exp(statistics.fmean(logs))
