"""Predictions kept before their machine was measured."""

from dataclasses import dataclass

from tasks.results.finding import Finding, Results
from tasks.results.forecast import Forecast, held, typical_error
from tasks.results.format import format_share
from tasks.results.summaries import over_repeats
from tasks.results.table import Column, Quantity, Table
from tasks.results.values import Estimate

COLUMNS = (
    Column("Machine", Quantity.MACHINE),
    Column("Case"),
    Column("Predicted time per step", Quantity.TIME),
    Column("Measured time per step", Quantity.TIME),
    Column("Within the interval"),
    Column("Predicted bound"),
)
LEAD = (
    "Predictions from other machines, kept before these were measured, with 90 % intervals; measured times with 95 % "
    "intervals. A prediction counts for nothing else in this report."
)


@dataclass(frozen=True, slots=True)
class Forecasts(Finding):
    """Kept predictions with their measured times."""

    name = "forecasts"
    title = "Predicted and measured"
    order = 48
    rows: tuple[tuple[Forecast, Estimate], ...]

    @classmethod
    def find(cls, results: Results) -> "Forecasts":
        """Take cells whose prediction is older than their first usable repeat."""
        cells = {(c.cell.hardware, c.cell.case.id): c for c in results.cells if c.usable}
        rows = []
        for forecast in results.forecasts:
            cell = cells.get((forecast.hardware, forecast.case))
            measured = over_repeats(cell.compute_s) if cell else None
            if cell and measured and min(r.started_at for r in cell.usable) > forecast.made_at:
                rows.append((forecast, measured))
        return cls(tuple(rows))

    def table(self) -> Table | None:
        rows = tuple(
            (
                forecast.hardware,
                forecast.case,
                forecast.step_s,
                measured,
                "yes" if forecast.holds(measured.value) else "no",
                forecast.bound,
            )
            for forecast, measured in self.rows
        )
        return Table(COLUMNS, rows, LEAD) if rows else None

    def observations(self) -> tuple[str, ...]:
        if not self.rows:
            return ()
        pairs = [(forecast, measured.value) for forecast, measured in self.rows]
        inside = round(held(pairs) * len(pairs))
        return (
            f"Predictions: {inside} of {len(pairs)} measured times are within their 90 % intervals; the "
            f"middle error is {format_share(typical_error(pairs))}.",
        )
