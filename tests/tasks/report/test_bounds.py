import re
from dataclasses import replace

import pandas as pd
import pytest

from tasks.findings.bottleneck import bound_text
from tasks.report.artifacts import stage_tables
from tasks.report.files.benchmark_results import benchmark_json
from tasks.report.files.comparison_table import comparison_table
from tasks.report.grid import grid_of
from tasks.report.html import records_table
from tasks.report.html.page import report_html
from tasks.report.text.comparison import full_text
from tasks.store.frames import results_table
from tests.tasks.examples.reports import BASELINE, CASES, RUN, comparison, nothing_ok


@pytest.mark.server
def test_details_of_every_ok_cell_have_its_bottleneck_with_the_reason(made, compared):
    page = report_html(made, grid_of(made, compared), RUN)
    shown = re.findall(r"bound by: ([^<]+)</span><span class=\"why\">([^<]+)<", page)
    bounds = [summary.bound for summary in compared.summaries if summary.bound]
    assert sorted(shown) == sorted((bound_text(bound), bound.why) for bound in bounds)
    assert any(text.startswith("compute, 100 %") for text, _ in shown)


def test_the_records_table_has_it_and_the_share_of_the_measured_peak(made, compared):
    rows = records_table.record_rows(grid_of(made, compared), made)
    by, share = (records_table.COLUMNS.index(name) for name in ("Bound by", "Of measured peak"))
    assert {len(row["cells"]) for row in rows} == {len(records_table.COLUMNS)}
    for row, record in zip(rows, made, strict=True):
        assert (row["cells"][by][0] == "–") == (not record.ok)
    ordered = [row["cells"][share][1] for row in rows if row["ok"]]
    assert max(ordered) == pytest.approx(1.0, rel=0.05)


def test_the_data_frame_has_every_limit_as_a_share(compared):
    table = comparison_table(grid_of((), compared))
    ok = table[table["ok_repeats"] > 0]
    assert set(ok["bound_by"]) <= {"compute", "transfer", "unexplained"}
    assert (ok["bound_why"].str.len() > 10).all()
    assert ok["share_of_compute"].between(0, 1.5).all()
    assert pd.isna(ok["share_of_launch"]).all()  # no kernel_launch in this run
    assert (table[table["ok_repeats"] == 0]["bound_by"] == "").all()


def test_nothing_ok_has_no_bounds():
    made, compared = nothing_ok()
    assert "bound by:" not in report_html(made, grid_of(made, compared), RUN)
    assert set(comparison_table(grid_of((), compared))["bound_by"]) == {""}


@pytest.fixture(scope="module")
def held_back(made):
    """Return the run with a machine that waits for its host, and one that slows in a soak."""

    def changed(record):
        if record.hardware == "gke-l4" and record.case == CASES[6]:
            return replace(record, device_busy_s=0.25 * record.device_time.median_s)
        if record.hardware == BASELINE and record.case == CASES[0]:
            return replace(record, wall=replace(record.wall, burst_s=0.8 * record.wall.median_s))
        return record

    return [changed(record) for record in made]


def test_a_launch_bound_cell_and_a_soaked_one_say_so_on_the_page(held_back, made, compared):
    page = report_html(held_back, grid_of(held_back, comparison(held_back)), RUN)
    (row,) = re.findall(r'<tr id="case-6">.*?</tr>', page, re.S)
    assert (
        row.count("launch-bound: the device waits for its host for 75.00 %") == row.count("device time") == 1
    )
    assert page.count('<span class="quiet">sustained: 80.00 %') == 1
    assert "<dt>launch-bound</dt>" in page and "<dt>sustained</dt>" in page
    assert "Device time and waiting" in page and "Sustained speed" in page
    before = report_html(made, grid_of(made, compared), RUN)
    assert "launch-bound" not in before.lower().split("<script")[0] and "<dt>sustained</dt>" not in before


def test_record_details_have_device_share_and_sustained_speed(held_back):
    details = records_table.record_details(grid_of(held_back, comparison(held_back)), held_back)
    texts = [detail["facts"].get("device time", "") for detail in details]
    assert sum("launch-bound: the device waits for its host for 75%" in text for text in texts) == 3
    assert [d["facts"]["sustained"] for d in details if "sustained" in d["facts"]] == [
        "80.0% of its speed in the first second"
    ] * 3


def test_text_tables_and_files_have_them_too(held_back):
    compared = comparison(held_back)
    text = full_text(held_back, grid_of(held_back, compared))
    assert "Device time and waiting:" in text and "Sustained speed:" in text
    cells = comparison_table(grid_of((), compared)).set_index("cell")
    bound = cells.loc[f"gke-l4/{CASES[6].id}"]
    assert bound["launch_bound"] and bound["busy_share"] == pytest.approx(0.25)
    assert bound["waiting_share"] == pytest.approx(0.75)
    assert bound["busy_share_low"] <= 0.25 <= bound["busy_share_high"] and pd.isna(bound["sustained_share"])
    soaked = cells.loc[f"{BASELINE}/{CASES[0].id}"]
    assert soaked["sustained_share"] == pytest.approx(0.8) and pd.isna(soaked["launch_bound"])
    rows = results_table(held_back)
    assert (
        rows["waiting_share"].count() == rows["device_busy_s"].count() == rows["sustained_share"].count() == 3
    )
    read = benchmark_json(held_back, grid_of(held_back, compared), RUN)["rows"]
    read = [row for row in read if row["device_busy_s"]]
    assert len(read) == 3 and {"latency", "sustained_share"} <= read[0].keys()
    assert {"bench-launch-bound", "bench-sustained"} <= stage_tables(compared).keys()
