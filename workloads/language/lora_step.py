"""Fine-tuning of a Llama model with adapters of low rank: its own weights stay as they are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from workloads.harness.prepared import Env, Prepared
from workloads.harness.records.case import MODES
from workloads.harness.registry import workload
from workloads.harness.training.optimizers import fused
from workloads.harness.training.training import training_step
from workloads.nets.shapes import LLAMA, LLAMA_MILLIONS

if TYPE_CHECKING:
    import torch

LEARNING_RATE = 1e-3


def _linear_flops(millions: int, batch: int, length: int, rank: int) -> float:
    """Return FLOPs of products: frozen weights forward and to their input, adapters fully."""
    shape, tokens = LLAMA[millions], 2.0 * batch * length
    frozen = shape.layers * shape.block_weights + shape.vocabulary * shape.width
    heads = (shape.heads + 2 * shape.kv_heads) * shape.head_width
    adapters = shape.layers * rank * (3 * shape.width + heads)
    return tokens * (2 * frozen + 3 * adapters - shape.width * (heads + rank))


def _flops(millions: int, batch: int, length: int, rank: int) -> float:
    attention = LLAMA[millions].attention_flops(batch, length)
    return _linear_flops(millions, batch, length, rank) + 3 * attention


@workload(
    has_model=True,
    millions=LLAMA_MILLIONS,
    batch=(1, 4),
    length=(128, 512, 2048),
    rank=(8, 16, 64),
    tiny={"millions": 0, "batch": 2, "length": 16, "rank": 4},
    published=("millions",),
    modes=MODES,
    attention=True,
    elements=lambda millions, batch, length, rank: LLAMA[millions].parameters,
    flops=_flops,
)
def lora_step(env: Env, millions: int, batch: int, length: int, rank: int) -> Prepared:
    import torch
    from torch.nn import functional as F

    from workloads.nets.lora import lora_llama

    shape, model = LLAMA[millions], lora_llama(env, LLAMA[millions], rank, length)
    tokens = torch.randint(shape.vocabulary, (batch, length + 1), generator=env.generator)

    def loss(model: torch.nn.Module, tokens: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    made = training_step(
        env,
        model,
        loss,
        (env.place_exact(tokens),),
        lambda weights: fused(torch.optim.AdamW, [w for w in weights if w.requires_grad], lr=LEARNING_RATE),
        unit="tokens",
        units=batch * length,
        flops=_linear_flops(millions, batch, length, rank),
        blocks="base.blocks",
    )
    frozen = 2 * shape.read_weights * env.dtype.itemsize  # forward and backward
    return replace(made, bytes=made.bytes + frozen, flops=_flops(millions, batch, length, rank))
