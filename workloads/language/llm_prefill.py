"""Reading a prompt with a Llama model: the time to its first token."""

from __future__ import annotations

from workloads.harness.prepared import Env, Prepared
from workloads.harness.records.case import MODES
from workloads.harness.registry import workload
from workloads.nets.shapes import LLAMA, LLAMA_MILLIONS


@workload(
    has_model=True,
    millions=LLAMA_MILLIONS,
    batch=(1, 8),
    prompt=(128, 512, 2048, 8192),
    tiny={"millions": 0, "batch": 1, "prompt": 16},
    published=("millions",),
    modes=MODES,
    attention=True,
    elements=lambda millions, batch, prompt: (
        LLAMA[millions].parameters + LLAMA[millions].cached(batch, prompt)
    ),
    flops=lambda millions, batch, prompt: (
        LLAMA[millions].linear_flops(batch, prompt) + LLAMA[millions].attention_flops(batch, prompt)
    ),
)
def llm_prefill(env: Env, millions: int, batch: int, prompt: int) -> Prepared:
    """Return the scores after each of `batch` prompts, and fill the cache.

    A step is an idle server's time to the first token.
    """
    from workloads.nets.llama import LlamaPass

    shape = LLAMA[millions]
    reading = LlamaPass(env, shape, batch, length=prompt)
    linear = shape.linear_flops(batch, prompt)
    return Prepared(
        step=reading.step,
        inputs=(reading.inputs,),
        reference=reading.exact,
        view=reading.view,
        units=batch * prompt,
        unit="tokens",
        flops=linear + shape.attention_flops(batch, prompt),
        bytes=reading.bytes,
        matmul_flops=linear,
        parameters=shape.parameters,
        reference_on_device=reading.is_exact_on_device,
    )
