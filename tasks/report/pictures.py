"""The two pictures that lie beside a report, as PNG: time by size, and speedup."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import vl_convert

from tasks.analysis.model import Comparison
from tasks.report.charts import OFF, Panel, speedup_panels, time_panels
from tasks.report.grid import Grid, grid_of
from tasks.report.theme import config, shapes
from tasks.report.words import trouble_text
from workloads.harness.record import Record

VEGA_LITE = "6.4"
_FONT = "Liberation Sans, Arial, sans-serif"
_MOST_NOTES = 8


def time_by_size_png(records: Sequence[Record], comparison: Comparison, title: str) -> bytes:
    """Time per step against work size, a panel for each workload, with intervals where there are any."""
    grid = grid_of(records, comparison)
    what = "Time per step with the data in place. Bars: 95 % interval; hollow: one repeat, no interval."
    return _png(grid, time_panels(grid), f"{title}: time by size", what, width=330)


def speedup_png(records: Sequence[Record], comparison: Comparison, title: str) -> bytes:
    """Compute speedups over the baseline, a panel for each workload, with intervals and the 1× line."""
    grid = grid_of(records, comparison)
    what = f"Compute speedup over {comparison.baseline}; right of the line is faster. Pale: undecided."
    return _png(grid, speedup_panels(grid), f"{title}: speedup", what, width=420)


def notes(grid: Grid) -> list[str]:
    """What a picture does not draw, and why; the first few, then how many more."""
    lines = [f"{summary.cell.id}: {trouble_text(summary)}" for summary in grid.troubled]
    more = len(lines) - _MOST_NOTES
    return [*lines[:_MOST_NOTES], f"and {more} more, listed in report.html"] if more > 0 else lines


def _png(grid: Grid, panels: list[Panel], title: str, subtitle: str, width: int) -> bytes:
    undrawn = notes(grid)
    inner = _panels(grid, panels, width) if panels else _nothing(grid)
    spec = alt.vconcat(
        inner.properties(title=alt.Title(title, subtitle=[subtitle], fontSize=18, offset=14))
    ).to_dict()
    if undrawn:
        spec["title"] = _footnote(["Not drawn, because not ok:", *(_clip(line) for line in undrawn)])
    spec["params"] = [OFF]
    spec["config"] = config(font=_FONT)
    spec["padding"] = 18
    return bytes(vl_convert.vegalite_to_png(spec, vl_version=VEGA_LITE, scale=2))


def _footnote(lines: list[str]) -> dict[str, Any]:
    quiet = {"fontSize": 11, "fontWeight": "normal", "color": "#525a64", "anchor": "start"}
    return {"text": lines, "orient": "bottom", "offset": 16, **quiet}


def _clip(line: str, most: int = 130) -> str:
    return line if len(line) <= most else line[: most - 1] + "…"


def _panels(grid: Grid, panels: list[Panel], width: int) -> alt.VConcatChart:
    columns = min(len(panels), 3 if len(panels) in (3, 5, 6, 9) or len(panels) > 8 else 2)
    charts = [panel.chart.properties(width=width, title=panel.title) for panel in panels]
    return alt.vconcat(_key(grid), alt.concat(*charts, columns=columns, spacing=28), spacing=18)


def _key(grid: Grid) -> alt.LayerChart:
    """The legend: colour, shape and name of each machine, in one line."""
    names = grid.names
    places = [sum(len(name) + 6 for name in names[:i]) for i in range(len(names))]
    rows = [{"hardware": name, "x": place} for name, place in zip(names, places, strict=True)]
    base = alt.Chart(alt.Data(values=rows), height=16, width=7 * sum(len(name) + 6 for name in names))
    x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[0, sum(len(name) + 6 for name in names)], nice=False))
    return alt.layer(
        base.mark_point(filled=True, size=90, opacity=1).encode(
            x=x,
            color=alt.Color("hardware:N", scale=alt.Scale(domain=names), legend=None),
            shape=alt.Shape(
                "hardware:N", scale=alt.Scale(domain=names, range=shapes(len(names))), legend=None
            ),
        ),
        base.mark_text(align="left", dx=10, fontSize=12).encode(x=x, text="hardware:N"),
    )


def _nothing(grid: Grid) -> alt.Chart:
    said = (
        "Nothing to draw: no cell of this run is ok."
        if not _any_ok(grid)
        else "Nothing to draw: no ratio yet."
    )
    words = alt.Chart(alt.Data(values=[{"words": said}]), width=700, height=140)
    return words.mark_text(fontSize=18, style="quiet").encode(text="words:N")


def _any_ok(grid: Grid) -> bool:
    return any(summary.ok_repeats for summary in grid.comparison.summaries)
