"""The gain of each machine from a precision other than fp32."""

from collections.abc import Sequence
from dataclasses import dataclass

from tasks.results.finding import Finding, Results
from tasks.results.format import format_ratio
from tasks.results.repeats import Repeats
from tasks.results.speedup import speedup
from tasks.results.values import Ratio, RatioVerdict
from workloads.harness.records.case import Case

FP32 = "fp32"


@dataclass(frozen=True, slots=True)
class PrecisionGain(Finding):
    """Speedups of other precisions over fp32 on one machine."""

    name = "precision-gain"
    title = "Gain by precision"
    order = 50
    sentences: tuple[str, ...]

    @classmethod
    def find(cls, results: Results) -> "PrecisionGain":
        """Compare the cells that differ only in precision."""
        return cls(tuple(precisions(results.cells)))

    def observations(self) -> tuple[str, ...]:
        """Return a sentence for each machine and precision."""
        return self.sentences


def precisions(cells: Sequence[Repeats]) -> list[str]:
    """Say what each machine gains from another precision than fp32, case by case and at most."""
    base = {_but_precision(cell): cell for cell in cells if cell.cell.case.precision == FP32}
    matches: dict[tuple[str, str], list[tuple[Ratio, Case]]] = {}
    for cell in cells:
        case, like = cell.cell.case, base.get(_but_precision(cell))
        if case.precision == FP32 or like is None or like.units != cell.units:
            continue
        if gain := speedup(like.compute_s, cell.compute_s):
            matches.setdefault((cell.cell.hardware, case.precision), []).append((gain, case))
    return [
        _precision_sentence(hardware, precision, gains)
        for (hardware, precision), gains in matches.items()
        if any(gain.outcome is not RatioVerdict.UNDECIDED for gain, _ in gains)
    ]


def _but_precision(cell: Repeats) -> tuple[str, str, tuple[tuple[str, int], ...]]:
    return cell.cell.hardware, cell.cell.case.workload, cell.cell.case.size


def _precision_sentence(hardware: str, precision: str, gains: Sequence[tuple[Ratio, Case]]) -> str:
    tally = {outcome: sum(gain.outcome is outcome for gain, _ in gains) for outcome in RatioVerdict}
    text = ", ".join(f"{outcome} in {count}" for outcome, count in tally.items() if count)
    most, case = max(gains, key=lambda pair: pair[0].estimate.low or 0.0)
    sentence = f"On {hardware} {precision} against {FP32} is {text} of {len(gains)}"
    if most.outcome is RatioVerdict.FASTER:
        sentence += f", at most {format_ratio(most)} as fast, at {case.workload} {case.size_text}"
    return f"{sentence}."
