import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.findings.compare import compare
from tasks.report.charts.heat_map import LEGEND, case_ids, heat_map, state_of
from tasks.report.grid import CaseGroup, Grid, grid_of
from tasks.report.html.page import report_html
from tasks.report.html.tables import comparison_groups, detailed_cases, shared_confounds
from tasks.report.page_limits import MOST_BARS, MOST_GROUPS, firsts, readable, undrawn
from tests.benchmarks.report import machines, many_records
from tests.tasks.examples.reports import BASELINE, CASES, RUN, comparison, records
from workloads.harness.records.case import Case


@pytest.fixture(scope="module")
def grid():
    made = records()
    return grid_of(made, comparison(made))


@pytest.fixture(scope="module")
def large():
    made = many_records(1400)
    return made, compare(made, machines(), "machine-0")


def test_every_cell_has_a_state_with_a_colour_a_mark_and_a_word_of_its_own(grid):
    for values in zip(*((state.css, state.mark, state.word) for state in LEGEND), strict=True):
        assert len(set(values)) == len(LEGEND)
    assert state_of(grid, BASELINE, CASES[0]).css == "base"
    assert state_of(grid, "aws-g5.8xlarge", CASES[0]).css == "faster"
    assert state_of(grid, "gke-l4", CASES[6]).css == "slower"
    assert state_of(grid, "aws-g5.8xlarge", CASES[5]).css == "undecided"
    assert state_of(grid, "gke-l4", CASES[2]).word == "out of memory"
    assert state_of(grid, "gke-l4", Case.of("nothing", {"n": 1})).css == "none"


def test_without_a_baseline_a_cell_is_ok_and_has_no_ratio():
    made = [record for record in records() if record.hardware != BASELINE]
    alone = grid_of(made, comparison(made))
    assert state_of(alone, "gke-l4", CASES[0]).css == "alone"


def test_a_small_run_has_a_row_for_each_case_and_no_map(grid):
    found = heat_map(grid, case_ids(grid))
    assert found["rows"] == [] and sum(count for _, count in found["legend"]) == len(grid.summaries)
    page = report_html(records(), grid, RUN)
    assert len(re.findall(r'<tr id="case-\d+"', page)) == len(CASES)


def test_a_large_map_has_a_row_a_workload_and_a_field_a_size(large):
    made, compared = large
    grid = grid_of(made, compared)
    found = heat_map(grid, case_ids(grid))
    assert len(found["rows"]) == len(grid.groups)
    assert all(len(fields) == 8 for row in found["rows"][:-1] for fields in row["machines"])
    assert all("=" in field["label"] for fields in found["rows"][0]["machines"] for field in fields)


@pytest.mark.server
def test_a_large_page_counts_left_out_rows_and_workloads(large):
    made, compared = large
    page = report_html(made, grid_of(made, compared), RUN)
    links = re.findall(r'<a href="#(case-\d+)" class="field', page)
    assert len(links) > 500 and set(links) <= set(re.findall(r'<tr id="(case-\d+)"', page))
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    assert f"the first {MOST_GROUPS} of {len({r.case.workload for r in made})} workloads" in text
    assert "800 rows on this page; 600 more are in results.parquet" in text
    detailed = detailed_cases(grid_of(made, compared))
    assert f"The first {detailed} cases" in text


def test_cells_in_short_have_verdict_ratio_and_time(large):
    grid = grid_of(*large)
    rows = [row for group in comparison_groups(grid, case_ids(grid)) for row in group["rows"]]
    assert len(rows) == len({case for group in grid.groups for case in group.cases})
    brief = [cell for row in rows[detailed_cases(grid) :] for cell in row["cells"] if cell["kind"] == "brief"]
    assert brief and all(cell["state"].number or cell["state"].css != "faster" for cell in brief)


@given(st.integers(1, 200), st.integers(1, 100), st.integers(1, 40))
def test_drawn_sizes_are_few_and_include_first_and_last(cases, names, groups):
    sizes = tuple(Case.of("w", {"n": n + 1}) for n in range(cases))
    work = {case: float(i + 1) for i, case in enumerate(sizes)}
    group = CaseGroup("w", "fp32", sizes, work, "FLOP per step")
    grid = Grid(comparison([]), machines()[:1] * names, (group,) * groups, {}, {})
    drawn = readable(grid)
    assert len(drawn.groups) == min(groups, MOST_GROUPS)
    shown = drawn.groups[0].cases
    assert len(shown) <= max(2, MOST_BARS // names) and set(shown) <= set(sizes)
    assert (shown[0], shown[-1]) == (sizes[0], sizes[-1]) and list(drawn.groups[0].work) == list(shown)
    assert bool(undrawn(grid)) == (drawn != grid)


def test_firsts_counts_left_out_values():
    assert firsts([1, 2, 3], 2) == ([1, 2], 1) and firsts([1], 2) == ([1], 0)


def test_shared_confounds_are_those_of_every_ratio(grid):
    pairings = grid.comparison.pairings
    shared = shared_confounds(grid)
    for name, found in shared.items():
        ours = [p.confounds for p in pairings if p.hardware == name and not p.refused]
        assert all(set(found) <= set(confounds) for confounds in ours)
    one = replace(pairings[0], confounds=())
    again = replace(grid, comparison=replace(grid.comparison, pairings=(one, *pairings[1:])))
    assert shared_confounds(again)[one.hardware] == ()
