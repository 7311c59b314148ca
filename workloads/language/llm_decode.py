"""Decoding by a Llama model: the next token of every sequence, with cached keys and values."""

from __future__ import annotations

from workloads.harness.prepared import Env, Prepared
from workloads.harness.records.case import MODES
from workloads.harness.registry import workload
from workloads.nets.shapes import LLAMA, LLAMA_MILLIONS


@workload(
    has_model=True,
    millions=LLAMA_MILLIONS,
    batch=(1, 16, 64),
    context=(512, 2048, 8192),
    tiny={"millions": 0, "batch": 1, "context": 16},
    published=("millions",),
    modes=MODES,
    attention=True,
    elements=lambda millions, batch, context: (
        LLAMA[millions].parameters + LLAMA[millions].cached(batch, context)
    ),
    flops=lambda millions, batch, context: (
        LLAMA[millions].linear_flops(batch, 1) + LLAMA[millions].attention_flops(batch, 1, context - 1)
    ),
)
def llm_decode(env: Env, millions: int, batch: int, context: int) -> Prepared:
    """Return the scores of one token for each of `batch` sequences of `context` tokens.

    Every step decodes the same position, so its latency is that of a token. At batch 1 all weights are read
    for one token, at the rate at which products of one row (`gemm` with m = 1) read; on a CPU, torch's
    product of one row can use one core.
    """
    from workloads.nets.llama import LlamaPass

    shape = LLAMA[millions]
    decoding = LlamaPass(env, shape, batch, length=1, start=context - 1)
    linear = shape.linear_flops(batch, 1)
    return Prepared(
        step=decoding.step,
        inputs=(decoding.inputs,),
        reference=decoding.exact,
        view=decoding.view,
        units=batch,
        unit="tokens",
        flops=linear + shape.attention_flops(batch, 1, context - 1),
        bytes=decoding.bytes,
        matmul_flops=linear,
        parameters=shape.parameters,
        reference_on_device=decoding.is_exact_on_device,
    )
