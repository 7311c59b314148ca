import re
from dataclasses import replace

import pytest
import torch

from tests.workloads.nets import JOBS, env
from workloads.command.model_table import model_table
from workloads.harness.engine.clock import HostClock
from workloads.harness.engine.correctness import check, first_step
from workloads.harness.engine.device import Device
from workloads.harness.engine.profiling import profiled
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.registry import find
from workloads.harness.training import data
from workloads.harness.training.data import CIFAR10, MNIST

pytestmark = pytest.mark.usefixtures("one_thread")


class TestTable:
    def test_the_table_shows_layers_in_the_order_of_calls(self):
        text = model_table(find("mnist").case({"batch": 3}), 1)
        assert re.search(r"^2 +Conv2d +3 x 64 x 24 x 24 +18,496$", text, re.MULTILINE)
        assert re.search(r"^7 +Linear +3 x 128 +1,179,776$", text, re.MULTILINE)
        assert re.search(r"^\(whole\) +Sequential +3 x 10$", text, re.MULTILINE)
        assert text.endswith(
            "mnist/batch=3/fp32: 1,199,882 trainable parameters, 2.14696e+08 FLOPs in a step"
        )

    def test_the_table_shows_the_model_of_a_job_and_parts_without_a_layer(self):
        text = model_table(find("gcn_job").case({"hidden": 4, "epochs": 2}), 1)
        assert re.search(r"^\(whole\) +GraphNet +2708 x 7 +5,760$", text, re.MULTILINE)
        assert "5,760 trainable parameters" in text
        assert text.endswith("FLOPs in the whole job")

    def test_a_workload_without_a_model_is_refused(self):
        with pytest.raises(WorkloadsError, match="matmul has no model"):
            model_table(find("matmul").case({"n": 8}), 1)
        with pytest.raises(WorkloadsError, match="does not run in one process on a CPU"):
            model_table(find("transfer_bandwidth").case({"mib": 1}), 1)


@pytest.mark.parametrize(
    ("name", "size", "wanted"),
    [("mnist", {"batch": 8}, "convolution"), ("gcn", {"hidden": 16}, "addmm")],
)
def test_the_profile_names_the_longest_operations_with_shapes_and_memory(name, size, wanted):
    prepared = find(name).build(env(), **size)
    found = profiled(prepared.step, Device("cpu", torch.device("cpu"), HostClock()))
    assert len(found.operators) == 10
    assert found.sorted_by == "self_cpu_time_total"
    times = [row.self_cpu_s for row in found.operators]
    assert times == sorted(times, reverse=True)
    assert any(wanted in row.name for row in found.operators)
    assert any("[" in row.shapes and row.shapes != "[]" for row in found.operators)
    assert any(row.self_memory_bytes for row in found.operators)


def test_steps_say_which_files_they_read(tmp_path):
    (tmp_path / "cora.content").write_text("".join(f"p{i}\t1\t{i % 2}\tc{i % 3}\n" for i in range(1600)))
    (tmp_path / "cora.cites").write_text("".join(f"p{i}\tp{i + 1}\n" for i in range(1599)))
    prepared = find("gcn").build(replace(env(), data=tmp_path), hidden=4)
    assert prepared.data.startswith("cora.content, cora.cites (sha256 ")
    assert check(prepared, first_step(prepared), "fp32").error < 1e-5


@pytest.mark.parametrize(
    ("name", "size"), [("mnist", {"batch": 2}), ("cifar10_job", JOBS["cifar10_job"]), ("gcn", {"hidden": 4})]
)
def test_missing_files_are_named_before_anything_is_trained(tmp_path, name, size):
    with pytest.raises(WorkloadsError, match=f"is in neither the data folder {tmp_path} nor"):
        find(name).build(replace(env(), data=tmp_path), **size)


def test_data_sets_of_the_examples_have_the_published_sizes():
    assert (MNIST.images, MNIST.held_out, CIFAR10.images, CIFAR10.held_out) == (
        60_000,
        10_000,
        50_000,
        10_000,
    )
    assert sum(data.CORA_CLASSES) == 2708
