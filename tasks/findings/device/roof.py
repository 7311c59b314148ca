"""The roof of each machine: best rates over the data sheet's."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from tasks.results.finding import Finding, Results
from tasks.results.format import format_bounds, format_seconds, significant
from tasks.results.model import Machine
from tasks.results.table import Column, Quantity, Table
from tasks.results.values import Estimate
from workloads.harness.records.record import Record
from workloads.harness.roofline.ceilings import machine_of
from workloads.harness.roofline.roof import (
    COPY,
    LAUNCH,
    PRODUCT,
    READ,
    UNITS,
    RoofRate,
    measured_rates,
    roof_of,
)
from workloads.harness.roofline.roofline import percent

COLUMNS = (
    Column("Machine", Quantity.MACHINE),
    Column("Limit"),
    Column("Roof"),
    Column("Share of the data sheet", Quantity.SHARE),
    Column("At"),
    Column("Verdict"),
    Column("Measured"),
)
LEAD = (
    "The measured limits of each machine: the fastest matrix product that a search over sizes found, timed again; the "
    "fastest read and copy of its memory; the launch of an operation; and an exchange between processes. A larger "
    "search can find higher limits."
)
TITLES = {COPY: "copying memory", READ: "reading memory", LAUNCH: "launch of an operation"}
PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1.0, ""))


@dataclass(frozen=True, slots=True)
class RoofRow:
    """A limit of a machine.

    `peak_share` is of the data sheet's; `kept`: measured before the run.
    """

    hardware: str
    rate: RoofRate
    peak_share: float | None
    kept: bool


@dataclass(frozen=True, slots=True)
class Roofs(Finding):
    """Every machine's roof, by valid records."""

    name = "roof"
    title = "The roof of each machine"
    order = 44
    rows: tuple[RoofRow, ...]

    @classmethod
    def find(cls, results: Results) -> "Roofs":
        machines = {machine.name: machine for machine in results.machines}
        usable = sorted((r for cell in results.cells for r in cell.usable), key=lambda r: r.hardware)
        rows = (
            row
            for hardware, records in groupby(usable, key=lambda record: record.hardware)
            for row in _rows(machines.get(hardware), [*records])
        )
        return cls(tuple(dict.fromkeys(rows)))

    def table(self) -> Table | None:
        rows = []
        for row in self.rows:
            rate = row.rate
            limit = f"product, {_terms(rate)}" if rate.kind == PRODUCT else TITLES.get(rate.kind, rate.kind)
            limit = f"{limit}, {rate.processes} processes" if rate.processes > 1 else limit
            when = f"before, {rate.measured_at[:10]}" if row.kept else "in this run"
            cells = (row.hardware, limit, _rate_text(rate), row.peak_share, rate.size, rate.verdict, when)
            rows.append(cells)
        return Table(COLUMNS, tuple(rows), LEAD) if rows else None

    def observations(self) -> tuple[str, ...]:
        best: dict[str, RoofRow] = {}
        for row in self.rows:
            if row.rate.kind == PRODUCT and row.peak_share and row.rate.is_sound:
                best.setdefault(row.hardware, row)
                if row.rate.beats(best[row.hardware].rate):
                    best[row.hardware] = row
        return tuple(
            f"Roof: the fastest matrix product on {name} reaches {_rate_text(row.rate)} in {_terms(row.rate)}, "
            f"{percent(row.peak_share or 0.0)} of the data sheet's peak."
            for name, row in best.items()
        )


def _rows(machine: Machine | None, records: Sequence[Record]) -> Iterator[RoofRow]:
    keys = dict.fromkeys(machine_of(record) for record in records)
    for key in keys:
        members = [record for record in records if machine_of(record) == key]
        fresh = measured_rates(members)
        for rate in roof_of(members):
            yield RoofRow(key[0], rate, _peak_share(rate, machine), rate not in fresh)


def _peak_share(rate: RoofRate, machine: Machine | None) -> float | None:
    if machine is None or rate.processes > 1:
        return None
    peaks = {PRODUCT: dict(machine.peak_flops).get(rate.precision)}
    peak = peaks.get(rate.kind, machine.peak_bytes_per_s if rate.kind in (COPY, READ) else None)
    return rate.value / peak if peak else None


def _terms(rate: RoofRate) -> str:
    return rate.precision if rate.mode == "eager" else f"{rate.precision} {rate.mode}"


def _rate_text(rate: RoofRate) -> str:
    if UNITS[rate.kind] == "s":
        return format_seconds(Estimate(rate.value, rate.low, rate.high))
    scale, prefix = next(((s, p) for s, p in PREFIXES if rate.value >= s), PREFIXES[-1])
    bounds = (None if bound is None else bound / scale for bound in (rate.low, rate.high))
    estimate = Estimate(rate.value / scale, *bounds)
    text = f"{significant(estimate.value, 3)} {prefix}{UNITS[rate.kind]}"
    return f"{text} ({format_bounds(estimate)})" if estimate.low is not None else text
