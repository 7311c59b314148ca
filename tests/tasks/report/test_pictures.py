import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.report.charts.cold_start import cold_panels
from tasks.report.charts.draw import png_of, svg_of
from tasks.report.charts.pictures import speedup_png, time_by_size_png, undrawn
from tasks.report.charts.scaling_pictures import table_png
from tasks.report.charts.speedup import speedup_panels
from tasks.report.charts.theme import (
    DARK_PHASES,
    DARK_SERIES,
    LIGHT_PHASES,
    LIGHT_SERIES,
    SHAPES,
    log_ticks,
    padded,
    shapes,
)
from tasks.report.charts.time_by_size import time_panels
from tasks.report.grid import grid_of
from tests.tasks.examples.reports import BASELINE, comparison, nothing_ok, records

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def grid():
    made = records()
    return grid_of(made, comparison(made))


def rows_of(panel):
    """Return every row of a chart, once for each table that holds it."""
    return [row for table in panel.spec()["datasets"].values() for row in table if "hardware" in row]


def test_each_workload_has_a_panel_without_refused_cells(grid):
    panels = time_panels(grid)
    assert [panel.title for panel in panels] == ["matmul · fp32", "image_pipeline · fp32", "gcn · fp32"]
    drawn = {(row["hardware"], row["size"]) for row in rows_of(panels[0])}
    assert ("gke-l4", "n=10000") not in drawn and (BASELINE, "n=10000") in drawn


def test_a_cell_that_is_not_ok_is_a_word_in_place_of_a_bar(grid):
    rows = {(row["hardware"], row["size"]): row for row in rows_of(speedup_panels(grid)[0])}
    row = rows["gke-l4", "n=10000"]
    assert row["value"] is None and row["label"] == "out of memory"


def test_one_repeat_has_no_bounds_and_is_marked_undecided(grid):
    rows = rows_of(speedup_panels(grid)[1])
    row = next(r for r in rows if r["size"] == "pixels=4096, batch=4" and r["value"])
    assert row["low"] is None and row["label"].endswith("undecided")


def test_all_speedup_panels_have_the_same_axis(grid):
    axes = (panel.spec()["layer"][0]["encoding"]["x"] for panel in speedup_panels(grid))
    assert len({json.dumps(axis["scale"]["domain"]) for axis in axes}) == 1


def test_cold_bars_are_stacked_without_gaps(grid):
    for panel in cold_panels(records(), grid):
        phases = {(row["bar"], row["phase"]): row for row in rows_of(panel)}
        ends = {}
        for (bar, _), row in phases.items():
            assert row["start"] == pytest.approx(ends.get(bar, 0.0))
            ends[bar] = row["end"]
        assert ends


def test_refused_cells_are_listed_with_their_reasons(grid):
    assert any("out of memory" in line for line in undrawn(grid)) and len(undrawn(grid)) == 2


@pytest.mark.server
def test_pictures_are_png_with_repeats_with_one_and_with_nothing_ok():
    runs = [(made, comparison(made)) for made in map(records, (1, 3))]
    for grid in (grid_of(*run) for run in (*runs, nothing_ok())):
        assert time_by_size_png(grid, "t").startswith(PNG)
        assert speedup_png(grid, "t").startswith(PNG)


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_colours_stand_out_from_the_paper():
    assert min(contrast(colour, "#ffffff") for colour in (*LIGHT_SERIES, *LIGHT_PHASES)) >= 3
    assert min(contrast(colour, "#181c21") for colour in (*DARK_SERIES, *DARK_PHASES)) >= 3


def test_machines_differ_in_colour_or_shape():
    pairs = [(i % len(LIGHT_SERIES), shape) for i, shape in enumerate(shapes(40))]
    assert len(set(pairs)) == 40 and set(shapes(8)) == set(SHAPES)


@given(st.floats(1e-9, 1e9), st.floats(1.05, 1e9))
def test_log_ticks_are_few_and_inside(low, factor):
    ticks = log_ticks(low, low * factor)
    assert len(ticks) <= 8
    assert all(low <= tick <= low * factor for tick in ticks)
    assert len(ticks) >= 2 or factor < 1.3


@given(st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=5))
def test_padding_holds_all_values_and_is_never_empty(values):
    low, high = padded(values)
    assert low < min(values) and max(values) < high and math.isfinite(high)


def test_no_sign_in_a_name_ends_the_process_that_draws():
    name = "a\x1b[31mb\x00\ufffe\ud800"
    spec = {"title": name, "mark": "bar", "data": {"values": [{name: 1}]}}
    assert "ab\ufffd\ufffd" in svg_of(spec) and png_of(spec, 1).startswith(PNG)
    assert table_png(name, [(name, [[name], [name]])]).startswith(PNG)
