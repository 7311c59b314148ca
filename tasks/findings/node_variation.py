"""Node variation: how far machines of one kind differ, and which is slower than the others."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tasks.findings.totals import CommonCases, Logs, half_width
from tasks.results.finding import Finding, Results
from tasks.results.format import format_count, format_ratio, listed
from tasks.results.model import Machine
from tasks.results.repeats import Repeats
from tasks.results.table import Column, Mark, Quantity, Table
from tasks.results.values import Estimate, RatioVerdict

STRAGGLES = 3.5
"""Modified z-score above which a value is an outlier. Source: Iglewicz & Hoaglin 1993, How to Detect and
Handle Outliers, section 3."""
NORMAL_MAD = 0.6745
"""Median absolute deviation of a standard normal: what makes a modified z-score of one. Source: as above."""
LEAST_MAD = math.log(1.01)
"""Assumed least scatter of boxes, 1 %: a box within 5 % of its siblings is never a straggler."""
FEWEST = 3
"""Boxes that it takes to tell which is the odd one."""
CONFIDENCE = 0.95
STRAGGLER = "straggler"
ODD_OF_TWO = "either of them can be the exception"
COLUMNS = (
    Column("Kind"),
    Column("Machine", Quantity.MACHINE),
    Column("Time over the median machine", Quantity.RATIO),
    Column("Standing", Quantity.VERDICT),
    Column("Slowest over fastest", Quantity.RATIO),
    Column("Cases", Quantity.COUNT),
)
_MOST_LOG = 709  # of the largest float

Part = tuple[float, Logs]  # a weight and the logs of a cell's repeats


@dataclass(frozen=True, slots=True)
class Node:
    """A machine among others of its kind.

    Attributes:
        ratio: its time over that of the median box, over the common cases; above 1 is slower.
        straggler: whether it is shown to be slower than its siblings differ among themselves.
    """

    hardware: str
    ratio: Estimate
    straggler: bool = False


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Machines of one kind against each other.

    Attributes:
        shape: the hardware that each of them is.
        boxes: the fastest first.
        spread: the slowest box's time over the fastest's, over the common cases. Its interval allows for the
            two being picked out of all pairs.
        cases: how many cases count on every one of the boxes.
        left_out: boxes without a cell to compare.
        provisional: why quiet boxes may differ otherwise, in words; empty where they may not.
    """

    shape: str
    boxes: tuple[Node, ...]
    spread: Estimate
    cases: int
    left_out: tuple[str, ...] = ()
    provisional: str = ""


@dataclass(frozen=True, slots=True)
class NodeVariation(Finding):
    """Differences between machines of one kind.

    Attributes:
        alike: whether all machines of the run are of one kind: then this is what the run is about.
    """

    name = "node-variation"
    title = "Node variation"
    artifact = "bench-siblings"
    section = "machines"
    order = 10
    groups: tuple[NodeGroup, ...]
    alike: bool = False

    @classmethod
    def find(cls, results: Results) -> "NodeVariation":
        """Compare the machines of each kind over the suite's cases."""
        alike = len({machine.shape or machine.name for machine in results.machines}) == 1
        return cls(node_groups(results.suite_cells, results.machines), alike)

    def table(self) -> Table | None:
        """Return a row a machine, the fastest of each kind first."""
        rows = tuple(
            (group.shape, node.hardware, node.ratio, mark_of(group, node), group.spread, group.cases)
            for group in self.groups
            for node in group.boxes
        )
        lead = "Machines of one kind should take the same time. Each is compared with the median machine."
        notes = tuple(note for group in self.groups for note in _notes(group))
        return Table(COLUMNS, rows, lead, notes) if rows else None

    def headline(self) -> tuple[str, ...]:
        """Return a line for each kind if the run compares only one kind: its spread or its stragglers."""
        return tuple(map(_line, self.groups)) if self.alike else ()

    def details(self) -> tuple[str, ...]:
        """Return a sentence for each kind."""
        return tuple(map(sentence, self.groups))

    def published(self) -> dict[str, Any]:
        """Return `siblings`, an object for each kind."""
        return {"siblings": [asdict(group) for group in self.groups]}


def mark_of(group: NodeGroup, node: Node) -> Mark | None:
    """Return the standing of a machine in its group; None where the intervals show none."""
    if node.straggler:
        return Mark(STRAGGLER, RatioVerdict.SLOWER)
    apart = group.spread.low is not None and group.spread.low > 1
    ends = {group.boxes[0].hardware: "fastest", group.boxes[-1].hardware: "slowest"}
    text = ends.get(node.hardware, "") if apart else ""
    return Mark(text) if text else None


def node_groups(cells: Sequence[Repeats], machines: Sequence[Machine]) -> tuple[NodeGroup, ...]:
    """One finding for each kind of machine of which two boxes or more have cases in common that count."""
    kinds: dict[str, list[str]] = {}
    for machine in machines:
        if machine.shape:
            kinds.setdefault(machine.shape, []).append(machine.name)
    matches = []
    for shape, names in kinds.items():
        suite = CommonCases.of([cell for cell in cells if cell.cell.hardware in names])
        if len(suite.logs) > 1 and suite.cases:
            matches.append(_compared(shape, suite, [name for name in names if name not in suite.logs]))
    return tuple(matches)


def _line(group: NodeGroup) -> str:
    fastest, slowest = group.boxes[0].hardware, group.boxes[-1].hardware
    count = f"{len(group.boxes)} machines of {group.shape}"
    stragglers = [node.hardware for node in group.boxes if node.straggler]
    if stragglers:
        return (
            f"{count}: {listed(stragglers)} {'is a straggler' if len(stragglers) == 1 else 'are stragglers'}."
        )
    takes = f"{slowest} takes {format_ratio(group.spread)} the time of {fastest}"
    is_shown = group.spread.low is not None and group.spread.low > 1
    return f"{count}: {takes}." if is_shown else f"{count} are statistically indistinguishable: {takes}."


def sentence(group: NodeGroup) -> str:
    """State the spread, the slowest machine and the stragglers, as far as the intervals support it."""
    fastest, slowest = group.boxes[0].hardware, group.boxes[-1].hardware
    takes = f"{slowest} takes {format_ratio(group.spread)} the time of {fastest}"
    count, cases = (
        f"{len(group.boxes)} machines of {group.shape}",
        f"over {format_count(group.cases, 'case')}",
    )
    if group.spread.low is None:
        text = f"Of {count} {takes} {cases}; one repeat has no interval"
    elif group.spread.low > 1:
        text = f"Of {count} {takes} {cases}"
    else:
        text = f"The {count} are statistically indistinguishable {cases}: {takes}"
    for node in group.boxes:
        if node.straggler:
            ratio = format_ratio(node.ratio)
            text += f"; {node.hardware} is a straggler at {ratio} the time of the median machine"
    if group.spread.low is not None and group.spread.low > 1 and len(group.boxes) < FEWEST:
        text += f"; with two machines, {ODD_OF_TWO}"
    if group.left_out:
        text += f"; not compared, because of too few repeats: {', '.join(group.left_out)}"
    if group.provisional:
        text += f"; provisional: {group.provisional}"
    return f"{text}."


def _notes(group: NodeGroup) -> list[str]:
    """Return what the rows of a group do not say."""
    few = [f"{group.shape}: with two machines, {ODD_OF_TWO}."] if len(group.boxes) < FEWEST else []
    left_out = (
        [f"Not compared, because of too few repeats: {', '.join(group.left_out)}."] if group.left_out else []
    )
    provisional = [f"{group.shape}: provisional: {group.provisional}."] if group.provisional else []
    return [*few, *left_out, *provisional]


def _compared(shape: str, suite: CommonCases, left_out: Sequence[str]) -> NodeGroup:
    """The boxes of one kind, the fastest first."""
    middles = [_median_boxes(suite, index) for index in range(len(suite.cases))]
    offsets = {name: _offset(suite, name, middles) for name in suite.logs}
    ordered = sorted(offsets, key=lambda name: (offsets[name], name))
    ratios = {name: _estimate(offsets[name], _own_and_median(suite, name, middles)) for name in ordered}
    problems = _stragglers(offsets, ratios)
    ends, count = (ordered[-1], ordered[0]), len(ordered)
    spread = _estimate(
        offsets[ends[0]] - offsets[ends[1]],
        [(1 / len(suite.cases), logs) for name in ends for logs in suite.logs[name]],
        1 - (1 - CONFIDENCE) / math.comb(count, 2),  # Bonferroni: the widest of all pairs was picked
    )
    boxes = tuple(Node(name, ratios[name], name in problems) for name in ordered)
    return NodeGroup(shape, boxes, spread, len(suite.cases), tuple(left_out), suite.provisional)


def _median_boxes(suite: CommonCases, place: int) -> tuple[str, ...]:
    """The box of median time in a case, or the two of an even number."""
    ordered = sorted(suite.logs, key=lambda name: statistics.fmean(suite.logs[name][place]))
    return tuple(ordered[(len(ordered) - 1) // 2 : len(ordered) // 2 + 1])


def _offset(suite: CommonCases, name: str, middles: Sequence[Sequence[str]]) -> float:
    """Mean over the cases of a box's log time less that of the median box."""
    return statistics.fmean(
        statistics.fmean(logs) - statistics.fmean(statistics.fmean(suite.logs[m][index]) for m in middle)
        for index, (logs, middle) in enumerate(zip(suite.logs[name], middles, strict=True))
    )


def _own_and_median(suite: CommonCases, name: str, middles: Sequence[Sequence[str]]) -> list[Part]:
    """Return the parts that the offset of a box is made of.

    A box that is the middle itself keeps its scatter: which one is the middle is measured, too.
    """
    share = 1 / len(suite.cases)
    return [
        *((share, logs) for logs in suite.logs[name]),
        *(
            (share / len(middle), suite.logs[other][index])
            for index, middle in enumerate(middles)
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
