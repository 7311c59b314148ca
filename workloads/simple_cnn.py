"""The load test's simple network: three convolutions and two linear layers on pictures of 32 x 32."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.harness.prepared import Env, Job, Prepared
from workloads.harness.registry import LAYOUTS, workload
from workloads.nets import classifier

if TYPE_CHECKING:
    import torch

BATCH, WORKERS = (16, 32, 64), (0, 1, 2, 4)
EPOCHS, BATCHES = (1, 3), (10, 50, 200)


def net() -> torch.nn.Module:
    """1,147,466 parameters; every convolution is followed by a pooling that halves the sides."""
    from torch import nn

    def block(wide: int, wider: int) -> list[nn.Module]:
        return [nn.Conv2d(wide, wider, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]

    return nn.Sequential(
        *block(3, 32),
        *block(32, 64),
        *block(64, 128),
        nn.Flatten(),
        nn.Linear(128 * 4 * 4, 512),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(512, classifier.CLASSES),
    )


@workload(batch=BATCH, tiny={"batch": 8}, layouts=LAYOUTS)
def simple_cnn_train(env: Env, batch: int) -> Prepared:
    """A training step on `batch` pictures that are in place."""
    return classifier.train(env, net, batch)


@workload(batch=BATCH, tiny={"batch": 8}, layouts=LAYOUTS)
def simple_cnn_infer(env: Env, batch: int) -> Prepared:
    """A forward pass of `batch` pictures that are in place."""
    return classifier.infer(env, net, batch)


@workload(batch=BATCH, workers=WORKERS, tiny={"batch": 8, "workers": 0}, layouts=LAYOUTS)
def simple_cnn_train_loader(env: Env, batch: int, workers: int) -> Prepared:
    """A training step on `batch` pictures from a data loader with `workers` processes."""
    return classifier.train_loader(env, net, batch, workers)


@workload(batch=BATCH, workers=WORKERS, tiny={"batch": 8, "workers": 0}, layouts=LAYOUTS)
def simple_cnn_infer_loader(env: Env, batch: int, workers: int) -> Prepared:
    """A forward pass of `batch` pictures from a data loader with `workers` processes."""
    return classifier.infer_loader(env, net, batch, workers)


@workload(
    batch=BATCH,
    epochs=EPOCHS,
    batches=BATCHES,
    workers=WORKERS,
    tiny={"batch": 8, "epochs": 1, "batches": 10, "workers": 0},
)
def simple_cnn_train_job(env: Env, batch: int, epochs: int, batches: int, workers: int) -> Job:
    """The load test's training: `epochs` times `batches` batches through the data loader."""
    return classifier.train_job(env, net, batch, epochs, batches, workers)


@workload(batch=BATCH, batches=BATCHES, workers=WORKERS, tiny={"batch": 8, "batches": 10, "workers": 0})
def simple_cnn_infer_job(env: Env, batch: int, batches: int, workers: int) -> Job:
    """The load test's inference: `batches` batches through the data loader."""
    return classifier.infer_job(env, net, batch, batches, workers)
