"""What else the intervals support, in sentences: why a machine wins, and what its start costs."""

import math
from collections.abc import Iterable, Sequence

from tasks.findings.cold_start import cold_starts, first_calls
from tasks.findings.size_series import Line, lines
from tasks.findings.transfers import shares, turned_around
from tasks.results.finding_types import Ranking
from tasks.results.format import format_ratio
from tasks.results.model import Pairing
from tasks.results.repeats import Repeats
from tasks.results.speedup import speedup
from tasks.results.values import Outcome, Ratio
from workloads.harness.records.case import Case

FP32 = "fp32"


def observations(
    cells: Sequence[Repeats],
    pairings: Sequence[Pairing],
    rankings: Sequence[Ranking],
) -> tuple[str, ...]:
    """Every sentence that an interval supports; of what none supports nothing is said."""
    return (
        *places(rankings),
        *scale(pairings),
        *turned_around(pairings),
        *shares(cells),
        *cold_starts(cells, pairings),
        *first_calls(cells),
        *precisions(cells),
    )


def places(rankings: Iterable[Ranking]) -> list[str]:
    """The order of three or more machines over the suite; of two the answer tells."""
    sentences = []
    for ranking in rankings:
        if ranking.case is None and len(ranking.places) > 2 and len({p for p, _ in ranking.places}) > 1:
            told = {place: [name for p, name in ranking.places if p == place] for place, _ in ranking.places}
            order = ", ".join(f"{place}. {' and '.join(names)}" for place, names in told.items())
            sentences.append(
                f"Over the suite, by {ranking.by}: {order}; who shares a place is not told apart."
            )
    return sentences


def scale(pairings: Sequence[Pairing]) -> list[str]:
    """Say where the speedup at the largest size differs from the one at the smallest.

    One sentence for a workload, parameter and machine: the row of cases that changes most.
    """
    most: dict[tuple[str, ...], tuple[float, str]] = {}
    for line in lines(pairings):
        ends = [(value, p.compute) for value, p in line.pairings.items() if p.compute]
        if len(ends) > 1 and _apart(ends[0][1], ends[-1][1]):
            small, large = ends[0][1].estimate.value, ends[-1][1].estimate.value
            key = (line.hardware, line.baseline, line.workload, line.precision, line.parameter)
            found = (abs(math.log(large / small)), _scale_sentence(line, ends[0], ends[-1]))
            most[key] = max(most.get(key, found), found)
    return [sentence for _, sentence in most.values()]


def precisions(cells: Sequence[Repeats]) -> list[str]:
    """Say what each machine gains from another precision than fp32, case by case and at most."""
    base = {_but_precision(cell): cell for cell in cells if cell.cell.case.precision == FP32}
    found: dict[tuple[str, str], list[tuple[Ratio, Case]]] = {}
    for cell in cells:
        case, like = cell.cell.case, base.get(_but_precision(cell))
        if case.precision == FP32 or like is None or like.units != cell.units:
            continue
        if gain := speedup(like.compute_s, cell.compute_s):
            found.setdefault((cell.cell.hardware, case.precision), []).append((gain, case))
    return [
        _precision_sentence(hardware, precision, gains)
        for (hardware, precision), gains in found.items()
        if any(gain.outcome is not Outcome.UNDECIDED for gain, _ in gains)
    ]


def _but_precision(cell: Repeats) -> tuple[str, str, tuple[tuple[str, int], ...]]:
    return cell.cell.hardware, cell.cell.case.workload, cell.cell.case.size


def _precision_sentence(hardware: str, precision: str, gains: Sequence[tuple[Ratio, Case]]) -> str:
    tally = {outcome: sum(gain.outcome is outcome for gain, _ in gains) for outcome in Outcome}
    text = ", ".join(f"{outcome} in {count}" for outcome, count in tally.items() if count)
    most, case = max(gains, key=lambda pair: pair[0].estimate.low or 0.0)
    sentence = f"On {hardware} {precision} against {FP32} is {text} of {len(gains)}"
    if most.outcome is Outcome.FASTER:
        sentence += f", at most {format_ratio(most)} as fast, at {case.workload} {case.size_text}"
    return f"{sentence}."


def _scale_sentence(line: Line, small: tuple[int, Ratio], large: tuple[int, Ratio]) -> str:
    ends = [f"{format_ratio(ratio)} at {line.parameter}={value}" for value, ratio in (small, large)]
    return (
        f"Scale matters: the speedup of {line.hardware} over {line.baseline} on {line.words} "
        f"goes from {ends[0]} to {ends[1]}."
    )


def _apart(one: Ratio, other: Ratio) -> bool:
    return one.estimate.below(other.estimate) or other.estimate.below(one.estimate)
