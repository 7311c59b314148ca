"""Cases that differ in a single size parameter."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tasks.results.metrics import metric_in
from tasks.results.model import Pairing
from tasks.results.values import Ratio, RatioVerdict
from workloads.harness.records.case import HELPERS
from workloads.harness.registry import declared

WAYS = ("time", "end to end", "cost")


@dataclass(frozen=True, slots=True)
class Line:
    """At least two cases.

    `pairings` are by rising `parameter`, also without a ratio.
    """

    hardware: str
    baseline: str
    workload: str
    precision: str
    parameter: str
    fixed: tuple[tuple[str, int], ...]
    pairings: Mapping[int, Pairing]

    @property
    def is_of_number(self) -> bool:
        """Return False for a time."""
        metric = metric_in(next(iter(self.pairings.values())).case.id)
        return metric is not None and not metric.is_time

    @property
    def words(self) -> str:
        """Name the series without its parameter, such as `image_pipeline batch=2 fp32`."""
        fixed = "".join(f"{name}={value} " for name, value in self.fixed)
        return f"{self.workload} {fixed}{self.precision}"

    def verdicts(self, way: str) -> dict[int, RatioVerdict | None]:
        """Return verdicts by value in one of `WAYS`."""
        ratios = {value: ratio(pairing, way) for value, pairing in self.pairings.items()}
        return {value: each.outcome if each else None for value, each in ratios.items()}


def ratio(pairing: Pairing, way: str) -> Ratio | None:
    return {"time": pairing.compute, "end to end": pairing.end_to_end, "cost": pairing.cost}[way]


def lines(pairings: Iterable[Pairing]) -> tuple[Line, ...]:
    """Omit names of published models: there is no size between two models."""
    series: dict[tuple[str, str, str, str, str, tuple[tuple[str, int], ...]], dict[int, Pairing]]
    series = defaultdict(dict)
    for pairing in pairings:
        case, known = pairing.case, declared(pairing.case.workload)
        for name, value in case.size:
            if name not in HELPERS and not (known and name in known.published):
                fixed = tuple(other for other in case.size if other[0] != name)
                key = (pairing.hardware, pairing.baseline, case.workload, case.terms, name, fixed)
                series[key][value] = pairing
    return tuple(
        Line(*key, {value: row[value] for value in sorted(row)})
        for key, row in series.items()
        if len(row) > 1
    )
