"""Differences between machines of one kind."""

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tasks.findings.totals import CommonCases, Logs, alike, half_width, rounds
from tasks.results.corrections import confidence_of_each
from tasks.results.finding import Finding, Results
from tasks.results.format import format_count, format_ratio, listed
from tasks.results.model import Machine
from tasks.results.repeats import Repeats
from tasks.results.table import Column, Mark, Quantity, Table
from tasks.results.values import Estimate, RatioVerdict
from workloads.harness.records.intervals import MAD_TO_SD

STRAGGLES = 3.5
"""Modified z-score above which a value is an outlier. Source: Iglewicz & Hoaglin 1993, How to Detect and
Handle Outliers, section 3."""
LEAST_MAD = math.log(1.01)
"""Assumed least scatter of machines, 1 %: a machine within 5 % of its siblings is never a straggler."""
FEWEST = 3
"""Machines needed to know which one is the exception."""
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
        ratio: over the median machine's time.
        straggler: slower by more than its siblings differ.
    """

    hardware: str
    ratio: Estimate
    straggler: bool = False


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Machines of one kind, compared.

    Attributes:
        boxes: the fastest first.
        spread: slowest over fastest, corrected for the choice of the pair.
        provisional: why idle machines can differ otherwise; else empty.
    """

    shape: str
    boxes: tuple[Node, ...]
    spread: Estimate
    cases: int
    left_out: tuple[str, ...] = ()
    provisional: str = ""


@dataclass(frozen=True, slots=True)
class NodeVariation(Finding):
    """Differences between machines of one kind; `alike` if the answer is about them."""

    name = "node-variation"
    title = "Node variation"
    artifact = "bench-siblings"
    section = "machines"
    order = 10
    groups: tuple[NodeGroup, ...]
    alike: bool = False

    @classmethod
    def find(cls, results: Results) -> "NodeVariation":
        alike = len({machine.shape or machine.name for machine in results.machines}) == 1
        return cls(node_groups(results.suite_cells, results.machines), alike)

    def table(self) -> Table | None:
        rows = tuple(
            (group.shape, node.hardware, node.ratio, mark_of(group, node), group.spread, group.cases)
            for group in self.groups
            for node in group.boxes
        )
        lead = "Machines of one kind should take the same time. Each is compared with the median machine."
        notes = tuple(note for group in self.groups for note in _notes(group))
        return Table(COLUMNS, rows, lead, notes) if rows else None

    def headline(self) -> tuple[str, ...]:
        return tuple(map(_line, self.groups)) if self.alike else ()

    def details(self) -> tuple[str, ...]:
        return tuple(map(sentence, self.groups))

    def published(self) -> dict[str, Any]:
        return {"siblings": [asdict(group) for group in self.groups]}


def mark_of(group: NodeGroup, node: Node) -> Mark | None:
    """Return None if the intervals show none."""
    if node.straggler:
        return Mark(STRAGGLER, RatioVerdict.SLOWER)
    ends = {group.boxes[0].hardware: "fastest", group.boxes[-1].hardware: "slowest"}
    return Mark(ends[node.hardware]) if _differ(group) and node.hardware in ends else None


def _differ(group: NodeGroup) -> bool:
    return group.spread.low is not None and group.spread.low > 1


def node_groups(cells: Sequence[Repeats], machines: Sequence[Machine]) -> tuple[NodeGroup, ...]:
    """Return kinds with two machines that have common valid cases."""
    kinds: dict[str, list[str]] = {}
    for machine in machines:
        if machine.shape:
            kinds.setdefault(machine.shape, []).append(machine.name)
    groups = []
    for shape, names in kinds.items():
        suite = CommonCases.of([cell for cell in cells if cell.cell.hardware in names])
        if len(suite.logs) > 1 and suite.cases:
            groups.append(_compared(shape, suite, [name for name in names if name not in suite.logs]))
    return tuple(groups)


def _texts(group: NodeGroup) -> tuple[str, str]:
    fastest, slowest = group.boxes[0].hardware, group.boxes[-1].hardware
    takes = f"{slowest} takes {format_ratio(group.spread)} the time of {fastest}"
    return f"{len(group.boxes)} machines of {group.shape}", takes


def _line(group: NodeGroup) -> str:
    count, takes = _texts(group)
    stragglers = [node.hardware for node in group.boxes if node.straggler]
    if stragglers:
        are = "is a straggler" if len(stragglers) == 1 else "are stragglers"
        return f"{count}: {listed(stragglers)} {are}."
    return (
        f"{count}: {takes}." if _differ(group) else f"{count} are statistically indistinguishable: {takes}."
    )


def sentence(group: NodeGroup) -> str:
    (count, takes), cases = _texts(group), f"over {format_count(group.cases, 'case')}"
    if group.spread.low is None:
        text = f"Of {count} {takes} {cases}; one repeat has no interval"
    elif _differ(group):
        text = f"Of {count} {takes} {cases}"
    else:
        text = f"The {count} are statistically indistinguishable {cases}: {takes}"
    for node in group.boxes:
        if node.straggler:
            ratio = format_ratio(node.ratio)
            text += f"; {node.hardware} is a straggler at {ratio} the time of the median machine"
    if _differ(group) and len(group.boxes) < FEWEST:
        text += f"; with two machines, {ODD_OF_TWO}"
    if group.left_out:
        text += f"; not compared, because of too few repeats: {', '.join(group.left_out)}"
    if group.provisional:
        text += f"; provisional: {group.provisional}"
    return f"{text}."


def _notes(group: NodeGroup) -> Iterator[str]:
    if len(group.boxes) < FEWEST:
        yield f"{group.shape}: with two machines, {ODD_OF_TWO}."
    if group.left_out:
        yield f"Not compared, because of too few repeats: {', '.join(group.left_out)}."
    if group.provisional:
        yield f"{group.shape}: provisional: {group.provisional}."


def _compared(shape: str, suite: CommonCases, left_out: Sequence[str]) -> NodeGroup:
    # the machine of median time in each case, or the two of an even number
    by_time = [
        sorted(suite.logs, key=lambda name: statistics.fmean(suite.logs[name][i]))
        for i in range(len(suite.cases))
    ]
    middles = [names[(len(names) - 1) // 2 : len(names) // 2 + 1] for names in by_time]
    offsets = {name: _offset(suite, name, middles) for name in suite.logs}
    ordered = sorted(offsets, key=lambda name: (offsets[name], name))
    ratios = {name: _estimate(offsets[name], _own_and_median(suite, name, middles)) for name in ordered}
    problems = _stragglers(offsets, ratios)
    ends, count = (ordered[-1], ordered[0]), len(ordered)
    spread = _estimate(
        offsets[ends[0]] - offsets[ends[1]],
        [_own(suite, name) for name in ends],
        confidence_of_each(math.comb(count, 2)),  # the widest of all pairs was picked
    )
    boxes = tuple(Node(name, ratios[name], name in problems) for name in ordered)
    return NodeGroup(shape, boxes, spread, len(suite.cases), tuple(left_out), suite.provisional)


def _offset(suite: CommonCases, name: str, middles: Sequence[Sequence[str]]) -> float:
    return statistics.fmean(
        statistics.fmean(logs) - statistics.fmean(statistics.fmean(suite.logs[m][index]) for m in middle)
        for index, (logs, middle) in enumerate(zip(suite.logs[name], middles, strict=True))
    )


def _own(suite: CommonCases, name: str) -> Part:
    return 1.0, rounds(suite, name, alike(suite.logs[name]))


def _own_and_median(suite: CommonCases, name: str, middles: Sequence[Sequence[str]]) -> list[Part]:
    """Return the weighted logs whose sum is a machine's offset.

    A median machine keeps its scatter, because which one is the median is measured too.
    """
    share = 1 / len(suite.cases)
    return [
        _own(suite, name),
        *(
            (share / len(middle), suite.logs[other][index])
            for index, middle in enumerate(middles)
            for other in middle
            if other != name
        ),
    ]


def _stragglers(offsets: Mapping[str, float], ratios: Mapping[str, Estimate]) -> set[str]:
    if len(offsets) < FEWEST:
        return set()
    centre = statistics.median(offsets.values())
    mad = max(statistics.median(abs(offset - centre) for offset in offsets.values()), LEAST_MAD)
    return {
        name
        for name, offset in offsets.items()
        if (offset - centre) / (MAD_TO_SD * mad) > STRAGGLES and (ratios[name].low or 0.0) > 1
    }


def _estimate(log: float, parts: Iterable[Part], confidence: float = 0.95) -> Estimate:
    """Return e to the sum; no bounds if a cell has a single repeat."""
    half = half_width(parts, confidence)
    return Estimate(_exp(log)) if half is None else Estimate(_exp(log), _exp(log - half), _exp(log + half))


def _exp(log: float) -> float:
    return math.exp(log) if log < _MOST_LOG else math.inf
