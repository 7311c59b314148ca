"""Search for the version that changed a case's time.

Rounds are the whole state, so an interrupted search continues.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tasks.regressions.baseline import LEAST_CHANGE, LEAST_RERUNS
from tasks.regressions.change import (
    CONFIRM_P,
    Sample,
    change_from_middle,
    level,
    robust_change,
)
from tasks.regressions.robust import spread_within
from tasks.results.values import Estimate

MOST_ROUNDS = 3  # rounds of a version that stays unclear; then it is skipped
ENOUGH = 3  # rounds of each, one in the search and two checks, if rounds of one version differ
ROUNDS_P, EFFECT = 0.995, LEAST_CHANGE / 2  # quantile of t, and least change, at which they differ

# Log seconds of each version's processes; in turns over those of its partner, whose list is empty.
Values = dict[int, list[float]]


class VersionState(StrEnum):
    """The state of a version in a search."""

    GOOD = "good"  # nearer to GOOD by its interval
    BAD = "bad"
    UNCLEAR = "unclear"  # measure it again
    SKIPPED = "skipped"  # cannot be measured, or stayed unclear
    UNKNOWN = "unknown"  # not measured


@dataclass(frozen=True, slots=True)
class Round:
    """A measurement of a version.

    Attributes:
        reason: why too few processes are valid; else empty.
        broken: the version is the cause, so another round would not help.
        check: part of the final check, which ignores earlier rounds.
    """

    version: int
    sample: Sample
    reason: str = ""
    broken: bool = False
    check: bool = False

    @property
    def usable(self) -> bool:
        return len(self.sample.seconds) >= LEAST_RERUNS


@dataclass(frozen=True, slots=True)
class VersionSearch:
    """At least two versions, from GOOD to BAD, and the rounds so far.

    With `in_turns`, a measurement is a round of two versions, whose processes alternate: GOOD and another, or
    in the check the last good and first bad one.
    """

    versions: tuple[str, ...]
    rounds: tuple[Round, ...] = ()
    in_turns: bool = False

    def rounds_of(self, version: int, check: bool = False) -> list[Round]:
        return [each for each in self.rounds if each.version == version and each.check == check]

    def reason(self, version: int) -> str:
        """Return that of the last unusable round; else empty."""
        reasons = (
            each.reason for each in reversed(self.rounds) if each.version == version and not each.usable
        )
        return next(reasons, "")


@dataclass(frozen=True, slots=True)
class NextMeasurement:
    """Version by index, with its partner in turns."""

    version: int
    check: bool = False
    partner: int | None = None


@dataclass(frozen=True, slots=True)
class FirstBadVersion:
    """A located change.

    Attributes:
        change: seconds over the last good version's, minus 1.
        doubt: why it is not confirmed; else empty.
        skipped: versions between, each of which can be the first bad one.
        whole: BAD's seconds over GOOD's, minus 1.
        part: share of the whole change, in logs.
        before, after: changes from GOOD to the last good, and from the first bad to BAD.
    """

    last_good: int
    first_bad: int
    change: Estimate
    doubt: str
    skipped: tuple[int, ...]
    whole: float
    part: float
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class NoCulprit:
    """A search without a result, with the reason."""

    reason: str


NextStep = NextMeasurement | FirstBadVersion | NoCulprit


def most_measurements(versions: int, in_turns: bool = False) -> int:
    """Return the measurements if every version is clear."""
    pair = 1 if in_turns else 2
    return pair + (versions - 2).bit_length() + pair


def next_step(search: VersionSearch) -> NextStep:
    last = len(search.versions) - 1
    early = {end: _without_numbers(search.rounds_of(end)) for end in (0, last)}
    for end, state in early.items():
        if state is VersionState.SKIPPED:
            return NoCulprit(f"{search.versions[end]} can't be measured: {search.reason(end)}")
    for end in (end for end, state in early.items() if state):
        return NextMeasurement(last, partner=0) if search.in_turns else NextMeasurement(end)
    values = _values(search)
    if not _differ(values[last], values[0]):
        return NoCulprit(_unchanged(search, values))
    states, low, high = version_states(search), 0, last
    while inside := [v for v in range(low + 1, high) if states[v] is not VersionState.SKIPPED]:
        off_middle = {version: abs(2 * version - low - high) for version in inside}
        middle = min(inside, key=lambda version: (off_middle[version], version))
        if states[middle] in (VersionState.UNKNOWN, VersionState.UNCLEAR):
            return NextMeasurement(middle, partner=0 if search.in_turns else None)
        low, high = (middle, high) if states[middle] is VersionState.GOOD else (low, middle)
    return _check_ends(search, low, high)


def version_states(search: VersionSearch) -> list[VersionState]:
    """Count measured ends as good and bad."""
    last = len(search.versions) - 1
    states = [_without_numbers(search.rounds_of(version)) for version in range(last + 1)]
    if states[0] is None is states[last]:
        values = _values(search)
        for version, own in values.items():
            states[version] = _state(own, values[0], values[last], len(search.rounds_of(version)))
        states[0], states[last] = VersionState.GOOD, VersionState.BAD
    return [state or VersionState.UNCLEAR for state in states]


def paired(search: VersionSearch) -> bool:
    """Return whether times are divided by their controls', or their partners' in turns.

    Dividing must reduce the spread within versions, unless controls show that a version ran on another
    machine than the first.
    """
    if search.in_turns:
        return True
    samples = [each.sample for each in search.rounds if each.usable]
    references = {sample.reference for sample in samples}
    if len(references) != 1 or "" in references:
        return False
    if min(len(sample.controls) for sample in samples) < LEAST_RERUNS:
        return False
    alone, beside, boxes = (
        [[math.log(s) for s in getattr(sample, kind)] for sample in samples]
        for kind in ("seconds", "controlled", "controls")
    )
    if spread_within(beside)[0] < spread_within(alone)[0]:
        return True
    return any(robust_change(box, boxes[0]).direction() for box in boxes[1:])


def _differ(now: Sequence[float], before: Sequence[float]) -> int:
    return robust_change(now, before, CONFIRM_P).direction(LEAST_CHANGE)


def _without_numbers(rounds: Sequence[Round]) -> VersionState | None:
    if any(each.usable for each in rounds):
        return None
    if any(each.broken for each in rounds) or len(rounds) >= MOST_ROUNDS:
        return VersionState.SKIPPED
    return VersionState.UNCLEAR if rounds else VersionState.UNKNOWN


def _values(search: VersionSearch, check: bool = False) -> Values:
    beside, values = paired(search), Values()
    for each in search.rounds:
        if each.usable and each.check == check:
            values.setdefault(each.version, []).extend(_logs(each, beside))
    return values


def _logs(one: Round, beside: bool) -> list[float]:
    return [math.log(seconds) for seconds in (one.sample.controlled if beside else one.sample.seconds)]


def _state(own: Sequence[float], good: Sequence[float], bad: Sequence[float], rounds: int) -> VersionState:
    """Return the nearer end's state; unlike both means bad, since something changed before it."""
    if side := change_from_middle(own, good, bad).direction():
        return VersionState.BAD if (side > 0) == (level(bad) > level(good)) else VersionState.GOOD
    if _differ(own, good) and _differ(own, bad):
        return VersionState.BAD
    return VersionState.UNCLEAR if rounds < MOST_ROUNDS else VersionState.SKIPPED


def _check_ends(search: VersionSearch, low: int, high: int) -> NextStep:
    """Check by fresh rounds only, since the earlier ones selected these versions.

    If a version's rounds differ by more than their processes, two checks of each must both show the change.
    In turns one is enough: its processes share the differences between rounds.
    """
    doubt = ""
    for version in (low, high):
        early = _without_numbers(search.rounds_of(version, check=True))
        if early is VersionState.SKIPPED:
            doubt = f"{search.versions[version]} could not be measured again: {search.reason(version)}"
        elif early and search.in_turns and not doubt:
            return NextMeasurement(high, check=True, partner=low)
        elif early and not search.in_turns:
            return NextMeasurement(version, check=True)
    values = _values(search)
    levels = {version: level(logs) for version, logs in values.items()}
    whole = levels[len(search.versions) - 1] - levels[0]
    sides = [_rounds(search, version) for version in (low, high)]
    pairs = zip(*(side[1:] for side in sides), strict=False)
    if not doubt and {_differ(after, before) * whole > 0 for before, after in pairs} != {True}:
        doubt = "measured once more, they do not differ by more than chance"
    apart = not (doubt or search.in_turns)
    if apart and any(robust_change(r[1], r[0], ROUNDS_P).direction(EFFECT) for r in sides):
        for version, rounds in ((high, sides[1]), (low, sides[0])):
            if len(rounds) < ENOUGH and len(search.rounds_of(version, check=True)) < MOST_ROUNDS:
                return NextMeasurement(version, check=True)
    used = values if doubt else _values(search, check=True)
    return FirstBadVersion(
        last_good=low,
        first_bad=high,
        change=robust_change(used[high], used[low]).share,
        doubt=doubt,
        skipped=tuple(range(low + 1, high)),
        whole=math.expm1(whole),
        part=(levels[high] - levels[low]) / whole,
        before=math.expm1(levels[low] - levels[0]),
        after=math.expm1(levels[len(search.versions) - 1] - levels[high]),
    )


def _rounds(search: VersionSearch, version: int) -> list[list[float]]:
    checks = [each for each in search.rounds_of(version, check=True) if each.usable]
    return [_values(search)[version], *(_logs(each, paired(search)) for each in checks)]


def _unchanged(search: VersionSearch, values: Values) -> str:
    now, before = values[len(search.versions) - 1], values[0]
    share, smallest = robust_change(now, before).share, robust_change(now, before, CONFIRM_P).smallest
    low, high = (100 * (bound or 0.0) for bound in (share.low, share.high))
    return (
        f"{search.versions[0]} and {search.versions[-1]} do not differ by more than {100 * smallest:.1f} % "
        f"on this machine: {100 * share.value:+.1f} % ({low:+.1f} to {high:+.1f})"
    )


def seconds_of_versions(search: VersionSearch) -> dict[int, tuple[float | None, float | None]]:
    """Return seconds per step of versions and of their controls."""
    samples: dict[int, list[Sample]] = {}
    for each in search.rounds:
        samples.setdefault(each.version, []).append(each.sample)
    return {
        version: (_seconds(s.seconds for s in group), _seconds(s.controls for s in group))
        for version, group in samples.items()
    }


def _seconds(samples: Iterable[Iterable[float]]) -> float | None:
    logs = [math.log(seconds) for sample in samples for seconds in sample]
    return math.exp(level(logs)) if logs else None
