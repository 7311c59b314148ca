"""Jobs whose repeats are all refused for what their machine did: what they saw, by name and as no result."""

from collections.abc import Sequence
from dataclasses import dataclass

from tasks.results.finding import Finding, Results
from tasks.results.format import format_duration
from tasks.results.repeats import Repeats
from tasks.results.wording import size_text, verdict_text
from workloads.harness.records.grade import OF_THE_MACHINE
from workloads.harness.records.script import JobTime


@dataclass(frozen=True, slots=True)
class RefusedJobs(Finding):
    """A sentence for each cell of a script whose job has hours in its records and none that count."""

    name = "refused-job"
    title = "Jobs without a time that counts"
    section = "script"
    order = 3
    sentences: tuple[str, ...]

    @classmethod
    def find(cls, results: Results) -> "RefusedJobs":
        """Take the cells without a repeat that counts, where the machine is the reason."""
        return cls(tuple(filter(None, map(_sentence, results.cells))))

    @property
    def leads(self) -> bool:
        """Return True: it stands where the hours would."""
        return True

    def answer(self) -> tuple[str, ...]:
        """Return the sentences."""
        return self.sentences


def _sentence(cell: Repeats) -> str:
    jobs = [] if cell.usable else _jobs(cell)
    if not jobs:
        return ""
    what = f"{cell.cell.case.workload} {size_text(cell.cell.case)}".rstrip()
    verdicts = dict.fromkeys(verdict_text(record.verdict) for record in cell.records)
    low, high = (
        format_duration(bound) for bound in (min(j.low_s for j in jobs), max(j.high_s for j in jobs))
    )
    return (
        f"On {cell.cell.hardware} the job of {what} ({jobs[0].steps:,} steps) has no time that counts: its "
        f"repeats are refused ({', '.join(verdicts)}). What they saw says {low} to {high}, which is a hint "
        "and no result."
    )


def _jobs(cell: Repeats) -> Sequence[JobTime]:
    """Return the jobs of refused repeats that the machine alone speaks against."""
    records = [record for record in cell.records if record.verdict in OF_THE_MACHINE]
    return [record.script.job for record in records if record.script and record.script.job]
