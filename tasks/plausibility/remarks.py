"""Remarks: unplanned or double records, two groups, wrong clocks."""

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence

from tasks.results.format import format_count, format_seconds, listed
from tasks.results.model import Summary
from tasks.results.repeats import key
from tasks.results.turns import BEFORE_START, OVERLAP_S, instant
from workloads.harness.records.amounts import LONGEST_S
from workloads.harness.records.case import Cell
from workloads.harness.records.grade import grade_of, is_busy
from workloads.harness.records.record import Grade, Record

BEFORE_S = 120  # tolerated difference of the clocks of two machines
MOST_NAME = 300
# Least distance of two groups of repeats, in logs and in widths of the wider one. One in a hundred sets of five
# normal repeats looks like two groups by chance, and so do three in five sets whose modes are 10 % apart.
APART, APART_OVER_WIDTH, FEWEST_REPEATS = 0.03, 5.0, 5


def remarks(
    records: Sequence[Record], run: str, cells: Collection[Cell], planned_at: str, repeats: int
) -> tuple[str, ...]:
    """Return sentences on records unlike the plan, or with a wrong clock.

    `cells`, `repeats`, `planned_at` (ISO 8601): the plan's.
    """
    sentences = (
        twice(records),
        strangers(records, run, set(cells), repeats),
        bimodal(records),
        *clocks(records, planned_at),
    )
    return tuple(filter(None, sentences))


def twice(records: Sequence[Record]) -> str:
    """Name double records; the last counts."""
    counts = Counter(map(key, records))
    doubled = [record.id for record in {key(r): r for r in records}.values() if counts[key(record)] > 1]
    names = listed(shortened(doubled))
    return f"{names} came more than once: the last record of each counts." if doubled else ""


def partial(summaries: Sequence[Summary]) -> list[str]:
    """Describe cells with refused repeats."""
    return [
        f"Only {s.ok_repeats} of {s.repeats} repeats of {s.cell.id} are valid: {'; '.join(s.reasons)}."
        for s in summaries
        if 0 < s.ok_repeats < s.repeats
    ]


def strangers(records: Sequence[Record], run: str, cells: Collection[Cell], repeats: int) -> str:
    """Name records outside the plan; they are shown anyway."""
    names = [r.id for r in records if r.run != run or r.cell not in cells or not 0 <= r.repeat <= repeats]
    are = "is" if len(names) == 1 else "are"
    return f"{listed(shortened(names))} {are} not in the plan of this run." if names else ""


def bimodal(records: Sequence[Record]) -> str:
    """Name cells whose repeats fall into two groups."""
    cells: dict[Cell, list[float]] = defaultdict(list)
    for record in records:
        if record.compute_s and grade_of(record) is not Grade.REFUSED and not is_busy(record):
            cells[record.cell].append(record.compute_s)
    named = [f"{cell.id} ({text})" for cell, times in cells.items() if (text := _groups(sorted(times)))]
    if not named:
        return ""
    why = "possible causes are an algorithm chosen anew in each process, or a machine with two states"
    return f"Repeats fall into two groups in {listed(named)}: {why}."


def _groups(times: Sequence[float]) -> str:
    for split in range(2, len(times) - 1) if len(times) >= FEWEST_REPEATS else ():
        low, high = times[:split], times[split:]
        widest = max(low[-1] / low[0], high[-1] / high[0])
        if math.log(high[0] / low[-1]) >= max(APART, APART_OVER_WIDTH * math.log(widest)):
            slow, fast = format_seconds(statistics.median(high)), format_seconds(statistics.median(low))
            return f"{len(low)} near {fast}, {len(high)} near {slow}"
    return ""


def clocks(records: Sequence[Record], planned_at: str) -> Iterator[str]:
    """Yield repeats that began before the plan or the last repeat's end, by machine."""
    planned, lanes = instant(planned_at), defaultdict(list)
    for record in records:
        began = instant(record.started_at)
        if began is not None and 0 < record.wall_s <= LONGEST_S:
            lead_s = [max(record.phases_s.get(name, 0.0), 0.0) for name in BEFORE_START]
            lanes[record.hardware].append((began - sum(lead_s), record.wall_s, began))
    for hardware, lane in lanes.items():
        early = sum(planned is not None and began < planned - BEFORE_S for _, _, began in lane)
        if early:
            count = format_count(early, "repeat")
            yield f"{count} of {hardware} began before the run was planned: a clock there is wrong."
        lane.sort()
        ends = [start + wall_s for start, wall_s, _ in lane]
        inside = sum(start < end - OVERLAP_S for (start, _, _), end in zip(lane[1:], ends, strict=False))
        if inside:
            yield (
                f"{format_count(inside, 'repeat')} of {hardware} began before the previous repeat ended: "
                "its clock was set back, or it measured several at once."
            )


def shortened(names: Iterable[str]) -> list[str]:
    """Cut names to `MOST_NAME`."""
    return [f"{name[:MOST_NAME]}…" if len(name) > MOST_NAME else name for name in names]
