import pytest
import torch

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
    # on a GPU also a buffer for transfers, as large as a factor
    assert share * PRODUCT <= needs.tensors_bytes <= needs.peak_bytes < share * 1.4 * PRODUCT


def test_the_largest_that_should_fit_is_reported_for_a_machine_that_is_too_small():
    said = answer(MATMUL | {"room_bytes": 2**31})
    assert (said["largest"], said["grown_by"]) == (None, "n")  # it fits as it is
    said = answer(MATMUL | {"size": {"n": 40_000}, "room_bytes": 2**33})
    assert 10_000 < said["largest"] < 25_000
    assert needs_of(Case.of("matmul", {"n": said["largest"]}), "cuda").most_bytes < 0.9 * 2**33


def test_memory_that_depends_on_values_cannot_be_predicted():
    needs = needs_of(find("gcn").case({"hidden": 16}), "cpu")
    assert needs.tensors_bytes is None and needs.reason.startswith("DynamicOutputShapeException")


GPT2 = {"millions": 124, "batch": 1, "length": 128}
STATE = 16 * 124e6  # weights, gradients and both moments, in fp32


def of_gpt2(name, device="cuda", processes=2):
    needs = needs_of(find(name).case(GPT2 | {"processes": processes}), device)
    assert needs.reason == ""
    return needs.tensors_bytes


# On a CPU the initial weights, which every rank keeps on its host, count too.
@pytest.mark.parametrize(
    ("device", "state"),
    [
        pytest.param("cpu", 1.25 * STATE, marks=pytest.mark.chaos),
        pytest.param("cuda", STATE, marks=pytest.mark.server),
    ],
)
def test_a_rank_has_a_replica_or_its_share_of_the_model(device, state):
    replica, half, quarter = (
        of_gpt2("gpt2_ddp", device),
        *(of_gpt2("gpt2_fsdp", device, processes) for processes in (2, 4)),
    )
    assert of_gpt2("gpt2_ddp", device, 4) == pytest.approx(replica, rel=1e-5)
    assert replica - half > 0.2 * STATE  # less than half of it: gathered weights take room
    assert half - quarter == pytest.approx(state / 4, rel=0.02)


def test_a_replica_has_its_gradients_in_the_buffers_that_are_exchanged():
    alone = needs_of(find("gpt2_train").case(GPT2), "cuda").tensors_bytes
    assert 1.0 < of_gpt2("gpt2_ddp") / alone < 1.25


def test_no_group_is_left_behind():
    of_gpt2("gpt2_fsdp")
    assert not torch.distributed.is_initialized()
    assert torch.distributed.fsdp.fully_shard.__module__.startswith("torch.")
    assert torch.nn.parallel.DistributedDataParallel.__module__.startswith("torch.")


def test_the_work_of_a_step_is_counted_on_request():
    needs = needs_of(Case.of("matmul", {"n": 4096}), "cuda", with_step=True)
    assert needs.step == (2 * 4096**3, PRODUCT, 1)
    assert needs_of(Case.of("matmul", {"n": 4096}), "cuda").step is None


def test_a_training_step_has_the_flops_of_its_forward_and_backward_passes():
    step = needs_of(find("gpt2_train").case({**GPT2, "batch": 2}), "cuda", with_step=True).step
    assert 6 * 124e6 * 256 < step.flops < 1.3 * 6 * 124e6 * 256, "and attention"
    assert step.moved_bytes > 1.5 * STATE and step.launches > 500
