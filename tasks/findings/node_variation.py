"""Boxes of one kind against each other: how far apart they are, and which is slower than its siblings."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

from tasks.findings.totals import Logs, Suite, half_width
from tasks.results.finding_types import SiblingBox, Siblings
from tasks.results.format import format_count, format_ratio
from tasks.results.model import Machine
from tasks.results.repeats import Repeats
from tasks.results.values import Estimate

STRAGGLES = 3.5
"""Modified z-score above which a value is an outlier. Source: Iglewicz & Hoaglin 1993, How to Detect and
Handle Outliers, section 3."""
NORMAL_MAD = 0.6745
"""Median absolute deviation of a standard normal: what makes a modified z-score of one. Source: as above."""
LEAST_MAD = math.log(1.01)
"""Boxes are not held to less scatter than 1 %: what is within 5 % of its siblings is no straggler."""
FEWEST = 3
"""Boxes that it takes to tell which is the odd one."""
CONFIDENCE = 0.95
_MOST_LOG = 709  # of the largest float

Part = tuple[float, Logs]  # a weight and the logs of a cell's repeats


def siblings(cells: Sequence[Repeats], machines: Sequence[Machine]) -> tuple[Siblings, ...]:
    """One finding for each kind of machine of which two boxes or more have cases in common that are ok."""
    kinds: dict[str, list[str]] = {}
    for machine in machines:
        if machine.shape:
            kinds.setdefault(machine.shape, []).append(machine.name)
    found = []
    for shape, names in kinds.items():
        suite = Suite.of([cell for cell in cells if cell.cell.hardware in names])
        if len(suite.logs) > 1 and suite.cases:
            found.append(_compared(shape, suite, [name for name in names if name not in suite.logs]))
    return tuple(found)


def sentence(found: Siblings) -> str:
    """The spread, who is slowest, and who straggles, as far as the intervals support it."""
    fastest, slowest = found.boxes[0].hardware, found.boxes[-1].hardware
    takes = f"{slowest} takes {format_ratio(found.spread)} the time of {fastest}"
    count, cases = f"{len(found.boxes)} boxes of {found.shape}", f"over {format_count(found.cases, 'case')}"
    if found.spread.low is None:
        text = f"Of {count} {takes} {cases}; one repeat has no interval"
    elif found.spread.low > 1:
        text = f"Of {count} {takes} {cases}"
    else:
        text = f"The {count} are not told apart {cases}: {takes}"
    for box in found.boxes:
        if box.straggler:
            text += f"; {box.hardware} is a straggler at {format_ratio(box.ratio)} the time of the median box"
    if found.spread.low is not None and found.spread.low > 1 and len(found.boxes) < FEWEST:
        text += "; of two boxes nobody knows which is the odd one"
    if found.left_out:
        text += f"; without an ok cell: {', '.join(found.left_out)}"
    return f"{text}."


def _compared(shape: str, suite: Suite, left_out: Sequence[str]) -> Siblings:
    """The boxes of one kind, the fastest first."""
    middles = [_middle(suite, place) for place in range(len(suite.cases))]
    offsets = {name: _offset(suite, name, middles) for name in suite.logs}
    ordered = sorted(offsets, key=lambda name: (offsets[name], name))
    ratios = {name: _estimate(offsets[name], _own_and_middle(suite, name, middles)) for name in ordered}
    odd = _stragglers(offsets, ratios)
    ends, count = (ordered[-1], ordered[0]), len(ordered)
    spread = _estimate(
        offsets[ends[0]] - offsets[ends[1]],
        [(1 / len(suite.cases), logs) for name in ends for logs in suite.logs[name]],
        1 - (1 - CONFIDENCE) / math.comb(count, 2),  # Bonferroni: the widest of all pairs was picked
    )
    boxes = tuple(SiblingBox(name, ratios[name], name in odd) for name in ordered)
    return Siblings(shape, boxes, spread, len(suite.cases), tuple(left_out))


def _middle(suite: Suite, place: int) -> tuple[str, ...]:
    """The box of median time in a case, or the two of an even number."""
    ordered = sorted(suite.logs, key=lambda name: statistics.fmean(suite.logs[name][place]))
    return tuple(ordered[(len(ordered) - 1) // 2 : len(ordered) // 2 + 1])


def _offset(suite: Suite, name: str, middles: Sequence[Sequence[str]]) -> float:
    """Mean over the cases of a box's log time less that of the median box."""
    return statistics.fmean(
        statistics.fmean(logs) - statistics.fmean(statistics.fmean(suite.logs[m][place]) for m in middle)
        for place, (logs, middle) in enumerate(zip(suite.logs[name], middles, strict=True))
    )


def _own_and_middle(suite: Suite, name: str, middles: Sequence[Sequence[str]]) -> list[Part]:
    """Return the parts that the offset of a box is made of.

    A box that is the middle itself keeps its scatter: which one is the middle is measured, too.
    """
    share = 1 / len(suite.cases)
    return [
        *((share, logs) for logs in suite.logs[name]),
        *(
            (share / len(middle), suite.logs[other][place])
            for place, middle in enumerate(middles)
            for other in middle
            if other != name
        ),
    ]


def _stragglers(offsets: Mapping[str, float], ratios: Mapping[str, Estimate]) -> set[str]:
    """Boxes that are slower than their siblings scatter, and shown to be slower than the median box."""
    if len(offsets) < FEWEST:
        return set()
    centre = statistics.median(offsets.values())
    mad = max(statistics.median(abs(offset - centre) for offset in offsets.values()), LEAST_MAD)
    return {
        name
        for name, offset in offsets.items()
        if NORMAL_MAD * (offset - centre) / mad > STRAGGLES and (ratios[name].low or 0.0) > 1
    }


def _estimate(log: float, parts: Iterable[Part], confidence: float = CONFIDENCE) -> Estimate:
    """e to a sum of weight x mean(logs), with its interval; no bounds where a cell has a single repeat."""
    half = half_width(parts, confidence)
    return Estimate(_exp(log)) if half is None else Estimate(_exp(log), _exp(log - half), _exp(log + half))


def _exp(log: float) -> float:
    """e to a power; infinity where that is beyond every float."""
    return math.exp(log) if log < _MOST_LOG else math.inf
