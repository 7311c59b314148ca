"""The load test's residual network: eight blocks in four stages, on pictures of 32 x 32."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from workloads.harness.records.errors import WorkloadsError
from workloads.nets import classifier

if TYPE_CHECKING:
    import torch


def net() -> torch.nn.Module:
    """Build the network, of 11,181,642 parameters.

    At 32 x 32 its last stage works on single pixels, so most of its time goes into launches.
    He et al., Deep Residual Learning for Image Recognition (2015), table 1: 18 layers.
    """
    from torch import nn

    def convolution(wide: int, wider: int, side: int, stride: int) -> list[nn.Module]:
        layer = nn.Conv2d(wide, wider, side, stride, padding=side // 2, bias=False)
        return [layer, nn.BatchNorm2d(wider)]

    class ResidualBlock(nn.Module):
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
        for block in (ResidualBlock(wide, wider, 2 if number else 1), ResidualBlock(wider, wider, 1))
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
    if batch < 2:
        raise WorkloadsError(f"size batch={batch} must be at least 2: the network normalises over the batch")


classifier.register("resnet", __name__, net, batch=(8, 16, 32), check=several)
