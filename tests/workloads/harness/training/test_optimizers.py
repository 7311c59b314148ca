import inspect
from types import SimpleNamespace

import pytest
import torch

from tests.workloads.building import build
from workloads.harness.training.optimizers import fused


def asked_on(device):
    made = {}
    weight = SimpleNamespace(device=SimpleNamespace(type=device))
    fused(lambda weights, **options: made.update(options), iter([weight]), lr=0.1)
    return made


def test_a_gpu_has_it_in_one_kernel():
    assert asked_on("cuda") == {"fused": True, "lr": 0.1}
    assert asked_on("cpu") == {"fused": None, "lr": 0.1}


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
def test_a_fused_kernel_takes_the_loss_scale_along(kind):
    """Torch reads this attribute in `GradScaler.step` before the host would wait."""
    made = kind([torch.nn.Parameter(torch.ones(1))], fused=True)
    assert made._step_supports_amp_scaling


def test_torch_has_no_such_kernel_for_adadelta():
    """So `mnist` in fp16 waits once a step; once torch has a kernel, `mnist` uses `fused`, too."""
    assert "fused" in inspect.signature(torch.optim.AdamW).parameters
    assert "fused" not in inspect.signature(torch.optim.Adadelta).parameters


@pytest.mark.parametrize(
    "name",
    ["gcn", "cifar10", "transformer_train", "simple_cnn_train", "gpt2_train", "lora_step", "resnet50_train"],
)
def test_optimizers_of_workloads_are_made_with_the_option_fused(monkeypatch, name):
    asked = []
    for kind in ("Adam", "AdamW", "SGD"):
        own = getattr(torch.optim, kind)
        monkeypatch.setattr(torch.optim, kind, lambda *a, own=own, **o: asked.append(o) or own(*a, **o))
    build(name)
    assert asked
    assert all("fused" in options for options in asked)
