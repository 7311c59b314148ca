"""Which of many versions changed a case's time: what to measure next, and what is found, by the gate's rules.

All that is known are the rounds so far, in their order: the same rounds always lead to the same step, so a
search that was interrupted goes on from what is stored.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from tasks.regressions.baseline import LEAST_RERUNS
from tasks.regressions.levels import INTERVAL_P, Move, centre, from_middle, moved, spread_within
from tasks.regressions.shifts import Sample
from tasks.results.values import Estimate

MOST_ROUNDS = 3  # of a version that stays unclear; then it is skipped
CHECKS = 2  # rounds at the end: the last good and the first bad version once more

Values = dict[int, list[float]]  # log seconds of each version's processes


class Side(StrEnum):
    """What is known of a version."""

    GOOD = "good"  # nearer to GOOD, and its interval says so
    BAD = "bad"
    UNCLEAR = "unclear"  # to be measured again
    SKIPPED = "skipped"  # can't be measured, or stayed unclear
    UNKNOWN = "unknown"  # not measured


@dataclass(frozen=True, slots=True)
class Round:
    """One measurement of a version: as many fresh processes as each other round has.

    Attributes:
        version: its place among the versions.
        sample: what its ok processes took.
        reason: why there are too few of them; empty where there are enough.
        broken: whether that lies in the version, so that it would be in vain to measure it again.
        check: whether it belongs to the check at the end, which earlier rounds have no part in.
    """

    version: int
    sample: Sample
    reason: str = ""
    broken: bool = False
    check: bool = False

    @property
    def usable(self) -> bool:
        """Whether it has enough processes to say anything."""
        return len(self.sample.seconds) >= LEAST_RERUNS


@dataclass(frozen=True, slots=True)
class Search:
    """Two versions or more, from GOOD to BAD, and the rounds so far in their order."""

    versions: tuple[str, ...]
    rounds: tuple[Round, ...] = ()

    def of(self, version: int, check: bool = False) -> list[Round]:
        """The rounds of a version, in the search itself or in its check."""
        return [one for one in self.rounds if one.version == version and one.check == check]

    def reason(self, version: int) -> str:
        """Why a version's last round without enough processes has none; empty where all have."""
        reasons = [one.reason for one in self.rounds if one.version == version and not one.usable]
        return reasons[-1] if reasons else ""


@dataclass(frozen=True, slots=True)
class Measure:
    """A version to measure next; `check` where it is for the check at the end."""

    version: int
    check: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """Where the change is.

    Attributes:
        last_good, first_bad: the versions beside it.
        change: seconds over those of the last good version, minus 1, with its 95 % interval.
        doubt: why it is not confirmed; empty where it is.
        skipped: versions between the two, of which each may be the first bad one.
        whole: seconds of BAD over those of GOOD, minus 1.
        part: how much of that, as a share of its logarithm, is here.
        before, after: shares by which the time changes from GOOD to the last good version, and from the first
            bad one to BAD.
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
class Nothing:
    """There is nothing to be found, and why."""

    reason: str


Step = Measure | Found | Nothing


def most_rounds(versions: int) -> int:
    """Rounds that a search takes where each version is clear at once: both ends, halving, the check."""
    return 2 + (versions - 2).bit_length() + CHECKS


def next_step(search: Search) -> Step:
    """What to measure next, or what is found."""
    last = len(search.versions) - 1
    for end in (0, last):
        early = _without_numbers(search.of(end))
        if early is Side.SKIPPED:
            return Nothing(f"{search.versions[end]} can't be measured: {search.reason(end)}")
        if early:
            return Measure(end)
    values = _values(search)
    if not (whole := moved(values[last], values[0])).confirmed:
        return Nothing(_unchanged(search, whole))
    known, low, high = sides(search), 0, last
    while inside := [place for place in range(low + 1, high) if known[place] is not Side.SKIPPED]:
        middle = min(inside, key=partial(_off_middle, low + high))
        if known[middle] in (Side.UNKNOWN, Side.UNCLEAR):
            return Measure(middle)
        low, high = (middle, high) if known[middle] is Side.GOOD else (low, middle)
    return _checked(search, low, high)


def sides(search: Search) -> list[Side]:
    """What is known of each version; the ends are good and bad by definition, once they are measured."""
    last = len(search.versions) - 1
    found = [_without_numbers(search.of(place)) for place in range(last + 1)]
    if found[0] is None is found[last]:
        values = _values(search)
        for place in values:
            found[place] = _nearer(values[place], values[0], values[last], len(search.of(place)))
        found[0], found[last] = Side.GOOD, Side.BAD
    return [side or Side.UNCLEAR for side in found]


def paired(search: Search) -> bool:
    """Whether times are held against those of the controls beside them.

    They are where all rounds have controls of one reference, if times differ less that way within a version,
    or the controls show that some version has had another box than the first.
    """
    samples = [one.sample for one in search.rounds if one.usable]
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
    moves = [moved(box, boxes[0]) for box in boxes[1:]]
    return any(abs(move.change) > move.half(INTERVAL_P) for move in moves)


def _off_middle(sum_of_ends: int, place: int) -> tuple[int, int]:
    return abs(2 * place - sum_of_ends), place


def _without_numbers(rounds: Sequence[Round]) -> Side | None:
    """What a version is whose rounds have no numbers to look at; None where they have."""
    if any(one.usable for one in rounds):
        return None
    if any(one.broken for one in rounds) or len(rounds) >= MOST_ROUNDS:
        return Side.SKIPPED
    return Side.UNCLEAR if rounds else Side.UNKNOWN


def _values(search: Search, check: bool = False) -> Values:
    """Log seconds of the processes of each version, without what the box did to them where controls tell."""
    beside, found = paired(search), Values()
    for one in search.rounds:
        if one.usable and one.check == check:
            seconds = one.sample.controlled if beside else one.sample.seconds
            found.setdefault(one.version, []).extend(map(math.log, seconds))
    return found


def _nearer(own: Sequence[float], good: Sequence[float], bad: Sequence[float], rounds: int) -> Side:
    """Which level a version is nearer to; what is like neither has had a change before it, so it is bad."""
    off = from_middle(own, good, bad)
    if abs(off.change) > off.half(INTERVAL_P):
        return Side.BAD if (off.change > 0) == (centre(bad) > centre(good)) else Side.GOOD
    if moved(own, good).confirmed and moved(own, bad).confirmed:
        return Side.BAD
    return Side.UNCLEAR if rounds < MOST_ROUNDS else Side.SKIPPED


def _checked(search: Search, low: int, high: int) -> Step:
    """The check at the end, with fresh rounds alone: these two versions were chosen by the earlier ones."""
    doubt = ""
    for place in (low, high):
        early = _without_numbers(search.of(place, check=True))
        if early is Side.SKIPPED:
            doubt = f"{search.versions[place]} could not be measured again: {search.reason(place)}"
        elif early:
            return Measure(place, check=True)
    values, fresh = _values(search), _values(search, check=True)
    last = len(search.versions) - 1
    whole = centre(values[last]) - centre(values[0])
    used = values if doubt else fresh
    move = moved(used[high], used[low])
    if not doubt and not (move.confirmed and (move.change > 0) == (whole > 0)):
        doubt = "measured once more, they do not differ by more than chance"
    return Found(
        last_good=low,
        first_bad=high,
        change=move.share,
        doubt=doubt,
        skipped=tuple(range(low + 1, high)),
        whole=math.expm1(whole),
        part=(centre(values[high]) - centre(values[low])) / whole,
        before=math.expm1(centre(values[low]) - centre(values[0])),
        after=math.expm1(centre(values[last]) - centre(values[high])),
    )


def _unchanged(search: Search, whole: Move) -> str:
    ends, share = f"{search.versions[0]} and {search.versions[-1]}", whole.share
    low, high = (100 * (bound or 0.0) for bound in (share.low, share.high))
    return (
        f"{ends} do not differ by more than {100 * whole.smallest:.1f} % on this machine: "
        f"{100 * share.value:+.1f} % ({low:+.1f} to {high:+.1f})"
    )


def levels(search: Search) -> dict[int, tuple[float | None, float | None]]:
    """Seconds per step of each version that was measured, and of its controls; None for what is not there."""
    samples: dict[int, list[Sample]] = {}
    for one in search.rounds:
        samples.setdefault(one.version, []).append(one.sample)
    return {
        place: (_seconds(s.seconds for s in of), _seconds(s.controls for s in of))
        for place, of in samples.items()
    }


def _seconds(samples: Iterable[Iterable[float]]) -> float | None:
    logs = [math.log(seconds) for sample in samples for seconds in sample]
    return math.exp(centre(logs)) if logs else None
