"""The price of a token in the fastest mode."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tasks.results.finding import Finding, Results
from tasks.results.model import Machine, Summary
from tasks.results.repeats import Repeats
from tasks.results.summaries import median_or_none
from tasks.results.table import Column, Quantity, Table, cell_text
from workloads.harness.records.case import EAGER, Cell

UNIT = "tokens"
COLUMNS = (
    Column("Machine", Quantity.MACHINE),
    Column("Case"),
    Column("Mode"),
    Column("Tokens per second", Quantity.COUNT),
    Column("Price per million tokens", Quantity.MONEY),
    Column("Time per step, p50", Quantity.TIME),
    Column("p95", Quantity.TIME),
    Column("p99", Quantity.TIME),
    Column("MFU", Quantity.SHARE),
    Column("Share of the roof", Quantity.SHARE),
)
LEAD = (
    "A step of llm_decode generates one token of each sequence; a step of llm_prefill takes the time to the first "
    "token. Of the modes in which a case was measured, the fastest with a valid result is shown. Percentiles are of "
    "single steps with a synchronisation after each. The price is for a machine that is never idle. FLOP/s are "
    "computed by formula, without masked pairs of attention, over the whole step, including the time in which a card "
    "waits for its host: MFU is their share of the data sheet's peak, and the share of the roof is over the fastest "
    "measured product."
)


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A cell that counts tokens; percentiles (s) of single steps are medians over repeats.

    `peak_share` is of one device's peak, `roof_share` of the fastest measured product. `others` are in other
    modes.
    """

    summary: Summary
    p50_s: float | None
    p95_s: float | None
    p99_s: float | None
    peak_share: float | None
    roof_share: float | None
    others: tuple[Summary, ...] = ()


@dataclass(frozen=True, slots=True)
class Tokens(Finding):
    """Token cases on each machine in its fastest mode."""

    name = "tokens"
    title = "The price of a token"
    section = "money"
    order = 32
    cells: tuple[TokenRow, ...]

    @classmethod
    def find(cls, results: Results) -> "Tokens":
        machines = {machine.name: machine for machine in results.machines}
        by_case: dict[Cell, list[tuple[Repeats, Summary]]] = {}
        for cell, summary in zip(results.cells, results.summaries, strict=True):
            by_case.setdefault(_in_eager(cell.cell), []).append((cell, summary))
        return cls(
            tuple(
                _row(*max(timed, key=lambda pair: pair[1].units_per_s or 0.0), pairs, machines)
                for pairs in by_case.values()
                if (timed := [pair for pair in pairs if pair[1].unit == UNIT and pair[1].units_per_s])
            )
        )

    def table(self) -> Table | None:
        rows = tuple(
            (
                row.summary.cell.hardware,
                _in_eager(row.summary.cell).case.id,
                row.summary.cell.case.mode,
                row.summary.units_per_s,
                row.summary.usd_per_million_units,
                *(row.p50_s, row.p95_s, row.p99_s, row.peak_share, row.roof_share),
            )
            for row in self.cells
        )
        return Table(COLUMNS, rows, LEAD) if rows else None

    def details(self) -> tuple[str, ...]:
        return tuple(
            f"On {row.summary.cell.hardware}, {_in_eager(row.summary.cell).case.id} is fastest in mode "
            f"{row.summary.cell.case.mode}: {_rate(row.summary)}; {'; '.join(map(_of_mode, row.others))}."
            for row in self.cells
            if row.others
        )


def _in_eager(cell: Cell) -> Cell:
    return replace(cell, case=replace(cell.case, mode=EAGER))


def _of_mode(summary: Summary) -> str:
    return f"{summary.cell.case.mode}: {_rate(summary)}"


def _rate(summary: Summary) -> str:
    if summary.units_per_s is None:
        return f"no valid result ({summary.verdict.value})"
    price = summary.usd_per_million_units
    cost = f", {cell_text(price, Quantity.MONEY)} for a million" if price else ""
    return f"{cell_text(summary.units_per_s, Quantity.COUNT)} tokens/s{cost}"


def _row(
    cell: Repeats,
    summary: Summary,
    pairs: Sequence[tuple[Repeats, Summary]],
    machines: Mapping[str, Machine],
) -> TokenRow:
    machine = machines.get(summary.cell.hardware)
    latencies = [record.latency for record in cell.usable if record.latency]
    peak = dict(machine.peak_flops).get(summary.cell.case.precision) if machine else None
    return TokenRow(
        summary,
        median_or_none(latency.p50_s for latency in latencies),
        median_or_none(latency.p95_s for latency in latencies),
        median_or_none(latency.p99_s for latency in latencies),
        summary.flops_per_s / peak if summary.flops_per_s and peak else None,
        summary.bound.shares.get("compute") if summary.bound else None,
        tuple(other for _, other in pairs if other is not summary),
    )
