"""Parts of all charts."""

import json
from dataclasses import asdict, dataclass
from typing import Any

import altair as alt

from tasks.report.charts.theme import log_ticks, shapes
from tasks.report.grid import Grid
from tasks.results.values import Estimate
from workloads.harness.records.finite_json import to_json

OFF = {
    "name": "off",
    "value": [],
}  # parameter of every chart, which a page sets to the names of dimmed machines


@dataclass(frozen=True, slots=True)
class ChartPanel:
    """Heading, description for screen readers, and Vega-Lite."""

    title: str
    description: str
    chart: alt.LayerChart | alt.FacetChart

    def spec(self) -> dict[str, Any]:
        """Return it as wide as its container, without a theme's colours."""
        tables: dict[str, str] = {}
        spec = part_of(self.chart)
        _name_tables(spec, tables)
        return spec | {
            "width": "container",
            "description": self.description,
            "autosize": {"type": "fit-x", "contains": "padding"},
            "params": [OFF],
            "datasets": {name: json.loads(text) for text, name in tables.items()},
        }


def panel_of(title: str, description: str, height: float, *layers: alt.Chart) -> ChartPanel:
    return ChartPanel(title, description, alt.layer(*layers).properties(height=round(height)))


def part_of(chart: Any) -> dict[str, Any]:
    """Return it without top-level keys; validation would be slow."""
    spec = chart.to_dict(validate=False)
    return {key: value for key, value in spec.items() if key not in ("config", "$schema")}


def chart_of(rows: list[dict[str, Any]]) -> alt.Chart:
    """Return rows with numbers in six digits.

    Rows are text and encodings are channels (`alt.X("a:Q")`), because Altair copies and checks others at each
    step.
    """
    short = [{k: float(f"{v:.6g}") if isinstance(v, float) else v for k, v in row.items()} for row in rows]
    text = to_json(short, ensure_ascii=False)
    return alt.Chart(alt.Data(values=text, format=alt.JsonDataFormat(type="json")))  # type: ignore[no-untyped-call]


def _name_tables(spec: Any, tables: dict[str, str]) -> None:
    """Name each layer's data, so that a page has shared rows once."""
    if isinstance(spec, list):
        for part in spec:
            _name_tables(part, tables)
    elif isinstance(spec, dict):
        values = spec["data"].get("values") if isinstance(spec.get("data"), dict) else None
        if isinstance(values, str):
            spec["data"] = {"name": tables.setdefault(values, f"t{len(tables)}")}
        for key, part in spec.items():
            if key != "data":
                _name_tables(part, tables)


def fields(estimate: Estimate | None) -> dict[str, float | None]:
    return asdict(estimate) if estimate else {"value": None, "low": None, "high": None}


def extent(rows: list[dict[str, Any]]) -> list[float]:
    return [row[key] for row in rows for key in ("value", "low", "high") if row[key]]


def error_bars(base: alt.Chart) -> alt.Chart:
    """Return vertical intervals of rows that have one."""
    bounded = base.transform_filter("isValid(datum.low)")
    bars: alt.Chart = bounded.mark_rule(strokeWidth=2).encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q"))
    return bars


def bar_axis(rows: list[dict[str, Any]]) -> alt.Y:
    """Omit labels, which `bar_names` writes."""
    return alt.Y("bar:N", sort=list(dict.fromkeys(row["bar"] for row in rows)), axis=None)


def bar_names(rows: list[dict[str, Any]]) -> alt.Chart:
    """Put names above bars, which stay wide on a phone."""
    text = chart_of(rows).mark_text(align="left", dy=-5, baseline="middle")
    names: alt.Chart = text.encode(y=bar_axis(rows), x=alt.XDatum(0), text=alt.Text("bar:N"))
    return names


def log_axis(
    channel: Any, domain: tuple[float, float], label: str, title: str, ticks: list[float] | None = None
) -> Any:
    """Make tick labels by the expression `label`."""
    values = ticks or log_ticks(*domain)
    axis = alt.Axis(values=values, labelExpr=label, labelOverlap="greedy", labelSeparation=4)
    return channel.scale(type="log", domain=list(domain), nice=False).axis(axis).title(title)


def machine_colour(grid: Grid) -> alt.Color:
    return alt.Color("hardware:N", scale=alt.Scale(domain=grid.names), legend=None)


def machine_shape(grid: Grid) -> alt.Shape:
    scale = alt.Scale(domain=grid.names, range=shapes(len(grid.names)))
    return alt.Shape("hardware:N", scale=scale, legend=None)


def shown() -> alt.OpacityValue:
    """Return full opacity, unless the page dims the machine."""
    return alt.OpacityValue(0.08, condition={"test": "indexof(off, datum.hardware) < 0", "value": 1})


def tooltip(*keys: str) -> list[alt.Tooltip]:
    return [alt.Tooltip(f"{key}:N") for key in keys]
