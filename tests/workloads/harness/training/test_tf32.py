import pytest
import torch

from tests.workloads.building import build
from tests.workloads.harness.training.tf32 import TF32
from workloads.harness.engine.correctness import BOUNDS, check, first_step

ROOM = 0.6  # share of the bound that a right result can need


def share_of_bound(name, rounding, seed=0, **size):
    """Return the share of its bound that a right step in TF32 needs."""
    prepared = build(name, "tf32", seed=seed, **size)
    with TF32(rounding) as mode:
        result = first_step(prepared)
    assert mode.factors > 5
    checked = check(prepared, result, "tf32")
    return checked.error / checked.bound


@pytest.fixture(autouse=True)
def on_a_gpu(monkeypatch):
    """Allow TF32, which no CPU has."""
    monkeypatch.setattr("tests.workloads.building.open_device", lambda *_: OnHost)


class OnHost:
    torch_device = torch.device("cpu")


def test_the_emulation_keeps_ten_bits():
    x = torch.tensor([[1 + 2**-10 + 2**-11 + 2**-12]])
    one = torch.ones(1, 1)
    with TF32("nearest"):
        assert float(x @ one) == 1 + 2**-9
    with TF32("cut"):
        assert float(x @ one) == 1 + 2**-10


@pytest.mark.parametrize("rounding", ["nearest", "cut"])
@pytest.mark.parametrize(("name", "size"), [("mnist", {"batch": 4}), ("cifar10", {"batch": 8})])
def test_a_right_training_step_passes(one_thread, name, size, rounding):
    assert share_of_bound(name, rounding, **size) < ROOM


@pytest.mark.parametrize("name", ["mnist", "cifar10", "gcn", "simple_cnn_train_loader"])
def test_no_training_is_held_tighter_than_in_fp32(name):
    bounds = {
        precision: BOUNDS[precision] * build(name, precision).tolerance
        for precision in ("fp32", "tf32", "bf16")
    }
    assert bounds["fp32"] < bounds["tf32"] < bounds["bf16"]
