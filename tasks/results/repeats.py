"""The records of a cell, and those for estimates."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tasks.results.model import Machine
from tasks.results.turns import Span
from workloads.harness.records.case import Cell
from workloads.harness.records.grade import counts, grade_of, is_busy, is_restless
from workloads.harness.records.record import RULES, Grade, Record, Verdict

RecordKey = tuple[str, str, str, int]
FEWEST = 2  # repeats that have an interval


class WrongTraining(str):
    """Why a record is `wrong`: its training differs."""

    __slots__ = ()


def verdict_against(reasons: Sequence[str]) -> Verdict:
    """Return the verdict on an implausible record."""
    return Verdict.WRONG if all(isinstance(why, WrongTraining) for why in reasons) else Verdict.IMPOSSIBLE


def key(record: Record) -> RecordKey:
    return record.run, record.hardware, record.case.id, record.repeat


@dataclass(frozen=True, slots=True)
class Repeats:
    """The repeats of one cell.

    Attributes:
        usable: not refused by grade or plausibility; of a busy machine only if fewer than two others are
            left.
        verdict: the gravest of the usable ones; else that of the first repeat.
        reasons: all, of repeats and plausibility, once.
        why: of the repeats with this verdict, the gravest first.
    """

    cell: Cell
    records: tuple[Record, ...]
    usable: tuple[Record, ...]
    refused: tuple[tuple[Verdict, tuple[str, ...]], ...]
    verdict: Verdict
    reasons: tuple[str, ...]
    why: tuple[str, ...] = ()

    @property
    def grade(self) -> Grade:
        """Return `refused` without a usable repeat, `wide` if one is."""
        return self.verdict.grade if self.usable else Grade.REFUSED

    @property
    def busy(self) -> bool:
        """Return whether other programs ran during a usable repeat; without one, during any."""
        return any(map(is_busy, self.usable or self.records))

    @property
    def restless(self) -> bool:
        """Return whether the CPU's speed varied."""
        return any(map(is_restless, self.usable))

    @property
    def provisional(self) -> bool:
        """Return whether an idle machine can give another number."""
        return self.busy or self.restless

    @property
    def has_metrics(self) -> bool:
        return any(record.metrics for record in self.usable)

    @property
    def compute_s(self) -> list[float]:
        """Return seconds per step with the data in place.

        Total time over steps, not a median, because slow steps cost time and money too.
        """
        return [r.mean_s for r in self.usable if r.mean_s is not None]

    @property
    def numbers(self) -> list[int]:
        """Return the numbers of the repeats in `compute_s`."""
        return [r.repeat for r in self.usable if r.mean_s is not None]

    @property
    def session_numbers(self) -> list[int]:
        """Return the sessions of the repeats in `compute_s`, 1 for a lone one."""
        return [r.session or 1 for r in self.usable if r.mean_s is not None]

    @property
    def spans(self) -> list[Span | None]:
        """Return the times of the repeats in `compute_s`."""
        return [Span.of(r) for r in self.usable if r.mean_s is not None]

    @property
    def median_s(self) -> list[float]:
        return [r.compute_s for r in self.usable if r.compute_s is not None]

    @property
    def end_to_end_s(self) -> list[float]:
        """Return seconds per step with transfers, if measured."""
        pairs = ((r.wall, r.transfer) for r in self.usable)
        return [
            wall.total_mean_s + moved.h2d_pageable_s + moved.d2h_pageable_s
            for wall, moved in pairs
            if wall and moved
        ]

    @property
    def units(self) -> float | None:
        """Return the work of one step, if stated."""
        return next((r.work.units for r in self.usable if r.work and r.work.units > 0), None)

    def logs_like(self, reference: "Repeats") -> list[float]:
        """Return logs of `compute_s`, scaled to the reference's work if stated."""
        factor = reference.units / self.units if reference.units and self.units else 1.0
        return [math.log(seconds * factor) for seconds in self.compute_s]


def standing(
    record: Record, refusals: Mapping[RecordKey, tuple[str, ...]]
) -> tuple[Verdict, tuple[str, ...]]:
    """Return the verdict after the plausibility check."""
    against = refusals.get(key(record), ()) if counts(record) else ()
    return (verdict_against(against) if against else record.verdict), (*record.reasons, *against)


def standing_grade(record: Record, refusals: Mapping[RecordKey, tuple[str, ...]]) -> Grade:
    """Return the grade after the plausibility check."""
    return Grade.REFUSED if key(record) in refusals else grade_of(record)


def latest(records: Sequence[Record]) -> tuple[Record, ...]:
    """Return the last record of each key: a duplicate would fake a narrow interval."""
    return tuple({key(record): record for record in records}.values())


def group(
    records: Sequence[Record], machines: Sequence[Machine], implausible: Mapping[RecordKey, tuple[str, ...]]
) -> tuple[Repeats, ...]:
    """Return cells in the machines' order, then those of unlisted ones."""
    hardware = dict.fromkeys([m.name for m in machines] + [r.hardware for r in records])
    cases = dict.fromkeys(record.case for record in records)
    by_cell: dict[Cell, list[Record]] = {Cell(name, case): [] for name in hardware for case in cases}
    for record in records:
        by_cell[record.cell].append(record)
    return tuple(_together(cell, of_cell, implausible) for cell, of_cell in by_cell.items() if of_cell)


def entering(counting: Sequence[Record]) -> tuple[Record, ...]:
    """Return busy records only if quiet ones are too few."""
    quiet = tuple(record for record in counting if not is_busy(record))
    return quiet if len(quiet) >= FEWEST else tuple(counting)


def _together(
    cell: Cell, records: Sequence[Record], implausible: Mapping[RecordKey, tuple[str, ...]]
) -> Repeats:
    graded = [(record, standing_grade(record, implausible)) for record in records]
    counting = tuple(record for record, grade in graded if grade is not Grade.REFUSED)
    refused = tuple(standing(record, implausible) for record, grade in graded if grade is Grade.REFUSED)
    usable = entering(counting)
    reasons = [reason for r in records for reason in (*r.reasons, *implausible.get(key(r), ())) if reason]
    first, _ = standing(records[0], implausible)
    gravest = max((r.verdict for r in usable), key=list(RULES).index, default=first)
    why = _why(usable or records, gravest, implausible)
    return Repeats(cell, tuple(records), usable, refused, gravest, tuple(dict.fromkeys(reasons)), why)


def _why(
    records: Sequence[Record], verdict: Verdict, implausible: Mapping[RecordKey, tuple[str, ...]]
) -> tuple[str, ...]:
    reasons = (
        reason
        for record in records
        if standing(record, implausible)[0] is verdict
        for reason in (counts(record) and implausible.get(key(record))) or record.reasons
        if reason
    )
    return tuple(dict.fromkeys(reasons))
