"""The next measurement of a break-even: bisection, never interpolation."""

import math
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise

from tasks.findings.break_even import Bracket, Verdicts, bracket
from tasks.findings.size_series import WAYS, Line, lines
from tasks.results.model import Pairing
from workloads.harness.records.case import Case, Cell

WITHIN = 1.25  # upper over lower end of a bracket that is narrow enough
BESIDE = math.sqrt(1.2)  # how far from an undecided size to look for decided ones: leaves room to round
MOST = 6  # sizes measured in addition for one break-even

StepOf = Callable[[Case, str], int]


def next_cells(pairings: Sequence[Pairing], planned: Collection[Case], step_of: StepOf) -> tuple[Cell, ...]:
    """Return cells on both machines of each pair.

    `planned`: the suite's. `step_of`: a parameter must be a multiple of it.
    """
    matches: dict[Cell, None] = {}
    for line in lines(pairings):
        of_suite = [value for value, p in line.pairings.items() if p.case in planned]
        like = next(iter(line.pairings.values())).case
        step = step_of(like, line.parameter)
        for way in WAYS if len(of_suite) > 1 else ():
            for value in next_sizes(line.verdicts(way), of_suite, step):
                case = _with(like, line, value)
                matches |= dict.fromkeys((Cell(line.baseline, case), Cell(line.hardware, case)))
    return tuple(matches)


def next_sizes(verdicts: Verdicts, planned: Collection[int], step: int = 1) -> tuple[int, ...]:
    """Return at most `MOST` sizes besides the planned ones.

    Verdicts alone decide. A size without a usable time counts as None, and is not requested again.
    """
    if not _wanted(verdicts, step):
        return ()
    available = {value: verdicts.get(value) for value in planned}
    asked = 0
    while selected := _wanted(available, step)[: MOST - asked]:
        if missing := [value for value in selected if value not in verdicts]:
            return tuple(missing)
        available |= {value: verdicts[value] for value in selected}
        asked += len(selected)
    return ()


def narrow(matches: Bracket) -> bool:
    """Return whether both ends are known and close enough."""
    return matches.below is not None and matches.above is not None and matches.above <= WITHIN * matches.below


def _wanted(known: Verdicts, step: int) -> list[int]:
    """Return sizes that narrow the last change of the lead.

    An undecided size is as close as these machines allow, so its decided neighbours are missing. An undecided
    stretch as wide as a bracket is the answer.
    """
    matches = bracket(known)
    if matches.below is None or matches.above is None or narrow(matches):
        return []
    between = sorted(value for value in known if matches.below < value < matches.above)
    sentences = [value for value in between if known[value] is not None]
    if not sentences:
        ends = [
            matches.below,
            *between,
            matches.above,
        ]  # measured without a usable time: the gaps next to them
        low, high = max(pairwise(ends), key=lambda gap: gap[1] / max(gap[0], 1))
        return _inside(math.sqrt(max(low, 1) * high), low, high, step, known)
    low, high = sentences[0], sentences[-1]
    if high >= WITHIN * low:
        return []
    selected = []
    if low > math.sqrt(WITHIN) * matches.below:
        selected += _inside(low / BESIDE, matches.below, low, step, known)
    if matches.above > math.sqrt(WITHIN) * high:
        selected += _inside(high * BESIDE, high, matches.above, step, known)
    return selected


def _inside(size: float, low: int, high: int, step: int, known: Verdicts) -> list[int]:
    """Return the multiple of `step` next to `size` between two sizes; none if all are taken."""
    least, most = low // step + 1, -(-high // step) - 1
    value = min(max(round(size / step), least), most) * step
    return [value] if least <= most and value not in known else []


def _with(case: Case, line: Line, value: int) -> Case:
    size = {name: value if name == line.parameter else other for name, other in case.size}
    return Case.of(case.workload, size, case.precision, case.mode)
