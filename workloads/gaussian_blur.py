"""Gaussian blur of a colour image, 5x5, sigma 1: a depthwise convolution, bound by memory."""

from workloads.harness.prepared import Env, Prepared
from workloads.harness.registry import LAYOUTS, workload

RADIUS, SIGMA = 2, 1.0
STRIP = 64  # rows that are checked


@workload(
    pixels=(512, 1024, 2048, 4096, 8192),
    tiny={"pixels": 32},
    layouts=LAYOUTS,
    elements=lambda pixels: 3 * (2 * pixels**2 + (pixels + 2 * RADIUS) ** 2),  # image, padded image, result
    flops=lambda pixels: 2 * (2 * RADIUS + 1) ** 2 * 3 * pixels**2,
)
def gaussian_blur(env: Env, pixels: int) -> Prepared:
    import torch
    from torch.nn import functional as F

    image = env.rand(1, 3, pixels, pixels)
    side = torch.exp(-(torch.arange(-RADIUS, RADIUS + 1.0) ** 2) / (2 * SIGMA**2))
    square = torch.outer(side, side) / side.sum() ** 2
    kernel = env.place(square.expand(3, 1, -1, -1))
    top, height = env.draw(max(pixels - STRIP, 0) + 1)[0], min(STRIP, pixels)

    def blur(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return F.conv2d(F.pad(x, (RADIUS,) * 4, mode="reflect"), k, groups=3)

    def reference() -> torch.Tensor:
        strip = blur(image[:, :, top : top + height].cpu().double(), kernel.cpu().double())
        return strip[:, :, RADIUS:-RADIUS]  # the strip's own border rows saw padding

    flops = 2 * kernel[0].numel() * image.numel()
    return Prepared(
        step=lambda: blur(image, kernel),
        inputs=(image,),
        reference=reference,
        view=lambda out: out[:, :, top + RADIUS : top + height - RADIUS],
        units=1,
        unit="images",
        flops=flops,
        bytes=2 * image.numel() * image.element_size(),
        matmul_flops=flops,
    )
