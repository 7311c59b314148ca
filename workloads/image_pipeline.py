"""What a vision service does to its images: 3x3 convolution, resize to half, normalise."""

from workloads.harness.prepared import Env, Prepared
from workloads.harness.registry import LAYOUTS, workload

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's colour channels
STRIP = 64  # rows of the first image that are checked


@workload(
    by_size="images",
    pixels=(512, 1024, 2048, 4096, 8192),
    batch=(1, 2, 4, 8),
    tiny={"pixels": 32, "batch": 2},
    layouts=LAYOUTS,
    # the images and the filtered ones; of half their size: the resized, their difference and the quotient
    elements=lambda pixels, batch: 3 * batch * (2 * pixels**2 + 3 * (pixels // 2) ** 2),
    flops=lambda pixels, batch: 3 * batch * (2 * 9 * 3 * pixels**2 + (7 + 2) * (pixels // 2) ** 2),
)
def image_pipeline(env: Env, pixels: int, batch: int) -> Prepared:
    import torch
    from torch.nn import functional as F

    images, kernel = env.rand(batch, 3, pixels, pixels), env.randn(3, 3, 3, 3)
    mean, std = (env.place(torch.tensor(values).view(1, 3, 1, 1)) for values in (MEAN, STD))
    half = pixels // 2
    top = 2 * env.draw(max(half - STRIP // 2, 0) + 1)[0]
    height = min(STRIP, 2 * half)

    def pipeline(x: torch.Tensor, k: torch.Tensor, m: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        filtered = F.conv2d(x, k, padding=1)
        small = F.interpolate(filtered, scale_factor=0.5, mode="bilinear", align_corners=False)
        return (small - m) / s

    def reference() -> torch.Tensor:
        strip = images[:1, :, top : top + height]
        whole = pipeline(*(t.cpu().double() for t in (strip, kernel, mean, std)))
        return whole[:, :, 1:-1]  # the strip's own border rows saw padding

    outputs = batch * 3 * half * half
    conv_flops = 2 * 9 * 3 * (batch * 3 * pixels * pixels)
    return Prepared(
        step=lambda: pipeline(images, kernel, mean, std),
        inputs=(images,),
        reference=reference,
        view=lambda out: out[:1, :, top // 2 + 1 : (top + height) // 2 - 1],
        units=batch,
        unit="images",
        flops=conv_flops + (7 + 2) * outputs,  # bilinear: 4 products, 3 sums; normalise: 2
        bytes=(images.numel() + outputs) * images.element_size(),
        matmul_flops=conv_flops,
    )
