"""Restarts: a training is reset after so many steps, so that every sample is of the same work."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

# Trained for thousands of steps on one batch a model knows it by heart: gradients of zero need less power on
# a GPU, and are slow denormal numbers on a CPU. Neither is what people pay for.
RESTART_AFTER = 300  # steps


class Restarts:
    """A reset before each sample that would exceed `RESTART_AFTER` steps in a row."""

    def __init__(self, reset: Callable[[], None] | None) -> None:
        self._reset, self._taken = reset, 0
        self._ended: tuple[float, int] | None = None

    def __call__(self, steps: int, result: torch.Tensor | None) -> None:
        """Reset if needed before `steps` steps; `result` is the last step's."""
        if self._reset and result is not None and self._taken + steps > RESTART_AFTER:
            self._ended = (float(result.float().mean()), self._taken)
            self._reset()
            self._taken = 0
        self._taken += steps

    def last_loss(self, result: torch.Tensor) -> tuple[float, int]:
        """Return the loss after the latest of the longest rows of steps, and its number of steps."""
        return self._ended or (float(result.float().mean()), self._taken)
