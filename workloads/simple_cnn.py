"""The load test's simple network: three convolutions and two linear layers on pictures of 32 x 32."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.nets import classifier

if TYPE_CHECKING:
    import torch


def net() -> torch.nn.Module:
    """Build the network, of 1,147,466 parameters."""
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


classifier.register("simple_cnn", __name__, net, batch=(16, 32, 64))
