"""Times and boxes of repeats, and turns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import combinations, pairwise
from typing import Any

from workloads.harness.records.record import Record

OVERLAP_S = 5.0  # `started_at` is rounded to seconds, and the time before it is from another clock
PAUSE_S = 120.0  # at most between two repeats that are a pair: the second control, the start of a process
APART_S = 3600.0  # at least between two sessions on one box
BEFORE_START = ("process_start",)  # phases of a process before its `started_at`


@dataclass(frozen=True, slots=True)
class Span:
    """A repeat's time (s since the epoch) and `box`."""

    box: str
    repeat: int
    start_s: float
    end_s: float

    @classmethod
    def of(cls, record: Record) -> "Span | None":
        """Return None if its start is not a time."""
        began_s = instant(record.started_at)
        if began_s is None:
            return None
        start_s = began_s - sum(max(record.phases_s.get(name, 0.0), 0.0) for name in BEFORE_START)
        return cls(box_of(record), record.repeat, start_s, start_s + record.wall_s)

    def is_next_to(self, other: "Span | None") -> bool:
        """Return whether two entries of a box measured one repeat in a row."""
        if other is None or (self.box, self.repeat) != (other.box, other.repeat):
            return False
        gap_s = max(self.start_s, other.start_s) - min(self.end_s, other.end_s)
        return -OVERLAP_S <= gap_s <= PAUSE_S


def pairs(one: Sequence[Span | None], other: Sequence[Span | None]) -> list[tuple[int, int]]:
    """Return places of repeats measured right after each other."""
    return [
        (i, j) for i, a in enumerate(one) for j, b in enumerate(other) if a is not None and a.is_next_to(b)
    ]


def in_pairs(
    spans: Mapping[str, Sequence[Sequence[Span | None]]], fewest: int
) -> dict[str, list[list[int]]] | None:
    """Return the repeats with a partner on each entry that takes turns.

    Two take turns if each case has `fewest` pairs; machines without turns are left out. None if a case has
    fewer repeats with a partner on all entries.
    """
    turning = {
        (left, right): partners
        for left, right in combinations(spans, 2)
        if (partners := [pairs(a, b) for a, b in zip(spans[left], spans[right], strict=True)])
        and all(len(of_case) >= fewest for of_case in partners)
    }
    kept = {name: [{*range(len(of_case))} for of_case in spans[name]] for both in turning for name in both}
    before = -1
    while before != (before := sum(len(of_case) for own in kept.values() for of_case in own)):
        for (left, right), partners in turning.items():
            for case, places in enumerate(partners):
                whole = [(i, j) for i, j in places if i in kept[left][case] and j in kept[right][case]]
                kept[left][case] = {i for i, _ in whole}
                kept[right][case] = {j for _, j in whole}
    if any(len(of_case) < fewest for own in kept.values() for of_case in own):
        return None
    return {name: [sorted(of_case) for of_case in own] for name, own in kept.items()}


def are_apart(sessions: Sequence[Sequence[Span | None]]) -> bool:
    """Return whether each session was on another box, or an hour later.

    Sessions of unknown time count as apart.
    """
    timed = [[span for span in spans if span] for spans in sessions]
    ordered = sorted((spans for spans in timed if spans), key=lambda spans: min(s.start_s for s in spans))
    return all(
        not {span.box for span in before} & {span.box for span in after}
        or min(s.start_s for s in after) - max(s.end_s for s in before) >= APART_S
        for before, after in pairwise(ordered)
    )


def box_of(record: Record) -> str:
    """Return GPU ids, cloud instance id, or host name."""
    facts = record.environment
    gpus = facts.get("gpus")
    ids = [_text(gpu, "uuid") for gpu in gpus if isinstance(gpu, Mapping)] if isinstance(gpus, list) else []
    if record.device != "cpu" and all(ids) and ids:
        return " ".join(sorted(ids))
    return _text(facts, "instance_id") or _text(facts, "hostname") or f"{record.run}/{record.hardware}"


def instant(text: str) -> float | None:
    """Return seconds since the epoch for ISO 8601, UTC without a zone."""
    try:
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _text(facts: Mapping[str, Any], name: str) -> str:
    return str(facts.get(name) or "")
