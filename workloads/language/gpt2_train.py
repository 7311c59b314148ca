"""Training of GPT-2: the step that public training scripts state tokens a second of."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from workloads.harness.prepared import Env, Prepared
from workloads.harness.records.case import MODES
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.registry import workload
from workloads.harness.training.optimizers import fused
from workloads.harness.training.training import training_step
from workloads.nets.shapes import GPT2, GPT2_MILLIONS

if TYPE_CHECKING:
    import torch

LEARNING_RATE, DECAY, BETAS = 6e-4, 0.1, (0.9, 0.95)  # nanoGPT's


def _flops(millions: int, batch: int, length: int) -> float:
    shape = GPT2[millions]
    return 3 * (shape.linear_flops(batch, length) + shape.attention_flops(batch, length))


@workload(
    millions=GPT2_MILLIONS,
    batch=(1, 16, 64),
    length=(128, 1024),
    tiny={"millions": 0, "batch": 2, "length": 16},
    published=("millions",),
    modes=MODES[:2],
    elements=lambda millions, batch, length: 4 * GPT2[millions].parameters,
    flops=_flops,
)
def gpt2_train(env: Env, millions: int, batch: int, length: int) -> Prepared:
    """A step of AdamW on `batch` sequences of `length` tokens; each position predicts the token after it."""
    import torch
    from torch.nn import functional as F

    from workloads.nets.gpt2 import Gpt

    shape = GPT2[millions]
    if length > shape.length:
        raise WorkloadsError(f"size length={length} must be at most {shape.length}, the model's longest")

    def loss(model: torch.nn.Module, tokens: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    tokens = torch.randint(shape.vocabulary, (batch, length + 1), generator=env.generator)
    linear = 3 * shape.linear_flops(batch, length)
    made = training_step(
        env,
        env.model(lambda: Gpt(shape)),
        loss,
        (env.place_exact(tokens),),
        lambda weights: fused(torch.optim.AdamW, weights, lr=LEARNING_RATE, betas=BETAS, weight_decay=DECAY),
        unit="tokens",
        units=batch * length,
        flops=linear,
        large=True,
    )
    return replace(made, flops=linear + 3 * shape.attention_flops(batch, length))
