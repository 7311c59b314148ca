"""A transformer decoder of four blocks: learning to predict the next token, and predicting it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from workloads.harness.prepared import Env, Prepared
from workloads.harness.registry import workload
from workloads.harness.training.optimizers import fused
from workloads.harness.training.training import inference_step, training_step
from workloads.nets.shapes import DECODER_HEAD_WIDTH, DECODER_LAYERS, DECODER_VOCABULARY

if TYPE_CHECKING:
    import torch

LEARNING_RATE = 3e-4
NOISE = 0.1  # share of the tokens that do not follow from the one before
SIZES: dict[str, Any] = {
    **{"width": (256, 512, 1024), "length": (128, 512, 2048), "batch": (1, 8, 32)},
    "tiny": {"width": 32, "length": 16, "batch": 2},
    "multiples": lambda **size: {"width": DECODER_HEAD_WIDTH},
}


@workload(
    has_model=True,
    **SIZES,
    flops=lambda width, length, batch: 3 * forward_flops(width, length, batch, batch * length),
)
def transformer_train(env: Env, width: int, length: int, batch: int) -> Prepared:
    import torch
    from torch.nn import functional as F

    from workloads.nets.decoder import decoder

    def loss(model: torch.nn.Module, tokens: torch.Tensor) -> torch.Tensor:
        logits = model(tokens)[:, :-1]
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    made = training_step(
        env,
        env.model(partial(decoder, width, length)),
        loss,
        (env.place_exact(sentences(env, batch, length)),),
        lambda parameters: fused(torch.optim.AdamW, parameters, lr=LEARNING_RATE),
        unit="tokens",
        units=batch * length,
    )
    return replace(made, flops=made.flops + 3 * attention_flops(width, length, batch))


@workload(
    has_model=True,
    **SIZES,
    flops=lambda width, length, batch: forward_flops(width, length, batch, batch),
)
def transformer_infer(env: Env, width: int, length: int, batch: int) -> Prepared:
    from workloads.nets.decoder import decoder

    model = env.model(partial(decoder, width, length, last_only=True), env.dtype)
    tokens = env.place_exact(sentences(env, batch, length))
    made = inference_step(env, model, tokens, unit="tokens")
    flops = made.flops + attention_flops(width, length, batch)
    return replace(made, flops=flops, units=batch * length)


def forward_flops(width: int, length: int, batch: int, predictions: int) -> float:
    blocks = 2.0 * batch * length * DECODER_LAYERS * 12 * width**2
    return blocks + 2.0 * predictions * width * DECODER_VOCABULARY + attention_flops(width, length, batch)


def attention_flops(width: int, length: int, batch: int) -> float:
    """Return FLOPs of attention over all layers, forward; backward takes twice as many.

    Only the l (l + 1) / 2 pairs of positions that the mask leaves count, as in FlashAttention's figures, so
    that a rate above the peak stays impossible. Scores that a backward kernel computes again do not count.
    Source: Dao, "FlashAttention-2", 2023, section 4.1; Chowdhery et al., "PaLM", 2022, appendix B.
    """
    return DECODER_LAYERS * 2.0 * batch * length * (length + 1) * width


def sentences(env: Env, batch: int, length: int) -> torch.Tensor:
    """Return tokens, batch x length, that mostly follow from the one before by one rule."""
    import torch

    draw = partial(torch.randint, DECODER_VOCABULARY, generator=env.generator)
    follows = torch.randperm(DECODER_VOCABULARY, generator=env.generator)
    tokens, fresh = draw((batch, length)), torch.rand(batch, length, generator=env.generator) < NOISE
    for position in range(1, length):
        tokens[:, position] = torch.where(
            fresh[:, position], tokens[:, position], follows[tokens[:, position - 1]]
        )
    return tokens
