"""ResNet-50 on pictures of 224 x 224: the common currency of published training and inference rates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.harness.prepared import Env, Prepared
from workloads.harness.records.case import MODES
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.registry import LAYOUTS, workload
from workloads.harness.training.optimizers import fused
from workloads.harness.training.training import inference_step, training_step

if TYPE_CHECKING:
    import torch

GFLOP, PIXELS = (
    8.1,
    224,
)  # forward, of one picture with this number of pixels a side: counted, and a little more
LEARNING_RATE, MOMENTUM = 0.01, 0.9
TOLERANCE = 4.0  # roundings add up over 50 layers


def _flops(batch: int, pixels: int) -> float:
    return GFLOP * 1e9 * batch * (pixels / PIXELS) ** 2


@workload(
    has_model=True,
    batch=(2, 64, 256),
    pixels=(64, PIXELS),
    tiny={"batch": 8, "pixels": 32},
    layouts=LAYOUTS,  # eager alone: the reference needs the masks of the ReLUs, and compiled steps keep none
    flops=lambda batch, pixels: 3 * _flops(batch, pixels) * 0.95,  # the pictures need no gradient
)
def resnet50_train(env: Env, batch: int, pixels: int) -> Prepared:
    import torch
    from torch.nn import functional as F

    from workloads.nets.resnet50 import CLASSES, resnet50

    if batch < 2:
        raise WorkloadsError(f"size batch={batch} must be at least 2: the network normalises over the batch")

    def loss(model: torch.nn.Module, pictures: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(pictures), labels)

    labels = torch.randint(CLASSES, (batch,), generator=env.generator)
    return training_step(
        env,
        env.model(resnet50),
        loss,
        (env.randn(batch, 3, pixels, pixels, dtype=torch.float32), env.place_exact(labels)),
        lambda weights: fused(torch.optim.SGD, weights, lr=LEARNING_RATE, momentum=MOMENTUM),
        unit="images",
        units=batch,
        tolerance=TOLERANCE,
        blocks="",
    )


@workload(
    has_model=True,
    batch=(1, 64, 256),
    pixels=(64, PIXELS),
    tiny={"batch": 2, "pixels": 32},
    layouts=LAYOUTS,
    modes=MODES,
    flops=_flops,
)
def resnet50_infer(env: Env, batch: int, pixels: int) -> Prepared:
    from workloads.nets.resnet50 import resnet50

    model, pictures = env.model(resnet50, env.dtype), env.randn(batch, 3, pixels, pixels)
    return inference_step(env, model, pictures, unit="images", tolerance=TOLERANCE, large=True)
