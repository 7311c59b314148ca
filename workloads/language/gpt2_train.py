"""Training of GPT-2: the step that public training scripts state tokens a second of."""

from __future__ import annotations

from dataclasses import replace

from workloads.harness.prepared import Env, Prepared
from workloads.harness.records.case import MODES
from workloads.harness.registry import workload
from workloads.harness.training.training import training_step
from workloads.nets.shapes import GPT2, GPT2_MILLIONS


def flops_of(millions: int, batch: int, length: int) -> float:
    shape = GPT2[millions]
    return 3 * (shape.linear_flops(batch, length) + shape.attention_flops(batch, length))


@workload(
    has_model=True,
    millions=GPT2_MILLIONS,
    batch=(1, 16, 64),
    length=(128, 1024),
    tiny={"millions": 0, "batch": 2, "length": 16},
    published=("millions",),
    modes=MODES,
    attention=True,
    elements=lambda millions, batch, length: 4 * GPT2[millions].parameters,
    flops=flops_of,
)
def gpt2_train(env: Env, millions: int, batch: int, length: int) -> Prepared:
    import torch

    from workloads.nets.gpt2 import adamw, check_length, drawn_gpt, next_token_loss

    shape = GPT2[millions]
    check_length(shape, length)
    tokens = torch.randint(shape.vocabulary, (batch, length + 1), generator=env.generator)
    linear = 3 * shape.linear_flops(batch, length)
    made = training_step(
        env,
        drawn_gpt(env, shape),
        next_token_loss,
        (env.place_exact(tokens),),
        adamw,
        unit="tokens",
        units=batch * length,
        flops=linear,
        blocks="blocks",
    )
    return replace(made, flops=linear + 3 * shape.attention_flops(batch, length))
