"""The U-Net of Stable Diffusion 1.5: convolutions, self- and cross-attention.

Rombach et al., "High-Resolution Image Synthesis with Latent Diffusion Models", 2022, in the shape of
https://huggingface.co/stable-diffusion-v1-5, unet/config.json: 859,520,964 parameters.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

GROUPS, LAYERS = 32, 2
LATENTS = 4  # channels of a picture's latents


class TextUNetShape(NamedTuple):
    """Widths by level, all but the last with attention; `words` vectors of width `text`."""

    widths: tuple[int, ...]
    heads: int
    words: int
    text: int


class Residual(nn.Module):
    """Two convolutions with the time between them, and a shortcut."""

    def __init__(self, wide: int, wider: int, times: int) -> None:
        super().__init__()
        self.norm, self.enter = nn.GroupNorm(GROUPS, wide), nn.Conv2d(wide, wider, 3, padding=1)
        self.times = nn.Linear(times, wider)
        self.norm_after, self.leave = nn.GroupNorm(GROUPS, wider), nn.Conv2d(wider, wider, 3, padding=1)
        self.around = nn.Identity() if wide == wider else nn.Conv2d(wide, wider, 1)

    def forward(self, x: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        """Return [b, wider, h, w] for [b, wide, h, w]."""
        inner = self.enter(F.silu(self.norm(x))) + self.times(F.silu(times))[:, :, None, None]
        out: torch.Tensor = self.around(x) + self.leave(F.silu(self.norm_after(inner)))
        return out


class CrossAttention(nn.Module):
    """Attention of places to others, or to a text."""

    def __init__(self, width: int, other: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width)
        self.key, self.value = nn.Linear(other, width, bias=False), nn.Linear(other, width, bias=False)

    def forward(self, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        parts = (self.query(x), self.key(other), self.value(other))
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        out: torch.Tensor = self.out(mixed)
        return out


class TextBlock(nn.Module):
    """Self-attention, cross-attention to the text, a gated network, each added to its input."""

    def __init__(self, width: int, shape: TextUNetShape) -> None:
        super().__init__()
        self.norm, self.enter = nn.GroupNorm(GROUPS, width, 1e-6), nn.Conv2d(width, width, 1)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.own = CrossAttention(width, width, shape.heads)
        self.across = CrossAttention(width, shape.text, shape.heads)
        self.gated, self.down = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)
        self.leave = nn.Conv2d(width, width, 1)

    def forward(self, x: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        """Return [b, width, h, w] for the same shape and a text [b, words, text width]."""
        inner = self.enter(self.norm(x)).flatten(2).transpose(1, 2)
        normed = self.norms[0](inner)
        inner = inner + self.own(normed, normed)
        inner = inner + self.across(self.norms[1](inner), text)
        up, gate = self.gated(self.norms[2](inner)).chunk(2, dim=-1)
        inner = inner + self.down(up * F.gelu(gate))
        left: torch.Tensor = x + self.leave(inner.transpose(1, 2).unflatten(2, x.shape[2:]))
        return left


class Level(nn.Module):
    """Residual blocks, each followed by a text block if the level attends."""

    def __init__(self, wides: list[int], width: int, shape: TextUNetShape, attends: bool) -> None:
        super().__init__()
        times = 4 * shape.widths[0]
        self.residuals = nn.ModuleList(Residual(wide, width, times) for wide in wides)
        self.texts = nn.ModuleList(TextBlock(width, shape) for _ in wides if attends)


class TextUNet(nn.Module):
    """Predicts the noise in latents [b, 4, side, side] at times [b] with a text."""

    down: Any  # of levels, as are the next two: torch's types do not know their contents' attributes
    up: Any
    middle: Any

    def __init__(self, shape: TextUNetShape) -> None:
        super().__init__()
        widths, top = shape.widths, len(shape.widths) - 1
        base, skipped = widths[0], [widths[0]]
        self.embed = nn.Sequential(nn.Linear(base, 4 * base), nn.SiLU(), nn.Linear(4 * base, 4 * base))
        self.enter = nn.Conv2d(LATENTS, base, 3, padding=1)
        self.down, self.up, self.shrink, self.grow = (nn.ModuleList() for _ in range(4))
        for at, width in enumerate(widths):
            self.down.append(Level([skipped[-1], *[width] * (LAYERS - 1)], width, shape, at < top))
            skipped += [width] * LAYERS
            if at < top:
                self.shrink.append(nn.Conv2d(width, width, 3, stride=2, padding=1))
                skipped.append(width)
        self.middle = Level([widths[-1]] * 2, widths[-1], shape, attends=True)
        del self.middle.texts[1]
        wide = widths[-1]
        for at, width in reversed(list(enumerate(widths))):
            wides = [part + skipped.pop() for part in (wide, *[width] * LAYERS)]
            self.up.append(Level(wides, width, shape, at < top))
            wide = width
            if at:
                self.grow.append(nn.Conv2d(width, width, 3, padding=1))
        self.norm, self.leave = nn.GroupNorm(GROUPS, base), nn.Conv2d(base, LATENTS, 3, padding=1)

    def forward(self, latents: torch.Tensor, times: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        embedded, x = (
            self.embed(_sines(times, self.enter.out_channels).to(latents.dtype)),
            self.enter(latents),
        )
        skipped = [x]
        for at, level in enumerate(self.down):
            for number, residual in enumerate(level.residuals):
                x = residual(x, embedded)
                x = level.texts[number](x, text) if level.texts else x
                skipped.append(x)
            if at < len(self.shrink):
                skipped.append(x := self.shrink[at](x))
        x = self.middle.residuals[0](x, embedded)
        x = self.middle.residuals[1](self.middle.texts[0](x, text), embedded)
        for at, level in enumerate(self.up):
            for number, residual in enumerate(level.residuals):
                x = residual(torch.cat([x, skipped.pop()], 1), embedded)
                x = level.texts[number](x, text) if level.texts else x
            if at < len(self.grow):
                x = self.grow[at](F.interpolate(x, size=skipped[-1].shape[2:]))
        predicted: torch.Tensor = self.leave(F.silu(self.norm(x)))
        return predicted


def attention_flops(shape: TextUNetShape, side: int) -> float:
    """Return FLOPs of attention for one picture of n places: 4 n (n + words) w."""
    flops, top = 0.0, len(shape.widths) - 1
    for at, width in enumerate(shape.widths):
        blocks = (2 * LAYERS + 1) if at < top else 1  # below, the middle alone attends
        flops += blocks * 4.0 * side**2 * (side**2 + shape.words) * width
        side = -(-side // 2) if at < top else side
    return flops


def _sines(times: torch.Tensor, width: int) -> torch.Tensor:
    rates = torch.exp(-math.log(10_000) / (width // 2) * torch.arange(width // 2, device=times.device))
    angles = times[:, None].float() * rates
    return torch.cat([angles.cos(), angles.sin()], 1)
