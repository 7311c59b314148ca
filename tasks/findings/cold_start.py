"""The time to a first result: the start of a process, and its first call."""

from collections.abc import Sequence
from dataclasses import dataclass

from tasks.results.finding import Results, Sentences
from tasks.results.format import format_ratio, format_seconds, significant
from tasks.results.model import Pairing
from tasks.results.repeats import Repeats
from tasks.results.sessions import WITHIN, Sessions
from tasks.results.speedup import speedup
from tasks.results.summaries import most_per_machine, over_repeats
from tasks.results.values import Estimate, Ratio, RatioVerdict
from tasks.results.wording import case_text
from workloads.harness.records.intervals import log_mean_interval
from workloads.harness.records.record import Record

BEFORE = {"process_start": "process start", "import": "import", "context": "context"}
WORTH_SAYING = 3.0  # times a later call


@dataclass(frozen=True, slots=True)
class ColdStarts(Sentences):
    """The time of a fresh process until its first result."""

    name = "cold-starts"
    title = "Cold start"
    order = 45

    @classmethod
    def find(cls, results: Results) -> "ColdStarts":
        """Compare the starts and the first calls of all machines."""
        first_calls = most_per_machine(
            results.cells,
            first_over_later,
            WORTH_SAYING,
            lambda cell, ratio: (
                f"The first call of {case_text(cell.case)} on {cell.hardware} takes "
                f"{format_ratio(ratio)} as long as later calls."
            ),
        )
        starts = cold_starts(results.cells, results.pairings, results.sessions)
        return cls((*starts, *first_calls))


def cold_starts(
    cells: Sequence[Repeats], pairings: Sequence[Pairing], sessions: Sessions = WITHIN
) -> list[str]:
    """Return how long a process on each machine needs before it can build, and when that pays off.

    A process starts alike for every case, so the repeats of all cases count, except those that were forked from
    a process which had started before.
    """
    sentences, base = [], next((p.baseline for p in pairings), "")
    starts: dict[str, list[Record]] = {}
    for cell in cells:
        own = (record for record in cell.usable if _start_s(record) > 0 and not record.inherited_s)
        starts.setdefault(cell.cell.hardware, []).extend(own)
    for hardware, records in starts.items():
        seconds = over_repeats([_start_s(record) for record in records])
        if seconds is None or seconds.low is None:
            continue
        sums = {name: sum(record.phases_s[name] for record in records) for name in BEFORE}
        longest = max(sums, key=lambda name: sums[name])
        part = f"{BEFORE[longest]} takes {100 * (sums[longest] / sum(sums.values())):.0f} % of that"
        text = (
            f"Cold start: a process on {hardware} needs {format_seconds(seconds)} before it can build; {part}"
        )
        ours, theirs = ([_start_s(r) for r in starts.get(name, [])] for name in (hardware, base))
        longer = speedup(ours, theirs, sessions.of_cell(hardware, base)) if hardware != base else None
        more = _against(hardware, base, longer, pairings)
        sentences.append(f"{text}{more}.")
    return sentences


def first_over_later(cell: Repeats) -> Estimate | None:
    """Return the first call over a steady step of the same repeat, with its interval; None for whole jobs."""
    ratios = [
        record.phases_s["first_call"] / record.wall.median_s
        for record in cell.usable
        if record.wall and not record.wall.whole and record.phases_s.get("first_call", 0) > 0
    ]
    interval = log_mean_interval(ratios)
    return Estimate.of(interval) if interval else None


def _against(hardware: str, base: str, longer: Ratio | None, pairings: Sequence[Pairing]) -> str:
    """Return how much longer a start takes than on the baseline, and how many calls repay it."""
    if longer is None or longer.outcome is not RatioVerdict.FASTER:
        return ""
    text = f"; that is {format_ratio(longer)} as long as on {base}"
    calls = [p.payback_calls for p in pairings if p.hardware == hardware and p.payback_calls]
    if not calls:
        return text
    least, most = (significant(value, 2) for value in (min(calls), max(calls)))
    span = f"{least} calls" if least == most else f"{least} to {most} calls, depending on the case"
    return f"{text}; faster steps make up for it after about {span}"


def _start_s(record: Record) -> float:
    """Return the seconds before a process can build; 0 if a part of them is not recorded."""
    parts = [record.phases_s.get(name) for name in BEFORE]
    return sum(part for part in parts if part) if None not in parts else 0.0
