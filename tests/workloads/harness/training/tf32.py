"""TF32 as GPUs compute it: factors of products and convolutions lose 13 bits of their mantissa.

CUDA's libraries round to nearest; a kernel that hands fp32 to the tensor cores truncates.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

LOST = (1 << 13) - 1
aten = torch.ops.aten
FACTORS = {aten.mm: (0, 1), aten.bmm: (0, 1), aten.addmm: (1, 2), aten.baddbmm: (1, 2)} | {
    aten.convolution: (0, 1),
    aten.convolution_backward: (0, 1, 2),
}


class TF32(TorchDispatchMode):
    """Products and convolutions in TF32 within this context; `factors` counts rounded ones."""

    def __init__(self, rounding):
        super().__init__()
        self.half = {"nearest": (LOST + 1) // 2, "cut": 0}[rounding]
        self.factors = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        args = list(args)
        for place in FACTORS.get(func.overloadpacket, ()):
            args[place] = self.rounded(args[place])
        return func(*args, **kwargs or {})

    def rounded(self, tensor):
        assert tensor.dtype == torch.float32
        self.factors += 1
        return ((tensor.view(torch.int32) + self.half) & ~LOST).view(torch.float32)
