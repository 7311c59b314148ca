"""Gains from precisions and modes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tasks.results.finding import Results, Sentences
from tasks.results.format import format_ratio
from tasks.results.repeats import Repeats
from tasks.results.speedup import speedup
from tasks.results.values import Ratio, RatioVerdict
from workloads.harness.records.case import EAGER, Case, Cell

FP32 = "fp32"


@dataclass(frozen=True, slots=True)
class PrecisionGain(Sentences):
    """Speedups over fp32 on one machine."""

    name = "precision-gain"
    title = "Gain by precision"
    order = 50

    @classmethod
    def find(cls, results: Results) -> "PrecisionGain":
        return cls(tuple(gains(results.cells, "precision", FP32)))


@dataclass(frozen=True, slots=True)
class ModeGain(Sentences):
    """Speedups over eager on one machine."""

    name = "mode-gain"
    title = "Gain by mode"
    order = 51

    @classmethod
    def find(cls, results: Results) -> "ModeGain":
        return cls(tuple(gains(results.cells, "mode", EAGER)))


def gains(cells: Sequence[Repeats], trait: str, base: str) -> list[str]:
    """Compare by `trait`, which is `precision` or `mode`."""
    bases = {_as(cell, trait, base): cell for cell in cells if getattr(cell.cell.case, trait) == base}
    found: dict[tuple[str, str], list[tuple[Ratio, Case]]] = {}
    for cell in cells:
        case, like = cell.cell.case, bases.get(_as(cell, trait, base))
        if like is None or like is cell or like.units != cell.units:
            continue
        if gain := speedup(like.compute_s, cell.compute_s):
            found.setdefault((cell.cell.hardware, getattr(case, trait)), []).append((gain, case))
    return [
        _sentence(f"On {hardware} {other} against {base}", ratios)
        for (hardware, other), ratios in found.items()
        if any(gain.outcome is not RatioVerdict.UNDECIDED for gain, _ in ratios)
    ]


def _as(cell: Repeats, trait: str, base: str) -> Cell:
    changes: Any = {trait: base}
    return replace(cell.cell, case=replace(cell.cell.case, **changes))


def _sentence(subject: str, ratios: Sequence[tuple[Ratio, Case]]) -> str:
    tally = {outcome: sum(gain.outcome is outcome for gain, _ in ratios) for outcome in RatioVerdict}
    text = ", ".join(f"{outcome} in {count}" for outcome, count in tally.items() if count)
    most, case = max(ratios, key=lambda pair: pair[0].estimate.low or 0.0)
    sentence = f"{subject} is {text} of {len(ratios)}"
    if most.outcome is RatioVerdict.FASTER:
        sentence += f", at most {format_ratio(most)} as fast, at {case.workload} {case.size_text}"
    return f"{sentence}."
