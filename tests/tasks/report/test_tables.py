import json
import math
from dataclasses import replace

import pandas as pd
import pytest

from tasks.findings.compare import compare
from tasks.report.files.benchmark_results import benchmark_json
from tasks.report.files.comparison_table import comparison_table
from tasks.report.grid import grid_of
from tasks.report.html.records_table import COLUMNS, record_rows
from tasks.report.text.boxes import box, text_tables
from tasks.results.comparison import Comparison
from tasks.store.frames import results_table
from tests.tasks.examples.records import machine
from tests.tasks.examples.reports import (
    BASELINE,
    CASES,
    HOSTILE,
    RUN,
    bad_record,
    comparison,
    nothing_ok,
)
from tests.tasks.examples.script_records import script_record
from workloads.harness.probes.machine import machine_id
from workloads.harness.records.parts import Control
from workloads.harness.records.record import Verdict


def test_results_have_a_row_for_each_record_with_phases_that_add_up(made):
    table = results_table(made)
    assert len(table) == len(made)
    assert list(table["cell"]) == [record.cell.id for record in made]
    phases = [name for name in table if name.startswith("phase_")]
    assert {"phase_import_s", "phase_first_call_s"} <= set(phases)
    ok = table[table["verdict"] == "ok"]
    assert ok[[*phases, "unattributed_s"]].sum(axis=1).to_numpy() == pytest.approx(ok["wall_s"].to_numpy())


def test_sizes_are_text_and_missing_parameters_are_missing(made):
    table = results_table(made)
    row = table[table["workload"] == "image_pipeline"].iloc[0]
    assert (row["size"], row["size_pixels"], row["size_batch"]) == ("pixels=2048, batch=1", "2048", "1")
    assert pd.isna(row["size_n"])


def test_a_failed_repeat_has_a_verdict_and_no_numbers(made):
    row = results_table(made).query("verdict == 'wrong'").iloc[0]
    assert row["reasons"] == HOSTILE
    assert pd.isna(row["compute_s"]) and pd.isna(row["flops_per_s"])


def test_results_have_the_columns_of_a_night_series(made, tmp_path):
    control = Control("abc", "noisy", ("a neighbour",), 0.5, "def")
    odd = {"gpus": ["no description"], "memory_total_bytes": "much"}
    last = replace(made[-1], environment=odd)
    dead = replace(last, control=Control("", "crashed"))
    table = results_table([replace(made[0], control=control), *made[1:-1], dead])
    names = ["control_s", "control_verdict", "reference", "machine_id", "commit", "hostname"]
    assert list(table.columns[-6:]) == names
    first, second, end = (table.iloc[place] for place in (0, 1, -1))
    assert [first[name] for name in names[:3]] == [0.5, "noisy", "abc"]
    assert first["machine_id"] == machine_id(made[0].environment)
    assert all(pd.isna(second[name]) for name in names[:3]) and pd.isna(end["machine_id"])
    assert end["control_verdict"] == "crashed" and pd.isna(end["reference"]) and pd.isna(end["control_s"])
    table.to_parquet(tmp_path / "r.parquet")
    assert list(pd.read_parquet(tmp_path / "r.parquet")["control_s"].dropna()) == [0.5]


def test_a_control_moves_no_number(made, compared):
    control = Control("abc", "ok", (), 1e-9, "def")
    controlled = [replace(record, control=control) for record in made]
    assert comparison(controlled) == compared
    plain, rows = (benchmark_json(of, grid_of(of, compared), RUN)["rows"] for of in (made, controlled))
    assert [row["control"]["compute_s"] for row in rows] == [1e-9] * len(made)
    assert [row | {"control": None} for row in rows] == plain


def test_a_results_table_survives_parquet(made, tmp_path):
    results_table(made).to_parquet(tmp_path / "r.parquet")
    again = pd.read_parquet(tmp_path / "r.parquet")
    assert list(again["compute_s"].dropna()) == [r.compute_s for r in made if r.compute_s is not None]


def test_comparison_has_a_row_for_each_cell_with_bounds_around_values(compared):
    table = comparison_table(grid_of((), compared))
    assert len(table) == len(compared.summaries) == 27
    decided = table[table["compute_speedup_outcome"] == "faster"]
    assert (decided["compute_speedup_low"] > 1).all()
    assert (decided["compute_speedup_low"] <= decided["compute_speedup"]).all()
    assert (table[table["is_baseline"]]["compute_speedup_outcome"] == "").all()


def test_comparison_has_reasons_for_missing_ratio_cost_and_decision(compared):
    table = comparison_table(grid_of((), compared)).set_index("cell")
    wrong = table.loc[f"gke-l4/{CASES[5].id}"]
    assert wrong["verdict"] == "wrong" and HOSTILE in wrong["refused"] and pd.isna(wrong["compute_speedup"])
    assert pd.isna(table.loc[f"gke-l4/{CASES[0].id}", "cost_efficiency"])
    single = table.loc[f"aws-g5.8xlarge/{CASES[5].id}"]
    assert single["compute_speedup_outcome"] == "undecided"
    assert single["compute_speedup_why"] and pd.isna(single["compute_speedup_low"])


def test_json_is_strict_and_holds_every_sample(made, compared):
    text = json.dumps(benchmark_json(made, grid_of(made, compared), RUN), allow_nan=False)
    read = json.loads(text)
    assert read["benchmark_timestamp"] == RUN.started_at
    assert read["run"]["seed"] == RUN.seed
    assert [machine["price_source"] for machine in read["hardware"]][2] is None
    assert read["hardware"][0]["usd_per_hour"] == 1.008
    assert len(read["rows"]) == len(made) and len(read["cells"]) == 27
    for row, record in zip(read["rows"], made, strict=True):
        assert row["wall_samples_s"] == (list(record.wall.samples_s) if record.wall else [])
    assert read["rows"][0]["environment_id"] in read["environments"]


def test_json_keeps_small_numbers_whole(made, compared):
    cells = benchmark_json(made, grid_of(made, compared), RUN)["cells"]
    times = [summary.compute_s.value for summary in compared.summaries if summary.compute_s]
    assert [cell["compute_s"] for cell in cells if cell["compute_s"] is not None] == times
    assert not any(isinstance(v, float) and math.isnan(v) for cell in cells for v in cell.values())


def test_text_is_ascii_with_straight_boxes(compared):
    text = text_tables(grid_of((), compared))
    assert text.isascii()
    assert f"| {BASELINE} time" in next(line for line in text.splitlines() if "Operation" in line)
    for block in text.split("\n\n"):
        widths = {len(line) for line in block.splitlines() if line.startswith(("+", "|"))}
        assert len(widths) <= 1
    assert "Total of 7 of 9 cases" in text and "out of memory" in text and "no price stated" in text


def test_totals_state_that_cell_errors_are_assumed_independent(made, compared):
    said = "errors are independent"
    assert said in text_tables(grid_of((), compared))
    single = [r for r in made if r.case == next(s.cell.case for s in compared.summaries if s.ok_repeats > 1)]
    assert said not in text_tables(grid_of((), comparison(single)))


def test_every_speedup_in_the_text_has_an_interval_or_is_undecided(compared):
    lines = text_tables(grid_of((), compared)).splitlines()
    for row in (line for line in lines if line.startswith("|") and "x " in line):
        for cell in row.strip("|").split("|")[3:]:
            bare = cell.strip() in {"-", "Speedup", "Cost efficiency"}
            assert bare or "(" in cell or "undecided" in cell, row


def test_box_is_as_wide_as_its_widest_cell():
    assert box(["a", "b"], [["1", "long"]], ["s", ""]).splitlines() == [
        "+---+------+",
        "| a | b    |",
        "+---+------+",
        "| 1 | long |",
        "+---+------+",
        "| s |      |",
        "+---+------+",
    ]


def test_nothing_ok_and_nothing_at_all_make_tables_too():
    _, compared = nothing_ok()
    assert set(comparison_table(grid_of((), compared))["verdict"]) == {"crashed"}
    assert "crashed" in text_tables(grid_of((), compared))
    empty = Comparison(BASELINE, (), (), (), (), ())
    assert results_table([]).empty and comparison_table(grid_of((), empty)).empty
    assert benchmark_json([], grid_of([], empty), RUN)["rows"] == []
    assert text_tables(grid_of((), empty)).isascii()


def test_a_line_break_in_a_reason_does_not_break_the_text(compared):
    broken = bad_record("gke-l4", CASES[0], 0, Verdict.CRASHED, "one\ntwo")
    text = text_tables(grid_of((), replace(comparison([broken]), answer=(), details=(), caveats=())))
    assert "one two" in text


@pytest.mark.parametrize(
    ("mean_s", "text"),
    [(0.1476, "148 ms mean, 55.2 ms median"), (0.0553, "55.2 ms"), (None, "55.2 ms")],
)
def test_the_mean_over_a_scripts_epochs_stands_before_its_median(mean_s, text):
    """With epochs of 10 steps, timm's training takes 55 ms for a typical step and 148 ms in the mean."""
    made = [replace(r, script=replace(r.script, mean_s=mean_s)) for r in [script_record(seconds=0.0552)]]
    (row,) = record_rows(grid_of(made, compare(made, (machine("a"),), "a")), made)
    shown, key = row["cells"][COLUMNS.index("Time per step")]
    assert shown == text and key == pytest.approx(mean_s if "mean" in text else 0.0552, rel=1e-3)
