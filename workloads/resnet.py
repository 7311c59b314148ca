"""The load test's residual network: eight blocks in four stages, on pictures of 32 x 32."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from workloads.harness.prepared import Env, Job, Prepared
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.registry import LAYOUTS, workload
from workloads.nets import classifier

if TYPE_CHECKING:
    import torch

BATCH, WORKERS = (8, 16, 32), (0, 1, 2, 4)
EPOCHS, BATCHES = (1, 3), (10, 50, 200)


def net() -> torch.nn.Module:
    """11,181,642 parameters; at 32 x 32 the last stage works on single pixels, so launches take the time.

    He et al., Deep Residual Learning for Image Recognition (2015), table 1: 18 layers.
    """
    from torch import nn

    def convolution(wide: int, wider: int, side: int, stride: int) -> list[nn.Module]:
        layer = nn.Conv2d(wide, wider, side, stride, padding=side // 2, bias=False)
        return [layer, nn.BatchNorm2d(wider)]

    class Block(nn.Module):
        """Two convolutions, and a way around them."""

        def __init__(self, wide: int, wider: int, stride: int) -> None:
            super().__init__()
            self.through = nn.Sequential(
                *convolution(wide, wider, 3, stride), nn.ReLU(), *convolution(wider, wider, 3, 1)
            )
            self.relu = nn.ReLU()
            same = stride == 1 and wide == wider
            self.around = nn.Identity() if same else nn.Sequential(*convolution(wide, wider, 1, stride))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            ended: torch.Tensor = self.relu(self.through(x) + self.around(x))
            return ended

    widths = (64, 64, 128, 256, 512)
    stages = [
        block
        for number, (wide, wider) in enumerate(pairwise(widths))
        for block in (Block(wide, wider, 2 if number else 1), Block(wider, wider, 1))
    ]
    return nn.Sequential(
        *convolution(3, 64, 7, 2),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, padding=1),
        *stages,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(512, classifier.CLASSES),
    )


def several(batch: int) -> None:
    """Refuse a batch of one: a single pixel of a single picture can't be normalised over the batch.

    Raises:
        WorkloadsError: the batch is one.
    """
    if batch < 2:
        raise WorkloadsError(f"size batch={batch} must be at least 2: the network normalises over the batch")


@workload(batch=BATCH, tiny={"batch": 8}, layouts=LAYOUTS)
def resnet_train(env: Env, batch: int) -> Prepared:
    """A training step on `batch` pictures that are in place."""
    several(batch)
    return classifier.train(env, net, batch)


@workload(batch=BATCH, tiny={"batch": 8}, layouts=LAYOUTS)
def resnet_infer(env: Env, batch: int) -> Prepared:
    """A forward pass of `batch` pictures that are in place."""
    return classifier.infer(env, net, batch)


@workload(batch=BATCH, workers=WORKERS, tiny={"batch": 8, "workers": 0}, layouts=LAYOUTS)
def resnet_train_loader(env: Env, batch: int, workers: int) -> Prepared:
    """A training step on `batch` pictures from a data loader with `workers` processes."""
    several(batch)
    return classifier.train_loader(env, net, batch, workers)


@workload(batch=BATCH, workers=WORKERS, tiny={"batch": 8, "workers": 0}, layouts=LAYOUTS)
def resnet_infer_loader(env: Env, batch: int, workers: int) -> Prepared:
    """A forward pass of `batch` pictures from a data loader with `workers` processes."""
    return classifier.infer_loader(env, net, batch, workers)


@workload(
    batch=BATCH,
    epochs=EPOCHS,
    batches=BATCHES,
    workers=WORKERS,
    tiny={"batch": 8, "epochs": 1, "batches": 10, "workers": 0},
)
def resnet_train_job(env: Env, batch: int, epochs: int, batches: int, workers: int) -> Job:
    """The load test's training: `epochs` times `batches` batches through the data loader."""
    several(batch)
    return classifier.train_job(env, net, batch, epochs, batches, workers)


@workload(batch=BATCH, batches=BATCHES, workers=WORKERS, tiny={"batch": 8, "batches": 10, "workers": 0})
def resnet_infer_job(env: Env, batch: int, batches: int, workers: int) -> Job:
    """The load test's inference: `batches` batches through the data loader."""
    return classifier.infer_job(env, net, batch, batches, workers)
