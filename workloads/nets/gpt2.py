"""GPT-2: pre-norm blocks, learned positions, and scores by the table of embeddings.

Radford et al., "Language Models are Unsupervised Multitask Learners", 2019. Without dropout; the vocabulary
is padded to a multiple of 64, as in nanoGPT.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import nn
from torch.nn import functional as F

from workloads.harness.prepared import Env
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.training.drawn import drawn_model
from workloads.harness.training.optimizers import fused
from workloads.nets.shapes import GptShape

SPREAD = 0.02  # of the tables of tokens and places: standard deviation
LEARNING_RATE, DECAY, BETAS = 6e-4, 0.1, (0.9, 0.95)  # nanoGPT's


class GptBlock(nn.Module):
    """Attention, then a GELU network four times as wide, both pre-norm."""

    def __init__(self, shape: GptShape) -> None:
        super().__init__()
        width = shape.width
        self.heads = shape.heads
        self.norm, self.norm_after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.together, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.together(self.norm(x)).unflatten(-1, (3, self.heads, -1)).movedim(2, 0)
        query, key, value = parts.transpose(2, 3)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        added: torch.Tensor = x + self.down(F.gelu(self.up(self.norm_after(x)), approximate="tanh"))
        return added


class Gpt(nn.Module):
    """Tokens [b, l] to the next ones' scores [b, l, vocabulary]."""

    def __init__(self, shape: GptShape) -> None:
        super().__init__()
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.places = nn.Embedding(shape.length, shape.width)
        self.blocks = nn.Sequential(*(GptBlock(shape) for _ in range(shape.layers)))
        self.norm = nn.LayerNorm(shape.width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        features = self.blocks(self.tokens(tokens) + self.places.weight[: tokens.shape[1]])
        return F.linear(self.norm(features), self.tokens.weight)


def drawn_gpt(env: Env, shape: GptShape) -> Gpt:
    model = drawn_model(env, lambda: Gpt(shape), torch.float32)
    with torch.no_grad():
        for table in (model.tokens, model.places):
            table.weight.mul_(SPREAD * math.sqrt(shape.width))
    return model


def next_token_loss(model: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def adamw(weights: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return fused(torch.optim.AdamW, weights, lr=LEARNING_RATE, betas=BETAS, weight_decay=DECAY)


def check_length(shape: GptShape, length: int) -> None:
    if length > shape.length:
        raise WorkloadsError(f"size length={length} must be at most {shape.length}, the model's longest")
