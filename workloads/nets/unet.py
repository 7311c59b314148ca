"""The U-Net of denoising diffusion at CIFAR-10's size, with the published widths; 35.7 million parameters.

Ho, Jain and Abbeel, Denoising Diffusion Probabilistic Models, 2020 (https://arxiv.org/abs/2006.11239),
appendix B.

The paper's last layers begin at zero, here as torch draws them: a first prediction of zero would hide
whatever the rest computes, and products of zeros need less power.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

STEPS = 1000  # of the diffusion, and rows of the table of time embeddings
PIXELS = 32
ATTENDED = 16  # side of the feature maps at which blocks attend
GROUPS = 32  # of a norm, or as many as go into its channels
DROPPED = 0.1


class UNet(nn.Module):
    """Predicts the noise in images [n, 3, 32, 32] at times [n], integers below 1000."""

    def __init__(self, base: int = 128, multipliers: tuple[int, ...] = (1, 2, 2, 2), blocks: int = 2) -> None:
        super().__init__()
        wide = 4 * base  # of the time embedding
        widths = [base * factor for factor in multipliers]
        self.register_buffer("times", _sinusoids(STEPS, base), persistent=False)
        self.embed = nn.Sequential(nn.Linear(base, wide), nn.SiLU(), nn.Linear(wide, wide))
        self.enter = nn.Conv2d(3, base, 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        skipped, channels, side = [base], base, PIXELS
        for level, width in enumerate(widths):
            if level:
                self.down.append(nn.Conv2d(channels, channels, 3, stride=2, padding=1))
                skipped.append(channels)
                side //= 2
            for _ in range(blocks):
                self.down.append(Block(channels, width, wide, side * (side == ATTENDED)))
                skipped.append(channels := width)
        self.middle = nn.ModuleList([Block(channels, channels, wide, side), Block(channels, channels, wide)])
        for level, width in reversed(list(enumerate(widths))):
            for _ in range(blocks + 1):
                self.up.append(Block(channels + skipped.pop(), width, wide, side * (side == ATTENDED)))
                channels = width
            if level:
                self.up.append(Upsample(channels))
                side *= 2
        self.leave = nn.Sequential(_norm(channels), nn.SiLU(), nn.Conv2d(channels, 3, 3, padding=1))

    def attention_flops(self) -> float:
        """Of all attention products, forward, for one image: 4 channels places^2."""
        attended = [layer for layer in self.modules() if isinstance(layer, ImageAttention)]
        return sum(4.0 * layer.channels * layer.places**2 for layer in attended)

    def forward(self, images: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        table: torch.Tensor = self.get_buffer("times")
        embedded = F.silu(self.embed(table[times]))
        x = self.enter(images)
        skipped = [x]
        for layer in self.down:
            x = layer(x, embedded) if isinstance(layer, Block) else layer(x)
            skipped.append(x)
        for layer in self.middle:
            x = layer(x, embedded)
        for layer in self.up:
            x = layer(torch.cat([x, skipped.pop()], 1), embedded) if isinstance(layer, Block) else layer(x)
        predicted: torch.Tensor = self.leave(x)
        return predicted


class Block(nn.Module):
    """Two convolutions with the time between them, a shortcut, and perhaps attention."""

    def __init__(self, channels: int, width: int, wide: int, attends: int = 0) -> None:
        super().__init__()
        self.first = nn.Sequential(_norm(channels), nn.SiLU(), nn.Conv2d(channels, width, 3, padding=1))
        self.time = nn.Linear(wide, width)
        self.second = nn.Sequential(
            _norm(width), nn.SiLU(), nn.Dropout(DROPPED), nn.Conv2d(width, width, 3, padding=1)
        )
        self.shortcut = nn.Identity() if channels == width else nn.Conv2d(channels, width, 1)
        self.attention = ImageAttention(width, attends**2) if attends else nn.Identity()

    def forward(self, x: torch.Tensor, embedded: torch.Tensor) -> torch.Tensor:
        """Return [n, width, h, w] for [n, channels, h, w] and [n, wide]."""
        between = self.first(x) + self.time(embedded)[:, :, None, None]
        attended: torch.Tensor = self.attention(self.shortcut(x) + self.second(between))
        return attended


class ImageAttention(nn.Module):
    """One head of attention between a feature map's places, added to it.

    Two plain matrix products and not torch's fused attention: every device and precision computes the same.
    """

    def __init__(self, channels: int, places: int) -> None:
        super().__init__()
        self.channels, self.places = channels, places
        self.norm = _norm(channels)
        self.ask = nn.Conv2d(channels, 3 * channels, 1)
        self.answer = nn.Conv2d(channels, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.ask(self.norm(x)).flatten(2).chunk(3, 1)  # [n, channels, places]
        weights = (query.transpose(1, 2) @ key * x.shape[1] ** -0.5).softmax(-1)
        mixed = (value @ weights.transpose(1, 2)).unflatten(2, x.shape[2:])
        answered: torch.Tensor = x + self.answer(mixed)
        return answered


class Upsample(nn.Module):
    """Each place repeated twice each way, and a convolution over them."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        larger: torch.Tensor = self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))
        return larger


def _norm(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(math.gcd(GROUPS, channels), channels)


def _sinusoids(rows: int, columns: int) -> torch.Tensor:
    half = columns // 2
    frequencies = torch.exp(-math.log(10_000) / (half - 1) * torch.arange(half, dtype=torch.float64))
    angles = torch.arange(rows, dtype=torch.float64)[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], 1).float()
