"""Sobel edge detection of a colour image: grey, two 3x3 gradients, their magnitude."""

from workloads.harness.prepared import Env, Prepared
from workloads.harness.registry import LAYOUTS, workload

GREY = (0.299, 0.587, 0.114)  # luma of ITU-R BT.601
SOBEL = ((-1.0, 0.0, 1.0), (-2.0, 0.0, 2.0), (-1.0, 0.0, 1.0))
STRIP = 64  # rows that are checked


@workload(
    pixels=(512, 1024, 2048, 4096, 8192),
    tiny={"pixels": 32},
    layouts=LAYOUTS,
    elements=lambda pixels: 8 * pixels**2,  # three colours, two gradients, their squares, the squares' sum
    flops=lambda pixels: (2 * 3 + 2 * 9 * 2 + 4) * pixels**2,
)
def edge_detection(env: Env, pixels: int) -> Prepared:
    import torch
    from torch.nn import functional as F

    image = env.rand(1, 3, pixels, pixels)
    grey = env.place(torch.tensor(GREY).view(1, 3, 1, 1))
    across = torch.tensor(SOBEL)
    sobel = env.place(torch.stack((across, across.T)).unsqueeze(1))
    top, height = env.draw(max(pixels - STRIP, 0) + 1)[0], min(STRIP, pixels)

    def edges(x: torch.Tensor, g: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        gradients = F.conv2d(F.conv2d(x, g), s, padding=1)
        return gradients.square().sum(dim=1, keepdim=True).sqrt()

    def reference() -> torch.Tensor:
        strip = image[:, :, top : top + height]
        return edges(*(t.cpu().double() for t in (strip, grey, sobel)))[:, :, 1:-1]  # its border saw padding

    area = pixels * pixels
    return Prepared(
        step=lambda: edges(image, grey, sobel),
        inputs=(image,),
        reference=reference,
        view=lambda out: out[:, :, top + 1 : top + height - 1],
        units=1,
        unit="images",
        flops=(2 * 3 + 2 * 9 * 2 + 4) * area,  # grey, two gradients, two squares, a sum and a root
        bytes=(image.numel() + area) * image.element_size(),
        matmul_flops=(2 * 3 + 2 * 9 * 2) * area,
    )
