"""What all charts share: a panel, its axes, and how machines are told apart."""

from dataclasses import dataclass
from typing import Any

import altair as alt

from tasks.report.grid import Grid
from tasks.report.theme import log_ticks, shapes

OFF = {"name": "off", "value": []}
"""The parameter that a page sets to the machines it dims; every chart of machines needs it."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart: a heading, a sentence for those who can't see it, and its Vega-Lite."""

    title: str
    description: str
    chart: alt.LayerChart | alt.FacetChart

    def spec(self) -> dict[str, Any]:
        """Vega-Lite for a page: as wide as its container, without the colours of a theme."""
        spec = self.chart.properties(width="container", description=self.description).to_dict()
        return {key: value for key, value in spec.items() if key != "config"} | {
            "autosize": {"type": "fit-x", "contains": "padding"},
            "params": [OFF],
        }


def chart_of(rows: list[dict[str, Any]]) -> alt.Chart:
    """A chart of these rows, which travel inside its specification."""
    return alt.Chart(alt.Data(values=rows))  # type: ignore[no-untyped-call]


def log_axis(
    channel: Any, domain: tuple[float, float], label: str, title: str, ticks: list[float] | None = None
) -> Any:
    """A log scale over just this domain; the expression `label` names round numbers, or the `ticks`."""
    axis = alt.Axis(
        values=ticks or log_ticks(*domain), labelExpr=label, labelOverlap="greedy", labelSeparation=4
    )
    return channel.scale(type="log", domain=list(domain), nice=False).axis(axis).title(title)


def machine_colour(grid: Grid) -> alt.Color:
    """The machine's colour, the same in every picture of a run."""
    return alt.Color("hardware:N", scale=alt.Scale(domain=grid.names), legend=None)


def machine_shape(grid: Grid) -> alt.Shape:
    """The machine's shape, beside its colour."""
    scale = alt.Scale(domain=grid.names, range=shapes(len(grid.names)))
    return alt.Shape("hardware:N", scale=scale, legend=None)


def shown() -> Any:
    """Full opacity, unless the page dims the machine."""
    return alt.condition("indexof(off, datum.hardware) < 0", alt.value(1), alt.value(0.08))


def tooltip(*keys: str) -> list[alt.Tooltip]:
    """These fields of a row, as text."""
    return [alt.Tooltip(f"{key}:N") for key in keys]
