"""The time to a first result: start and first call."""

from collections.abc import Mapping, Sequence
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
Start = dict[str, float]  # seconds of each phase of `BEFORE`


@dataclass(frozen=True, slots=True)
class ColdStarts(Sentences):
    """The time of a fresh process until its first result."""

    name = "cold-starts"
    title = "Cold start"
    order = 45

    @classmethod
    def find(cls, results: Results) -> "ColdStarts":
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
    """Count the starts of all cases, which are alike; forks of one process count once."""
    sentences, base = [], next((p.baseline for p in pairings), "")
    starts: dict[str, list[Start]] = {}
    for name in dict.fromkeys(cell.cell.hardware for cell in cells):
        starts[name] = _starts([r for cell in cells if cell.cell.hardware == name for r in cell.usable])
    for hardware, own in starts.items():
        seconds = over_repeats([sum(start.values()) for start in own])
        if seconds is None:
            continue
        sums = {name: sum(start[name] for start in own) for name in BEFORE}
        longest = max(sums, key=lambda name: sums[name])
        part = f"{BEFORE[longest]} takes {100 * (sums[longest] / sum(sums.values())):.0f} % of that"
        once = ", seen once," if len(own) == 1 else ""
        text = f"Cold start: a process on {hardware} needs {format_seconds(seconds)}{once} before it can build; {part}"
        ours, theirs = ([sum(start.values()) for start in starts.get(name, [])] for name in (hardware, base))
        longer = speedup(ours, theirs, sessions.of_cell(hardware, base)) if hardware != base else None
        more = _against(hardware, base, longer, pairings)
        sentences.append(f"{text}{more}.")
    return sentences


def first_over_later(cell: Repeats) -> Estimate | None:
    """Return None for whole jobs."""
    ratios = [
        record.phases_s["first_call"] / record.wall.median_s
        for record in cell.usable
        if record.wall and not record.wall.whole and record.phases_s.get("first_call", 0) > 0
    ]
    interval = log_mean_interval(ratios)
    return Estimate.of(interval) if interval else None


def _against(hardware: str, base: str, longer: Ratio | None, pairings: Sequence[Pairing]) -> str:
    if longer is None or longer.outcome is not RatioVerdict.FASTER:
        return ""
    text = f"; that is {format_ratio(longer)} as long as on {base}"
    calls = [p.payback_calls for p in pairings if p.hardware == hardware and p.payback_calls]
    if not calls:
        return text
    least, most = (significant(value, 2) for value in (min(calls), max(calls)))
    span = f"{least} calls" if least == most else f"{least} to {most} calls, depending on the case"
    return f"{text}; faster steps make up for it after about {span}"


def _starts(records: Sequence[Record]) -> list[Start]:
    """Return starts of processes: their own, else the forking process's.

    A fork server's first process has the server's start; if it is unusable, the others have it.
    """
    own = [start for record in records if not record.inherited_s and (start := _start(record.phases_s))]
    forked = {
        tuple(record.inherited_s.get(name) for name in BEFORE): start
        for record in records
        if record.inherited_s and (start := _start(record.fresh_phases_s))
    }
    return own or [*forked.values()]


def _start(phases_s: Mapping[str, float]) -> Start | None:
    """Return seconds by phase; None if one is missing, or all are 0."""
    if not BEFORE.keys() <= phases_s.keys():
        return None
    start = {name: phases_s[name] for name in BEFORE}
    return start if sum(start.values()) > 0 else None
