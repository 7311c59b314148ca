"""The cost of transfers, and verdicts that they reverse."""

from collections.abc import Sequence
from dataclasses import dataclass

from tasks.results.finding import Results, Sentences
from tasks.results.format import format_percent, listed
from tasks.results.model import Pairing
from tasks.results.repeats import Repeats
from tasks.results.summaries import most_per_machine
from tasks.results.values import Estimate, RatioVerdict
from tasks.results.wording import case_text
from workloads.harness.records.intervals import log_mean_interval

WORTH_SAYING = 0.1  # of a step


@dataclass(frozen=True, slots=True)
class Transfers(Sentences):
    """The cost of moving the data."""

    name = "transfers"
    title = "Transfers"
    order = 40

    @classmethod
    def find(cls, results: Results) -> "Transfers":
        shares = most_per_machine(
            results.cells,
            share,
            WORTH_SAYING,
            lambda cell, part: (
                f"Transfers take up to {format_percent(part)} of a step end to end on "
                f"{cell.hardware}, at {case_text(cell.case)}."
            ),
        )
        return cls((*turned_around(results.pairings), *shares))


def share(cell: Repeats) -> Estimate | None:
    """Return the transfers' share of an end-to-end step.

    1 - 1/R, in which R is the step with transfers over the step without, in the same repeat.
    """
    ratios = [
        record.end_to_end_s / record.wall.median_s
        for record in cell.usable
        if record.wall and record.end_to_end_s is not None and record.wall.median_s > 0
    ]
    interval = log_mean_interval(ratios)
    if interval is None:
        return None
    return Estimate(*(1 - 1 / ratio for ratio in (interval.value, interval.low, interval.high)))


def turned_around(pairings: Sequence[Pairing]) -> list[str]:
    """Name cases on which a machine is faster, but slower with transfers."""
    reversed_: dict[tuple[str, str], list[str]] = {}
    for p in pairings:
        ratios = (p.compute, p.end_to_end)
        if tuple(r.outcome for r in ratios if r) == (RatioVerdict.FASTER, RatioVerdict.SLOWER):
            reversed_.setdefault((p.hardware, p.baseline), []).append(f"{p.case.workload} {p.case.size_text}")
    return [
        f"Transfers reverse the result: {hardware} is faster than {baseline} with the data in place and slower "
        f"end to end on {listed(cases)}."
        for (hardware, baseline), cases in reversed_.items()
    ]
