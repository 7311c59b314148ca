"""The records of one cell taken together, and which of them may enter an estimate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tasks.results.model import Machine
from workloads.harness.records.case import Cell
from workloads.harness.records.record import Record, Verdict

RecordKey = tuple[str, str, str, int]


def key(record: Record) -> RecordKey:
    """Return the identity of a record: run, hardware, case, repeat."""
    return record.run, record.hardware, record.case.id, record.repeat


@dataclass(frozen=True, slots=True)
class Repeats:
    """The repeats of one cell.

    Attributes:
        records: all of them, as given.
        usable: those that are ok and that the plausibility gate let pass.
        verdict: `ok` when at least one is usable; else the verdict of the first repeat.
        reasons: every reason that a repeat or the gate gave, in order, without repetition.
    """

    cell: Cell
    records: tuple[Record, ...]
    usable: tuple[Record, ...]
    verdict: Verdict
    reasons: tuple[str, ...]

    @property
    def compute_s(self) -> list[float]:
        """Seconds per step with the data in place, one median per usable repeat."""
        return [r.compute_s for r in self.usable if r.compute_s is not None]

    @property
    def end_to_end_s(self) -> list[float]:
        """Seconds per step with its transfers, one median per usable repeat that measured them."""
        return [r.end_to_end_s for r in self.usable if r.end_to_end_s is not None]

    @property
    def units(self) -> float | None:
        """Work of one step in the workload's terms; None where no usable repeat states it."""
        return next((r.work.units for r in self.usable if r.work and r.work.units > 0), None)


def standing(
    record: Record, refusals: Mapping[RecordKey, tuple[str, ...]]
) -> tuple[Verdict, tuple[str, ...]]:
    """Return a record's verdict and reasons; `impossible` where the plausibility check refused an ok one."""
    against = refusals.get(key(record), ()) if record.ok else ()
    return (Verdict.IMPOSSIBLE if against else record.verdict), (*record.reasons, *against)


def latest(records: Sequence[Record]) -> tuple[Record, ...]:
    """One record per key, the last one given: a record that was read twice would fake a narrow interval."""
    return tuple({key(record): record for record in records}.values())


def group(
    records: Sequence[Record], machines: Sequence[Machine], implausible: Mapping[RecordKey, tuple[str, ...]]
) -> tuple[Repeats, ...]:
    """Gather records by cell: machines in their order, then unlisted ones; cases in the order they come."""
    hardware = dict.fromkeys([m.name for m in machines] + [r.hardware for r in records])
    cases = dict.fromkeys(record.case for record in records)
    by_cell: dict[Cell, list[Record]] = {Cell(name, case): [] for name in hardware for case in cases}
    for record in records:
        by_cell[record.cell].append(record)
    return tuple(_together(cell, of_cell, implausible) for cell, of_cell in by_cell.items() if of_cell)


def _together(
    cell: Cell, records: Sequence[Record], implausible: Mapping[RecordKey, tuple[str, ...]]
) -> Repeats:
    usable = tuple(r for r in records if r.ok and key(r) not in implausible)
    reasons = [reason for r in records for reason in (*r.reasons, *implausible.get(key(r), ())) if reason]
    first = Verdict.IMPOSSIBLE if records[0].ok else records[0].verdict
    return Repeats(
        cell, tuple(records), usable, Verdict.OK if usable else first, tuple(dict.fromkeys(reasons))
    )
