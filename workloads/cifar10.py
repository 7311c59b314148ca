"""Training a small CIFAR-10 network: two convolutions and three linear layers, by Adam."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workloads.harness.prepared import Env, Job, Prepared
from workloads.harness.registry import LAYOUTS, workload
from workloads.harness.training.data import CIFAR10, load_images
from workloads.harness.training.fitting import Recipe, classifier_job, classifier_step
from workloads.harness.training.optimizers import fused

if TYPE_CHECKING:
    import torch


def recipe() -> Recipe:
    """Return the network of torch's first tutorial, 62,006 parameters, and its recipe here."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    def net() -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(3, 6, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(400, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, 10),
        )

    def loss(model: Any, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(images), labels)

    return Recipe(
        net,
        loss,
        lambda parameters: fused(torch.optim.Adam, parameters, lr=1e-3, weight_decay=1e-4),
        lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 5),
    )


@workload(has_model=True, batch=(16, 32, 128, 512), tiny={"batch": 8}, layouts=LAYOUTS)
def cifar10(env: Env, batch: int) -> Prepared:
    return classifier_step(env, recipe(), load_images(env, CIFAR10, batch))


@workload(
    has_model=True,
    kind="job",
    of="cifar10",
    epochs=(1, 3),
    samples=(5000, 50_000),
    batch=(32,),
    tiny={"epochs": 2, "samples": 80, "batch": 32},
)
def cifar10_job(env: Env, epochs: int, samples: int, batch: int) -> Job:
    data = load_images(env, CIFAR10, samples, held_out=True)
    target = _target(data.source == "synthetic", epochs, samples, batch)
    return classifier_job(env, recipe(), data, epochs, batch, target)


def _target(drawn: bool, epochs: int, samples: int, batch: int) -> float | None:
    if not drawn:
        return 0.5 if epochs >= 3 and samples >= 50_000 else None
    return 0.8 if samples >= 5000 and samples >= 150 * batch else None
