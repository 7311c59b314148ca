import json
import re
from dataclasses import replace

import pytest

from tasks.findings.compare import compare
from tasks.report.charts.models import model_panels
from tasks.report.charts.scaling import scaling_panels
from tasks.report.charts.scaling_pictures import table_svg
from tasks.report.charts.time_by_size import time_panels
from tasks.report.charts.training import POINTS, loss_panels, memory_panels, thinned
from tasks.report.files.benchmark_results import benchmark_json
from tasks.report.files.epochs import epoch_keys, memory_history
from tasks.report.grid import grid_of
from tasks.report.html.page import report_html
from tasks.report.models import EVENTS, HOST, device_time, quality_text
from tasks.report.scaling_rows import families_of_interest, level_row, memory_text
from tests.tasks.examples.group_records import BOX, alone, epoch, grouped, memory_at, profiled, repeated
from tests.tasks.examples.records import failed, machine, repeats
from tests.tasks.examples.reports import RUN, arranged
from tests.tasks.examples.reports import comparison as plain_comparison
from tests.tasks.examples.reports import records as plain_records
from tests.tasks.examples.scaling import MACHINES, OTHER
from tests.tasks.report.report_text import words
from workloads.harness.records.case import Case
from workloads.harness.records.parts import Training
from workloads.harness.records.record import Verdict

SEED_SIDE = {
    *("total_time_seconds", "total_time_minutes", "avg_batch_time_seconds", "throughput_samples_per_second"),
    *("total_samples", "total_steps", "avg_loss", "loss_std", "gpu_count", "device_ids", "memory_history"),
}


SEED_SPEEDUP = {"time_speedup", "throughput_speedup", "efficiency_per_gpu"}


@pytest.fixture(scope="module")
def page(scaling_run):
    return report_html(*arranged(*scaling_run), RUN)


def of_epochs(made):
    return epoch_keys(made, compare(made, [machine(BOX)], BOX))


def test_the_page_has_strong_and_weak_apart_with_their_laws_and_bands(page):
    text = words(page)
    assert "Weak scaling" in text and "over one process without DDP" in text
    assert "Strong scaling" in text
    assert "Karp and Flatt" in text and "Gustafson" in text and "very good" in text
    assert "1, no DDP" in text and "49,984 with 1 process, 49,920 with 8 processes" in text


def test_models_have_repeats_parameters_and_training_result(page):
    text = words(page).replace("\xa0", " ")
    assert "35,746,307" in text and "11,181,642" in text
    assert "accuracy 0.981, target 0.97" in text
    assert "50 ms, 50.2 ms, 50.4 ms" in text, "all three repeats, raw"
    assert "waits for its host for 20 % of a step" in text and HOST in text


def test_every_chart_of_the_page_has_its_data_and_its_place(page):
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])
    places = re.findall(r'data-chart="([^"]+)"', page)
    assert sorted(places) == sorted(data["charts"])
    assert {"scaling", "models", "loss", "memory"} <= {place.partition("-")[0] for place in places}


def test_a_run_without_groups_and_models_has_no_scaling_sections():
    made = plain_records()
    text = report_html(made, grid_of(made, plain_comparison(made)), RUN)
    assert 'id="scaling"' not in text and 'id="models"' not in text
    assert "single_gpu" not in benchmark_json(made, grid_of(made, plain_comparison(made)), RUN)


def test_the_ideal_line_reaches_the_most_processes_and_strong_and_weak_never_share_a_panel(scaling_run):
    records, compared = scaling_run
    panels = scaling_panels(grid_of(records, compared))
    assert [panel.title.rpartition(", ")[2] for panel in panels] == ["weak", "strong", "strong"]
    ideal = panels[0].spec()["layer"][0]["encoding"]
    assert (ideal["x2"]["datum"], ideal["y2"]["datum"]) == (8, 8)


def test_several_processes_are_not_drawn_over_work(scaling_run):
    records, compared = scaling_run
    titles = [panel.title for panel in time_panels(grid_of(records, compared))]
    assert "ddpm · fp32" in titles and not any(t.startswith(("ddpm_weak", "ddpm_job")) for t in titles)


def test_losses_are_thinned_and_keep_first_and_last(scaling_run):
    records, compared = scaling_run
    kept = thinned([1 / (1 + i) for i in range(10_000)])
    assert len(kept) <= POINTS + 1 and kept[0] == (0, 1.0) and kept[-1][0] == 9999
    assert thinned([]) == [] and thinned([1.0, 0.5]) == [(0, 1.0), (1, 0.5)]
    assert len(loss_panels(records, grid_of(records, compared))) == 6


def test_memory_has_a_line_for_each_rank_and_none_for_one_that_is_blind():
    made = epoch(1)
    rows = memory_panels(made)[1].spec()["datasets"]["t0"]
    assert {row["rank"] for row in rows} == {f"rank {i}" for i in range(8)}
    eight = made[1]
    blind = tuple(replace(at, allocated_bytes=0) if at.rank else at for at in eight.training.memory)
    (panel,) = memory_panels([replace(eight, training=replace(eight.training, memory=blind))])
    values = panel.spec()["datasets"]["t0"]
    assert {row["rank"] for row in values} == {"rank 0"}


def test_memory_of_ranks_in_words(scaling_run):
    _, compared = scaling_run
    weak = compared.families[0]
    assert memory_text(weak.levels[2]) == "5 GiB, 6 GiB"
    assert memory_text(weak.levels[-1]) == "5 GiB to 12 GiB each"
    assert memory_text(replace(weak.levels[2], memory_bytes=(5 * 2**30, None))) == "5 GiB, ?"
    assert memory_text(replace(weak.levels[2], memory_bytes=())) == "–"


def test_an_impossible_efficiency_is_shown_with_its_reason():
    made = [*repeated(alone, (0.1, 0.1001, 0.1002)), *repeated(grouped, (0.05, 0.0501, 0.0502), 2)]
    compared = compare(made, [machine(BOX)], BOX)
    row = level_row(compared.families[0].levels[1])
    assert row["band"] == "impossible" and row["efficiency"].startswith("199.8") and row["serial"] == "–"
    assert "% scaling" in words(report_html(made, grid_of(made, compared), RUN))


def test_processes_that_are_slower_than_one_have_no_serial_part_to_state():
    made = [*repeated(alone, (0.1, 0.1001, 0.1002)), *repeated(grouped, (0.5, 0.501, 0.502), 2, "strong")]
    row = level_row(compare(made, [machine(BOX)], BOX).families[0].levels[1])
    assert row["serial"] == "over 100 %" and row["band"] == "poor"


def test_the_json_has_the_seeds_keys_with_totals_of_all_ranks():
    found = of_epochs(epoch())
    single, multi = found["single_gpu"], found["multi_gpu"]
    assert set(single) >= SEED_SIDE and set(multi) >= SEED_SIDE
    assert set(found["speedup_analysis"]) >= SEED_SPEEDUP
    assert (single["total_samples"], multi["total_samples"]) == (49_984, 49_920)
    assert multi["throughput_samples_per_second"] == pytest.approx(49_920 / multi["total_time_seconds"])
    assert multi["total_time_minutes"] == multi["total_time_seconds"] / 60
    assert multi["avg_batch_time_seconds"] == multi["total_time_seconds"] / multi["total_steps"]
    assert multi["total_steps"] == 195 and multi["device_ids"] == list(range(8)) and multi["gpu_count"] == 8
    analysis = found["speedup_analysis"]
    assert analysis["efficiency_per_gpu"] == pytest.approx(analysis["throughput_speedup"] / 8)
    assert analysis["throughput_speedup"] == pytest.approx(analysis["time_speedup"] * 49_920 / 49_984)
    assert analysis["band"] == "good" and found["missing"] == {}
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize("count", [2, 4])
def test_the_json_divides_by_the_processes_that_there_were(count):
    eight = [r for r in epoch() if r.case.params["processes"] == 8]
    fewer = [
        replace(
            r,
            case=Case.of("ddpm_job", {"images": 50_000, "batch": 32, "processes": count}),
            group=replace(r.group, ranks=r.group.ranks[:count]),
        )
        for r in eight
    ]
    found = of_epochs([*(r for r in epoch() if r.case.params["processes"] == 1), *fewer])
    analysis = found["speedup_analysis"]
    assert found["multi_gpu"]["gpu_count"] == count
    assert analysis["efficiency_per_gpu"] is None, "6.4 times on fewer than 7 is impossible"
    assert "% scaling" in found["missing"]["efficiency_per_gpu"]


def test_memory_history_is_each_ranks_own():
    history = of_epochs(epoch())["multi_gpu"]["memory_history"]
    assert [entry["step"] for entry in history] == [0, 50, 100, 150]
    last = history[-1]
    assert [last[f"gpu_{i}"]["memory_allocated_gb"] for i in range(8)] == [5.0 + i for i in range(8)]
    assert last["total_memory_gb"] == sum(range(5, 13))
    assert set(last["gpu_0"]) == {"memory_allocated_gb", "memory_reserved_gb", "max_memory_gb"}


def test_a_rank_that_did_not_say_is_null_and_leaves_no_total():
    blind = [replace(at, allocated_bytes=0) if at.rank == 1 else at for at in memory_at(2)]
    entry = memory_history(blind, 2)[0]
    assert entry["gpu_1"] is None and entry["total_memory_gb"] is None and entry["gpu_0"]


@pytest.mark.parametrize(("kept", "lost"), [(1, "multi_gpu"), (8, "single_gpu")])
def test_one_side_is_saved_when_the_other_was_skipped(kept, lost):
    left = [r for r in epoch() if r.case.params["processes"] == kept]
    found = of_epochs(left)
    other = {"multi_gpu": "single_gpu", "single_gpu": "multi_gpu"}[lost]
    assert found[lost] is None and found[other]["total_time_seconds"] > 0
    assert "not in the run" in found["missing"][lost] and found["speedup_analysis"] is None
    case = Case.of("ddpm_job", {"images": 50_000, "batch": 32, "processes": 9 - kept})
    found = of_epochs([*left, failed(Verdict.SKIPPED, "it has 1 GPU", case, BOX)])
    assert "skipped: it has 1 GPU" in found["missing"][lost]
    assert found[other]["total_time_seconds"] > 0


def test_on_a_cpu_the_keys_stand_for_processes():
    made = [replace(r, device="cpu", threads=1) for r in epoch()]
    ranks = [replace(rank, device="cpu") for rank in made[-1].group.ranks]
    made = [replace(r, group=replace(r.group, ranks=tuple(ranks[: len(r.group.ranks)]))) for r in made]
    multi = of_epochs(made)["multi_gpu"]
    assert multi["device_kind"] == "cpu" and multi["device_ids"] == list(range(8))
    assert "gpu_7" in multi["memory_history"][0]


def test_the_json_of_the_run_is_strict_and_has_families_and_groups(scaling_run):
    found = json.loads(json.dumps(benchmark_json(*arranged(*scaling_run), RUN), allow_nan=False))
    assert found["benchmark_timestamp"] == RUN.started_at and found["schema"] == 1
    assert [family["scaling"] for family in found["families"]] == ["weak", "strong", "strong"]
    assert any(row["group"] for row in found["rows"]) and any(row["training"] for row in found["rows"])
    assert len(found["gpu_comparisons"]) == 1


def test_device_time_says_where_it_comes_from():
    cpu, gpu = repeats([0.2])[0], repeats([0.2], device="cuda")[0]
    gpu = replace(gpu, device_time=gpu.wall)
    assert device_time(profiled(gpu, 1.0)) == (0.1, "waits for its host for 50 % of a step")
    assert device_time(profiled(gpu, 1.95)) == (gpu.wall.median_s, "")
    assert device_time(gpu) == (gpu.wall.median_s, EVENTS)
    assert device_time(cpu) == (cpu.wall.median_s, HOST)
    assert device_time(failed(Verdict.CRASHED, "x")) is None


def test_models_have_a_point_for_every_repeat(scaling_run):
    records, compared = scaling_run
    panel = next(p for p in model_panels(records, grid_of(records, compared)) if p.title == "mnist · fp32")
    spec = panel.spec()
    points = spec["datasets"][spec["layer"][1]["data"]["name"]]
    assert sorted(row["repeat"] for row in points if row["hardware"] == BOX) == [0, 1, 2]


def test_quality_text_has_loss_metric_and_target():
    made = repeats([1.0])[0]
    assert quality_text(made) == "–"
    assert quality_text(replace(made, training=Training(2.3, 0.4))) == "loss 2.3 to 0.4"
    reached = Training(2.3, 0.4, metric="accuracy", value=0.98, target=0.97)
    assert quality_text(replace(made, training=reached)) == "loss 2.3 to 0.4; accuracy 0.98, target 0.97"


def test_a_workload_without_flops_has_no_flop_rate(scaling_run):
    records, compared = scaling_run
    bandwidth = [s for s in compared.summaries if s.cell.case.workload == "memory_bandwidth"]
    assert all(summary.flops_per_s is None for summary in bandwidth)
    only = [r for r in records if r.case.workload == "memory_bandwidth"]
    text = words(report_html(only, grid_of(only, compare(only, MACHINES, OTHER)), RUN))
    assert "FLOP/s" not in text and "52.43 GB/s" in text


def test_jobs_have_no_interval_within_a_record_and_no_check(scaling_run):
    records, compared = scaling_run
    job = next(r for r in records if r.case.workload == "mnist_job")
    assert job.wall.ci_low_s is None and job.end_to_end_s is None
    summary = next(s for s in compared.summaries if s.cell.case == job.case)
    assert summary.whole and summary.compute_s.low is not None, "repeats carry its spread"


def test_a_table_as_svg_escapes_and_is_as_wide_as_its_words():
    svg = table_svg("a & b", [("part <1>", [["head", "x"], ["a long cell <script>", "y"]])])
    assert "<script" not in svg and "a &amp; b" in svg
    wide = table_svg("a & b", [("part <1>", [["head", "x"], ["m" * 80, "y"]])])
    width = re.compile(r"width='(\d+)'")
    assert int(width.search(wide)[1]) > int(width.search(svg)[1]) > 0


def test_files_are_about_jobs_where_there_are_any(scaling_run):
    assert [family.whole for family in families_of_interest(scaling_run[1])] == [True]
    steady = compare([alone(0.1), grouped(0.12, 2)], [machine(BOX)], BOX)
    assert len(families_of_interest(steady)) == 1
