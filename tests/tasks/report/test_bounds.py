"""What bounds a cell, in the report: the comparison's cells, the records table and the data frames."""

import re

import pandas as pd
import pytest

from tasks.findings.bottleneck import bound_text
from tasks.report.files.comparison_table import comparison_table
from tasks.report.grid import grid_of
from tasks.report.html import records_table
from tasks.report.html.page import report_html
from tests.tasks.examples.reports import RUN, comparison, nothing_ok, records


@pytest.fixture(scope="module")
def made():
    return records()


@pytest.fixture(scope="module")
def compared(made):
    return comparison(made)


@pytest.mark.server
def test_every_ok_cell_of_the_comparison_says_it_with_the_reason_as_its_title(made, compared):
    page = report_html(made, compared, RUN)
    shown = re.findall(r'<span class="quiet" title="([^"]+)">bound by: ([^<]+)</span>', page)
    bounds = [summary.bound for summary in compared.summaries if summary.bound]
    assert sorted(shown) == sorted((bound.why, bound_text(bound)) for bound in bounds)
    assert any(text.startswith("compute, 100 %") for _, text in shown)


def test_the_records_table_has_it_and_the_share_of_the_measured_peak(made, compared):
    rows = records_table.record_rows(grid_of(made, compared), made)
    by, share = (records_table.COLUMNS.index(name) for name in ("Bound by", "Of measured peak"))
    assert {len(row["cells"]) for row in rows} == {len(records_table.COLUMNS)}
    for row, record in zip(rows, made, strict=True):
        assert (row["cells"][by][0] == "–") == (not record.ok)
    ordered = [row["cells"][share][1] for row in rows if row["ok"]]
    assert max(ordered) == pytest.approx(1.0, rel=0.05)


def test_the_data_frame_has_every_limit_as_a_share(compared):
    table = comparison_table(compared)
    ok = table[table["ok_repeats"] > 0]
    assert set(ok["bound_by"]) <= {"compute", "transfer", "unexplained"}
    assert (ok["bound_why"].str.len() > 10).all()
    assert ok["share_of_compute"].between(0, 1.5).all()
    assert pd.isna(ok["share_of_launch"]).all()  # no kernel_launch in this run
    assert (table[table["ok_repeats"] == 0]["bound_by"] == "").all()


def test_nothing_ok_has_no_bounds():
    made, compared = nothing_ok()
    assert "bound by:" not in report_html(made, compared, RUN)
    assert set(comparison_table(compared)["bound_by"]) == {""}
