"""Causal attention, forward and in training: the kernel that torch chooses, which the record names."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from workloads.harness.prepared import Env, Prepared
from workloads.harness.records.case import MODES
from workloads.harness.registry import workload

if TYPE_CHECKING:
    import torch

PART = 1024  # positions whose scores the reference holds at once
BATCH, HEADS, LENGTH, WIDTH = (1, 4), (32,), (2048, 8192, 16_384), (64, 128)
TINY = {"batch": 1, "heads": 2, "length": 24, "width": 16}


def forward_flops(batch: int, heads: int, length: int, width: int) -> float:
    """Return FLOPs of unmasked pairs in both products; backward takes twice as many.

    FlashAttention-2 counts 2.5 times as many for it, with the scores that its kernel computes again (Dao, 2023,
    section 4.1): its figures of a training step are 3.5 / 3 of these.
    """
    return 2.0 * batch * heads * length * (length + 1) * width


@workload(
    batch=BATCH,
    heads=HEADS,
    length=LENGTH,
    width=WIDTH,
    tiny=TINY,
    modes=MODES,
    attention=True,
    flops=forward_flops,
    elements=lambda **size: 4 * math.prod(size.values()),
)
def attention(env: Env, batch: int, heads: int, length: int, width: int) -> Prepared:
    return _attention(env, (batch, heads, length, width), training=False)


@workload(
    batch=BATCH,
    heads=HEADS,
    length=LENGTH,
    width=WIDTH,
    tiny=TINY,
    modes=MODES,
    attention=True,
    flops=lambda **size: 3 * forward_flops(**size),
    elements=lambda **size: 8 * math.prod(size.values()),
)
def attention_train(env: Env, batch: int, heads: int, length: int, width: int) -> Prepared:
    return _attention(env, (batch, heads, length, width), training=True)


def _attention(env: Env, shape: tuple[int, int, int, int], training: bool) -> Prepared:
    import torch
    from torch.nn import functional as F

    inputs = tuple(env.randn(*shape) for _ in range(4 if training else 3))  # the last comes from above
    learnt = [tensor.requires_grad_(training) for tensor in inputs[:3]]
    head, kept = env.draw(shape[0] * shape[1])[0], list[torch.Tensor]()

    def attend(*parts: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)

    called = env.compiled(attend)

    def step() -> torch.Tensor:
        mixed = called(*learnt)
        kept[:] = torch.autograd.grad(mixed, learnt, inputs[3]) if training else (mixed,)
        return kept[0]

    def view(_: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(result.flatten(0, 1)[head] for result in kept)

    size, flops = math.prod(shape) * env.dtype.itemsize, forward_flops(*shape)
    return Prepared(
        step=step,
        inputs=inputs,
        reference=lambda: exact(*(t.detach().flatten(0, 1)[head].cpu().double() for t in inputs)),
        view=view,
        units=shape[0] * shape[2],
        unit="tokens",
        flops=flops * (3 if training else 1),
        bytes=size * (7 if training else 4),
        matmul_flops=0,  # torch's counter knows no attention on a CPU, and all pairs of it on a GPU
        tolerance=5.0 if training and env.precision != "fp32" else 1.0,
    )


def exact(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, above: torch.Tensor | None = None
) -> tuple[torch.Tensor, ...]:
    """Compute one head [length, width], or with a gradient from `above` its gradients."""
    import torch

    learnt = [tensor.requires_grad_(above is not None) for tensor in (query, key, value)]
    parts = []
    for start in range(0, len(query), PART):
        rows = query[start : start + PART]
        end = start + len(rows)
        scores = rows @ key[:end].T / math.sqrt(query.shape[1])
        later = torch.ones_like(scores, dtype=torch.bool).triu(start + 1)
        part = scores.masked_fill(later, -math.inf).softmax(-1) @ value[:end]
        if above is not None:
            part.backward(above[start:end])  # type: ignore[no-untyped-call]
        parts.append(part.detach())
    return tuple(tensor.grad for tensor in learnt if tensor.grad is not None) or (torch.cat(parts),)
