from dataclasses import replace

import pytest

from tasks.findings.compare import compare
from tasks.report.charts.overview import MOST_MARKS, is_complete, overview_panel
from tasks.report.grid import grid_of
from tests.benchmarks.report import machines, many_records
from tests.tasks.examples.reports import BASELINE, CASES, arranged, comparison, nothing_ok, records


def marks(panel):
    (rows,) = [rows for rows in panel.spec()["datasets"].values() if "place" in rows[0]]
    return {(row["hardware"], row["size"]): row for row in rows}


@pytest.fixture(scope="module")
def grid():
    return grid_of(records(), comparison(records()))


def test_each_case_has_its_speedup_with_its_interval_for_each_machine(grid):
    panel, drawn = overview_panel(grid), marks(overview_panel(grid))
    assert panel.title == f"Speedup over {BASELINE}" and is_complete(grid)
    assert len(drawn) == 2 * len(CASES)
    row = drawn["aws-g5.8xlarge", "matmul n=1000"]
    ratio = grid.pairings["aws-g5.8xlarge", CASES[0]].compute.estimate
    assert row["value"] == pytest.approx(ratio.value, 1e-5) and row["low"] < row["value"] < row["high"]
    assert row["outcome"] == "faster"


def test_a_cell_without_a_ratio_has_its_verdict_and_an_undecided_one_a_question_mark(grid):
    drawn = marks(overview_panel(grid))
    assert drawn["gke-l4", "matmul n=10000"]["label"] == "out of memory"
    assert drawn["aws-g5.8xlarge", "image_pipeline pixels=4096, batch=4"]["label"].endswith("× ?")


def test_without_a_baseline_it_has_times():
    made = [record for record in records() if record.hardware != BASELINE]
    panel = overview_panel(grid_of(made, comparison(made)))
    assert panel.title == "Time per step, 8 of 9 cases"
    assert marks(panel)["gke-l4", "matmul n=1000"]["value"] < 1e-2


def test_cases_without_a_result_are_left_out_and_counted(grid):
    pairings = [replace(p, compute=None) if p.case != CASES[0] else p for p in grid.comparison.pairings]
    fewer = grid_of(records(), replace(grid.comparison, pairings=tuple(pairings)))
    panel = overview_panel(fewer)
    assert panel.title.endswith("1 of 9 cases") and {size for _, size in marks(panel)} == {"matmul n=1000"}


def test_of_many_cases_some_are_drawn_from_the_first_to_the_last():
    made = many_records(1400)
    grid = grid_of(made, compare(made, machines(), "machine-0"))
    drawn = marks(overview_panel(grid))
    assert len(drawn) <= MOST_MARKS and not is_complete(grid)
    assert "work_0000 n=" in next(iter(drawn))[1]


def test_nothing_is_drawn_of_a_run_without_a_result():
    _, grid = arranged(*nothing_ok())
    assert overview_panel(grid) is None
