"""A transformer decoder of four pre-norm blocks with causal heads of 64."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from workloads.harness.records.errors import WorkloadsError
from workloads.nets.shapes import DECODER_HEAD_WIDTH, DECODER_LAYERS, DECODER_VOCABULARY


def decoder(width: int, length: int, last_only: bool = False) -> torch.nn.Module:
    """Return a model: tokens (batch x length) to scores, at every position or the last."""
    heads = max(width // DECODER_HEAD_WIDTH, 1)
    if width % heads:
        raise WorkloadsError(
            f"size width={width} must be a multiple of {DECODER_HEAD_WIDTH}, the width of a head, or less"
        )

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(DECODER_VOCABULARY, width), nn.Embedding(length, width)
            for table in (self.tokens, self.places):
                nn.init.normal_(table.weight, std=0.02)
            self.blocks = nn.Sequential(
                *(block(width, heads) for _ in range(DECODER_LAYERS)), nn.LayerNorm(width)
            )
            self.scores = nn.Linear(width, DECODER_VOCABULARY)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            features = self.blocks(self.tokens(tokens) + self.places.weight)
            scores: torch.Tensor = self.scores(features[:, -1] if last_only else features)
            return scores

    return Decoder()


def block(width: int, heads: int) -> torch.nn.Module:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.together, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            query, key, value = self.together(x).unflatten(-1, (3, heads, -1)).movedim(2, 0).transpose(2, 3)
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
            out: torch.Tensor = self.out(mixed.transpose(1, 2).flatten(2))
            return out

    class Added(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.norm, self.inner = nn.LayerNorm(width), inner

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            added: torch.Tensor = x + self.inner(self.norm(x))
            return added

    network = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
    return nn.Sequential(Added(Attention()), Added(network))
