"""Speedups that differ between largest and smallest size."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.findings.size_series import lines
from tasks.results.finding import Results, Sentences
from tasks.results.format import format_ratio
from tasks.results.model import Pairing


@dataclass(frozen=True, slots=True)
class SizeEffect(Sentences):
    """Speedups by size of the work."""

    name = "size-effect"
    title = "Speedup by size"
    order = 35

    @classmethod
    def find(cls, results: Results) -> "SizeEffect":
        return cls(tuple(scale(results.pairings)))


def scale(pairings: Sequence[Pairing]) -> list[str]:
    most: dict[tuple[str, ...], tuple[float, str]] = {}
    for line in lines(pairings):
        ends = [(value, p.compute) for value, p in line.pairings.items() if p.compute]
        if len(ends) < 2:
            continue
        small, large = ends[0][1].estimate, ends[-1][1].estimate
        if small.below(large) or large.below(small):
            key = (line.hardware, line.baseline, line.workload, line.precision, line.parameter)
            first, last = (f"{format_ratio(r)} at {line.parameter}={n}" for n, r in (ends[0], ends[-1]))
            sentence = (
                f"Scale matters: the speedup of {line.hardware} over {line.baseline} on {line.words} "
                f"goes from {first} to {last}."
            )
            candidate = (abs(math.log(large.value / small.value)), sentence)
            most[key] = max(most.get(key, candidate), candidate)
    return [sentence for _, sentence in most.values()]
