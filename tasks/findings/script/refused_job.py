"""Jobs refused because of the machine."""

from collections.abc import Sequence
from dataclasses import dataclass

from tasks.results.finding import Finding, Results
from tasks.results.format import format_duration, listed
from tasks.results.repeats import Repeats
from tasks.results.wording import script_text, verdict_text
from workloads.harness.records.record import OF_THE_MACHINE
from workloads.harness.records.script import JobTime


@dataclass(frozen=True, slots=True)
class RefusedJobs(Finding):
    """Jobs with times in refused records only."""

    name = "refused-job"
    title = "Jobs without a valid time"
    section = "script"
    order = 3
    cells: tuple[Repeats, ...]

    @classmethod
    def find(cls, results: Results) -> "RefusedJobs":
        return cls(tuple(cell for cell in results.cells if not cell.usable and _jobs(cell)))

    def headline(self) -> tuple[str, ...]:
        names = list(dict.fromkeys(cell.cell.hardware for cell in self.cells))
        return (f"No valid job time on {listed(names)}: all repeats are refused.",) if names else ()

    def details(self) -> tuple[str, ...]:
        return tuple(map(_sentence, self.cells))


def _sentence(cell: Repeats) -> str:
    jobs = _jobs(cell)
    verdicts = dict.fromkeys(verdict_text(record.verdict) for record in cell.records)
    low, high = format_duration(min(j.low_s for j in jobs)), format_duration(max(j.high_s for j in jobs))
    what = f"the job of {script_text(cell.cell.case)} ({jobs[0].steps:,} steps)"
    return (
        f"On {cell.cell.hardware} {what} has no valid time: its repeats are refused ({', '.join(verdicts)}). "
        f"Their range, {low} to {high}, is only a hint."
    )


def _jobs(cell: Repeats) -> Sequence[JobTime]:
    records = [record for record in cell.records if record.verdict in OF_THE_MACHINE]
    return [record.script.job for record in records if record.script and record.script.job]
