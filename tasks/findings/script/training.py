"""Compare losses: was it the same training on every machine?"""

from collections.abc import Iterator
from dataclasses import dataclass

from tasks.plausibility.trainings import EARLY, Course, Standing, courses
from tasks.results.finding import Finding, Results
from tasks.results.table import Column, Mark, Quantity, Table
from tasks.results.values import RatioVerdict
from tasks.results.wording import script_text
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
    "A loss is the number that the first `backward()` of a step got, before a scaler. "
    f"The first {EARLY} losses are compared closely between devices of one kind, with a "
    "tolerance that grows with each step as rounding errors do. After that a training is wrong only if its loss is not "
    "a number, or falls on one machine and not on another. The time of a wrong training is not used."
)


@dataclass(frozen=True, slots=True)
class SameTraining(Finding):
    """Scripts' trainings, a course per repeat."""

    name = "training"
    title = "Is it the same training?"
    section = "script"
    order = 6
    courses: tuple[Course, ...]

    @classmethod
    def find(cls, results: Results) -> "SameTraining":
        return cls(tuple(courses(results.records, results.machines)))

    def table(self) -> Table | None:
        """Return a row per cell, by its gravest repeat."""
        rows = []
        for course in self._by_cell().values():
            record, mark = course.record, Mark(str(course.standing), OUTCOMES.get(course.standing))
            losses = record.script.losses if record.script else ()
            ends = (len(losses), losses[0], losses[-1])
            rows.append((record.hardware, record.case.id, *ends, mark, course.detail or None))
        return Table(COLUMNS, tuple(rows), " ".join([LEAD, *self._factors()])) if rows else None

    def _factors(self) -> Iterator[str]:
        """Yield the factor of printed numbers for scripts that accumulate, if it divides their loss."""
        calls = {
            (course.record.case, round(course.record.script.accumulation)): None
            for course in self.courses
            if course.record.script and course.record.script.accumulation
        }
        for case, count in calls:
            if count > 1:
                yield (
                    f"A step of {script_text(case)} has {count} backward calls: if the script divides each loss by "
                    f"{count}, as accumulation does, its own loss is {count} times the number here."
                )

    def details(self) -> tuple[str, ...]:
        sentences = []
        for case, base, found in self._by_case():
            reasons: dict[str, list[str]] = {}
            for course in found:
                if course.standing is Standing.UNSHOWN:
                    reasons.setdefault(course.detail, []).append(course.record.hardware)
            for why, names in reasons.items():
                others = [name for name in names if name != base]
                against = f" as on {base}" if base and others else ""
                where = f"{script_text(case)} on {', '.join(others or names)}"
                sentences.append(
                    f"Not shown to be the same training{against}: {where} ({why}). "
                    "No gross difference was seen, and its times are compared."
                )
        return tuple(sentences)

    def observations(self) -> tuple[str, ...]:
        sentences = []
        for case, base, found in self._by_case():
            same = [c for c in found if c.standing is Standing.SAME and c.record.hardware != base]
            if same and base:
                names = ", ".join(course.record.hardware for course in same)
                what = f"{script_text(case)} on {names}"
                sentences.append(f"The same training: {what} as on {base}, {same[0].detail}.")
        return tuple(sentences)

    def _by_cell(self) -> dict[Cell, Course]:
        cells: dict[Cell, list[Course]] = {}
        for course in self.courses:
            cells.setdefault(course.record.cell, []).append(course)
        found = {}
        for cell, members in cells.items():
            gravest = min(members, key=lambda course: GRAVEST.index(course.standing))
            reference = next((c for c in members if c.standing is Standing.REFERENCE), None)
            found[cell] = reference if reference and gravest.standing is Standing.SAME else gravest
        return found

    def _by_case(self) -> Iterator[tuple[Case, str, list[Course]]]:
        cases: dict[Case, list[Course]] = {}
        for cell, course in self._by_cell().items():
            cases.setdefault(cell.case, []).append(course)
        for case, found in cases.items():
            base = next((c.record.hardware for c in found if c.standing is Standing.REFERENCE), "")
            yield case, base, found
