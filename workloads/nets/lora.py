"""A Llama model with low-rank adapters: only the adapters learn.

Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021. Its factor that begins at zero is small
and drawn here: the other's gradient would be zero whatever the rest computes.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from workloads.harness.prepared import Env
from workloads.harness.training.drawn import drawn_model
from workloads.nets.llama import Llama, turns
from workloads.nets.shapes import LlamaShape

SMALL = 0.01  # of the second factor's drawn values


class Adapted(nn.Module):
    """A frozen layer plus the product of two narrow ones."""

    def __init__(self, frozen: nn.Linear, rank: int) -> None:
        super().__init__()
        self.frozen = frozen.requires_grad_(False)
        self.narrow = nn.Linear(frozen.in_features, rank, bias=False)
        self.widen = nn.Linear(rank, frozen.out_features, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        adapted: torch.Tensor = self.frozen(x) + self.widen(self.narrow(x))
        return adapted


class LoraLlama(nn.Module):
    """Tokens [b, l] to the next ones' scores [b, l, vocabulary]."""

    turns: torch.Tensor

    def __init__(self, shape: LlamaShape, rank: int) -> None:
        super().__init__()
        self.base = Llama(shape).requires_grad_(False)
        for block in self.base.blocks:
            attention = block.get_submodule("attention")
            for name in ("together", "out"):
                setattr(attention, name, Adapted(getattr(attention, name), rank))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.base.embed(tokens)
        for block in self.base.blocks:
            x = block(x, self.turns[:, : tokens.shape[1]])
        return F.linear(self.base.norm(x), self.base.table)


def lora_llama(env: Env, shape: LlamaShape, rank: int, length: int) -> LoraLlama:
    """Build the model: frozen weights in the case's precision, adapters in fp32."""
    model = drawn_model(env, lambda: LoraLlama(shape, rank), env.dtype)
    for layer in (module for module in model.modules() if isinstance(module, Adapted)):
        layer.narrow.float()
        layer.widen.float()
        with torch.no_grad():
            layer.widen.weight.mul_(SMALL)
    model.register_buffer(
        "turns", turns(shape.head_width, 0, length).to(env.device, env.dtype), persistent=False
    )
    return model
