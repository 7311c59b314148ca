"""Cases in a row: those of one pair of machines that differ in a single size parameter."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tasks.results.model import Pairing
from tasks.results.values import Ratio, RatioVerdict
from workloads.harness.records.case import HELPERS
from workloads.harness.registry import declared

WAYS = ("time", "end to end", "cost")


@dataclass(frozen=True, slots=True)
class Line:
    """A row of at least two cases.

    Attributes:
        parameter: the size parameter in which they differ; `fixed` are the others.
        pairings: by the parameter's value, rising; also those without a ratio.
    """

    hardware: str
    baseline: str
    workload: str
    precision: str
    parameter: str
    fixed: tuple[tuple[str, int], ...]
    pairings: Mapping[int, Pairing]

    @property
    def words(self) -> str:
        """Name the series without its parameter, such as `image_pipeline batch=2 fp32`."""
        fixed = "".join(f"{name}={value} " for name, value in self.fixed)
        return f"{self.workload} {fixed}{self.precision}"

    def verdicts(self, way: str) -> dict[int, RatioVerdict | None]:
        """Return who is ahead at each value in one of `WAYS`; None where there is no ratio."""
        ratios = {value: ratio(pairing, way) for value, pairing in self.pairings.items()}
        return {value: matches.outcome if matches else None for value, matches in ratios.items()}


def ratio(pairing: Pairing, way: str) -> Ratio | None:
    """Return the ratio of two machines in one of `WAYS`."""
    return {"time": pairing.compute, "end to end": pairing.end_to_end, "cost": pairing.cost}[way]


def _published(workload: str) -> tuple[str, ...]:
    """Return the parameters that name a model: between two of them there is no other size."""
    known_today = declared(workload)
    return known_today.published if known_today else ()


def lines(pairings: Iterable[Pairing]) -> tuple[Line, ...]:
    """Every row that the pairings have, one for each of its parameters that takes several values."""
    matches: dict[tuple[str, str, str, str, str, tuple[tuple[str, int], ...]], dict[int, Pairing]]
    matches = defaultdict(dict)
    for pairing in pairings:
        case = pairing.case
        for name, value in case.size:
            if name not in (*HELPERS, *_published(case.workload)):
                fixed = tuple(other for other in case.size if other[0] != name)
                key = (pairing.hardware, pairing.baseline, case.workload, case.terms, name, fixed)
                matches[key][value] = pairing
    return tuple(
        Line(*key, {value: row[value] for value in sorted(row)})
        for key, row in matches.items()
        if len(row) > 1
    )
