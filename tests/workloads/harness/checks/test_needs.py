"""Predicted memory of cases: what is counted on each device, and what can't be told."""

import pytest

from workloads.harness.checks.needs import answer, needs_of
from workloads.harness.records.case import Case
from workloads.harness.registry import find

MATMUL = {"workload": "matmul", "size": {"n": 4096}, "precision": "fp32", "device": "cuda"}
PRODUCT = 3 * 4096 * 4096 * 4  # two factors and their product


@pytest.mark.parametrize(
    ("device", "precision", "share"), [("cpu", "fp32", 1), ("cuda", "tf32", 1), ("cuda", "fp16", 0.5)]
)
def test_inputs_and_result_are_counted_in_their_precision(device, precision, share):
    needs = needs_of(Case.of("matmul", {"n": 4096}, precision), device)
    assert needs.reason == "" and needs.device == device
    # on a GPU a buffer for transfers beside them, as large as a factor
    assert share * PRODUCT <= needs.tensors_bytes <= needs.peak_bytes < share * 1.4 * PRODUCT


def test_the_largest_that_should_fit_is_told_for_a_machine_that_is_too_small():
    said = answer(MATMUL | {"room_bytes": 2**31})
    assert (said["largest"], said["grown_by"]) == (None, "n")  # it fits as it is
    said = answer(MATMUL | {"size": {"n": 40_000}, "room_bytes": 2**33})
    assert 10_000 < said["largest"] < 25_000
    assert needs_of(Case.of("matmul", {"n": said["largest"]}), "cuda").most_bytes < 0.9 * 2**33


def test_what_depends_on_values_cannot_be_told():
    needs = needs_of(find("gcn").case({"hidden": 16}), "cpu")
    assert needs.tensors_bytes is None and needs.reason.startswith("DynamicOutputShapeException")
