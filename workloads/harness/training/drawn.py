"""Large models' weights, drawn in seconds, never whole on the host."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from workloads.harness.prepared import Env

if TYPE_CHECKING:
    import torch

    Module = TypeVar("Module", bound=torch.nn.Module)

MOST_DRAWN = 2**24 - 3  # a prime: no two rows of a matrix begin at the same place of the pool


class Pool:
    """Standard normal values on the device; larger tensors repeat them."""

    def __init__(self, env: Env, needed: int, dtype: torch.dtype) -> None:
        self._env, self._dtype, self._place = env, dtype, 0
        self._values = env.randn(min(needed, MOST_DRAWN), dtype=dtype)

    def fill(self, tensor: torch.Tensor) -> None:
        flat, size = tensor.view(-1), len(self._values)
        done = 0
        while done < flat.numel():
            count = min(flat.numel() - done, size - self._place)
            flat[done : done + count] = self._values[self._place : self._place + count]
            done, self._place = done + count, (self._place + count) % size

    def filled(self, shape: tuple[int, ...]) -> torch.Tensor:
        import torch

        tensor = torch.empty(shape, dtype=self._dtype, device=self._env.device)
        self.fill(tensor)
        return tensor


def drawn_model(env: Env, build: Callable[[], Module], dtype: torch.dtype) -> Module:
    """Build a model on the device: matrices keep their input's scale, norms are one, biases zero.

    `build` is called on tensors without data; the model has no buffers, whose values would be lost.
    """
    import torch

    with torch.device("meta"):
        model: Any = build()
    model = model.to(dtype).to_empty(device=env.device)
    pool = Pool(env, sum(p.numel() for p in model.parameters()), dtype)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.fill_(0.0 if name.endswith("bias") else 1.0)
            else:
                pool.fill(parameter)
                parameter.mul_(1 / math.sqrt(parameter[0].numel()))
    return model  # type: ignore[no-any-return]
