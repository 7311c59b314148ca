"""What moving the data costs: its part of a step, and where it turns a verdict around."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tasks.results.finding import Finding, Results
from tasks.results.format import format_percent, listed
from tasks.results.model import Pairing
from tasks.results.repeats import Repeats
from tasks.results.values import Estimate, RatioVerdict
from workloads.harness.records.intervals import log_mean_interval
from workloads.harness.records.record import Record

WORTH_SAYING = 0.1  # of a step


@dataclass(frozen=True, slots=True)
class Transfers(Finding):
    """The cost of moving the data."""

    name = "transfers"
    title = "Transfers"
    order = 40
    sentences: tuple[str, ...]

    @classmethod
    def find(cls, results: Results) -> "Transfers":
        """Find the largest shares of transfers, and the verdicts that they reverse."""
        return cls((*turned_around(results.pairings), *shares(results.cells)))

    def observations(self) -> tuple[str, ...]:
        """Return what the intervals support."""
        return self.sentences


def share(cell: Repeats) -> Estimate | None:
    """The part of a step, end to end, that its transfers take (0 to 1), with its interval over the repeats.

    1 - 1/R, where R is the step with its transfers over the step without, in one and the same repeat.
    """
    ratios = [ratio for ratio in map(_with_over_without, cell.usable) if ratio is not None]
    interval = log_mean_interval(ratios)
    return (
        Estimate(*(1 - 1 / ratio for ratio in (interval.value, interval.low, interval.high)))
        if interval
        else None
    )


def shares(cells: Iterable[Repeats]) -> list[str]:
    """For each machine the case whose transfers are shown to take most, where that is worth saying."""
    most: dict[str, tuple[float, str]] = {}
    for cell in cells:
        part, case = share(cell), cell.cell.case
        if part is None or part.low is None or part.low < WORTH_SAYING:
            continue
        text = f"Transfers take up to {format_percent(part)} of a step end to end on {cell.cell.hardware}"
        matches = (part.low, f"{text}, at {case.workload} {case.size_text} {case.terms}.")
        most[cell.cell.hardware] = max(most.get(cell.cell.hardware, matches), matches)
    return [sentence for _, sentence in most.values()]


def turned_around(pairings: Sequence[Pairing]) -> list[str]:
    """Say where a machine is faster with the data in place, and slower when the data has to travel."""
    matches: dict[tuple[str, str], list[str]] = {}
    for p in pairings:
        ratios = (p.compute, p.end_to_end)
        if tuple(r.outcome for r in ratios if r) == (RatioVerdict.FASTER, RatioVerdict.SLOWER):
            matches.setdefault((p.hardware, p.baseline), []).append(f"{p.case.workload} {p.case.size_text}")
    return [
        f"Transfers reverse the result: {hardware} is faster than {baseline} with the data in place and slower "
        f"end to end on {listed(cases)}."
        for (hardware, baseline), cases in matches.items()
    ]


def _with_over_without(record: Record) -> float | None:
    if record.wall is None or record.end_to_end_s is None or record.wall.median_s <= 0:
        return None
    return record.end_to_end_s / record.wall.median_s
