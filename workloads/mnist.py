"""Training the MNIST example's network: two convolutions and two linear layers, by Adadelta."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workloads.harness.prepared import Env, Job, Prepared
from workloads.harness.registry import LAYOUTS, workload
from workloads.harness.training.data import MNIST, load_images
from workloads.harness.training.fitting import Recipe, classifier_job, classifier_step

if TYPE_CHECKING:
    import torch

DECAY = 0.7  # of the learning rate, per epoch
FLIPS = 500.0  # fp32 takes one of a step's millions of signs and maxima otherwise than float64: 7e-4 seen


def recipe() -> Recipe:
    """Return the network and recipe of pytorch/examples (mnist), 1,199,882 parameters."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    def net() -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(1, 32, 3),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Dropout(0.25),
            nn.Flatten(),
            nn.Linear(9216, 128),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(128, 10),
            nn.LogSoftmax(1),
        )

    def loss(model: Any, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.nll_loss(model(images), labels)

    return Recipe(
        net,
        loss,
        lambda parameters: torch.optim.Adadelta(parameters, lr=1.0),
        lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 1, DECAY),
    )


@workload(has_model=True, batch=(16, 64, 256, 1024), tiny={"batch": 2}, layouts=LAYOUTS)
def mnist(env: Env, batch: int) -> Prepared:
    tolerance = FLIPS if env.precision == "fp32" else 1.0
    return classifier_step(env, recipe(), load_images(env, MNIST, batch), tolerance)


@workload(
    has_model=True,
    kind="job",
    of="mnist",
    epochs=(1, 14),
    samples=(6000, 60_000),
    batch=(64,),
    tiny={"epochs": 2, "samples": 80, "batch": 32},
)
def mnist_job(env: Env, epochs: int, samples: int, batch: int) -> Job:
    data = load_images(env, MNIST, samples, held_out=True)
    target = _target(data.source == "synthetic", epochs, samples, batch)
    return classifier_job(env, recipe(), data, epochs, batch, target)


def _target(drawn: bool, epochs: int, samples: int, batch: int) -> float | None:
    if not drawn:
        return 0.98 if epochs >= 14 and samples >= 60_000 else None
    return 0.8 if samples >= 6000 and samples >= 90 * batch else None
