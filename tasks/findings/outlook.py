"""Predicted time and cost of unmeasured machines."""

from dataclasses import dataclass

from tasks.results.finding import Finding, Results
from tasks.results.forecast import STEPS, Forecast
from tasks.results.shortlist import measured_s, sentence, standings
from tasks.results.table import Column, Quantity, Table

COLUMNS = (
    Column("Machine", Quantity.MACHINE),
    Column("Case"),
    Column("Predicted time per step", Quantity.TIME),
    Column(f"Predicted cost of {STEPS:,} steps", Quantity.MONEY),
    Column("Price", Quantity.PRICE),
    Column("Bound there"),
    Column("Predicted from"),
    Column("Rests on"),
    Column("Measure it with --on"),
)
LEAD = (
    "None of these machines has measured its case in this run: times and costs are predictions with 90 % intervals, "
    "which count for nothing else in this report."
)


@dataclass(frozen=True, slots=True)
class Outlook(Finding):
    """The latest prediction of each cell.

    `standing`: whether a predicted machine can beat the fastest and the cheapest.
    """

    name = "outlook"
    title = "Predicted, not measured"
    order = 47
    rows: tuple[Forecast, ...]
    standing: tuple[str, ...] = ()

    @classmethod
    def find(cls, results: Results) -> "Outlook":
        """Take unmeasured cells, the fastest of each case first."""
        measured = measured_s(results.cells)
        cases = [*dict.fromkeys(cell.cell.case.id for cell in results.cells)]
        latest = {(forecast.hardware, forecast.case): forecast for forecast in results.predicted}
        rows = [f for f in latest.values() if f.case in cases and f.case not in measured.get(f.hardware, {})]
        rows.sort(key=lambda forecast: (cases.index(forecast.case), forecast.value_s))
        prices = {machine.name: machine.usd_per_hour or 0.0 for machine in results.machines}
        found = standings(measured, prices, rows) if rows else []
        return cls(tuple(rows), tuple(sentence(standing) for standing in found))

    def table(self) -> Table | None:
        rows = tuple(
            (
                forecast.hardware,
                forecast.case,
                forecast.step_s,
                forecast.usd if forecast.usd_per_hour else None,
                forecast.usd_per_hour,
                forecast.bound,
                forecast.source,
                forecast.rests_on,
                forecast.reach,
            )
            for forecast in self.rows
        )
        return Table(COLUMNS, rows, LEAD) if rows else None

    def details(self) -> tuple[str, ...]:
        return self.standing
