"""A run as groups of cases, machines, and cells."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tasks.findings.scaling_families import PROCESSES
from tasks.results.comparison import Comparison
from tasks.results.model import Machine, Pairing, Summary
from workloads.harness.records.case import Case
from workloads.harness.records.record import Record, Work


@dataclass(frozen=True, slots=True)
class CaseGroup:
    """Cases of one workload, precision and mode, by work.

    `work`: of one step, in the unit of `work_title`; `whole`: a step is a whole job.
    """

    workload: str
    precision: str
    cases: tuple[Case, ...]
    work: Mapping[Case, float]
    work_title: str
    whole: bool = False

    @property
    def title(self) -> str:
        """Return such as `matmul · fp32`."""
        return f"{self.workload} · {self.precision}"


@dataclass(frozen=True, slots=True)
class Grid:
    """The look-ups of every picture and table.

    `machines`: the baseline first; `groups`: in the order of first cases.
    """

    comparison: Comparison
    machines: tuple[Machine, ...]
    groups: tuple[CaseGroup, ...]
    summaries: Mapping[tuple[str, Case], Summary]
    pairings: Mapping[tuple[str, Case], Pairing]

    @property
    def names(self) -> list[str]:
        return [machine.name for machine in self.machines]

    @property
    def troubled(self) -> list[Summary]:
        """Return cells without an ok repeat."""
        return [summary for summary in self.comparison.summaries if not summary.ok_repeats]


def by_cell(records: Iterable[Record]) -> dict[tuple[str, Case], list[Record]]:
    cells: dict[tuple[str, Case], list[Record]] = {}
    for record in records:
        cells.setdefault((record.hardware, record.case), []).append(record)
    return cells


def median_of(records: Sequence[Record], key: Callable[[Record], float]) -> Record:
    """Return the lower one of two."""
    return sorted(records, key=key)[(len(records) - 1) // 2]


def grid_of(records: Sequence[Record], comparison: Comparison) -> Grid:
    machines = {machine.name: machine for machine in comparison.machines}
    for summary in comparison.summaries:
        machines.setdefault(summary.cell.hardware, Machine(summary.cell.hardware, None))
    return Grid(
        comparison=comparison,
        machines=tuple(sorted(machines.values(), key=lambda machine: machine.name != comparison.baseline)),
        groups=_groups(records, comparison),
        summaries={(s.cell.hardware, s.cell.case): s for s in comparison.summaries},
        pairings={(p.hardware, p.case): p for p in comparison.pairings},
    )


def _groups(records: Sequence[Record], comparison: Comparison) -> tuple[CaseGroup, ...]:
    works = {record.case: record.work for record in records if record.work is not None}
    jobs = {summary.cell.case for summary in comparison.summaries if summary.whole}
    cases: dict[tuple[str, str], dict[Case, None]] = {}
    for summary in comparison.summaries:
        case = summary.cell.case
        cases.setdefault((case.workload, case.terms), {})[case] = None
    return tuple(_group(key, list(members), works, jobs) for key, members in cases.items())


def _group(
    key: tuple[str, str], cases: list[Case], works: Mapping[Case, Work], jobs: Collection[Case]
) -> CaseGroup:
    whole = any(case in jobs for case in cases)
    title, work = _measure_of_work({case: works[case] for case in cases if case in works})

    def place(case: Case) -> tuple[object, ...]:
        sizes = [value for _, value in case.size]
        return case.params.get(PROCESSES, 1), work.get(case, float("inf")), sizes

    return CaseGroup(
        *key, tuple(sorted(cases, key=place)), work, f"{title} per {'job' if whole else 'step'}", whole
    )


def _measure_of_work(works: Mapping[Case, Work]) -> tuple[str, dict[Case, float]]:
    """Return FLOPs if every case has them, else bytes, else units of work, after their name."""
    for attribute, title in (("flops", "FLOP"), ("bytes", "bytes")):
        values = {case: getattr(work, attribute) for case, work in works.items()}
        if values and all(value and value > 0 for value in values.values()):
            return title, values
    unit = next((work.unit for work in works.values()), "work")
    return unit, {case: work.units for case, work in works.items() if work.units > 0}
