"""Did a cell get slower from one run to another? The repeats of the two runs say it, without a history."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from tasks.findings.compare import judged_cells
from tasks.findings.two_runs import Side
from tasks.regressions.baseline import LEAST_CHANGE
from tasks.regressions.shifts import FEWEST, USUAL, Sample, Shift, repeats_needed, sample, shifts
from tasks.results.confounds import confounds
from tasks.results.format import format_count
from tasks.results.repeats import Repeats, latest
from tasks.results.summaries import over_repeats
from tasks.results.values import Estimate
from workloads.harness.probes.machine import machine_id
from workloads.harness.records.case import Cell
from workloads.harness.records.record import Record, Verdict

FALSE_FAILURES = 0.05  # of comparisons without any change, over all their cells together
BLIND = 1.0  # a cell that would not even have shown a doubling says nothing


class Standing(StrEnum):
    """What a cell is against another run, in the order in which people want to read of it."""

    SLOWER = "slower"
    LOST = "lost"  # ok before, and now not ok or without a record
    UNDECIDED = "undecided"  # too few repeats to say anything
    NOT_COMPARABLE = "not comparable"
    FASTER = "faster"
    UNCHANGED = "unchanged"

    @property
    def failed(self) -> bool:
        """Whether a comparison with such a cell fails."""
        return self in (Standing.SLOWER, Standing.LOST)

    @property
    def decided(self) -> bool:
        """Whether something is known of the cell."""
        return self not in (Standing.UNDECIDED, Standing.NOT_COMPARABLE)


@dataclass(frozen=True, slots=True)
class CellAgainst:
    """A cell of one run against the same cell of another.

    Attributes:
        now_s, before_s: seconds per step of the two runs; None without an ok repeat.
        shift: how it has changed; None where that could not be told.
        why: a sentence behind what it is; empty where the numbers say all.
    """

    cell: Cell
    standing: Standing
    now_s: Estimate | None = None
    before_s: Estimate | None = None
    shift: Shift | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Against:
    """A run against another, cell by cell, the slower first.

    Attributes:
        confidence: of each cell's interval, so that all of them together hold as `FALSE_FAILURES` says.
        least: share below which a change is of no interest.
        notes: what else differs between the runs, a sentence each.
    """

    now: Side
    before: Side
    cells: tuple[CellAgainst, ...]
    confidence: float
    least: float
    notes: tuple[str, ...] = ()

    def having(self, standing: Standing) -> list[CellAgainst]:
        """The cells that are so."""
        return [cell for cell in self.cells if cell.standing is standing]

    @property
    def exit_code(self) -> int:
        """0: nothing is slower or lost; 1: something is; 3: nothing could be decided, which is no success."""
        if any(cell.standing.failed for cell in self.cells):
            return 1
        return 0 if any(cell.standing.decided for cell in self.cells) else 3


def compare_cells(now: Side, before: Side, planned: Collection[Cell], least: float = LEAST_CHANGE) -> Against:
    """Hold a run against another.

    Each interval has Bonferroni's confidence for one of so many cells, its upper end and its lower end apart,
    since only slower cells fail.

    Args:
        now, before: the runs; only cells of the same hardware and case are compared.
        planned: what `now` was to measure; what it was not is not missed.
        least: share below which a change is of no interest.
    """
    ours, theirs = _cells(now), _cells(before)
    found = [
        _unmeasured(cell, ours.get(cell), theirs.get(cell), (now.name, before.name), cell in planned)
        for cell in dict.fromkeys([*theirs, *ours])
        if cell in theirs or cell in planned
    ]
    open_ = [cell.cell for cell in found if cell is not None and cell.standing is Standing.UNCHANGED]
    samples = {cell: (sample(ours[cell]), sample(theirs[cell])) for cell in open_}
    enough = [cell for cell in open_ if min(len(side.seconds) for side in samples[cell]) >= FEWEST]
    confidence = 1 - 2 * FALSE_FAILURES / max(len(enough), 1)
    measured = _measured(enough, samples, confidence, least)
    cells = [
        _judged(one, measured[one.cell], least)
        if one.cell in measured
        else _too_few(one, samples[one.cell], (now.name, before.name), confidence, least)
        if one.cell in samples
        else one
        for one in found
    ]
    notes = tuple(_notes(open_, ours, theirs, samples))
    return Against(now, before, tuple(sorted(cells, key=_place)), confidence, least, notes)


def _cells(side: Side) -> dict[Cell, Repeats]:
    own = [record for record in latest(side.records) if record.run == side.name]
    return {cell.cell: cell for cell in judged_cells(own, side.machines)[0]}


def _unmeasured(
    cell: Cell, ours: Repeats | None, theirs: Repeats | None, names: tuple[str, str], planned: bool
) -> CellAgainst:
    """What a cell is without looking at its times: unchanged, as long as nothing stands against it."""
    now, before = names
    one = CellAgainst(cell, Standing.NOT_COMPARABLE, _seconds(ours), _seconds(theirs))
    if theirs is None:
        return replace(one, why=f"{before} has no record of it")
    if theirs.verdict is not Verdict.OK:
        return replace(one, why=f"{before} has it as {_verdict(theirs)}")
    if ours is None and not planned:
        return replace(one, why=f"{now} was not asked for it")
    if ours is None:
        return replace(one, standing=Standing.LOST, why=f"{now} has no record of it")
    if ours.verdict is not Verdict.OK:
        return replace(one, standing=Standing.LOST, why=f"it was ok, and is {_verdict(ours)}")
    if other := _machine_changed(ours.usable, theirs.usable):
        return replace(one, why=f"the machine is another: {other}")
    return replace(one, standing=Standing.UNCHANGED)


def _seconds(cell: Repeats | None) -> Estimate | None:
    return over_repeats(cell.compute_s) if cell else None


def _verdict(cell: Repeats) -> str:
    reason = f": {cell.reasons[0]}" if cell.reasons else ""
    return f"{cell.verdict.replace('_', ' ')}{reason}"


def _machine_changed(ours: Sequence[Record], theirs: Sequence[Record]) -> str:
    """What of the hardware or its driver is another, in words; empty where nothing is, or none is known."""
    if not (_ids(ours) and _ids(theirs)) or _ids(ours) == _ids(theirs):
        return ""
    one, other = _environment_unlike(ours, _ids(theirs)), _environment_unlike(theirs, _ids(ours))
    names = [name for name in dict.fromkeys([*one, *other]) if _id_of(name, one) != _id_of(name, other)]
    told = [f"{name} {one.get(name)} against {other.get(name)}" for name in names if _short(name, one, other)]
    told += [name for name in names if not _short(name, one, other)]
    return ", ".join(told) or "several machines took part"


def _environment_unlike(records: Sequence[Record], ids: set[str]) -> Mapping[str, object]:
    """The fingerprint of a record of a machine that the other side has not, where there is one."""
    return next((r.environment for r in records if machine_of(r) not in ids), records[0].environment)


def _short(name: str, *environments: Mapping[str, object]) -> bool:
    return all(isinstance(found.get(name), str | int | float | None) for found in environments)


def _id_of(name: str, environment: Mapping[str, object]) -> str:
    """The hash of a machine of which this is all that is known: equal where no difference counts."""
    try:
        return machine_id({name: environment.get(name)})
    except (AttributeError, TypeError, ValueError, OverflowError):  # fingerprints come from other boxes
        return ""


def _ids(records: Sequence[Record]) -> set[str]:
    return {found for record in records if (found := machine_of(record))}


def machine_of(record: Record) -> str:
    """The hash of a record's machine; empty for a fingerprint that can't be right, which a box may send."""
    try:
        return machine_id(record.environment) if record.environment else ""
    except (AttributeError, TypeError, ValueError, OverflowError):
        return ""


def _measured(
    cells: Sequence[Cell], samples: Mapping[Cell, tuple[Sample, Sample]], confidence: float, least: float
) -> dict[Cell, Shift]:
    """The shifts of all cells, those of one machine together."""
    found: dict[Cell, Shift] = {}
    for hardware in dict.fromkeys(cell.hardware for cell in cells):
        of_it = [cell for cell in cells if cell.hardware == hardware]
        told = shifts([samples[cell] for cell in of_it], confidence, least)
        found |= dict(zip(of_it, told, strict=True))
    return found


def _judged(one: CellAgainst, shift: Shift, least: float) -> CellAgainst:
    """What the interval of its change makes of a cell."""
    change = shift.change
    low, high = change.low or 0.0, change.high or 0.0
    if low > 0 and change.value > least:
        standing, why = Standing.SLOWER, ""
    elif high < 0 and 1 / (1 + change.value) - 1 > least:
        standing, why = Standing.FASTER, ""
    elif shift.smallest > BLIND:
        standing = Standing.UNDECIDED
        why = (
            f"its repeats are so few, or so far apart, that no doubling would show; {_advice(shift.repeats)}"
        )
    else:
        standing, why = Standing.UNCHANGED, ""
    return replace(one, standing=standing, shift=shift, why=why)


def _too_few(
    one: CellAgainst,
    sides: tuple[Sample, Sample],
    names: tuple[str, str],
    confidence: float,
    least: float,
) -> CellAgainst:
    """A cell without an interval, and how many repeats it would take."""
    have = " and ".join(
        f"{name} has {format_count(len(side.seconds), 'ok repeat')}"
        for name, side in zip(names, sides, strict=True)
        if len(side.seconds) < FEWEST
    )
    known = next((side.spread for side in sides if side.spread is not None), None)
    count: int | None = USUAL
    if known is not None and least > 0:
        count = repeats_needed(known, confidence, least)
    why = f"{have} of it, and {FEWEST} are the least; {_advice(count)}"
    return replace(one, standing=Standing.UNDECIDED, why=why)


def _advice(repeats: int | None) -> str:
    if repeats is None:
        return "measure both on a quieter machine, its repeats differ too much"
    return f"measure both with --repeats {max(repeats, USUAL)} or more"


def _notes(
    cells: Sequence[Cell],
    ours: Mapping[Cell, Repeats],
    theirs: Mapping[Cell, Repeats],
    samples: Mapping[Cell, tuple[Sample, Sample]],
) -> list[str]:
    """What else is another than before, once for each piece of hardware."""
    found: dict[str, None] = {}
    for cell in cells:
        for difference in confounds(ours[cell].usable, theirs[cell].usable):
            found[f"{cell.hardware}: {difference}"] = None
        now, before = samples[cell]
        if now.controls and before.controls and now.reference != before.reference:
            found[f"{cell.hardware}: the controls ran in another reference, and don't count"] = None
    return list(found)


def _place(one: CellAgainst) -> tuple[int, float]:
    """Where a cell stands in the list: the worst first, of those alike the most changed."""
    return list(Standing).index(one.standing), -abs(one.shift.change.value) if one.shift else 0.0
