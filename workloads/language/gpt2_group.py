"""Training of GPT-2 by several processes: each with the whole model (DDP), or with a share of it (FSDP)."""

from __future__ import annotations

from functools import partial

from workloads.harness.prepared import Env, Prepared
from workloads.harness.registry import workload
from workloads.language.gpt2_train import flops_of
from workloads.nets.shapes import GPT2, GPT2_MILLIONS

TINY = {"millions": 0, "batch": 2, "length": 16, "processes": 2}
of_gpt2 = partial(
    workload,
    of="gpt2_train",
    has_model=True,
    scaling="weak",
    millions=GPT2_MILLIONS,
    batch=(1, 4, 16),
    length=(128, 1024),
    processes=(2, 4, 8),
    tiny=TINY,
    published=("millions",),
    flops=lambda millions, batch, length, processes: flops_of(millions, processes * batch, length),
)


@of_gpt2(elements=lambda millions, **others: 4 * GPT2[millions].parameters)
def gpt2_ddp(env: Env, millions: int, batch: int, length: int, processes: int) -> Prepared:
    """Return a step on `batch` sequences for each process with a full replica."""
    return _step(env, millions, batch, length, sharded=False)


@of_gpt2(
    wrapper="FSDP",
    elements=lambda millions, processes, **others: 4 * GPT2[millions].parameters / processes,
)
def gpt2_fsdp(env: Env, millions: int, batch: int, length: int, processes: int) -> Prepared:
    """Return the same step, with weights, gradients and moments shared out.

    A block's weights are gathered, in fp32, when it computes, forward and once more backward. The exchange
    takes half as many bytes again as DDP's; its share is not measured, because a step needs it.
    """
    return _step(env, millions, batch, length, sharded=True)


def _step(env: Env, millions: int, batch: int, length: int, sharded: bool) -> Prepared:
    import torch

    from workloads.nets.gpt2 import check_length
    from workloads.nets.gpt2_ranks import GroupTrainer

    shape = GPT2[millions]
    check_length(shape, length)
    trainer = GroupTrainer(env, shape, sharded)
    drawn = torch.randint(shape.vocabulary, (batch * env.world, length + 1), generator=env.generator)
    tokens = env.place_exact(drawn[env.rank :: env.world].contiguous())
    linear = 3 * shape.linear_flops(batch * env.world, length)
    readers, writers = env.world, 1 if sharded else env.world
    return Prepared(
        step=lambda: trainer.step(tokens),
        inputs=(tokens,),
        reference=lambda: trainer.exact(tokens),
        view=trainer.shown,
        units=batch * length * env.world,
        unit="tokens",
        flops=flops_of(millions, batch * env.world, length),
        bytes=4.0 * shape.parameters * (readers + writers) + drawn.numel() * drawn.element_size(),
        matmul_flops=linear,
        reset=trainer.reset,
        tolerance=trainer.tolerance,
        parameters=shape.parameters,
        unexchanged=trainer.unexchanged,
        reference_on_device=True,
        reference_dtype=trainer.reference_dtype,
    )
