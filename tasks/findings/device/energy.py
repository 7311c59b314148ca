"""Energy of each cell: joules and watts."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from tasks.results.finding import Finding, Results
from tasks.results.format import listed
from tasks.results.repeats import Repeats
from tasks.results.summaries import over_repeats
from tasks.results.table import Column, Quantity, Table
from tasks.results.values import Estimate
from workloads.harness.records.energy import StepEnergy, energy_of

COLUMNS = (
    Column("Machine", Quantity.MACHINE),
    Column("Case"),
    Column("Power", Quantity.POWER),
    Column("Energy per step", Quantity.ENERGY),
    Column("Energy per unit", Quantity.ENERGY),
    Column("Unit"),
)
LEAD = (
    "Energy by the machine's own counter over the window of the samples: of the whole GPU, or of all CPU packages "
    "without memory, with the other programs on them. It excludes the rest of the machine. An interval is that of the "
    "repeats and at least as wide as the counter's resolution, which is all that one repeat has."
)


@dataclass(frozen=True, slots=True)
class CellEnergy:
    """Joules per step and unit of work, and mean watts."""

    hardware: str
    case: str
    unit: str
    step_j: Estimate
    unit_j: Estimate | None
    power_w: Estimate | None


@dataclass(frozen=True, slots=True)
class Energy(Finding):
    """Energy of every cell; `unknown` are machines without it."""

    name = "energy"
    title = "Energy"
    section = "money"
    order = 62
    cells: tuple[CellEnergy, ...]
    unknown: tuple[tuple[str, str], ...]

    @classmethod
    def find(cls, results: Results) -> "Energy":
        usable = [cell for cell in results.cells if cell.usable]
        cases = list(dict.fromkeys(cell.cell.case for cell in usable))
        found = {cell.cell: energy for cell in usable if (energy := _cell_energy(cell))}
        ordered = sorted(found, key=lambda cell: cases.index(cell.case))
        counted = {cell.hardware for cell in found}
        whys = ((cell.cell.hardware, why) for cell in usable if (why := _why(cell)))
        unknown = {name: why for name, why in whys if name not in counted}
        return cls(tuple(found[cell] for cell in ordered), tuple(unknown.items()))

    def table(self) -> Table | None:
        rows = tuple((c.hardware, c.case, c.power_w, c.step_j, c.unit_j, c.unit) for c in self.cells)
        return Table(COLUMNS, rows, LEAD) if rows else None

    def observations(self) -> tuple[str, ...]:
        machines: dict[str, list[str]] = {}
        for name, why in self.unknown:
            machines.setdefault(why, []).append(name)
        parts = [f"{listed(names)}: {why}" for why, names in machines.items()]
        return (f"Energy is unknown on {'; on '.join(parts)}.",) if parts else ()


def _cell_energy(cell: Repeats) -> CellEnergy | None:
    known = [energy for record in cell.usable if (energy := energy_of(record))]
    work = next((record.work for record in cell.usable if record.work), None)
    step_j = _over(known, [energy.step_j for energy in known])
    if step_j is None:
        return None
    return CellEnergy(
        cell.cell.hardware,
        cell.cell.case.id,
        work.unit.removesuffix("s") if work else "",
        step_j,
        _over(known, [energy.unit_j for energy in known if energy.unit_j is not None]),
        _over(known, [energy.power_w for energy in known if energy.power_w is not None]),
    )


def _over(known: Sequence[StepEnergy], values: Sequence[float]) -> Estimate | None:
    """Return the mean, with the wider of its interval and the counter's resolution.

    The resolution is not divided by the repeats: counters that step alike can all err alike.
    """
    estimate = over_repeats([value for value in values if value > 0])
    errors = [energy.error_share for energy in known if energy.error_share is not None]
    if estimate is None or not errors:
        return estimate
    half, value = fmean(errors) * estimate.value, estimate.value
    low = value if estimate.low is None else estimate.low
    high = value if estimate.high is None else estimate.high
    return Estimate(value, max(min(low, value - half), 0.0), max(high, value + half))


def _why(cell: Repeats) -> str:
    whys = (
        record.missing.get("gpu_energy_j" if record.device == "cuda" else "cpu_energy_j", "")
        for record in cell.usable
    )
    return next(filter(None, whys), "")
