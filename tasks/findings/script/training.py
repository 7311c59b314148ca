"""Whether a script was the same training on every machine: its losses side by side."""

from collections.abc import Sequence
from dataclasses import dataclass

from tasks.plausibility.trainings import EARLY, Course, Standing, courses
from tasks.results.finding import Finding, Results
from tasks.results.table import Column, Mark, Quantity, Table
from tasks.results.values import RatioVerdict
from tasks.results.wording import size_text
from workloads.harness.records.case import Case, Cell

GRAVEST = (Standing.WRONG, Standing.UNSHOWN, Standing.SAME, Standing.REFERENCE)
OUTCOMES = {
    Standing.WRONG: RatioVerdict.SLOWER,
    Standing.UNSHOWN: RatioVerdict.UNDECIDED,
    Standing.SAME: RatioVerdict.FASTER,
}
COLUMNS = (
    Column("Machine", Quantity.MACHINE),
    Column("Case"),
    Column("Losses", Quantity.COUNT),
    Column("First loss", Quantity.COUNT),
    Column("Last loss", Quantity.COUNT),
    Column("Training", Quantity.VERDICT),
    Column("Because"),
)
LEAD = (
    f"The first {EARLY} losses are compared closely between devices of one kind, with a tolerance that grows with "
    "each step as rounding errors do. After that a training is wrong only if its loss is not a number, or falls on one "
    "machine and not on another. The time of a wrong training is not used."
)


@dataclass(frozen=True, slots=True)
class SameTraining(Finding):
    """Every script's training beside the others of its case, a course a repeat."""

    name = "training"
    title = "Is it the same training?"
    section = "script"
    order = 6
    courses: tuple[Course, ...]

    @classmethod
    def find(cls, results: Results) -> "SameTraining":
        """Judge the losses of all scripts."""
        return cls(tuple(courses(results.records, results.machines)))

    def table(self) -> Table | None:
        """Return a row a cell, by its gravest repeat."""
        rows = tuple(_row(course) for course in self._by_cell().values())
        return Table(COLUMNS, rows, LEAD) if rows else None

    def details(self) -> tuple[str, ...]:
        """Say on which machines it is not shown to be the same training; wrong ones are refused."""
        sentences = []
        for case, found in self._by_case().items():
            unshown = [course for course in found if course.standing is Standing.UNSHOWN]
            base = next((c.record.hardware for c in found if c.standing is Standing.REFERENCE), "")
            reasons: dict[str, list[str]] = {}
            for course in unshown:
                reasons.setdefault(course.detail, []).append(course.record.hardware)
            for why, names in reasons.items():
                others = [name for name in names if name != base]
                against = f" as on {base}" if base and others else ""
                where = f"{_name(case)} on {', '.join(others or names)}"
                sentences.append(
                    f"Not shown to be the same training{against}: {where} ({why}). "
                    "No gross difference was seen, and its times are compared."
                )
        return tuple(sentences)

    def observations(self) -> tuple[str, ...]:
        """Say of each case on which machines the training is the same."""
        sentences = []
        for case, found in self._by_case().items():
            base = next((c.record.hardware for c in found if c.standing is Standing.REFERENCE), "")
            same = [c for c in found if c.standing is Standing.SAME and c.record.hardware != base]
            if same and base:
                names = ", ".join(course.record.hardware for course in same)
                sentences.append(
                    f"The same training: {_name(case)} on {names} as on {base}, {same[0].detail}."
                )
        return tuple(sentences)

    def _by_cell(self) -> dict[Cell, Course]:
        """Return the gravest course of each cell; of a baseline that is sound, the reference."""
        cells: dict[Cell, list[Course]] = {}
        for course in self.courses:
            cells.setdefault(course.record.cell, []).append(course)
        return {cell: _gravest(members) for cell, members in cells.items()}

    def _by_case(self) -> dict[Case, list[Course]]:
        cases: dict[Case, list[Course]] = {}
        for cell, course in self._by_cell().items():
            cases.setdefault(cell.case, []).append(course)
        return cases


def _gravest(members: Sequence[Course]) -> Course:
    """Return the course that speaks for a cell: the gravest; the reference, where the others are the same."""
    gravest = min(members, key=lambda course: GRAVEST.index(course.standing))
    reference = next((c for c in members if c.standing is Standing.REFERENCE), None)
    return reference if reference and gravest.standing is Standing.SAME else gravest


def _row(course: Course) -> tuple[str | int | float | Mark | None, ...]:
    record = course.record
    losses = record.script.losses if record.script else ()
    mark = Mark(str(course.standing), OUTCOMES.get(course.standing))
    return (record.hardware, record.case.id, len(losses), losses[0], losses[-1], mark, course.detail or None)


def _name(case: Case) -> str:
    return f"{case.workload} {size_text(case)}".rstrip()
