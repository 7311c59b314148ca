"""A denoising step of Stable Diffusion 1.5: its U-Net on latents, a time and a text."""

from __future__ import annotations

from dataclasses import replace

from workloads.harness.prepared import Env, Prepared
from workloads.harness.records.case import MODES
from workloads.harness.registry import LAYOUTS, workload
from workloads.harness.training.drawn import drawn_model
from workloads.harness.training.training import inference_step

# By millions of parameters; 0 is not a published one: widths, heads, words and width of the text.
SHAPES = {0: ((32, 64), 2, 5, 24), 860: ((320, 640, 1280, 1280), 8, 77, 768)}
PARAMETERS = {0: 1_102_628, 860: 859_520_964}
GFLOP = {0: 3.7, 860: 673.0}  # of products and convolutions at 64 x 64 latents: counted, and a little less
TOLERANCE = 3.0  # roundings add up over the layers


@workload(
    has_model=True,
    millions=tuple(SHAPES),
    latents=(16, 64, 96),
    batch=(1, 2, 8),
    tiny={"millions": 0, "latents": 4, "batch": 1},
    published=("millions",),
    modes=MODES,
    layouts=LAYOUTS,
    elements=lambda millions, latents, batch: PARAMETERS[millions],
    flops=lambda millions, latents, batch: GFLOP[millions] * 1e9 * batch * (latents / 64) ** 2,
)
def unet(env: Env, millions: int, latents: int, batch: int) -> Prepared:
    """Return the noise in `batch` latents; 64 x 64 for pictures of 512 x 512.

    A picture takes tens of such steps, each of two latents: with and without its text.
    """
    import torch

    from workloads.nets.stable_diffusion import LATENTS, TextUNet, TextUNetShape, attention_flops

    shape = TextUNetShape(*SHAPES[millions])
    model = env.ordered(drawn_model(env, lambda: TextUNet(shape), env.dtype))
    noisy, text = env.randn(batch, LATENTS, latents, latents), env.randn(batch, shape.words, shape.text)
    times = env.place(torch.randint(1000, (batch,), generator=env.generator))
    made = inference_step(env, model, noisy, times, text, unit="pictures", tolerance=TOLERANCE, large=True)
    return replace(made, flops=made.flops + batch * attention_flops(shape, latents))
