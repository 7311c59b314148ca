"""The price of a token: rate, USD per million with its interval, and the latency of one token."""

from dataclasses import dataclass

from tasks.results.finding import Finding, Results
from tasks.results.model import Machine, Summary
from tasks.results.repeats import Repeats
from tasks.results.summaries import median_or_none
from tasks.results.table import Column, Quantity, Table

UNIT = "tokens"
COLUMNS = (
    Column("Machine", Quantity.MACHINE),
    Column("Case"),
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
    "token. Percentiles are of single steps with a synchronisation after each. The price is for a machine that is "
    "never idle. FLOP/s are computed by formula, without masked pairs of attention: MFU is their share of the data "
    "sheet's peak, and the share of the roof is over the fastest measured product."
)


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A cell that counts tokens, with percentiles of its single steps (s): medians over the repeats.

    `peak_share` is of one device's peak in the precision, `roof_share` of the fastest measured product; or None.
    """

    summary: Summary
    p50_s: float | None
    p95_s: float | None
    p99_s: float | None
    peak_share: float | None
    roof_share: float | None


@dataclass(frozen=True, slots=True)
class Tokens(Finding):
    """Every cell whose work is counted in tokens."""

    name = "tokens"
    title = "The price of a token"
    section = "money"
    order = 32
    cells: tuple[TokenRow, ...]

    @classmethod
    def find(cls, results: Results) -> "Tokens":
        """Take the cells that count tokens and have a time."""
        pairs = zip(results.cells, results.summaries, strict=True)
        machines = {machine.name: machine for machine in results.machines}
        return cls(
            tuple(
                _row(cell, summary, machines.get(summary.cell.hardware))
                for cell, summary in pairs
                if summary.unit == UNIT and summary.units_per_s is not None
            )
        )

    def table(self) -> Table | None:
        """Return a row per cell, in the order of the cases."""
        rows = tuple(
            (
                row.summary.cell.hardware,
                row.summary.cell.case.id,
                row.summary.units_per_s,
                row.summary.usd_per_million_units,
                *(row.p50_s, row.p95_s, row.p99_s, row.peak_share, row.roof_share),
            )
            for row in self.cells
        )
        return Table(COLUMNS, rows, LEAD) if rows else None


def _row(cell: Repeats, summary: Summary, machine: Machine | None) -> TokenRow:
    latencies = [record.latency for record in cell.usable if record.latency]
    peak = dict(machine.peak_flops).get(summary.cell.case.precision) if machine else None
    return TokenRow(
        summary,
        median_or_none(latency.p50_s for latency in latencies),
        median_or_none(latency.p95_s for latency in latencies),
        median_or_none(latency.p99_s for latency in latencies),
        summary.flops_per_s / peak if summary.flops_per_s and peak else None,
        summary.bound.shares.get("compute") if summary.bound else None,
    )
