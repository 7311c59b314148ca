"""ResNet-50: sixteen blocks of three convolutions in four stages; 25,557,032 parameters.

He et al., "Deep Residual Learning for Image Recognition", 2015, table 1; the stride is in the second
convolution of a block, as in torchvision.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

# Of the last norm in each block. At one, as torchvision begins, roundings grow until the first gradients are
# noise; at zero (Goyal et al., 2017, section 5.1) those behind it are zero whatever is computed.
SMALL = 0.2
STAGES, WIDTHS, WIDER, CLASSES = (3, 4, 6, 3), (64, 128, 256, 512), 4, 1000


class Bottleneck(nn.Module):
    """Three convolutions, narrow in the middle, and a shortcut."""

    def __init__(self, wide: int, narrow: int, stride: int) -> None:
        super().__init__()
        out = WIDER * narrow
        self.through = nn.Sequential(
            *_normed(wide, narrow, 1),
            nn.ReLU(),
            *_normed(narrow, narrow, 3, stride),
            nn.ReLU(),
            *_normed(narrow, out, 1),
        )
        last: Any = self.through[-1]
        nn.init.constant_(last.weight, SMALL)
        same = stride == 1 and wide == out
        self.around = nn.Identity() if same else nn.Sequential(*_normed(wide, out, 1, stride))
        self.relu = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return [b, 4 narrow, h / stride, w / stride] for [b, wide, h, w]."""
        ended: torch.Tensor = self.relu(self.through(x) + self.around(x))
        return ended


def resnet50() -> nn.Module:
    """Build the network, from pictures [b, 3, h, w] to scores [b, 1000]."""
    blocks, wide = [], WIDTHS[0]
    for stage, (count, narrow) in enumerate(zip(STAGES, WIDTHS, strict=True)):
        for number in range(count):
            blocks.append(Bottleneck(wide, narrow, 2 if stage and not number else 1))
            wide = WIDER * narrow
    enter = [*_normed(3, WIDTHS[0], 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1)]
    leave = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(wide, CLASSES)]
    return nn.Sequential(*enter, *blocks, *leave)


def _normed(wide: int, wider: int, side: int, stride: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(wide, wider, side, stride, padding=side // 2, bias=False)
    return [convolution, nn.BatchNorm2d(wider)]
