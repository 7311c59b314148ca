"""Speedup by size: where that at the largest size differs from that at the smallest."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.findings.size_series import Line, lines
from tasks.results.finding import Finding, Results
from tasks.results.format import format_ratio
from tasks.results.model import Pairing
from tasks.results.values import Ratio


@dataclass(frozen=True, slots=True)
class SizeEffect(Finding):
    """Speedups that change with the size of the work."""

    name = "size-effect"
    title = "Speedup by size"
    order = 35
    sentences: tuple[str, ...]

    @classmethod
    def find(cls, results: Results) -> "SizeEffect":
        """Compare the speedups at both ends of every row of sizes."""
        return cls(tuple(scale(results.pairings)))

    def observations(self) -> tuple[str, ...]:
        """Return a sentence for each workload, parameter and machine."""
        return self.sentences


def scale(pairings: Sequence[Pairing]) -> list[str]:
    """Say where the speedup at the largest size differs from the one at the smallest.

    One sentence for a workload, parameter and machine: the row of cases that changes most.
    """
    most: dict[tuple[str, ...], tuple[float, str]] = {}
    for line in lines(pairings):
        ends = [(value, p.compute) for value, p in line.pairings.items() if p.compute]
        if len(ends) < 2:
            continue
        small, large = ends[0][1].estimate, ends[-1][1].estimate
        if small.below(large) or large.below(small):
            key = (line.hardware, line.baseline, line.workload, line.precision, line.parameter)
            matches = (abs(math.log(large.value / small.value)), _scale_sentence(line, ends[0], ends[-1]))
            most[key] = max(most.get(key, matches), matches)
    return [sentence for _, sentence in most.values()]


def _scale_sentence(line: Line, small: tuple[int, Ratio], large: tuple[int, Ratio]) -> str:
    ends = [f"{format_ratio(ratio)} at {line.parameter}={value}" for value, ratio in (small, large)]
    return (
        f"Scale matters: the speedup of {line.hardware} over {line.baseline} on {line.words} "
        f"goes from {ends[0]} to {ends[1]}."
    )
