"""Compare a run with another by repeats, without a history."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from tasks.findings.compare import judged_cells
from tasks.findings.two_runs import ComparedRun
from tasks.regressions.change import (
    FEWEST,
    SHOWING_CELLS,
    USUAL,
    Change,
    GateLimits,
    Sample,
    changes_between,
    repeats_needed,
    sample,
    share_in_words,
)
from tasks.results.confounds import confounds, machine_difference
from tasks.results.corrections import confidence_of_each
from tasks.results.format import format_count, format_share
from tasks.results.metrics import metric_in, viewed
from tasks.results.repeats import Repeats, latest
from tasks.results.summaries import over_repeats
from tasks.results.values import Estimate
from workloads.harness.records.case import EAGER, Cell
from workloads.harness.records.record import OF_THE_MACHINE, Grade, Verdict
from workloads.harness.records.script import OWN

FALSE_FAILURES = 0.05  # chance over all cells of a comparison without any change
USUAL_LIMITS = GateLimits()
LOAD = "load can look like a change or hide one, and no control ran to show it"


class CellStatus(StrEnum):
    """Statuses, the most important first."""

    SLOWER = "slower"
    LOST = "lost"  # was valid before, and now is refused, in part or whole, or has no record
    UNDECIDED = (
        "undecided"  # a slowdown by the margin is not excluded, or the machine was in an unsuitable state
    )
    NOT_COMPARABLE = "not comparable"
    FASTER = "faster"
    NOT_SLOWER = "not slower"  # a slowdown by the margin is excluded, a speedup is not
    UNCHANGED = "unchanged"  # both are excluded

    @property
    def failed(self) -> bool:
        return self in (CellStatus.SLOWER, CellStatus.LOST)

    @property
    def decided(self) -> bool:
        return self not in (CellStatus.UNDECIDED, CellStatus.NOT_COMPARABLE)


@dataclass(frozen=True, slots=True)
class CellComparison:
    """A cell compared between two runs.

    `now_s`, `before_s`: seconds per step; `why`: unless the numbers say it.
    """

    cell: Cell
    status: CellStatus
    now_s: Estimate | None = None
    before_s: Estimate | None = None
    change: Change | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Two runs compared, slower cells first.

    `confidence` of each interval: false failures over all cells are at most `FALSE_FAILURES`; `notes`: other
    differences.
    """

    now: ComparedRun
    before: ComparedRun
    cells: tuple[CellComparison, ...]
    confidence: float
    limits: GateLimits
    notes: tuple[str, ...] = ()

    def having(self, status: CellStatus) -> list[CellComparison]:
        return [cell for cell in self.cells if cell.status is status]

    def exit_code(self, allow_undecided: bool = False) -> int:
        """Return 1 if something is slower or lost, 3 if undecided, else 0.

        With `allow_undecided`, one decided cell is enough for 0.
        """
        if any(cell.status.failed for cell in self.cells):
            return 1
        is_open = bool(self.having(CellStatus.UNDECIDED)) and not allow_undecided
        return 3 if is_open or not any(cell.status.decided for cell in self.cells) else 0


def compare_cells(
    now: ComparedRun, before: ComparedRun, planned: Collection[Cell], limits: GateLimits = USUAL_LIMITS
) -> RunComparison:
    """Compare a run with an earlier one.

    Each interval has Bonferroni's confidence for all cells, separately for both ends, since only slower cells
    fail. An unchanged cell excludes a change by two one-sided tests at 5 % each (Schuirmann, 1987), without
    correction: if some cell is slower by the margin, the tests of all cells exclude it with a chance of at
    most 5 % (R. L. Berger, Multiparameter hypothesis testing and acceptance sampling, 1982).

    Cells that `now` did not plan are not lost.
    """
    ours, theirs = _cells(now), _cells(before)
    ours, theirs = _like(ours, theirs), _like(theirs, ours)
    planned = {view for cell in planned for view in _views(cell, {**ours, **theirs})}
    names = now.name, before.name
    cells = [
        _without_times(cell, ours.get(cell), theirs.get(cell), names, cell in planned)
        for cell in dict.fromkeys([*theirs, *ours])
        if cell in theirs or cell in planned
    ]
    open_ = [each.cell for each in cells if each.status is CellStatus.UNCHANGED]
    samples = {cell: (sample(ours[cell]), sample(theirs[cell])) for cell in open_}
    enough = [cell for cell in open_ if min(len(side.seconds) for side in samples[cell]) >= FEWEST]
    confidence = confidence_of_each(len(enough), 2 * FALSE_FAILURES)
    changes: dict[Cell, Change] = {}
    for hardware in dict.fromkeys(cell.hardware for cell in enough):
        own = [cell for cell in enough if cell.hardware == hardware]
        changes |= zip(own, changes_between([samples[cell] for cell in own], confidence, limits), strict=True)
    for index, each in enumerate(cells):
        if each.cell in changes:
            busy = [name for name, side in zip(names, samples[each.cell], strict=True) if side.busy]
            cells[index] = _decided(each, changes[each.cell], limits, busy)
        elif each.cell in samples:
            cells[index] = _too_few(each, samples[each.cell], names, confidence, limits.least)
    notes = (*_notes(open_, ours, theirs, samples), *_of_machines(cells, samples))
    order = list(CellStatus)
    cells.sort(key=lambda c: (order.index(c.status), -abs(c.change.share.value) if c.change else 0.0))
    return RunComparison(now, before, tuple(cells), confidence, limits, notes)


def _cells(side: ComparedRun) -> dict[Cell, Repeats]:
    own = [record for record in latest(side.records) if record.run == side.name]
    cells = judged_cells(own, side.machines)[0]
    return {view.cell: view for cell in cells for view in viewed(cell)}


def _views(cell: Cell, known: Collection[Cell]) -> list[Cell]:
    metrics = [each for each in known if _measured(each) == cell and each != cell]
    return metrics or [cell]


def _measured(cell: Cell) -> Cell:
    return replace(cell, case=replace(cell.case, mode=EAGER)) if cell.case.precision == OWN else cell


def _like(ours: Mapping[Cell, Repeats], theirs: Collection[Cell]) -> dict[Cell, Repeats]:
    """Replace cells without valid repeats by one per metric of the other run."""
    return {view: repeats for cell, repeats in ours.items() for view in _views(cell, theirs)}


def _without_times(
    cell: Cell, ours: Repeats | None, theirs: Repeats | None, names: tuple[str, str], planned: bool
) -> CellComparison:
    now, before = names
    base = CellComparison(cell, CellStatus.NOT_COMPARABLE, _seconds(ours), _seconds(theirs))
    if theirs is None:
        return replace(base, why=f"{before} has no record of it")
    if theirs.grade is Grade.REFUSED:
        return replace(base, why=f"in {before} it is {_verdict(theirs)}")
    if ours is None and not planned:
        return replace(base, why=f"{now} did not plan to measure it")
    if ours is None:
        return replace(base, status=CellStatus.LOST, why=f"{now} has no record of it")
    if ours.grade is Grade.REFUSED:
        status = CellStatus.LOST if _broken(ours) else CellStatus.UNDECIDED
        return replace(base, status=status, why=f"it was valid before, and is now {_verdict(ours)}")
    if _broken(ours) and not _broken(theirs):
        return replace(base, status=CellStatus.LOST, why=_in_part(ours))
    if difference := machine_difference(ours.usable, theirs.usable):
        return replace(base, why=f"the machine differs: {difference}")
    return replace(base, status=CellStatus.UNCHANGED)


def _broken(cell: Repeats) -> list[tuple[Verdict, tuple[str, ...]]]:
    return [refusal for refusal in cell.refused if refusal[0] not in OF_THE_MACHINE]


def _in_part(cell: Repeats) -> str:
    broken = _broken(cell)
    verdicts = " or ".join(dict.fromkeys(verdict.replace("_", " ") for verdict, _ in broken))
    reason = next((f": {reasons[0]}" for _, reasons in broken if reasons), "")
    count = format_count(len(cell.records), "repeat")
    return f"{len(broken)} of its {count} {'is' if len(broken) == 1 else 'are'} {verdicts}{reason}"


def _seconds(cell: Repeats | None) -> Estimate | None:
    return over_repeats(cell.median_s) if cell else None


def _verdict(cell: Repeats) -> str:
    reason = f": {cell.why[0]}" if cell.why else ""
    return f"{cell.verdict.replace('_', ' ')}{reason}"


def _decided(base: CellComparison, change: Change, limits: GateLimits, busy: Sequence[str]) -> CellComparison:
    """Return a cell with its status.

    Only controls distinguish a change from load: the same load in all repeats widens no interval. `busy`:
    runs next to other programs.
    """
    status, why = CellStatus.UNCHANGED, ""
    direction = change.direction(limits.least)
    if busy and not change.paired:
        status, why = CellStatus.UNDECIDED, f"other programs used the machine in {' and '.join(busy)}: {LOAD}"
    elif direction:
        status = CellStatus.SLOWER if direction > 0 else CellStatus.FASTER
    elif not change.excludes_slowdown(limits.excluded):
        status, why = CellStatus.UNDECIDED, _not_excluded(base.cell, change, limits)
    elif not change.excludes_speedup(limits.excluded):
        status = CellStatus.NOT_SLOWER
    return replace(base, status=status, change=change, why=why)


def _not_excluded(cell: Cell, change: Change, limits: GateLimits) -> str:
    text = f"a slowdown by {format_share(change.most)} would not have been seen"
    if metric_in(cell.case.id):
        text = f"{share_in_words(change.most, cell.case.id)} would not have been seen"
    effect = change.effect
    if change.repeats or not effect:
        return f"{text}; {_advice(change.repeats)}"
    own = f"{100 * effect.sd:.2g} %"
    if effect.is_assumed:
        few = f"fewer than {SHOWING_CELLS} cells of a machine can't show by how much two runs differ on their own"
        return f"{text}; {few}, which is assumed (run_effect {limits.run_effect:g})"
    return f"{text}; two runs differ by {own} (standard deviation) on their own here, and repeats do not show that"


def _too_few(
    base: CellComparison,
    sides: tuple[Sample, Sample],
    names: tuple[str, str],
    confidence: float,
    least: float,
) -> CellComparison:
    have = " and ".join(
        f"{name} has {format_count(len(side.seconds), 'usable repeat')}"
        for name, side in zip(names, sides, strict=True)
        if len(side.seconds) < FEWEST
    )
    spread = next((side.spread for side in sides if side.spread is not None), None)
    is_known = spread is not None and least > 0
    count = repeats_needed(spread or 0.0, confidence, least) if is_known else USUAL
    why = f"{have} of it, and at least {FEWEST} are needed; {_advice(count)}"
    return replace(base, status=CellStatus.UNDECIDED, why=why)


def _advice(repeats: int | None) -> str:
    if repeats is None:
        return "measure both on a quieter machine, its repeats differ too much"
    return f"{max(repeats, USUAL)} usable repeats or more in both runs (--repeats) can decide it"


def _notes(
    cells: Sequence[Cell],
    ours: Mapping[Cell, Repeats],
    theirs: Mapping[Cell, Repeats],
    samples: Mapping[Cell, tuple[Sample, Sample]],
) -> list[str]:
    notes: dict[str, None] = {}
    for cell in cells:
        if _broken(ours[cell]):
            notes[f"{cell.id}: {_in_part(ours[cell])}; before, it was {len(_broken(theirs[cell]))}"] = None
        for difference in confounds(ours[cell].usable, theirs[cell].usable):
            notes[f"{cell.hardware}: {difference}"] = None
        now, before = samples[cell]
        if now.controls and before.controls and now.reference != before.reference:
            why = "the controls ran in a different reference environment, so they are ignored"
            notes[f"{cell.hardware}: {why}"] = None
    return list(notes)


def _of_machines(
    cells: Sequence[CellComparison], samples: Mapping[Cell, tuple[Sample, Sample]]
) -> Iterator[str]:
    uncontrolled = [cell for cell in cells if cell.change and not cell.change.paired]
    for name in dict.fromkeys(c.cell.hardware for c in uncontrolled if c.status is CellStatus.SLOWER):
        yield f"{name}: without controls, a machine that was slower in the later run looks like slower code"
    busy = [c.cell.hardware for c in uncontrolled if any(side.busy for side in samples[c.cell])]
    advice = "measure both runs again on an idle machine, or compare nights, which have controls"
    for name, count in Counter(busy).items():
        during = format_count(count, "cell")
        yield f"{name}: other programs used it during {during}, so these are undecided: {advice}"
