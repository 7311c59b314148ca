from dataclasses import replace

import pytest

from tasks.findings.compare import compare
from tasks.report.grid import grid_of
from tasks.report.text.comparison import full_text
from tasks.report.text.operations import hardware_table, job_table, size_tables, start_up
from tests.tasks.examples import seed_table
from tests.tasks.examples.reports import BASELINE, MACHINES, arranged, comparison, good_record
from tests.tasks.examples.scaling import run
from workloads.harness.records.case import Case

GPU = "aws-g5.8xlarge"


@pytest.fixture(scope="module")
def grid(made):
    return grid_of(made, comparison(made))


def numbers(table, label):
    line = next(line for line in table.splitlines() if line.startswith(f"| {label}"))
    return [float(cell.split()[0]) for cell in line.strip("|").split("|")[1:3]]


def test_operations_and_start_up_add_up_to_the_total_of_the_job(grid, made):
    table = job_table(grid, made, GPU)
    parts = [
        numbers(table, label)
        for label in ("Operations", "Start: process", "Start: device", "Build of inputs", "First calls")
    ]
    for side in (0, 1):
        assert sum(part[side] for part in parts) == pytest.approx(numbers(table, "Total job")[side], rel=0.01)
    assert "Operation " in table and f"{BASELINE} s" in table and f"{GPU} s" in table


def test_a_first_call_holds_a_step_that_is_not_counted_twice(grid, made):
    cases = [case for _, case in grid.pairings if _ == GPU][:1]
    beyond = start_up(grid, made, GPU, cases)["First calls beyond a step, separate processes"]
    first = sorted(r.phases_s["first_call"] for r in made if r.hardware == GPU and r.case == cases[0])[1]
    assert beyond == pytest.approx(first - grid.summaries[GPU, cases[0]].compute_s.value)


def test_the_blogs_rows_need_no_start_up_to_be_a_table():
    bare = [seed_table.CPU, seed_table.GPU]
    made = [r for r in seed_table.records() if r.case.workload == "matmul"]
    made = [replace(r, phases_s={}, wall_s=0.0) for r in made]
    grid = grid_of(made, compare(made, bare, seed_table.CPU.name))
    table = job_table(grid, made, seed_table.GPU.name)
    assert numbers(table, "Operations") == pytest.approx([4.43, 1.02])
    assert "Total job time" not in table, "without phases the total is not known"


def test_jobs_are_no_operations_of_a_job():
    made, compared = run()
    table = job_table(grid_of(made, compared), made, "gpu-box")
    assert "mnist batch=64" in table and "mnist_job" not in table


def test_sizes_are_tables_with_the_columns_that_users_know(grid):
    matrix, *images = size_tables(grid, GPU)
    head = matrix.splitlines()[1]
    assert [cell.strip() for cell in head.strip("|").split("|")] == [
        *("Matrix size, fp32", "GPU s", "CPU s", "Speedup", "Cost Efficiency Ratio"),
    ]
    assert "| 5000x5000" in matrix and ("faster" in matrix or "slower" in matrix)
    assert [table.splitlines()[1].split("|")[1].strip() for table in images] == [
        *("Image 2048x2048, fp32", "Image 4096x4096, fp32"),
    ]
    assert "batch 4" in images[1]


def test_machines_of_one_kind_have_their_names_as_columns():
    hardware = (BASELINE, "gke-l4")
    made = [good_record(name, Case.of("matmul", {"n": 1000}), i) for name in hardware for i in range(2)]
    made = [replace(r, device="cpu", device_time=None) for r in made]
    (table,) = size_tables(grid_of(made, compare(made, MACHINES, BASELINE)), "gke-l4")
    assert "gke-l4 s" in table and f"{BASELINE} s" in table


def test_hardware_table_has_the_recorded_specification():
    """The published table gave 32 cores to a machine of 16 logical CPUs."""
    environment = {
        "instance_type": "r5.4xlarge", "cpu_model": "Example CPU", "physical_cores": 8, "logical_cpus": 16,
        "memory_total_bytes": 128 * 2**30, "gpus": [{"name": "A10G", "memory_total_bytes": 24 * 2**30}],
    }  # fmt: skip
    one = replace(good_record(BASELINE, Case.of("matmul", {"n": 1000}), 0), environment=environment)
    bare = replace(one, hardware=GPU, environment={})
    grid = grid_of([one, bare], compare([one, bare], MACHINES, BASELINE))
    table = hardware_table(grid, [one, bare])
    assert "instance: r5.4xlarge" in table and "CPU count: 8 cores, 16 logical" in table
    assert "GPU: A10G, 24.0 GiB" in table and "memory: 128.0 GiB" in table
    assert "not recorded" in table


def test_the_whole_text_is_ascii_with_straight_boxes():
    text = full_text(*arranged(*run()))
    assert text.isascii() and "one process without DDP" in text and "Device time" in text
    for block in text.split("\n\n"):
        assert len({len(line) for line in block.splitlines() if line.startswith(("+", "|"))}) <= 1
